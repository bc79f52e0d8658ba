"""An exception as storable text. Nothing here raises, whatever the exception's own methods do."""

from __future__ import annotations

import functools
import os
import sysconfig
import traceback
from dataclasses import dataclass
from types import TracebackType

from .text import safe_middle, safe_text

__all__ = ["DETAILS_LIMIT", "TYPE_LIMIT", "ErrorInfo", "describe"]

MESSAGE_LIMIT = 2_000
DETAILS_LIMIT = 16_000
TYPE_LIMIT = 255


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
    return ErrorInfo(name, message, safe_middle(details, DETAILS_LIMIT), safe_text(_own_frame(_traceback(exc)), 500))


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


_FOREIGN = tuple(
    {os.path.realpath(path) + os.sep for key, path in sysconfig.get_paths().items() if key in ("stdlib", "platstdlib")}
)
_OWN_PACKAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir)) + os.sep


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
