"""Ctrl-C between two steps instead of in the middle of one: an interrupted statement may leave its connection unusable,
and then nothing can be cleaned up any more."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupts", "patient_interrupts"]


class Interrupts:
    """``check()`` is where Ctrl-C takes effect. A second one takes effect at once."""

    def __init__(self) -> None:
        self.asked = False

    def check(self) -> None:
        if self.asked:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def patient_interrupts() -> Iterator[Interrupts]:
    """While this lasts, SIGINT waits for the next :meth:`Interrupts.check`."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts  # signals are not ours to handle
        return
    before = signal.signal(signal.SIGINT, interrupts._on_signal)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
