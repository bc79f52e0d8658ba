"""The envelope of a job: everything around the payload that a caller may set, checked before it reaches a table.

Each function returns the value in the form the tables keep, or raises ``EnvelopeError``. Names and keys are trimmed,
because engines differ in whether trailing blanks count; a blank key is no key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TypeVar

from ..sentence import Sentence, shown
from .durations import LONGEST_DELAY, to_seconds
from .text import UNSTORABLE

__all__ = [
    "EnvelopeError",
    "bounded",
    "clean_created_by",
    "clean_delay",
    "clean_headers",
    "clean_key",
    "clean_priority",
    "clean_queue",
    "clean_tags",
    "clean_time",
    "clean_type",
]

NAME_LIMIT = 255
KEY_LIMIT = 255
PERSON_LIMIT = 100
TAG_LIMIT = 100
TAG_COUNT = 50
TAGS_READ = 1_000
"""Items that are looked at: a generator may have no end."""
HEADERS_LIMIT = 8_000
PRIORITY_LIMIT = 1_000_000

T = TypeVar("T")

_TYPE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]*")
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


class EnvelopeError(ValueError):
    """A value around the payload that cannot be accepted. ``field`` is the argument's name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field} {self.message}"


def bounded(field: str, values: Iterable[T], most: int, refusal: str | None = None) -> list[T]:
    """``values``, of which no more than ``most`` are taken: a generator may have no end. ``refusal``: what is said of
    more than that."""
    found = list(islice(values, most + 1))
    if len(found) > most:
        raise EnvelopeError(field, refusal or _too_many(most))
    return found


def _too_many(most: int) -> Sentence:
    return Sentence("must be at most %(most)s, got more", most=f"{most:,}")


def _text(field: str, value: object, limit: int) -> str:
    if not isinstance(value, str):
        raise EnvelopeError(field, Sentence("must be a string, got %(name)s", name=type(value).__name__))
    text = str(value).strip()
    if len(text) > limit:
        raise EnvelopeError(
            field, Sentence("must be at most %(limit)s characters, got %(text)s", limit=limit, text=len(text))
        )
    bad = UNSTORABLE.search(text)
    if bad:
        raise EnvelopeError(
            field, Sentence("must not contain NUL or lone surrogates, got U+%(group)s", group=f"{ord(bad.group()):04X}")
        )
    return text


def clean_queue(value: object) -> str:
    """A queue name: letters, digits and ``_ . : -``, not starting with a sign; at most 255 characters."""
    name = _text("queue", value, NAME_LIMIT)
    if not _QUEUE_NAME.fullmatch(name):
        raise EnvelopeError(
            "queue",
            Sentence(
                "must be letters, digits, '_', '.', ':' or '-', starting with a letter or digit, got %(name)s",
                name=repr(name),
            ),
        )
    return name


def clean_type(value: object) -> str:
    """A type key such as ``email.send.v1``: like a queue name, with ``/`` and ``+`` allowed too."""
    key = _text("type", value, NAME_LIMIT)
    if not _TYPE_KEY.fullmatch(key):
        raise EnvelopeError(
            "type",
            Sentence(
                "must be letters, digits, '_', '.', ':', '/', '+' or '-', starting with a letter or digit, got %(key)s",
                key=repr(key),
            ),
        )
    return key


def clean_priority(value: object) -> int:
    """A priority: an integer from -1,000,000 to 1,000,000; higher runs first."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise EnvelopeError("priority", Sentence("must be an integer, got %(value)s", value=shown(value)))
    if abs(value) > PRIORITY_LIMIT:
        raise EnvelopeError(
            "priority",
            Sentence(
                "must be from -%(priority_limit)s to %(priority_limit)s, got %(value)s",
                priority_limit=PRIORITY_LIMIT,
                value=shown(value),
            ),
        )
    return int(value)


def clean_key(value: object, field: str = "idempotency_key") -> str | None:
    """A key, trimmed; None and blank are no key. At most 255 characters."""
    return None if value is None else _text(field, value, KEY_LIMIT) or None


def clean_created_by(value: object) -> str | None:
    """Who enqueued it, trimmed; None and blank are nobody. At most 100 characters."""
    return None if value is None else _text("created_by", value, PERSON_LIMIT) or None


def clean_tags(value: object) -> str:
    """Tags as the JSON text of a list. At most 50 of at most 100 characters; trimmed, blanks and repeats dropped."""
    if value is None:
        return "[]"
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise EnvelopeError("tags", Sentence("must be a list of strings, got %(value)s", value=shown(value)))
    # Blanks and repeats do not count, but they must not go on for ever either.
    given = bounded("tags", value, TAGS_READ, _too_many(TAG_COUNT))
    each = dict.fromkeys(_text("tags", item, TAG_LIMIT) for item in given)
    tags = bounded("tags", filter(None, each), TAG_COUNT)
    return json.dumps(tags, ensure_ascii=False, separators=(",", ":")) if tags else "[]"


def clean_headers(value: object) -> str:
    """Headers as the JSON text of an object of strings; at most 8,000 characters of it."""
    if value is None:
        return "{}"
    if not isinstance(value, Mapping):
        raise EnvelopeError("headers", Sentence("must be a dict of strings, got %(name)s", name=type(value).__name__))
    headers: dict[str, str] = {}
    for name, content in value.items():
        key = _text("headers", name, KEY_LIMIT)
        if not key:
            raise EnvelopeError("headers", Sentence("must not have a blank name"))
        headers[key] = _text(f"headers[{key!r}]", content, HEADERS_LIMIT)
    text = json.dumps(headers, ensure_ascii=False, separators=(",", ":")) if headers else "{}"
    if len(text) > HEADERS_LIMIT:
        raise EnvelopeError(
            "headers",
            Sentence(
                "must be at most %(headers_limit)s characters of JSON, got %(text)s",
                headers_limit=HEADERS_LIMIT,
                text=len(text),
            ),
        )
    return text


def clean_time(value: object, field: str) -> datetime | None:
    """An aware point in time, in UTC (``run_at``, ``deadline``); None stays None."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise EnvelopeError(field, Sentence("must be an aware datetime, got %(value)s", value=shown(value)))
    if value.utcoffset() is None:
        raise EnvelopeError(
            field,
            Sentence(
                "must be an aware datetime, got a naive one (%(value)s); use django.utils.timezone", value=str(value)
            ),
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise EnvelopeError(
            field, Sentence("must be within the years 1 to 9999 in UTC, got %(value)s", value=str(value))
        ) from None


def clean_delay(value: object, field: str) -> timedelta | None:
    """A span from now (``delay``, ``deadline_after``) of 0 or more, at most 100 years; None stays None."""
    if value is None:
        return None
    try:
        seconds = to_seconds(value, zero=True)
    except (TypeError, ValueError) as error:
        raise EnvelopeError(field, str(error)) from None
    if seconds > LONGEST_DELAY:
        raise EnvelopeError(field, Sentence("must be at most 100 years, got %(value)s", value=shown(value)))
    return timedelta(seconds=seconds)
