"""What a caller may ask for, and the row that comes of it."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings
from django.utils import timezone

from chokaq_django import EnvelopeError, Job, PayloadError, UnregisteredJobError
from chokaq_django import request as request_module
from chokaq_django.conf import get_options
from chokaq_django.request import Envelope, Request, chunks_of, envelope_of, row_of, rows_of
from chokaq_django.storage import NewJob

NOW = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)


class PlainJob(Job, type="producer.plain"):
    name: str = ""


class FullJob(Job, type="producer.full", queue="letters", priority=20, max_attempts=7, schema_version=4):
    name: str = ""


class UniqueJob(Job, type="producer.unique", unique_key=lambda job: f"letter-{job.name}"):
    name: str = ""


class OddKeyJob(Job, type="producer.odd_key", unique_key=lambda job: job.name or None):
    name: Any = ""


@dataclass
class Stranger:
    name: str = ""


def asked(**options: Any) -> Envelope:
    """The envelope of ``enqueue(job, **options)``."""
    names = (
        "queue", "priority", "delay", "run_at", "deadline", "deadline_after", "idempotency_key", "tags", "created_by",
        "headers", "max_attempts",
    )  # fmt: skip
    given: dict[str, Any] = {"tags": (), **options}
    values: list[Any] = [given.get(name) for name in names]
    return envelope_of(*values)


def row(job: object, **options: Any) -> NewJob:
    return row_of(job, asked(**options), get_options())


def test_a_row_says_what_the_type_says() -> None:
    plain, full = row(PlainJob("a")), row(FullJob("b"))
    assert (plain.type, plain.queue, plain.priority, plain.max_attempts) == ("producer.plain", "default", 10, 3)
    assert (full.type, full.queue, full.priority, full.max_attempts) == ("producer.full", "letters", 20, 7)
    assert (plain.schema_version, full.schema_version) == (1, 4)
    assert json.loads(full.payload) == {"name": "b"}
    assert (plain.tags, plain.headers, plain.idempotency_key, plain.created_by) == ("[]", "{}", None, None)
    assert (plain.delay, plain.run_at, plain.deadline_at, plain.deadline_after) == (None, None, None, None)
    assert len(plain.id) == 26
    assert plain.id < full.id


def test_the_caller_wins_over_the_type() -> None:
    made = row(
        FullJob(),
        queue=" mail ",
        priority=0,
        max_attempts=1,
        tags=["a", "b", "a", " "],
        created_by=" ada ",
        headers={"traceparent": "00-1"},
        idempotency_key=" k ",
    )
    assert (made.queue, made.priority, made.max_attempts) == ("mail", 0, 1)
    assert (made.tags, made.headers) == ('["a","b"]', '{"traceparent":"00-1"}')
    assert (made.created_by, made.idempotency_key) == ("ada", "k")


@pytest.mark.parametrize(("value", "seconds"), [(0, 0.0), (1.5, 1.5), (dt.timedelta(minutes=2), 120.0)])
def test_spans_are_seconds_or_timedeltas(value: Any, seconds: float) -> None:
    assert row(PlainJob(), delay=value).delay == seconds
    assert row(PlainJob(), deadline_after=value).deadline_after == seconds


def test_aware_times_are_kept_in_utc() -> None:
    berlin = dt.datetime(2026, 6, 1, 14, tzinfo=ZoneInfo("Europe/Berlin"))
    made = row(PlainJob(), run_at=berlin, deadline=berlin)
    assert made.run_at == made.deadline_at == NOW
    assert made.run_at is not None
    assert made.run_at.tzinfo is dt.UTC


def test_naive_times_are_in_the_current_time_zone() -> None:
    with timezone.override("Europe/Berlin"):
        made = row(PlainJob(), run_at=dt.datetime(2026, 6, 1, 14), deadline=dt.datetime(2026, 6, 1, 14))  # noqa: DTZ001
    assert made.run_at == made.deadline_at == NOW


def test_naive_times_are_refused_without_use_tz() -> None:
    with override_settings(USE_TZ=False), pytest.raises(EnvelopeError, match="run_at must be an aware datetime"):
        row(PlainJob(), run_at=dt.datetime(2026, 6, 1, 14))  # noqa: DTZ001


def test_the_past_is_due_now() -> None:
    assert row(PlainJob(), run_at=NOW - dt.timedelta(days=900)).run_at == NOW - dt.timedelta(days=900)


REFUSED: list[tuple[str, Any, str]] = [
    ("queue", "", "must be letters"),
    ("queue", "two words", "must be letters"),
    ("queue", "nul\x00", "must not contain NUL"),
    ("queue", "q" * 256, "at most 255"),
    ("queue", 7, "must be a string, got int"),
    ("queue", b"mail", "must be a string, got bytes"),
    ("priority", True, "must be an integer, got True"),
    ("priority", 1.0, "must be an integer"),
    ("priority", "10", "must be an integer"),
    ("priority", 2**31, "must be from"),
    ("delay", True, "got True"),
    ("delay", -1, "0 or more, got -1"),
    ("delay", dt.timedelta(seconds=-1), "0 or more"),
    ("delay", float("nan"), "finite"),
    ("delay", float("inf"), "finite"),
    ("delay", 10**400, "finite"),
    ("delay", "5", "timedelta or a number"),
    ("delay", dt.timedelta(days=40_000), "at most 100 years"),
    ("deadline_after", False, "got False"),
    ("deadline_after", -0.5, "0 or more"),
    ("deadline_after", float("nan"), "finite"),
    ("run_at", "2026-06-01", "must be an aware datetime"),
    ("run_at", dt.date(2026, 6, 1), "must be an aware datetime"),
    ("run_at", 1_750_000_000, "must be an aware datetime"),
    ("run_at", dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=5))), "years 1 to 9999"),
    ("deadline", "tomorrow", "must be an aware datetime"),
    ("idempotency_key", 42, "must be a string"),
    ("idempotency_key", "k" * 256, "at most 255"),
    ("idempotency_key", "\ud800", "lone surrogates"),
    ("tags", "signup", "list of strings"),
    ("tags", {"a": "b"}, "list of strings"),
    ("tags", 5, "list of strings"),
    ("tags", [1], "must be a string"),
    ("tags", ["t" * 101], "at most 100"),
    ("tags", [str(n) for n in range(51)], "at most 50"),
    ("created_by", 1, "must be a string"),
    ("created_by", "x" * 101, "at most 100"),
    ("headers", [("a", "b")], "dict of strings"),
    ("headers", {"a": 1}, "must be a string"),
    ("headers", {"": "x"}, "blank name"),
    ("headers", {"a": "x" * 9_000}, "at most"),
    ("max_attempts", 0, "must be from 1"),
    ("max_attempts", -1, "must be from 1"),
    ("max_attempts", True, "must be an integer, got True"),
    ("max_attempts", 2.0, "must be an integer"),
    ("max_attempts", 10**9, "must be from 1"),
]


@pytest.mark.parametrize(("name", "value", "words"), REFUSED)
def test_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        row(PlainJob(), **{name: value})
    assert caught.value.field.startswith(name)
    assert words in str(caught.value)


def test_either_a_delay_or_a_time() -> None:
    with pytest.raises(EnvelopeError, match="run_at and delay exclude each other"):
        row(PlainJob(), delay=0, run_at=NOW)
    with pytest.raises(EnvelopeError, match="deadline and deadline_after exclude each other"):
        row(PlainJob(), deadline=NOW, deadline_after=5)


def test_only_jobs_of_registered_types() -> None:
    with pytest.raises(UnregisteredJobError, match=r'call register\(Stranger, type="..."\) in the app\'s jobs.py'):
        row(Stranger())
    with pytest.raises(UnregisteredJobError, match="dict"):
        row({"name": "a"})
    with pytest.raises(TypeError, match=r"give a job, not its class: PlainJob\(...\)"):
        row(PlainJob)


def test_payloads_are_refused_with_their_path() -> None:
    with pytest.raises(PayloadError, match=r"\$\.name"):
        row(PlainJob(name=object()))  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match=r"NUL|U\+0000"):
        row(PlainJob(name="a\x00"))


def test_the_type_makes_the_key_unless_the_caller_does() -> None:
    assert row(UniqueJob("7")).idempotency_key == "letter-7"
    assert row(UniqueJob("7"), idempotency_key="mine").idempotency_key == "mine"
    assert row(UniqueJob("7"), idempotency_key="  ").idempotency_key == "letter-7"  # a blank key is no key
    assert row(OddKeyJob()).idempotency_key is None
    with pytest.raises(EnvelopeError, match="unique_key must be a string, got int"):
        row(OddKeyJob(5))


# -- many --------------------------------------------------------------------------------------------------------------


def many(items: Any, **options: Any) -> list[NewJob]:
    return list(rows_of(items, asked(**options), get_options()))


def test_a_request_is_laid_over_the_call() -> None:
    common = {"queue": "mail", "priority": 5, "delay": 60, "deadline_after": 90, "tags": ["all"], "created_by": "ada"}
    own = Request(
        FullJob("b"), queue="own", priority=0, run_at=NOW, deadline=NOW, idempotency_key="k", tags=[], created_by="bob",
        headers={"a": "b"}, max_attempts=2,
    )  # fmt: skip
    plain, other, kept = many([PlainJob("a"), own, Request(PlainJob("c"))], **common)
    assert (plain.queue, plain.priority, plain.delay, plain.deadline_after, plain.tags) == (
        "mail",
        5,
        60,
        90,
        '["all"]',
    )
    assert (other.queue, other.priority, other.max_attempts, other.tags) == ("own", 0, 2, "[]")
    assert (other.delay, other.run_at) == (None, NOW)  # its own time replaces the call's delay
    assert (other.deadline_after, other.deadline_at) == (None, NOW)
    assert (other.idempotency_key, other.created_by, other.headers) == ("k", "bob", '{"a":"b"}')
    assert (kept.queue, kept.delay, kept.tags, kept.created_by) == ("mail", 60, '["all"]', "ada")


def test_an_error_names_its_item() -> None:
    with pytest.raises(UnregisteredJobError) as caught:
        many([PlainJob(), Stranger()])
    assert caught.value.__notes__ == ["item 1 of enqueue_many"]
    with pytest.raises(EnvelopeError) as refused:
        many([Request(PlainJob(), priority=True)])
    assert refused.value.__notes__ == ["item 0 of enqueue_many"]


def test_chunks_by_rows_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "CHUNK_ROWS", 3)
    rows = many(PlainJob(str(n)) for n in range(7))
    assert [len(chunk) for chunk in chunks_of(iter(rows))] == [3, 3, 1]
    assert list(chunks_of(iter([]))) == []
    monkeypatch.setattr(request_module, "CHUNK_CHARACTERS", 2 * len(rows[0].payload))
    assert [len(chunk) for chunk in chunks_of(iter(rows))] == [2, 2, 2, 1]
