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

from ..job.failures import RESERVED, FailureReason
from ..job.text import UNSTORABLE
from ..reading.selection import STATUSES, JobFilter
from .console import meant, usage
from .program import typed
from .text import one_line

__all__ = [
    "act_arguments", "actor", "after_argument", "failure_of", "filter_arguments", "filter_of", "limit_argument",
    "option_of", "positive", "range_arguments", "range_of", "shell_user", "span_of", "text_of", "time_of",
]  # fmt: skip

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


def span_of(text: str) -> float | None:
    """Seconds of ``15m``, ``2h``, ``7d``; None for what is no span."""
    match = _SPAN.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else LONGEST + 1
    return seconds if seconds <= LONGEST else None


def time_of(text: str, now: dt.datetime, option: str = "--since") -> dt.datetime:
    """``15m``, ``2h``, ``7d`` before ``now``, or a time; one without a zone is in the project's."""
    seconds = span_of(text)
    if seconds is not None:
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
            f"{option} {one_line(text, 60)}: give a span before now such as 15m, 2h or 7d, or a time such as "
            "2026-01-31 or '2026-01-31 08:00' or 2026-01-31T08:00:00+01:00."
        )


def limit_argument(parser: argparse.ArgumentParser, default: int, what: str = "rows") -> None:
    parser.add_argument(
        "--limit", type=positive, default=default, metavar="N", help=f"Show at most N {what} (default: {default})."
    )


def after_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--after", metavar="CURSOR", help="Go on where a list before ended, which says how.")


def range_arguments(parser: argparse._ActionsContainer) -> None:
    """``--since`` and ``--until``, which :func:`range_of` reads."""
    parser.add_argument("--since", metavar="TIME", help="Since 15m, 2h, 7d ago, or since a time.")
    parser.add_argument("--until", metavar="TIME", help="Before 15m, 2h, 7d ago, or before a time.")


def range_of(options: Mapping[str, Any], now: dt.datetime) -> tuple[dt.datetime | None, dt.datetime | None]:
    """The times that ``--since`` and ``--until`` name."""
    texts = [options.get(name) for name in ("since", "until")]
    since, until = (
        None if text is None else time_of(text, now, option)
        for text, option in zip(texts, ("--since", "--until"), strict=True)
    )
    if since is not None and until is not None and since >= until:
        shown = [one_line(text, 60) for text in texts]
        usage(f"--since {shown[0]} is not before --until {shown[1]}: nothing can be between them.")
    return since, until


def filter_arguments(parser: argparse.ArgumentParser, places: tuple[str, ...]) -> None:
    """The filter options for jobs in these places; where dead ones may be meant, reason and fingerprint too."""
    group = parser.add_argument_group("filter", "Options that narrow it; all that are given must hold.")
    group.add_argument("--queue", metavar="NAME", help="Jobs of this queue.")
    group.add_argument("--type", metavar="KEY", help="Jobs of this type key, such as email.send.v1.")
    fitting = [name for name, place in STATUSES.items() if place in places]
    said = f"One of {', '.join(fitting)}." if len(fitting) > 1 else f"Only {fitting[0]}, which needs no saying."
    group.add_argument("--status", metavar="STATUS", help=said)
    if "dlq" in places:
        group.add_argument("--failure", metavar="REASON", help="Why it is dead, such as FatalError or Timeout.")
        group.add_argument("--fingerprint", metavar="HEX", help="One group of like failures, as `dlq` shows it.")
    range_arguments(group)
    group.add_argument("--id-prefix", metavar="TEXT", help="Jobs whose ids begin like this.")
    group.add_argument("--tag", metavar="TAG", help="Jobs with this tag.")
    group.add_argument("--created-by", metavar="NAME", help="Jobs that this user or program enqueued.")
    group.add_argument("--worker", metavar="ID", help="Jobs that this worker has, or had last.")
    group.add_argument("--key", metavar="KEY", help="The job with this idempotency key.")
    group.add_argument("--concurrency-key", metavar="KEY", help="Jobs with this concurrency key.")


def filter_of(options: Mapping[str, Any], now: dt.datetime, default: str, allowed: tuple[str, ...] = ()) -> JobFilter:
    """The filter that was asked for. ``default``: the status when none is named; ``allowed``: places it may be in."""
    if "dlq" in allowed and (options.get("failure") or options.get("fingerprint")):
        default = "dead"
    status = str(options.get("status") or default).strip().lower()
    if status not in STATUSES:
        usage(
            f"--status {one_line(status, 60)}: there is no such status.{meant(status, STATUSES)} "
            f"There are {', '.join(STATUSES)}."
        )
    if allowed and STATUSES[status] not in allowed:
        fitting = [name for name, place in STATUSES.items() if place in allowed]
        usage(f"--status {status}: this works on {', '.join(fitting)} jobs only.")
    since, until = range_of(options, now)
    wanted = JobFilter(
        status=status,
        queue=text_of(options, "queue"),
        type=text_of(options, "type"),
        reason=failure_of(options.get("failure")),
        fingerprint=_fingerprint(options),
        tag=text_of(options, "tag"),
        created_by=text_of(options, "created_by"),
        worker=text_of(options, "worker"),
        idempotency_key=text_of(options, "key"),
        concurrency_key=text_of(options, "concurrency_key"),
        id_prefix=text_of(options, "id_prefix") or "",
        since=since,
        until=until,
    )
    if wanted.place != "dlq" and (wanted.reason is not None or wanted.fingerprint is not None):
        usage(f"--failure and --fingerprint are of dead jobs, not of {wanted.status} ones.")
    return wanted


def text_of(options: Mapping[str, Any], name: str) -> str | None:
    """What an option says, trimmed; a usage error for what no column could hold."""
    value = options.get(name)
    if value is None:
        return None
    text, option = str(value).strip(), name.replace("_", "-")
    if not text:
        usage(f"--{option} is empty; leave it out, or say which {option}.")
    if UNSTORABLE.search(text):
        usage(f"--{option} {one_line(text, 60)}: it holds characters that no {option} can have.")
    return text


def _fingerprint(options: Mapping[str, Any]) -> str | None:
    text = text_of(options, "fingerprint")
    if text is not None and not _HEX.fullmatch(text.lower()):
        usage(f"--fingerprint {one_line(text, 60)}: give 8 or more hexadecimal digits of it: `{typed('dlq')}`.")
    return text and text.lower()


def failure_of(text: str | None) -> FailureReason | None:
    """The reason that ``--failure`` names."""
    if text is None:
        return None
    try:
        return FailureReason.parse(int(text) if text.isdecimal() and len(text) < 4 else text.strip())
    except ValueError:
        labels = [reason.label for reason in FailureReason if reason not in RESERVED]
        near = meant(text, labels)
        usage(f"--failure {one_line(text, 60)}: there is no such reason.{near} There are {', '.join(labels)}.")


def option_of(field: str, options: Mapping[str, Any]) -> str:
    """The option that the field of a refused value was typed with: ``--max-workers`` for ``max_workers``."""
    field = {"idempotency_key": "key"}.get(field, field)
    for name in (f"set_{field}", field):
        if options.get(name) is not None or (name in options and name in ("since", "until")):
            return f"--{name.replace('_', '-')}"
    return field


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
