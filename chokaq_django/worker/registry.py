"""The worker's own row: that it lives, what it does, and what operators want of it."""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

from ..reading.settings import take_overrides
from ..storage import Storage
from ..storage.contract import ClockReading, WorkerOrders, WorkerRow
from .service import Service, patience

logger = logging.getLogger("chokaq.worker.registry")

BEAT = 5.0


def rss_mb() -> float | None:
    """Resident memory of this process in MiB: now, where the system tells it, else the peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**10 if os.uname().sysname != "Darwin" else peak / 2**20


class Registrar(Service):
    """Writes the row every few seconds and obeys it; follows the options that operators set.

    ``describe()`` gives the row as it is now, ``obey(orders)`` does what operators want, ``wrote()`` hears of each
    successful write.
    """

    name = "registry"

    def __init__(
        self,
        worker_timeout: float,
        open_storage: Callable[[], Storage],
        describe: Callable[[], WorkerRow],
        obey: Callable[[WorkerOrders], None],
        wrote: Callable[[], None],
    ) -> None:
        super().__init__()
        self.interval = min(BEAT, worker_timeout / 4)
        # After an outage the others wait for a sign of life no longer than WORKER_TIMEOUT.
        self.longest_pause = self.interval
        self.patience = patience(worker_timeout)
        self._open, self._describe, self._obey, self._wrote = open_storage, describe, obey, wrote
        self._storage: Storage | None = None
        self._settings: str | None = None
        self._clock: ClockReading | None = None
        self.wrote_at: float | None = None
        """When the row was last written, by the monotonic clock."""

    def step(self) -> None:
        if self._storage is None:
            self._storage = self._open()
            self._storage.hurry(self.longest_pause / 4, self.patience)
        row = self._describe()
        if self._clock is not None:
            row.clock_offset, row.clock_doubt = self._clock.offset, self._clock.doubt
        orders = self._storage.register(row)
        self._clock = orders.clock  # of this beat's statement; the next one tells it
        self.wrote_at = time.monotonic()
        self._wrote()
        self._obey(orders)
        if orders.settings != self._settings:
            take_overrides(self._storage.settings())
            self._settings = orders.settings
        self.wait(self.interval)

    def closed(self) -> None:
        if self._storage is None:
            return
        try:
            self._storage.unregister(self._describe().id)
        except Exception as error:  # noqa: BLE001 - at the end of the process there is nobody left to raise to
            logger.info("The worker's row could not be removed and will be swept: %s", error)
        finally:
            self._storage.close()
