"""Every page, form and endpoint with values that nobody would send: it may be refused, and is never an error of ours.

Addresses come from the project's URLs, names of parameters from what the pages look for; a run can be repeated.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
from django.db import connection, transaction
from django.http import QueryDict
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from chokaq_django.api.routes import ENDPOINTS
from chokaq_django.deck.page import deck_url
from chokaq_django.deck.pages import PAGES
from tests import factories as make
from tests.api.client import API, Program
from tests.deck.conftest import ALL

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        connection.vendor not in ("postgresql", "microsoft"),
        reason="where a server refuses most: what is refused before it is refused on every engine",
    ),
]

SEED, PAGES_SENT, FORMS_SENT, BODIES_SENT = 20_261, 150, 150, 2
"""More of each finds more, and takes longer."""
ODD = [
    "%00", "a%00b", "%ED%A0%80", "%C0%AF", "%FF", "%F0%9F%8E%89", "", "%20", "%0A", "%25", "..", "x" * 300, "9" * 30,
    "9" * 400, "-1", "0", "1e400", "NaN", "true", "null", "[]", "{}", "%5B%22a%22%5D", "2026-13-45", "0001-01-01",
    "9999-12-31T23:59:59-12:00", "99999999d", "-5d", "2026-03-29T02:30", "%27%3B--", "%3Cscript%3E", "infinity", "~",
    "2026-01-01T00%3A00%3A00%2B00%3A00~01AAAAAAAAAAAAAAAAAAAAAAAA", "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "%EF%BF%BF", "%7F",
    "0x10", "1_0", "%D9%A1%D9%A2", "%C2%B2", "dead", "Expired", "count", "mail", "RETENTION.ARCHIVE", "10%20d",
]  # fmt: skip
"""As they stand in an address."""
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, -(2**70), 10**400, 1.5, 1e308, "", " ", "\x00", "a\x00b", "\ud800", "x" * 70_000,
    "2026-13-45", "9" * 30, [], [[]], ["\x00"], {}, {"\x00": "\x00"}, {"a": {"b": [None]}}, [None] * 1_001, "null", "{",
    "[" * 2_000, "22:00-06:00 Mars/Olympus", "mail", "dead", "RETENTION.TRASH",
]  # fmt: skip


FORM = "application/x-www-form-urlencoded"


class Names:
    """The parameters that pages look for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: set[str] = {"q", "p", "o", "all", "e"}
        for method in ("get", "getlist", "__getitem__", "__contains__"):
            monkeypatch.setattr(QueryDict, method, self._noting(getattr(QueryDict, method)))

    def _noting(self, real: Any) -> Any:
        def noting(query: QueryDict, name: Any, *args: Any, **named: Any) -> Any:
            if isinstance(name, str) and len(name) < 40 and name.isprintable():
                self.seen.add(name)
            return real(query, name, *args, **named)

        return noting


def addresses(patterns: Any, before: str = "/") -> Iterator[str]:
    """All of Chokaq's, with ``{}`` for what they capture."""
    for entry in patterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from addresses(entry.url_patterns, route)
        elif isinstance(entry, URLPattern) and "chokaq" in route and "^" not in route:
            yield "{}".join(part.rpartition(">")[2] if n else part for n, part in enumerate(route.split("<")))


@pytest.fixture
def deck(db: None) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(make.operator(*ALL, username="grace"))
    return client


@pytest.fixture
def rows(db: None) -> list[str]:
    """Keys of something of each kind."""
    make.queue("mail")
    make.worker("w-1")
    make.circuit("test.note")
    keys = [make.hot().pk, make.running().pk, make.archived().pk, make.dead(fingerprint="ab" * 16).pk, make.purged().pk]
    return [*keys, make.audit_entry().pk, "mail", "w-1", "ab" * 16]


class Sender:
    """Sends, each time in a transaction that is undone."""

    def __init__(self, client: Client, **extra: Any) -> None:
        self.client, self.extra, self.sent, self.bad = client, extra, 0, list[str]()

    def send(self, method: str, address: str, body: bytes | None = None, kind: str = "application/json") -> None:
        with transaction.atomic():
            sent = {} if body is None else {"data": body, "content_type": kind}
            response = getattr(self.client, method)(address, **sent, **self.extra)
            if response.status_code >= 500:
                self.bad.append(f"{response.status_code} {method} {address[:300]} {(body or b'')[:300]!r}")
            if response.streaming:
                list(response.streaming_content)
            transaction.set_rollback(True)
        self.sent += 1


def test_pages(deck: Client, rows: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dice, names, sender = random.Random(SEED), Names(monkeypatch), Sender(deck)
    places = sorted(set(addresses(get_resolver().url_patterns)) - {API})
    places = [place for place in places if not place.startswith(API)]
    assert len(places) > 40
    for place in places:
        sender.send("get", place.replace("{}", quote(dice.choice(rows))))
    assert len(names.seen) > 30
    for _ in range(PAGES_SENT):
        place = dice.choice(places)
        address = place.replace("{}", dice.choice([*map(quote, rows), *ODD]))
        query = [f"{dice.choice(sorted(names.seen))}={dice.choice([*ODD, *rows])}" for _ in range(dice.randrange(6))]
        sender.send("get", f"{address}?{'&'.join([*query, *query[:1]])}")
    assert sender.bad == []


def test_forms(deck: Client, rows: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dice, names, sender = random.Random(SEED), Names(monkeypatch), Sender(deck)
    acts = [
        (deck_url("admin", page.name, *["{}"] * page.route.count("<")), name.removeprefix("act_"))
        for page in PAGES for name in dir(page) if name.startswith("act_")
    ]  # fmt: skip
    acts = [(unquote(place), act) for place, act in acts]
    assert len(acts) > 20
    for place, act in acts:
        for row in ("mail", rows[3]):
            sender.send("post", place.replace("{}", row), f"act={act}".encode(), FORM)
    others = [place for place in addresses(get_resolver().url_patterns) if not place.startswith(API)]
    for _ in range(FORMS_SENT):
        place, act = dice.choice([*acts, (dice.choice(others), "")])
        place = place.replace("{}", dice.choice([*map(quote, rows), *ODD]))
        fields = [f"{dice.choice(sorted(names.seen))}={dice.choice([*ODD, *rows])}" for _ in range(dice.randrange(8))]
        sender.send("post", place, "&".join([f"act={act}", *fields, *fields[:1]]).encode(), FORM)
    assert sender.bad == []


def test_endpoints(rows: list[str]) -> None:
    dice = random.Random(SEED)
    token = Program(make.operator(*ALL, username="program")).token
    sender = Sender(Client(raise_request_exception=False), headers={"Authorization": f"Bearer {token}"})
    for endpoint in ENDPOINTS:
        for _ in range(BODIES_SENT):
            keys = [*map(quote, rows), *ODD]
            path = "/".join(dice.choice(keys) if part[:1] == "<" else part for part in endpoint.path.split("/"))
            asked = [field.encode_name for field in msgspec.structs.fields(endpoint.query)]
            query = "&".join(f"{name}={dice.choice([*ODD, *rows])}" for name in asked if dice.random() < 0.3)
            body = None if endpoint.body is None else _body(dice, endpoint.body, rows)
            sender.send(endpoint.method.lower(), f"{API}{path}?{query}", body)
    assert sender.bad == []


def _body(dice: random.Random, struct: type[msgspec.Struct], rows: list[str]) -> bytes:
    """A body of which each field is right, odd, or missing."""
    right = {
        "ids": rows[:5], "queue": "mail", "worker": "w-1", "type": "test.note", "name": "RETENTION.TRASH",
        "action": "purge",
    }  # fmt: skip
    body: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        if field.required or dice.random() < 0.4:
            odd = field.name not in right or dice.random() < 0.3
            body[field.encode_name] = dice.choice(VALUES) if odd else right[field.name]
    return json.dumps(body).encode()
