"""chokaq-django: durable background jobs for Django, in the SQL database the project already has.

The public names, nothing else. They load when first used, so that importing this package needs no configured Django.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import control as control
    from .job.backoff import Explicit as Explicit
    from .job.backoff import Exponential as Exponential
    from .job.backoff import Polynomial as Polynomial
    from .job.context import JobContext as JobContext
    from .job.context import current_context as current_context
    from .job.definition import CircuitPolicy as CircuitPolicy
    from .job.definition import Job as Job
    from .job.definition import UnregisteredJobError as UnregisteredJobError
    from .job.envelope import EnvelopeError as EnvelopeError
    from .job.failures import CancelReason as CancelReason
    from .job.failures import FailureReason as FailureReason
    from .job.failures import FatalJobError as FatalJobError
    from .job.failures import JobCancelled as JobCancelled
    from .job.failures import JobError as JobError
    from .job.failures import JobInterrupted as JobInterrupted
    from .job.failures import PayloadError as PayloadError
    from .job.failures import PayloadTooLarge as PayloadTooLarge
    from .job.failures import ThrottledError as ThrottledError
    from .job.registry import handles as handles
    from .job.registry import raw_handler as raw_handler
    from .job.registry import register as register
    from .job.schema import migrates as migrates
    from .job.signals import job_buried as job_buried
    from .job.signals import job_enqueued as job_enqueued
    from .job.signals import job_retrying as job_retrying
    from .job.signals import job_started as job_started
    from .job.signals import job_succeeded as job_succeeded
    from .producer import Enqueued as Enqueued
    from .producer import Request as Request
    from .producer import aenqueue as aenqueue
    from .producer import enqueue as enqueue
    from .producer import enqueue_many as enqueue_many
    from .storage import StorageError as StorageError

_HOMES = {
    "job.backoff": ("Explicit", "Exponential", "Polynomial"),
    "job.context": ("JobContext", "current_context"),
    "job.definition": ("CircuitPolicy", "Job", "UnregisteredJobError"),
    "job.envelope": ("EnvelopeError",),
    "job.failures": (
        "CancelReason",
        "FailureReason",
        "FatalJobError",
        "JobCancelled",
        "JobError",
        "JobInterrupted",
        "PayloadError",
        "PayloadTooLarge",
        "ThrottledError",
    ),
    "job.registry": ("handles", "raw_handler", "register"),
    "job.schema": ("migrates",),
    "job.signals": ("job_buried", "job_enqueued", "job_retrying", "job_started", "job_succeeded"),
    "producer": ("Enqueued", "Request", "aenqueue", "enqueue", "enqueue_many"),
    "storage": ("StorageError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CancelReason",
    "CircuitPolicy",
    "Enqueued",
    "EnvelopeError",
    "Explicit",
    "Exponential",
    "FailureReason",
    "FatalJobError",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobError",
    "JobInterrupted",
    "PayloadError",
    "PayloadTooLarge",
    "Polynomial",
    "Request",
    "StorageError",
    "ThrottledError",
    "UnregisteredJobError",
    "__version__",
    "aenqueue",
    "control",
    "current_context",
    "enqueue",
    "enqueue_many",
    "handles",
    "job_buried",
    "job_enqueued",
    "job_retrying",
    "job_started",
    "job_succeeded",
    "migrates",
    "raw_handler",
    "register",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "control":
        return importlib.import_module(".control", __name__)
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
