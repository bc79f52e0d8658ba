"""Jobs with fields of every kind, for what shows and edits payloads. Their worker writes down what it got."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

from msgspec import Meta

from chokaq_django import Job, JobContext
from chokaq_django.job.schema import migrates

from .ledger import note


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Line:
    sku: str
    count: int = 1


@dataclass(frozen=True)
class Node:
    """It may hold itself."""

    name: str
    below: Node | None = None


class Extra(TypedDict):
    must: int
    may: NotRequired[str]


class EveryJob(Job, type="test.every", aliases=["test.every.old"]):
    """One field of every kind."""

    number: int
    price: Decimal = Decimal("1.10")
    name: str = ""
    ratio: float = 0.5
    express: bool = False
    nothing: None = None
    data: bytes = b""
    key: UUID = UUID(int=0)
    day: dt.date = dt.date(2026, 1, 31)
    at: dt.datetime = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    clock: dt.time = dt.time(23, 59)
    span: dt.timedelta = dt.timedelta(minutes=5)
    colour: Colour = Colour.RED
    size: Literal["S", "M", 3] = "S"
    lines: list[Line] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    pair: tuple[int, str] = (1, "one")
    who: str | None = None
    either: int | str = 1
    counts: dict[str, int] = field(default_factory=dict)
    anything: Any = None
    main: Line | None = None
    node: Node | None = None
    extra: Extra = field(default_factory=lambda: Extra(must=1))

    def run(self, ctx: JobContext) -> None:
        note("ran", job=ctx.id, name=self.name, attempt=ctx.attempt, number=self.number, price=str(self.price))


class LiftedJob(Job, type="test.lifted", schema_version=2):
    """Version 1 had one name."""

    first: str
    last: str

    def run(self, ctx: JobContext) -> None:
        note("ran", job=ctx.id, name=f"{self.first} {self.last}", attempt=ctx.attempt)


@migrates(LiftedJob, from_version=1)
def _split_name(payload: dict[str, Any]) -> dict[str, Any]:
    first, _, last = payload["name"].partition(" ")
    return {"first": first, "last": last}


class SecretiveJob(Job, type="test.secretive"):
    """A field that is masked."""

    token: Colour
    password: str = ""
    user: str = ""

    def run(self, ctx: JobContext) -> None:
        note("ran", job=ctx.id, name=self.user, attempt=ctx.attempt, password=self.password)


class SyncJob(Job, type="test.sync"):
    """An order that a partner is told of."""

    order: int
    amount: Decimal
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"

    def run(self, ctx: JobContext) -> None:
        note("ran", job=ctx.id, name=str(self.order), attempt=ctx.attempt, amount=str(self.amount))
