"""MariaDB and MySQL, no server needed: where looks start, and which errors another try may cure."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection

from chokaq_django.models import JobHot
from chokaq_django.storage import Storage
from chokaq_django.storage.mysql.errors import BROKEN, TRANSIENT, code_of, is_duplicate
from chokaq_django.storage.mysql.floors import AGAIN, BEGINNING, PATIENCE, SHARE, SLOW, Floors

from .support import Jobs, committed, ids

PAIR = ("mail", 10)
AT = dt.datetime(2031, 5, 17, 12, 0, 0, 250)  # noqa: DTZ001 - as the driver gives instants


@pytest.fixture(autouse=True)
def _looks_may_be_slow(no_look_is_slow: pytest.MonkeyPatch) -> None:
    no_look_is_slow.undo()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def job(run_at: dt.datetime, priority: int = 10) -> Any:
    return SimpleNamespace(queue="mail", priority=priority, run_at=run_at.replace(tzinfo=dt.UTC))


def slow(floors: Floors, seconds: float = 2 * SLOW, times: int = PATIENCE) -> None:
    for _ in range(times):
        floors.looked(seconds, {PAIR: AT})


def test_while_looks_are_fast_everything_is_looked_at() -> None:
    floors = Floors(Clock())
    slow(floors, SLOW / 2, 10)
    floors.claimed([job(AT)])
    assert not floors.used
    assert floors.of(PAIR) == BEGINNING


def test_one_slow_look_means_nothing() -> None:
    floors = Floors(Clock())
    slow(floors, times=PATIENCE - 1)
    floors.looked(0.0, {})
    slow(floors, times=PATIENCE - 1)
    assert not floors.used


def test_after_slow_looks_it_starts_at_the_first_row_for_a_while() -> None:
    clock = Clock()
    floors = Floors(clock)
    slow(floors)
    assert floors.used
    assert floors.of(PAIR) == AT
    assert floors.of(("mail", 11)) == BEGINNING
    clock.now += AGAIN
    assert not floors.used
    assert floors.of(PAIR) == BEGINNING, "and then looks from the beginning again"
    floors.looked(2 * SLOW, {PAIR: AT})
    assert floors.used, "which was slow again"
    clock.now += AGAIN
    floors.looked(SLOW / 2, {PAIR: AT})
    assert not floors.used, "which was fast: it is over"


def test_looks_from_the_beginning_take_a_limited_share_of_the_time() -> None:
    clock = Clock()
    floors = Floors(clock)
    slow(floors, 3.0)
    clock.now += 3.0 / SHARE - 0.1
    assert floors.used
    clock.now += 0.2
    assert not floors.used


def test_claims_lift_the_floor_and_never_lower_it() -> None:
    floors = Floors(Clock())
    slow(floors)
    floors.claimed([job(AT + dt.timedelta(seconds=2)), job(AT + dt.timedelta(seconds=1)), job(AT, 99)])
    assert floors.of(PAIR) == AT + dt.timedelta(seconds=2)
    assert floors.of(("mail", 99)) == BEGINNING, "of a pair that is not known nothing is known"


@committed
@pytest.mark.skipif(connection.vendor != "mysql", reason="a storage on MariaDB or MySQL")
def test_what_comes_in_below_a_floor_is_found_a_little_later(jobs: Jobs, storage: Storage) -> None:
    own: Any = storage
    clock = Clock()
    own._floors._clock = clock
    first = jobs.one()
    jobs.claim(1, blocked={"x.v1": 1.0}, start=False)  # the priority is known
    looked = own._floors.looked
    own._floors.looked = lambda seconds, rows: looked(1.0, rows)
    for _ in range(PATIENCE):
        own._look(["mail"])
    assert own._floors.used
    late = jobs.one(run_at=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    usual = jobs.one()
    higher = jobs.one(priority=99)
    assert ids(jobs.take(1)) == [higher], "a priority that nobody knew has no floor"
    assert ids(jobs.take(5)) == [usual]
    assert ids(jobs.take(5, blocked={"x.v1": 1.0})) == []
    clock.now += 1 / SHARE
    assert ids(jobs.take(5)) == [late]
    assert set(JobHot.objects.values_list("pk", flat=True)) == {first, late, usual, higher}


@committed
@pytest.mark.skipif(connection.vendor != "mysql", reason="a storage on MariaDB or MySQL")
def test_a_first_row_in_the_future_is_no_floor_for_what_comes_now(jobs: Jobs, storage: Storage) -> None:
    own: Any = storage
    own._floors._clock = Clock()
    jobs.one(delay=3600.0)
    own._look(["mail"])  # the priority is known
    looked = own._floors.looked
    own._floors.looked = lambda seconds, rows: looked(1.0, rows)
    for _ in range(PATIENCE):
        own._look(["mail"])
    assert own._floors.used
    now = jobs.one()
    assert ids(jobs.take(5)) == [now]


# -- errors ------------------------------------------------------------------------------------------------------------


def wrapped(number: Any, text: str = "", kind: type[DatabaseError] = OperationalError) -> DatabaseError:
    """As Django hands on a driver's error."""
    error = kind(number, text)
    error.__cause__ = Exception(number, text)
    return error


@pytest.mark.parametrize(
    ("text", "duplicate"),
    [
        ("Duplicate entry 'k' for key 'chokaq_hot_key'", True),
        ("Duplicate entry 'k' for key 'chokaq_job_hot.chokaq_hot_key'", True),
        ("Duplicate entry 'PRIMARY' for key 'chokaq_hot_key'", True),
        ("Duplicate entry '01M8' for key 'PRIMARY'", False),
        ("Duplicate entry '01M8' for key 'chokaq_job_hot.PRIMARY'", False),
    ],
)
def test_a_held_key_is_told_from_an_id_that_exists(text: str, duplicate: bool) -> None:
    assert is_duplicate(wrapped(1062, text, IntegrityError)) is duplicate


def test_other_errors_are_no_duplicates() -> None:
    assert not is_duplicate(wrapped(1048, "Column 'queue' cannot be null", IntegrityError))


@pytest.mark.parametrize("number", sorted(TRANSIENT))
def test_numbers_are_found_through_what_wraps_them(number: int) -> None:
    outer = OperationalError("the pool says no")
    outer.__cause__ = wrapped(number)
    assert code_of(outer) == code_of(wrapped(number)) == number


def test_broken_connections_are_worth_another_try() -> None:
    assert BROKEN < TRANSIENT
    assert {1053, 1290, 2006, 2013, 3032} < BROKEN, "shut down, read-only, gone, lost, offline"
    assert not {1045, 1049, 1054, 1062, 1064, 1146, 1366, 1406, 1969, 3024} & TRANSIENT, "what no try will cure"
    assert code_of(InterfaceError(0, "")) == 0
    assert code_of(ValueError("x")) is None
