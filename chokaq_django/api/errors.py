"""What the API says when it refuses: one form of document, and the status that fits."""

from __future__ import annotations

import logging
import re
from typing import Any, TypedDict

import msgspec
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import Error as DatabaseError
from django.http import HttpResponse, UnreadablePostError

from ..control import BulkRefusedError
from ..job.envelope import EnvelopeError
from ..job.failures import PayloadError
from ..job.text import safe_text
from ..observability.harmless import one_line
from .encoding import encoded

__all__ = ["ApiError", "ErrorDocument", "answer_to", "error_response"]

logger = logging.getLogger("chokaq.api")

_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?:key in )?(?P<path>\$[^`]*)`)?$", re.DOTALL)


class Problem(TypedDict):
    """`code` is stable; `message` is for people; `path`: which value is meant, such as `ids` or `where.since`; null
    when it is none in particular."""

    code: str
    message: str
    path: str | None


class ErrorDocument(TypedDict):
    """What every refusal answers."""

    error: Problem


class ApiError(Exception):
    """A refusal with its status."""

    def __init__(self, status: int, code: str, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.path = status, code, message, path


def answer_to(error: Exception) -> ApiError | None:
    """What the caller is told; None for an error that is ours."""
    match error:
        case ApiError():
            return error
        case PermissionDenied():
            return ApiError(403, "forbidden", str(error) or "This needs a permission that the user does not have.")
        case EnvelopeError():
            return ApiError(400, "invalid", error.message, error.field)
        case msgspec.ValidationError():
            return _invalid(str(error))
        case msgspec.DecodeError():
            return ApiError(400, "not_json", f"The body is no JSON: {error}.")
        case PayloadError():
            return ApiError(400, "payload", str(error), "payload")
        case BulkRefusedError():
            return ApiError(409, "refused", str(error))
        case RequestDataTooBig():
            return ApiError(413, "too_large", "The body is larger than DATA_UPLOAD_MAX_MEMORY_SIZE allows.")
        case UnreadablePostError():
            return ApiError(400, "unreadable", "The body ended early.")
        case DatabaseError():
            logger.error("The job database does not answer: %s", one_line(error), exc_info=error)
            return ApiError(503, "database", "The job database does not answer.")
    return None


def _invalid(text: str) -> ApiError:
    found = _PATH.match(text)
    message, path = (found["message"], found["path"]) if found else (text, None)
    named = re.search(r"`([^`]*)`", message) if "field" in message else None  # missing or unknown: it is in the text
    inner = (path or "$").removeprefix("$").removeprefix(".")
    if named and ("missing" in message or "unknown" in message):
        inner = ".".join(part for part in (inner, named[1]) if part)
    return ApiError(400, "invalid", message, inner or None)


def error_response(error: ApiError, **headers: str) -> HttpResponse:
    document: ErrorDocument = {
        "error": {"code": error.code, "message": safe_text(error.message, 2_000), "path": error.path}
    }
    return _response(document, error.status, headers)


def _response(document: Any, status: int, headers: dict[str, str]) -> HttpResponse:
    return HttpResponse(encoded(document), content_type="application/json", status=status, headers=headers)
