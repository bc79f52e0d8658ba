"""What may stand around a payload."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.utils.safestring import mark_safe

from chokaq_django.job.envelope import (
    EnvelopeError,
    clean_created_by,
    clean_delay,
    clean_headers,
    clean_key,
    clean_priority,
    clean_queue,
    clean_tags,
    clean_time,
    clean_type,
)


@pytest.mark.parametrize("name", ["mail", "Mail-2", "a.b_c:d", "9", "x" * 255])
def test_queue_names(name: str) -> None:
    assert clean_queue(f" {name}\n") == name


@pytest.mark.parametrize("name", ["", "  ", "a b", "é", "-a", ".a", "a/b", "a,b", "x" * 256, "a\x00", None, 5, b"a"])
def test_wrong_queue_names(name: Any) -> None:
    with pytest.raises(EnvelopeError, match=r"^queue must") as caught:
        clean_queue(name)
    assert caught.value.field == "queue"


def test_type_keys() -> None:
    assert clean_type(" email.send/v1+beta ") == "email.send/v1+beta"
    for key in ("", "a b", "é", None, "../x y"):
        with pytest.raises(EnvelopeError, match=r"^type must"):
            clean_type(key)


@pytest.mark.parametrize("value", [0, 10, -1_000_000, 1_000_000])
def test_priorities(value: int) -> None:
    assert clean_priority(value) == value


@pytest.mark.parametrize("value", [None, "10", 1.0, True, 1_000_001, -(10**20)])
def test_wrong_priorities(value: Any) -> None:
    with pytest.raises(EnvelopeError, match=r"^priority must"):
        clean_priority(value)


@pytest.mark.parametrize(("value", "key"), [(None, None), ("", None), ("  \t", None), (" a b ", "a b"), ("é", "é")])
def test_keys_are_trimmed_and_blank_is_none(value: str | None, key: str | None) -> None:
    assert clean_key(value) == clean_created_by(value) == key


def test_wrong_keys() -> None:
    for value in (5, b"x", "x" * 256, "a\x00b", "\ud800"):
        with pytest.raises(EnvelopeError, match=r"^idempotency_key must"):
            clean_key(value)
    with pytest.raises(EnvelopeError, match=r"^created_by must be at most 100 characters, got 101"):
        clean_created_by("x" * 101)


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        (None, []),
        ([], []),
        (set(), []),
        (("b", " a ", "b", ""), ["b", "a"]),
        ([mark_safe("📮")], ["📮"]),
        ((tag for tag in "ab"), ["a", "b"]),
    ],
)
def test_tags(value: Any, tags: list[str]) -> None:
    assert json.loads(clean_tags(value)) == tags


def test_blanks_and_repeats_are_no_tags() -> None:
    assert clean_tags(["a", " "] * 60) == '["a"]'
    with pytest.raises(EnvelopeError, match=r"^tags must be at most 50, got more"):
        clean_tags(itertools.repeat("a"))


def test_tags_are_stored_compactly() -> None:
    assert clean_tags(["a", "b"]) == '["a","b"]'


@pytest.mark.parametrize(
    "value", ["a", b"a", 5, {"a": 1}, [5], ["x" * 101], ["a\x00"], [f"t{n}" for n in range(51)], [None]]
)
def test_wrong_tags(value: Any) -> None:
    with pytest.raises(EnvelopeError, match=r"^tags must"):
        clean_tags(value)


def test_headers() -> None:
    assert clean_headers(None) == clean_headers({}) == "{}"
    assert clean_headers({"traceparent": "00", " mine ": "é"}) == '{"traceparent":"00","mine":"é"}'


@pytest.mark.parametrize(
    "value",
    [[], "a", {"a": 5}, {5: "a"}, {" ": "a"}, {"a": "\x00"}, {"a": "x" * 8001}, {"a": "x" * 5000, "b": "x" * 5000}],
)
def test_wrong_headers(value: Any) -> None:
    with pytest.raises(EnvelopeError, match=r"^headers"):
        clean_headers(value)


def test_times() -> None:
    berlin = timezone(timedelta(hours=2))
    assert clean_time(None, "run_at") is None
    assert clean_time(datetime(2026, 1, 1, 2, tzinfo=berlin), "run_at") == datetime(2026, 1, 1, tzinfo=UTC)
    assert clean_time(datetime(2026, 1, 1, tzinfo=berlin), "run_at").tzinfo is UTC  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "value",
    [datetime(2026, 1, 1), "2026-01-01", 5, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))],  # noqa: DTZ001
)
def test_wrong_times(value: Any) -> None:
    with pytest.raises(EnvelopeError, match=r"^deadline must be"):
        clean_time(value, "deadline")


def test_delays() -> None:
    assert clean_delay(None, "delay") is None
    assert clean_delay(1.5, "delay") == timedelta(seconds=1.5)
    assert clean_delay(0, "delay") == timedelta(0)
    for value in (-1, "5", float("nan"), timedelta(days=40_000), True):
        with pytest.raises(EnvelopeError, match=r"^delay must be"):
            clean_delay(value, "delay")
