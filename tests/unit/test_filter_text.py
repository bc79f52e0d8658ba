"""Filters in addresses and forms: read, refused with the field's name, and written again."""

from __future__ import annotations

import datetime as dt

import pytest

from chokaq_django import FailureReason
from chokaq_django.control import JobFilter
from chokaq_django.job.envelope import EnvelopeError
from chokaq_django.reading.filter_text import FIELDS, filter_from, filter_query

NOW = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
WHOLE = JobFilter(
    status="dead", queue="a/b ?#%&+", type="t", reason=FailureReason.TIMEOUT, fingerprint="ab" * 16, tag="🎉",
    worker="w", created_by="ada", idempotency_key="k", concurrency_key="c", since=NOW, until=NOW,
    id_prefix="01ABC",
)  # fmt: skip


def test_what_is_written_is_read_again() -> None:
    query = filter_query(WHOLE)
    assert set(query) == set(FIELDS), "a new field of the filter is to be known here too"
    assert filter_from(query, NOW) == WHOLE
    assert filter_from(filter_query(JobFilter()), NOW) == JobFilter()
    assert filter_from(dict.fromkeys(FIELDS, "  "), NOW) == JobFilter(), "blank is nothing"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("15m", NOW - dt.timedelta(minutes=15)),
        (" 2 H ", NOW - dt.timedelta(hours=2)),
        ("1.5d", NOW - dt.timedelta(hours=36)),
        ("2026-01-30", dt.datetime(2026, 1, 30, tzinfo=dt.UTC)),
        ("2026-01-30 08:00", dt.datetime(2026, 1, 30, 8, tzinfo=dt.UTC)),
        ("2026-01-30T08:00:00+01:00", dt.datetime(2026, 1, 30, 7, tzinfo=dt.UTC)),
        ("2026-01-30T08:00:00 01:00", dt.datetime(2026, 1, 30, 7, tzinfo=dt.UTC)),
        ("999999999w", NOW - dt.timedelta(days=36_600)),
    ],
)
def test_times(text: str, moment: dt.datetime) -> None:
    assert filter_from({"since": text}, NOW).since == moment


@pytest.mark.parametrize("reason", ["timeout", "Timeout", "TIMEOUT", "7"])
def test_reasons(reason: str) -> None:
    assert filter_from({"status": "dead", "reason": reason}, NOW).reason is FailureReason.TIMEOUT


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ({"stauts": "dead"}, "stauts"),
        ({"status": "deceased"}, "status"),
        ({"reason": "timeout"}, "reason"),
        ({"status": "dead", "reason": "99"}, "reason"),
        ({"status": "dead", "reason": "Timout"}, "reason"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-02-30"}, "until"),
        ({"since": "9999-12-31T23:59:59-12:00"}, "since"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "since"),
        ({"queue": "x" * 256}, "queue"),
        ({"queue": "a\x00"}, "queue"),
        ({"tag": "\ud800"}, "tag"),
        ({"id_prefix": "ILOU"}, "id_prefix"),
        ({"fingerprint": "ff"}, "fingerprint"),
    ],
)
def test_what_is_wrong_is_named(named: dict[str, str], field: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        filter_from(named, NOW)
    assert caught.value.field == field
