"""How long a try may wait whose answer must come soon."""

from __future__ import annotations

import pytest

from chokaq_django.storage.patience import Patience

pytestmark = pytest.mark.any_engine

FOR_EVER = float("inf")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def patience(clock: Clock) -> Patience:
    patience = Patience(clock)
    patience.hurry(6.0)
    return patience


def test_without_hurry_only_the_engine_limits() -> None:
    patience = Patience()
    patience.answered(100.0)
    assert (patience.seconds, patience.hurries) == (FOR_EVER, False)


def test_an_answer_that_comes_soon_changes_nothing(patience: Patience) -> None:
    patience.answered(0.01)
    patience.answered(2.9)
    assert patience.seconds == 6.0


def test_one_try_in_vain_is_a_lost_connection(patience: Patience) -> None:
    patience.ran_out()
    assert patience.seconds == 6.0, "the next try is given up as early"
    patience.answered(0.01)
    patience.ran_out()
    assert patience.seconds == 6.0, "they were not in a row"


def test_a_server_that_is_only_slow_is_waited_for(patience: Patience) -> None:
    patience.ran_out()
    patience.ran_out()
    assert patience.seconds == FOR_EVER
    patience.answered(10.0)
    assert patience.seconds >= 20.0, "and the next answer may take as long without being given up first"


def test_quick_questions_between_two_slow_ones_do_not_make_it_forget(patience: Patience, clock: Clock) -> None:
    for _ in range(100):
        patience.answered(10.0)
        for _ in range(12):
            clock.now += 1
            patience.answered(0.01)
        assert patience.seconds > 10.0


def test_when_the_server_is_fast_again_patience_ends(patience: Patience, clock: Clock) -> None:
    patience.answered(20.0)
    assert patience.seconds == 48.0
    for _ in range(600):
        clock.now += 1
        patience.answered(0.01)
    assert patience.seconds == 6.0
