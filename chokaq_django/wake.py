"""Wake-ups by who enqueues, after the commit: to the workers in the same process, and through the channel layer.

Where the database itself tells other processes (``NOTIFY``, ``data_version``) only the former is used, and spares a
worker inside the web process even that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from . import channel_wake
from .observability.events import Event, log_event

__all__ = ["listening", "notify", "subscribe", "unsubscribe"]

logger = logging.getLogger("chokaq.wake")

Listener = Callable[[], object]
Interest = Callable[[str], bool]

# Tuples are replaced, never changed: notify reads without the lock, on the path of every enqueue.
_listeners: dict[str, tuple[tuple[Listener, Interest | None], ...]] = {}
_lock = threading.Lock()


def subscribe(alias: str, listener: Listener, interested: Interest | None = None) -> None:
    """Call ``listener`` whenever there may be work in the job database ``alias``.

    It is called in the thread that committed, so it must be quick and must not touch the database: set an event.
    ``interested`` says whether a queue matters to it; without one, every queue does.
    """
    with _lock:
        _listeners[alias] = (*_listeners.get(alias, ()), (listener, interested))


def unsubscribe(alias: str, listener: Listener) -> None:
    """Stop calling ``listener``; unknown ones are ignored."""
    with _lock:
        kept = tuple(entry for entry in _listeners.get(alias, ()) if entry[0] != listener)
        if kept:
            _listeners[alias] = kept
        else:
            _listeners.pop(alias, None)


def listening(alias: str) -> bool:
    """Whether :meth:`notify` has anybody to tell about work in ``alias``."""
    return alias in _listeners or channel_wake.usable(alias)


def notify(alias: str, queues: Collection[str] = ()) -> None:
    """Wake the listeners of ``alias`` that are interested in one of ``queues``; all of them when it is empty.

    Call it after the commit; it does not wait. A listener that fails is logged and does not stop the others.
    """
    for listener, interested in _listeners.get(alias, ()):
        try:
            if interested is None or not queues or any(interested(queue) for queue in queues):
                listener()
        except Exception:  # noqa: BLE001 - whoever enqueued must not fail because somebody else's wake-up does
            log_event(
                logger, logging.ERROR, Event.SIGNAL_RECEIVER_FAILED, "wake-up of %s failed", listener, exc_info=True
            )
    if channel_wake.usable(alias):
        channel_wake.tell(alias, queues)
