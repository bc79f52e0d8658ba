"""How often a browser is told."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chokaq_django.deck.feed import pace
from chokaq_django.deck.feed.pace import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time; the test moves it."""
    now = [1_000.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def told(one: Pace, clock: list[float], until: float) -> list[float]:
    """When it is told while there is something new all the time."""
    found = []
    while clock[0] + one.wait() < until:
        clock[0] += one.wait()
        one.took()
        found.append(clock[0])
    return found


def test_two_changes_after_a_pause_are_told_at_once(clock: list[float]) -> None:
    one = Pace()
    assert one.wait() == 0
    one.took()
    clock[0] += 0.06
    assert one.wait() == 0
    one.took()
    clock[0] += 0.06
    assert one.wait() > 0.1
    clock[0] += 5
    assert one.wait() == 0


def test_never_more_than_five_in_a_second_and_never_a_long_silence(clock: list[float]) -> None:
    times = told(Pace(), clock, clock[0] + 30)
    assert len(times) == pytest.approx(150, abs=5)
    for at in times:
        assert sum(at <= other < at + 0.999 for other in times) <= 5
    assert max(later - earlier for earlier, later in pairwise(times)) < 0.5
