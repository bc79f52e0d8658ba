"""A filter as text: what stands in an address, in a form or in a JSON body, and what addresses are made of."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from ..job.definition import nearest
from ..job.envelope import EnvelopeError
from ..job.failures import FailureReason
from ..sentence import Sentence, shown
from .selection import JobFilter

__all__ = ["FIELDS", "filter_from", "filter_query", "moment_from", "reason_from"]

FIELDS = tuple(field.name for field in dataclasses.fields(JobFilter))
"""Names of what a filter is made of: parameters of addresses, keys of JSON."""
LONGEST_TEXT = 255
LONGEST_SPAN = 100 * 366 * 86_400.0
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|min|m|h|d|w)")
_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def given_texts(named: Mapping[str, str]) -> dict[str, str]:
    """Texts trimmed, blank ones left out; ``EnvelopeError`` for one that is too long."""
    given = {name: text.strip() for name, text in named.items() if text.strip()}
    for name, text in given.items():
        if len(text) > LONGEST_TEXT:
            raise EnvelopeError(
                name[:80],
                Sentence(
                    "must be at most %(longest_text)s characters, got %(text)s",
                    longest_text=LONGEST_TEXT,
                    text=len(text),
                ),
            )
    return given


def filter_from(named: Mapping[str, str], now: dt.datetime) -> JobFilter:
    """The filter that is named: its fields by their names, blank ones left out. ``EnvelopeError`` for a name or a value
    that there is not.

    ``reason``: a name, label or number. ``since``, ``until``: ISO 8601, or so long before ``now`` (``15m``, ``2h``,
    ``7d``); a time without a zone is in the current one.
    """
    given = given_texts(named)
    for name in given:
        if name not in FIELDS:
            raise EnvelopeError(name[:80], Sentence("is not a filter%(hint)s", hint=nearest(name, FIELDS)))
    reason = given.pop("reason", None)
    moments = {name: moment_from(given.pop(name), name, now) for name in ("since", "until") if name in given}
    wanted = JobFilter(**given, **moments, reason=None if reason is None else reason_from(reason))  # type: ignore[arg-type]
    wanted.conditions(now)  # whatever else is wrong with it is said now
    return wanted


def reason_from(text: str) -> FailureReason:
    """A failure reason by its name, label or number."""
    try:
        return FailureReason.parse(int(text) if text.isdecimal() and len(text) < 4 else text)
    except ValueError:
        labels = [reason.label for reason in FailureReason]
        raise EnvelopeError(
            "reason",
            Sentence("must be a failure reason, got %(text)s%(hint)s", text=shown(text), hint=nearest(text, labels)),
        ) from None


def moment_from(text: str, field: str, now: dt.datetime) -> dt.datetime:
    """A time, or a span before ``now``."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match is not None:
        return now - dt.timedelta(seconds=min(float(match[1]) * _SECONDS[match[2]], LONGEST_SPAN))
    try:
        # A plus that nobody has quoted in an address arrives as a blank.
        value = parse_datetime(re.sub(r" (\d\d:\d\d)$", r"+\1", text) if "T" in text else text)
        if value is None and (day := parse_date(text)) is not None:
            value = dt.datetime.combine(day, dt.time())
        if value is not None:
            aware = value if value.tzinfo else timezone.make_aware(value)
            return aware.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise EnvelopeError(
        field, Sentence(
            "must be a time such as 2026-01-31T08:00:00+01:00, or a span before now such as 15m, 2h or 7d; got "
            "%(text)s",
            text=shown(text),
        ),
    )  # fmt: skip


def filter_query(where: JobFilter) -> dict[str, str]:
    """The parameters of an address that mean this filter: :func:`filter_from` reads them."""
    return {"status": where.status, **{name: str(value) for name, value in where.given().items()}}
