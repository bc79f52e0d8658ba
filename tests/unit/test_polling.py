"""How long a worker waits between polls: short under traffic, longer in silence."""

from __future__ import annotations

import pytest

from chokaq_django.worker.wakeup import PollingWaker


@pytest.mark.parametrize(
    ("silence", "pause"), [(0.0, 0.05), (0.5, 0.05), (10.0, 0.5), (60.0, 3.0), (3_600.0, 180.0)]
)  # fmt: skip
def test_polls_come_down_to_50_ms_and_grow_with_the_silence(silence: float, pause: float) -> None:
    now = [1_000.0]
    waker = PollingWaker(clock=lambda: now[0])
    waker.busy()
    now[0] += silence
    assert waker.pause() == pytest.approx(pause)
    waker.set()
    assert waker.pause() == pytest.approx(0.05)


def test_nobody_waits_longer_than_asked() -> None:
    assert PollingWaker().wait(0.0) == [], "although it has never been busy"
