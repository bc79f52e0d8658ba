"""What failures that an operator would call the same have in common."""

from __future__ import annotations

import hashlib
import re

from .error_info import ErrorInfo, describe
from .failures import FailureReason

__all__ = ["fingerprint", "normalise_message"]

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
