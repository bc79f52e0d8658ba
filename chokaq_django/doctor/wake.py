"""How workers learn of new jobs, and whether that works."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator

from django.db import connections

from ..channel_wake import channel_layer, usable
from ..conf import get_options
from ..sentence import Sentence
from .finding import Diagnosis, Severity

__all__ = ["findings"]

PATIENCE = 5.0
SLOW = 0.25


def findings(alias: str) -> Iterator[Diagnosis]:
    """The channel layer, where wake-ups go through it."""
    vendor = connections[alias].vendor
    worker = get_options().worker
    if usable(alias):
        yield from _round_trip()
    elif vendor in ("mysql", "microsoft") or (vendor == "postgresql" and worker.wake_up == "poll"):
        yield Diagnosis(
            "polling", Severity.INFO,
            Sentence(
                "Nothing wakes the workers here: after a silence they find a new job within "
                "%(idle_poll_interval)s s.",
                idle_poll_interval=f"{worker.idle_poll_interval:g}",
            ),
            Sentence(
                "A channel layer on Redis (CHANNEL_LAYERS, the extra chokaq-django[redis]) makes that "
                "milliseconds.",
            ),
        )  # fmt: skip


def _round_trip() -> Iterator[Diagnosis]:
    try:
        took = asyncio.run(asyncio.wait_for(_send_and_receive(), PATIENCE))
    except Exception as error:  # noqa: BLE001 - of whatever layer
        why = "no message came back" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        yield Diagnosis(
            "channel_layer_unreachable", Severity.WARNING, Sentence(
                "The channel layer does not pass messages on (%(why)s): workers find new jobs by polling.",
                why=why,
            ), Sentence("Look at CHANNEL_LAYERS['default'] and at its server."),
        )  # fmt: skip
        return
    if took > SLOW:
        yield Diagnosis(
            "channel_layer_slow", Severity.WARNING, Sentence(
                "A message through the channel layer took %(value)s ms.",
                value=f"{took * 1000:,.0f}",
            ),
            Sentence("Look at the load of its server and at the way to it."),
        )  # fmt: skip


async def _send_and_receive() -> float:
    """Seconds that a message of our own to ourselves takes."""
    layer = channel_layer()
    group = f"chokaq.doctor.{secrets.token_hex(8)}"
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    try:
        began = time.monotonic()
        await layer.group_send(group, {"type": "chokaq.doctor"})
        await layer.receive(channel)
        return time.monotonic() - began
    finally:
        await layer.group_discard(group, channel)
