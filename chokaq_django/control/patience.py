"""How long a verb looks at payloads while somebody waits for its answer."""

from __future__ import annotations

import time

__all__ = ["Patience"]


class Patience:
    """``seconds`` from the first :meth:`begin` on; it is not over before, so that one job is always looked at."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None

    def begin(self) -> None:
        if self._end is None:
            self._end = time.monotonic() + self._seconds

    @property
    def over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end
