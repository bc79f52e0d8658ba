"""Runs a unit of work again after a transient database error: deadlock, busy, lost connection, failover."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..observability.events import Event, log_event
from .patience import Patience

logger = logging.getLogger("chokaq.storage")

T = TypeVar("T")


@dataclass(slots=True)
class Retrier:
    """Retries whole units with jittered, growing pauses (seconds); the last error is raised.

    ``transient(error)``: whether another try can help. ``recover(error)``: make the connection usable again before it.
    ``ran_out(error)``: whether it is that ``patience`` ran out, which is none of a storage that does not hurry.
    At most one log record in ``log_interval`` seconds, with the number of errors since the last.
    """

    transient: Callable[[BaseException], bool]
    recover: Callable[[BaseException], None]
    ran_out: Callable[[BaseException], bool] = lambda error: False
    attempts: int = 5
    first_pause: float = 0.02
    longest_pause: float = 1.0
    log_interval: float = 10.0
    sleep: Callable[[float], None] = time.sleep
    patience: Patience = field(default_factory=Patience)
    errors: int = field(default=0, init=False)
    """Transient errors so far."""
    _logged_at: float = field(default=float("-inf"), init=False)
    _unlogged: int = field(default=0, init=False)

    def run(self, unit: Callable[[], T]) -> T:
        """``unit()``, repeated while its error is transient."""
        attempt = 1
        while True:
            began = time.monotonic()
            try:
                done = unit()
            except Exception as error:
                if self.patience.hurries and self.ran_out(error):
                    self.patience.ran_out()
                if not self.transient(error):
                    raise
                self._log(error, attempt)
                self.recover(error)
                if attempt >= self.attempts:
                    raise
            else:
                if self.patience.hurries:
                    self.patience.answered(time.monotonic() - began)
                return done
            pause = min(self.longest_pause, self.first_pause * 4 ** (attempt - 1))
            self.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
            attempt += 1

    def _log(self, error: BaseException, attempt: int) -> None:
        self.errors += 1
        self._unlogged += 1
        now = time.monotonic()
        if now - self._logged_at < self.log_interval:
            return
        log_event(
            logger, logging.WARNING, Event.STORAGE_TROUBLE,
            "transient database error (attempt %d of %d, %d since the last report): %s: %s",
            attempt, self.attempts, self._unlogged, type(error).__name__, str(error).strip(),
        )  # fmt: skip
        self._logged_at, self._unlogged = now, 0
