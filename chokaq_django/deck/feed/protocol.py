"""What a browser may say, and from where: the words of the socket, their limits, its origin."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port

from ...conf import get_options
from ...control.acts import clean_id
from ...job.text import UNSTORABLE
from .access import Access

__all__ = [
    "BAD_MESSAGE", "MOST_TOPICS", "NOT_KEEPING_UP", "TOO_LONG", "TOO_MANY", "Budget", "ProtocolError", "Refusal",
    "clean_name", "clean_topics", "from_own_origin", "hello", "parse",
]  # fmt: skip

SCHEMA = 1
BAD_MESSAGE, NOT_KEEPING_UP, TOO_LONG, TOO_MANY = 4400, 4408, 4413, 4429
"""Close codes."""
MOST_TOPICS = 20
LONGEST_MESSAGE = 16_384
LONGEST_TOPIC = 300
RATE, BURST = 10.0, 30.0
"""Messages a second that a client may send, and at once."""


class ProtocolError(Exception):
    """The client does not speak our language: the socket is closed with ``code``."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """One message is refused; the socket stays open. ``code`` is stable, the text is for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def hello(access: Access, mode: str, at: float) -> dict[str, Any]:
    """The first message: who one is taken for, and what to expect. ``mode`` is live or poll."""
    return {
        "type": "hello",
        "schema": SCHEMA,
        "mode": mode,
        "tick": get_options().deck.tick,
        "at": at,
        "permissions": sorted(access.permissions),
        "masked": access.is_masked,
    }


@dataclass(slots=True)
class Budget:
    """Messages that a client may still send: it fills by RATE a second up to BURST."""

    left: float = BURST
    at: float = 0.0

    def spend(self) -> None:
        """One message; ``ProtocolError`` when there is none left."""
        now = time.monotonic()
        self.left = min(BURST, self.left + (now - self.at) * RATE) - 1
        self.at = now
        if self.left < 0:
            raise ProtocolError(TOO_MANY)


def parse(text: str | None) -> dict[str, Any]:
    """The JSON object of a frame; ``ProtocolError`` for anything else."""
    if text is None:
        raise ProtocolError(BAD_MESSAGE)
    if len(text) > LONGEST_MESSAGE:
        raise ProtocolError(TOO_LONG)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError(BAD_MESSAGE) from None
    if not isinstance(value, dict):
        raise ProtocolError(BAD_MESSAGE)
    return value


def clean_topics(value: object) -> list[str]:
    """The topics of a message or a query, each once; ``Refusal`` for one that there cannot be."""
    if not isinstance(value, list) or not all(isinstance(topic, str) for topic in value):
        raise Refusal("bad_message", "topics must be a list of texts")
    if len(value) > MOST_TOPICS:
        raise Refusal("too_many_topics", f"at most {MOST_TOPICS} topics")
    return list(dict.fromkeys(_clean_topic(topic) for topic in value))


def _clean_topic(topic: str) -> str:
    kind, colon, name = topic.partition(":")
    if len(topic) <= LONGEST_TOPIC:
        if kind in ("overview", "failures", "bulk") and not colon:
            return topic
        if kind in ("job", "bulk") and name and clean_id(name) == name:
            return topic
        if kind == "queue" and name and clean_name(name):
            return topic
    raise Refusal("bad_topic", f"there is no topic {topic[:80]!r}")


def clean_name(name: str) -> str:
    """The name of a queue or a type to look for; ``Refusal`` for one that no database holds. Rows may hold other names
    than are given here."""
    if UNSTORABLE.search(name):
        raise Refusal("bad_topic", "a name holds no such letters")
    return name


def from_own_origin(scope: Mapping[str, Any]) -> bool:
    """Whether a page of this site opens the socket: browsers send cookies along whoever asks, and say where the page is
    from. Trusted are the host that the request is for, and CSRF_TRUSTED_ORIGINS."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin", "")
    try:
        parts = urlsplit(origin)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not name or parts.scheme not in (("https",) if _is_secure(scope, headers) else ("http", "https")):
        return False
    forwarded = headers.get(b"x-forwarded-host", "") if settings.USE_X_FORWARDED_HOST else ""
    host, host_port = split_domain_port((forwarded or headers.get(b"host", "")).strip())
    usual = 443 if parts.scheme == "https" else 80
    same = host.strip("[]") == name.lower() and int(host_port or usual) == (port or usual)
    return same or _is_trusted(origin, parts.scheme, parts.netloc)


def _is_secure(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> bool:
    """Whether the browser came by TLS, as far as it is known: a proxy that ends it says so."""
    if scope.get("scheme") == "wss":
        return True
    if not settings.SECURE_PROXY_SSL_HEADER:
        return False
    name, value = settings.SECURE_PROXY_SSL_HEADER
    header = name.removeprefix("HTTP_").replace("_", "-").lower().encode()
    return headers.get(header, "").split(",")[0].strip() == value


def _is_trusted(origin: str, scheme: str, netloc: str) -> bool:
    for trusted in settings.CSRF_TRUSTED_ORIGINS:
        start, _, domain = trusted.partition("://*.")
        if trusted == origin or (domain and start == scheme and netloc.endswith(f".{domain}")):
            return True
    return False
