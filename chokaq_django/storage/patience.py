"""How long one try of a storage that hurries may wait for its server (``hurry`` of the contract).

A connection that a firewall has forgotten looks like a server that takes its time. Who must be heard of soon gives up
such a try early, and begins another on a new connection. But a server that is only slow would be asked the same again
and again, each time given up shortly before it had answered, and nothing would ever be written. So a try may take at
least twice as long as the slowest answers of late, and where two in a row were given up, as long as those of any other
service, until one is answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

HALVES = 60.0
"""Seconds in which a slow answer comes to count half. Heartbeats are rarer than the quick questions between them."""
IN_VAIN = 2
"""Tries in a row that were given up, after which the server is taken for slow, and no longer for gone."""


@dataclass(slots=True)
class Patience:
    """``seconds``: what a try may wait now, for its connection and for each statement; infinite where nothing hurries.
    The engine's own limits hold besides."""

    clock: Callable[[], float] = time.monotonic
    seconds: float = field(default=float("inf"), init=False)
    _least: float = field(default=float("inf"), init=False)
    _slowest: float = field(default=0.0, init=False)
    _seen: float = field(default=0.0, init=False)
    _in_vain: int = field(default=0, init=False)

    def hurry(self, least: float) -> None:
        """From now on a try is given up after so many seconds, unless the server is known to be slower."""
        if least <= 0:
            raise ValueError(f"must be above 0 s, got {least}")
        self._least = min(self._least, least)
        self._weigh()

    @property
    def hurries(self) -> bool:
        return self._least != float("inf")

    def answered(self, seconds: float) -> None:
        """A try of so many seconds was answered."""
        now = self.clock()
        self._slowest = max(seconds, self._slowest * 0.5 ** ((now - self._seen) / HALVES))
        self._seen = now
        self._in_vain = 0
        self._weigh()

    def ran_out(self) -> None:
        """A try was given up."""
        self._in_vain += 1
        self._weigh()

    def _weigh(self) -> None:
        if self._in_vain >= IN_VAIN:
            self.seconds = float("inf")
            return
        self.seconds = self._least
        # In steps: some drivers are told when they connect, and only then; each step costs them a connection.
        while self.seconds < 2 * self._slowest:
            self.seconds *= 2
