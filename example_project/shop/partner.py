"""The shop's shipping partner, a stand-in for a remote service that is slow, busy or away.

Its moods follow the clock, so that every process sees the same outage: away for 25 s in every two minutes, which opens
the job type's circuit, and busy now and then in between.
"""

from __future__ import annotations

import random
import time

OUTAGE_EVERY = 120.0  # seconds
OUTAGE_LASTS = 25.0  # seconds


class PartnerUnavailableError(Exception):
    """The partner does not answer."""


class PartnerBusyError(Exception):
    """The partner asks to come back after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"busy, come back in {retry_after:g} s")
        self.retry_after = retry_after


def push_order(order_id: int) -> str:
    """Hands an order over and returns the partner's reference. Raises one of the two errors above."""
    time.sleep(random.uniform(0.02, 0.15))
    if time.time() % OUTAGE_EVERY < OUTAGE_LASTS:
        raise PartnerUnavailableError("connection refused")
    if random.random() < 0.08:
        raise PartnerBusyError(retry_after=3)
    return f"SHIP-{order_id:08d}"
