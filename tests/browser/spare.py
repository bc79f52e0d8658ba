"""How long something took, but for the time in which no processor was free.

A machine that has other work is late, and a suite is no benchmark.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

MOST_BARS = 10
"""How many times its bar something may take even on such a machine."""


def idle() -> float:
    """Seconds in which processors of this machine have had nothing to do, of all of them together. Where nothing tells,
    there is always a free one."""
    try:
        said = Path("/proc/stat").read_text().split(maxsplit=5)
    except OSError:
        return time.monotonic()
    return int(said[4]) / os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """Runs from its making."""

    def __init__(self) -> None:
        self._began, self._idle = time.monotonic(), idle()

    def of(self, seconds: float) -> float:
        """What counts of ``seconds`` that something took since."""
        free = min(1.0, (idle() - self._idle) / (time.monotonic() - self._began))
        return max(seconds * free, seconds / MOST_BARS)
