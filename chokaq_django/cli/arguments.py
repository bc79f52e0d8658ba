"""Arguments that several subcommands have: filters, who acts, and how a list ends."""

from __future__ import annotations

import argparse
import datetime as dt
import getpass
import re
from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from ..job.failures import FailureReason
from ..reading.selection import STATUSES, JobFilter
from .console import meant, usage
from .text import one_line

__all__ = [
    "act_arguments",
    "actor",
    "filter_arguments",
    "filter_of",
    "limit_argument",
    "positive",
    "shell_user",
    "time_of",
]

_HEX = re.compile(r"[0-9a-f]{8,32}")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
LONGEST = 100 * 366 * 86_400.0


def positive(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    try:
        value = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = 0
    if not 1 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def time_of(text: str, now: dt.datetime) -> dt.datetime:
    """``15m``, ``2h``, ``7d`` before ``now``, or a time; one without a zone is in the project's."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match:
        seconds = float(match[1]) * _SECONDS[match[2]]
        if seconds <= LONGEST:
            return now - dt.timedelta(seconds=seconds)
    try:
        value = parse_datetime(text.strip())
        if value is None:
            day = dt.date.fromisoformat(text.strip())
            value = dt.datetime(day.year, day.month, day.day)  # noqa: DTZ001 - it gets its zone below
        if value.tzinfo is None:
            value = value.replace(tzinfo=timezone.get_default_timezone())
        return value.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        usage(
            f"--since {one_line(text, 60)}: give a span before now such as 15m, 2h or 7d, or a time such as "
            "2026-01-31 or '2026-01-31 08:00' or 2026-01-31T08:00:00+01:00."
        )


def limit_argument(parser: argparse.ArgumentParser, default: int, what: str = "rows") -> None:
    parser.add_argument(
        "--limit", type=positive, default=default, metavar="N", help=f"Show at most N {what} (default: {default})."
    )


def filter_arguments(parser: argparse.ArgumentParser, places: tuple[str, ...]) -> None:
    """The filter options for jobs in these places; of dead ones alone, reason and fingerprint too."""
    group = parser.add_argument_group("filter", "Options that narrow it; all that are given must hold.")
    group.add_argument("--queue", metavar="NAME", help="Jobs of this queue.")
    group.add_argument("--type", metavar="KEY", help="Jobs of this type key, such as email.send.v1.")
    fitting = [name for name, place in STATUSES.items() if place in places]
    group.add_argument("--status", metavar="STATUS", help=f"One of {', '.join(fitting)}.")
    if "dlq" in places and "hot" not in places:
        group.add_argument("--failure", metavar="REASON", help="Why it is dead, such as FatalError or Timeout.")
        group.add_argument("--fingerprint", metavar="HEX", help="One group of like failures, as `dlq` shows it.")
    group.add_argument("--tag", metavar="TAG", help="Jobs with this tag.")
    group.add_argument("--since", metavar="TIME", help="Since 15m, 2h, 7d ago, or since a time.")


def filter_of(options: Mapping[str, Any], now: dt.datetime, default: str, allowed: tuple[str, ...] = ()) -> JobFilter:
    """The filter that was asked for. ``default``: the status when none is named; ``allowed``: places it may be in."""
    status = str(options.get("status") or default).strip().lower()
    if status not in STATUSES:
        usage(
            f"--status {one_line(status, 60)}: there is no such status.{meant(status, STATUSES)} "
            f"There are {', '.join(STATUSES)}."
        )
    if allowed and STATUSES[status] not in allowed:
        fitting = [name for name, place in STATUSES.items() if place in allowed]
        usage(f"--status {status}: this works on {', '.join(fitting)} jobs only.")
    since = options.get("since")
    wanted = JobFilter(
        status=status,
        queue=_text(options, "queue"),
        type=_text(options, "type"),
        reason=_failure(options.get("failure")),
        fingerprint=_fingerprint(options),
        tag=_text(options, "tag"),
        since=None if since is None else time_of(since, now),
    )
    if not wanted.fits:
        usage(f"--failure and --fingerprint are of dead jobs, not of {wanted.status} ones.")
    return wanted


def _text(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    text = str(value).strip()
    if not text:
        usage(f"--{name} is empty; leave it out, or say which {name}.")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        usage(f"--{name} {one_line(text, 60)}: it holds characters that no {name} can have.")
    return text


def _fingerprint(options: Mapping[str, Any]) -> str | None:
    text = _text(options, "fingerprint")
    if text is not None and not _HEX.fullmatch(text.lower()):
        usage(f"--fingerprint {one_line(text, 60)}: give 8 or more of its hexadecimal digits, as `chokaq dlq` does.")
    return text and text.lower()


def _failure(text: str | None) -> FailureReason | None:
    if text is None:
        return None
    try:
        return FailureReason.parse(int(text) if text.isdecimal() and len(text) < 4 else text.strip())
    except ValueError:
        labels = [reason.label for reason in FailureReason]
        near = meant(text, labels)
        usage(f"--failure {one_line(text, 60)}: there is no such reason.{near} There are {', '.join(labels)}.")


def act_arguments(parser: argparse.ArgumentParser) -> None:
    """Who acts, and why."""
    parser.add_argument("--reason", default="", metavar="TEXT", help="Why, for the audit.")
    parser.add_argument("--by", metavar="NAME", help="Who acts, for the audit (default: the user of this shell).")


def actor(options: Mapping[str, Any]) -> str:
    """Who acts: ``--by``, or the user of the shell."""
    name = str(options.get("by") or "").strip()
    if options.get("by") is not None and not name:
        usage("--by is empty: say who acts, or leave it out.")
    return name or shell_user()


def shell_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "shell"
