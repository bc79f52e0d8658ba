"""One step of a bulk operation, for whoever works it off: a worker's service, or a process that was asked to."""

from __future__ import annotations

import logging

from django.db import InterfaceError, OperationalError

from ..conf import get_options
from ..job.text import safe_text
from ..observability.events import Event, log_event
from .contract import BulkStep, Storage

logger = logging.getLogger("chokaq.storage.bulk")

MESSAGE_LIMIT = 2_000


def advance(storage: Storage, operation_id: str) -> BulkStep:
    """The next step. Trouble with the database is raised, and passes; anything else would come back at every try, so it
    ends the operation as failed, which an operator may resume."""
    try:
        return storage.bulk_step(operation_id, get_options().deck.bulk_chunk)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001 - one bad operation must not stop the others
        log_event(
            logger,
            logging.ERROR,
            Event.BULK_FAILED,
            "Bulk operation %s failed: %s",
            operation_id,
            error,
            exc_info=error,
        )
        storage.bulk_fail(operation_id, safe_text(f"{type(error).__name__}: {error}", MESSAGE_LIMIT))
        return BulkStep("failed", 0, 0, None)
