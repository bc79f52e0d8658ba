"""How a job can fail: reasons, exceptions, and what is fatal."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from .text import safe_text

if TYPE_CHECKING:
    from .definition import JobType

__all__ = [
    "CancelReason",
    "FailureReason",
    "FatalJobError",
    "JobCancelled",
    "JobError",
    "JobInterrupted",
    "PayloadError",
    "PayloadTooLarge",
    "SchemaVersionError",
    "Snooze",
    "ThrottledError",
    "is_fatal",
    "retry_after",
]


class FailureReason(IntEnum):
    """Why a job is in the DLQ. The numbers are stored."""

    MAX_RETRIES_EXCEEDED = 0
    CANCELLED = 1
    ZOMBIE = 2
    CIRCUIT_BREAKER_OPEN = 3  # reserved
    REJECTED = 4  # reserved
    THROTTLED = 5
    FATAL_ERROR = 6
    TIMEOUT = 7
    TRANSIENT = 8  # reserved
    HEARTBEAT_FAILURE = 9
    RETRY_LIFETIME_EXPIRED = 10
    EXPIRED = 11
    UNKNOWN_TYPE = 12
    POISON = 13
    PARENT_FAILED = 14

    @property
    def label(self) -> str:
        """The name people and metrics see, such as ``MaxRetriesExceeded``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def parse(cls, value: object) -> FailureReason:
        """The reason for a number, a name or a label; ``ValueError`` otherwise."""
        if isinstance(value, str):
            wanted = value.replace("_", "").casefold()
            for reason in cls:
                if reason.label.casefold() == wanted:
                    return reason
        elif isinstance(value, int) and not isinstance(value, bool):
            return cls(value)
        raise ValueError(f"{value!r} is not a failure reason")

    @classmethod
    def label_of(cls, value: object) -> str:
        """The label for a number, a name or a label; what only newer code knows stays as it is."""
        try:
            return cls.parse(value).label
        except ValueError:
            return str(value)


RESERVED = (FailureReason.CIRCUIT_BREAKER_OPEN, FailureReason.REJECTED, FailureReason.TRANSIENT)
"""Reasons of which no job dies; lists to choose from leave them out."""


class CancelReason(Enum):
    """Why a running job was told to stop."""

    TIMEOUT = "timeout"
    OPERATOR = "operator"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease_lost"
    HEARTBEAT = "heartbeat"


class JobError(Exception):
    """Base of the errors this package raises about a job."""


class FatalJobError(JobError):
    """Raise it in a handler when another attempt cannot help: the job goes to the DLQ at once."""


class ThrottledError(JobError):
    """Raise it in a handler when the other side asks to come back later.

    ``retry_after`` is a timedelta, seconds, or None for the usual backoff. The attempt counts; the circuit does not.
    """

    def __init__(self, message: str = "throttled", *, retry_after: float | timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


PATH_LIMIT = 200
_KEY = re.compile(r'\["(?:[^"\\]|\\.)*"\]')


class PayloadError(JobError):
    """A payload that cannot be stored or read. ``path`` says where, as in ``$.items[3].price``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    @property
    def plain_path(self) -> str:
        """The path without keys of mappings, which are data as values are: ``$.by_mail[...].age``."""
        return safe_text(_KEY.sub("[...]", self.path), PATH_LIMIT)


UNREADABLE = "PayloadError"
"""Error type of a job whose payload its worker could not read, so that its handler did not run. One that a handler
raises itself has its module in front."""


class PayloadTooLarge(PayloadError):  # noqa: N818 - reads as what it says
    """A payload or result above MAX_PAYLOAD_BYTES."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            "$",
            f"{size:,} bytes of JSON are more than MAX_PAYLOAD_BYTES ({limit:,}); "
            "store the data elsewhere and pass its key",
        )
        self.size = size
        self.limit = limit

    def __reduce__(self) -> tuple[type[PayloadTooLarge], tuple[int, int]]:
        return type(self), (self.size, self.limit)


class SchemaVersionError(PayloadError):
    """A payload of a schema version that this code cannot lift to its own."""


class JobCancelled(BaseException):
    """Raised by ``ctx.raise_if_cancelled()``. A BaseException, so that ``except Exception`` does not swallow it."""

    def __init__(self, reason: CancelReason | None = None) -> None:
        super().__init__(f"job cancelled: {reason.value}" if reason else "job cancelled")
        self.reason = reason


class Snooze(BaseException):
    """Raised by ``ctx.snooze(delay)``: run again after ``delay`` seconds, the attempt given back."""

    def __init__(self, delay: float) -> None:
        super().__init__(f"snoozed for {delay:g} s")
        self.delay = delay


class JobInterrupted(BaseException):
    """Raised inside the thread of a job with ``interrupt=True`` whose time is up."""


_FATAL_BY_DEFAULT = (FatalJobError, PayloadError, NotImplementedError)


def is_fatal(exc: BaseException, job_type: JobType | None = None) -> bool:
    """Whether another attempt is pointless.

    Fatal are ``FatalJobError``, payload errors and ``NotImplementedError``; the type's ``fatal`` adds to them. With
    ``retry_on`` on the type, everything it does not list is fatal and what it lists is not, unless ``fatal`` has it.
    A ``ThrottledError`` asks for another attempt and is fatal only when ``fatal`` says so.
    """
    kind = type(exc)  # not isinstance, which asks the exception itself for its __class__
    if job_type is not None:
        if job_type.fatal and issubclass(kind, job_type.fatal):
            return True
        if issubclass(kind, ThrottledError):
            return False
        if job_type.retry_on:
            return not issubclass(kind, job_type.retry_on)
    return issubclass(kind, _FATAL_BY_DEFAULT)


def retry_after(exc: BaseException) -> float | None:
    """Seconds that a throttled error asks to wait, at least 0; None when it asks for nothing usable."""
    if not issubclass(type(exc), ThrottledError):
        return None
    try:
        value: object = exc.retry_after  # type: ignore[attr-defined]
    except BaseException:  # noqa: BLE001 - a subclass may compute it; the job was throttled all the same
        return None
    if isinstance(value, timedelta):
        return max(value.total_seconds(), 0.0)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            return None
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None
