"""The small parts: ids, backoff, durations, attempt log."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from chokaq_django.job.attempts import ENTRY_LIMIT, KEPT, append_attempt, read_attempts
from chokaq_django.job.backoff import Backoff, Explicit, Exponential, Polynomial
from chokaq_django.job.durations import to_seconds
from chokaq_django.job.ids import ULIDSequence, new_id

# --- ids -----------------------------------------------------------------------------------------------------------


def clocked(*milliseconds: int, entropy: bytes = b"\x00" * 10) -> ULIDSequence:
    ticks: Iterator[int] = itertools.chain(milliseconds, itertools.repeat(milliseconds[-1]))
    return ULIDSequence(clock=lambda: next(ticks), entropy=lambda n: entropy)


def test_ids_are_ulids_of_now() -> None:
    # A sequence of its own: the process's stays ahead for a while after a test that set the clock forward, as it must.
    made = ULID.from_str(ULIDSequence().next())
    assert abs(made.datetime - datetime.now(UTC)) < timedelta(seconds=5)


def test_ids_grow_within_a_millisecond_and_over_a_clock_step_back() -> None:
    sequence = clocked(1000, 1000, 500, 1, 1001)
    ids = [sequence.next() for _ in range(5)]
    assert ids == sorted(set(ids))
    assert [ULID.from_str(text).milliseconds for text in ids] == [1000, 1000, 1000, 1000, 1001]
    assert [int(ULID.from_str(text)) & 0xFF for text in ids] == [0, 1, 2, 3, 0]


def test_ids_carry_over_into_the_part_that_is_kept() -> None:
    sequence = clocked(1000, entropy=b"\x00" * 7 + b"\x0f\xff\xfe")
    ids = [sequence.next() for _ in range(4)]
    assert [int(ULID.from_str(text)) & 0xFFFFFF for text in ids] == [0x0FFFFE, 0x0FFFFF, 0x100000, 0x100001]


def test_ids_carry_over_into_the_next_millisecond() -> None:
    sequence = clocked(1000, entropy=b"\xff" * 10)
    ids = [sequence.next() for _ in range(3)]
    assert ids == sorted(set(ids))
    assert ULID.from_str(ids[1]).milliseconds == 1001


def test_ids_of_threads_are_unique_and_grow_in_each() -> None:
    made: list[list[str]] = []

    def make() -> None:
        made.append([new_id() for _ in range(5_000)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in made)
    assert len({text for ids in made for text in ids}) == 40_000


def test_a_forked_child_makes_ids_of_its_own() -> None:
    for _ in range(20):
        new_id()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, ",".join(new_id() for _ in range(50)).encode())
            os._exit(0)
        ours = {new_id() for _ in range(50)}
        os.waitpid(child, 0)
        theirs = set(os.read(reader, 10_000).decode().split(","))
        os.close(reader)
        os.close(writer)
        assert len(theirs) == 50
        assert not ours & theirs


# --- durations and backoff -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "seconds"), [(5, 5.0), (0.5, 0.5), (timedelta(minutes=1), 60.0)])
def test_durations(value: Any, seconds: float) -> None:
    assert to_seconds(value) == seconds


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("5", TypeError),
        (True, TypeError),
        (None, TypeError),
        (0, ValueError),
        (-1, ValueError),
        (timedelta(0), ValueError),
        (timedelta(seconds=-1), ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (10**400, ValueError),
    ],
)
def test_what_is_no_duration(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^must be"):
        to_seconds(value)


def test_zero_where_it_is_allowed() -> None:
    assert to_seconds(0, zero=True) == 0.0


def test_exponential() -> None:
    policy = Exponential(jitter=0)
    assert [policy.delay(n) for n in (1, 2, 3, 11, 12)] == [3, 6, 12, 3072, 3600]
    assert Exponential(base=timedelta(minutes=1), max=timedelta(hours=1)).max == 3600.0
    assert all(3 <= Exponential().delay(1) <= 4 for _ in range(100))
    assert Exponential(base=0, jitter=0).delay(10**9) == 0


def test_polynomial_is_nexjobs() -> None:
    policy = Polynomial(jitter=0)
    assert [policy.delay(n) for n in (1, 2, 3, 9)] == [16, 31, 96, 6576]
    assert Polynomial(max=100, jitter=0).delay(9) == 100


def test_explicit() -> None:
    policy = Explicit([1, timedelta(minutes=1), 0])
    assert [policy.delay(n) for n in (1, 2, 3, 4, 10**9)] == [1, 60, 0, 0, 0]
    assert 1 <= Explicit([1], jitter=1).delay(1) <= 2


@pytest.mark.parametrize("policy", [Exponential(), Polynomial(), Explicit([5]), Exponential(multiplier=1e300)])
@given(n=st.integers(-5, 10**30))
def test_delays_are_finite_for_any_n(policy: Backoff, n: int) -> None:
    assert 0 <= policy.delay(n) < 40_000_000


# The same classes for arguments that a type checker would refuse.
BadExponential: Any = Exponential
BadPolynomial: Any = Polynomial
BadExplicit: Any = Explicit


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BadExponential(base=-1), "Exponential: base must be 0 or more"),
        (lambda: BadExponential(base=10, max=5), "max .* must not be below base"),
        (lambda: BadExponential(multiplier=0.5), "multiplier must be finite and at least 1"),
        (lambda: BadExponential(multiplier=float("nan")), "multiplier must be finite"),
        (lambda: BadExponential(multiplier="2"), "multiplier must be a number"),
        (lambda: BadExponential(jitter="1"), "jitter must be a timedelta"),
        (lambda: BadPolynomial(power=-1), "power must be finite and at least 0"),
        (lambda: BadPolynomial(offset=float("inf")), "offset must be a finite"),
        (lambda: BadExplicit([]), "at least one delay"),
        (lambda: BadExplicit("12"), "must be a list"),
        (lambda: BadExplicit(5), "must be a list"),
        (lambda: BadExplicit([1, "2"]), r"delays\[1\] must be a timedelta"),
    ],
)
def test_wrong_policies(make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make()


# --- attempt log ---------------------------------------------------------------------------------------------------


def test_attempts_are_kept_in_order_and_limited() -> None:
    text = "[]"
    for number in range(30):
        text = append_attempt(text, {"attempt": number, "at": datetime(2026, 1, 1, tzinfo=UTC)})
    entries = read_attempts(text)
    assert [entry["attempt"] for entry in entries] == list(range(30 - KEPT, 30))
    assert entries[0]["at"] == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("broken", ["", "{", "5", "null", '{"a":1}', "[" * 100_000])
def test_a_broken_log_does_not_stop_the_next_entry(broken: str) -> None:
    assert read_attempts(append_attempt(broken, {"attempt": 1})) == [{"attempt": 1}]


def test_entries_are_storable_and_capped() -> None:
    text = append_attempt(
        "[]",
        {
            "message": "a\x00\ud800",
            "traceback": "x" * 100_000,
            "logs": [f"line {n} " + "y" * 500 for n in range(100)],
            "share": float("nan"),
            "what": object,
            "nothing": None,
        },
    )
    text.encode()
    assert "\\u0000" not in text
    assert len(text) <= ENTRY_LIMIT + 10
    (entry,) = json.loads(text)
    assert entry["message"] == "a\\x00\\ud800"
    assert "truncated" in entry["traceback"]
    assert entry["logs"][-1].startswith("line 99 ")
    assert entry["nothing"] is None


def test_entries_of_too_many_parts_still_fit() -> None:
    text = append_attempt("[]", {f"key {number}" * 10: number for number in range(1_000)})
    assert len(text) <= ENTRY_LIMIT + 10


def test_a_full_attempt_log_is_kept_and_a_longer_text_is_not_read_again() -> None:
    text = "[]"
    for number in range(KEPT):
        text = append_attempt(text, {"attempt": number, "message": "x" * 16_000, "traceback": "y" * 16_000})
    assert len(read_attempts(append_attempt(text, {"attempt": KEPT}))) == KEPT
    foreign = append_attempt("[]", {"attempt": 1})[:-1] + ',{"message":"' + "x" * 5_000_000 + '"}]'
    assert read_attempts(append_attempt(foreign, {"attempt": 2})) == [{"attempt": 2}]
