"""How a job can fail: reasons, exceptions, what is fatal, and how an error becomes storable text."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import sysconfig
import traceback
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, IntEnum
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .definition import JobType

__all__ = [
    "CancelReason",
    "ErrorInfo",
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
    "describe",
    "fingerprint",
    "is_fatal",
    "retry_after",
    "safe_text",
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


class PayloadError(JobError):
    """A payload that cannot be stored or read. ``path`` says where, as in ``$.items[3].price``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


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


# --- storable text -------------------------------------------------------------------------------------------------

MESSAGE_LIMIT = 2_000
DETAILS_LIMIT = 16_000
TYPE_LIMIT = 255
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"


def safe_text(text: str, limit: int | None = None) -> str:
    """``text`` made storable on every engine: NUL and lone surrogates escaped, cut to ``limit`` characters.

    A cut text ends in a mark with its full length, and the mark is inside the limit.
    """
    length = len(text)
    if limit is not None:
        text = text[:limit]  # escaping only lengthens: what is beyond the limit cannot be kept
    text = _UNSTORABLE.sub(_escape, text)
    if limit is None or (length <= limit and len(text) <= limit):
        return text
    mark = f"… [truncated, {length:,} characters]"
    return text[: max(limit - len(mark), 0)] + mark[:limit]


def _safe_middle(text: str, limit: int) -> str:
    """Like ``safe_text``, but cuts the middle: a traceback's end says what happened, its beginning where."""
    length = len(text)
    if length > 2 * limit:
        text = text[:limit] + text[-limit:]  # escaping only lengthens: no more than this can be kept
    text = _UNSTORABLE.sub(_escape, text)
    if length <= limit and len(text) <= limit:
        return text
    mark = f"\n… [truncated, {length:,} characters] …\n"
    head = limit // 4
    return text[:head] + mark + text[len(text) - (limit - head - len(mark)) :]


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An exception as storable text: dotted type name, message, traceback, and its innermost frame of the project."""

    type: str
    message: str
    details: str
    frame: str = ""


def describe(exc: BaseException) -> ErrorInfo:
    """``exc`` as text that can always be stored. Never raises, whatever the exception's own methods do."""
    name = _type_name(type(exc))
    try:
        message = safe_text(str(exc), MESSAGE_LIMIT)
    except BaseException as error:  # noqa: BLE001 - a hostile __str__ must not turn a failure into another one
        message = f"<{name}.__str__ raised {type(error).__name__}>"
    try:
        details = "".join(traceback.format_exception(exc))
    except BaseException as error:  # noqa: BLE001 - as above: format_exception calls user code
        details = (
            f"{_frames_only(exc)}{name}: {message}\n<the traceback could not be formatted: {type(error).__name__}>"
        )
    return ErrorInfo(name, message, _safe_middle(details, DETAILS_LIMIT), safe_text(_own_frame(_traceback(exc)), 500))


def _traceback(exc: BaseException) -> TracebackType | None:
    # Past a property that a class may put in its place.
    return vars(BaseException)["__traceback__"].__get__(exc)  # type: ignore[no-any-return]


def _frames_only(exc: BaseException) -> str:
    try:
        return "".join(traceback.format_tb(_traceback(exc)))
    except BaseException:  # noqa: BLE001 - source lines may be unreadable; the rest of the description still stands
        return ""


def _type_name(cls: type[BaseException]) -> str:
    try:
        module, name = str(cls.__module__), str(cls.__qualname__)
    except BaseException:  # noqa: BLE001 - a metaclass may answer for both
        module, name = "builtins", str(type.__dict__["__name__"].__get__(cls))
    return safe_text(name if module in ("builtins", "__main__") else f"{module}.{name}", TYPE_LIMIT)


# --- fingerprint ---------------------------------------------------------------------------------------------------

_VARIABLE_PARTS = re.compile(
    r"""
    (?P<quoted> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` )
    | (?P<uuid> \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b )
    | (?P<ulid> \b[0-7][0-9A-HJKMNP-TV-Z]{25}\b )
    | (?P<hex> \b(?:0[xX][0-9a-fA-F]+|(?=[a-fA-F]*\d)[0-9a-fA-F]{8,})\b )
    | (?P<number> \d+(?:[.,:]\d+)* )
    """,
    re.VERBOSE,
)
_PLACEHOLDERS = {"quoted": "<str>", "uuid": "<id>", "ulid": "<id>", "hex": "<hex>", "number": "<n>"}
_FOREIGN = tuple(
    {os.path.realpath(path) + os.sep for key, path in sysconfig.get_paths().items() if key in ("stdlib", "platstdlib")}
)
_OWN_PACKAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir)) + os.sep


def fingerprint(reason: FailureReason | int, error: BaseException | ErrorInfo | None) -> str:
    """32 hex digits that are equal for failures an operator would call the same.

    Made of the reason, the exception type, the message with numbers, ids, hex and quoted strings replaced, and the
    innermost frame of the project's own code (file and function; no line number, so that a deploy keeps the group).
    """
    if isinstance(error, BaseException):
        error = describe(error)
    parts = [str(int(reason))]
    if error is not None:
        parts += [error.type, normalise_message(error.message), error.frame]
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def normalise_message(message: str) -> str:
    """The first 500 characters of ``message`` with every part that differs from job to job replaced."""
    text = _VARIABLE_PARTS.sub(lambda match: _PLACEHOLDERS[str(match.lastgroup)], message[:500])
    return " ".join(text.split())


def _own_frame(tb: TracebackType | None) -> str:
    """``file:function`` of the innermost frame outside site-packages, the standard library and this package."""
    found = ""
    while tb is not None:
        code = tb.tb_frame.f_code
        if _is_own_code(code.co_filename):
            found = f"{os.path.basename(code.co_filename)}:{code.co_qualname}"
        tb = tb.tb_next
    return found


@functools.lru_cache(maxsize=1024)
def _is_own_code(filename: str) -> bool:
    if filename.startswith("<") or "site-packages" in filename or "dist-packages" in filename:
        return False
    path = os.path.realpath(filename)
    return not path.startswith(_FOREIGN) and not path.startswith(_OWN_PACKAGE)
