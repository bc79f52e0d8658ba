"""Whatever Hypothesis makes of the payload types: it comes back the same, or it is refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chokaq_django.job.codec import PayloadCodec, decode, encode
from chokaq_django.job.definition import JobType
from chokaq_django.job.failures import PayloadError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Leaf:
    text: str
    number: int
    share: float
    flag: bool
    amount: Decimal
    uid: UUID
    at: dt.datetime
    day: dt.date
    hour: dt.time
    wait: dt.timedelta
    colour: Colour
    blob: bytes


@dataclass(frozen=True)
class Record:
    leaf: Leaf
    leaves: list[Leaf]
    by_name: dict[str, Leaf]
    by_number: dict[int, Decimal]
    by_day: dict[dt.date, set[UUID]]
    by_uid: dict[UUID, float]
    pair: tuple[int, str | None]
    many: tuple[dt.timedelta, ...]
    tags: frozenset[str]
    maybe: Leaf | None
    choice: int | str | list[bytes] | None
    free: Any


@dataclass(frozen=True)
class Plain:
    text: str | None
    number: int
    share: float | None
    flag: bool


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTS = st.integers(-(2**200), 2**200)
OFFSETS = st.timezones() | st.integers(-1439, 1439).map(lambda m: dt.timezone(dt.timedelta(minutes=m))) | st.none()


def _storable_time(value: dt.datetime) -> bool:
    offset = value.utcoffset()
    return (not value.fold) if offset is None else not offset % dt.timedelta(minutes=1)


LEAVES = st.builds(
    Leaf,
    text=TEXT,
    number=INTS,
    share=FLOATS,
    flag=st.booleans(),
    amount=st.decimals(allow_nan=False, allow_infinity=False),
    uid=st.uuids(),
    at=st.datetimes(timezones=OFFSETS).filter(_storable_time),
    day=st.dates(),
    hour=st.times().map(lambda value: value.replace(fold=0)),
    wait=st.timedeltas(),
    colour=st.sampled_from(Colour),
    blob=st.binary(),
)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.builds(
    Record,
    leaf=LEAVES,
    leaves=st.lists(LEAVES, max_size=2),
    by_name=st.dictionaries(TEXT, LEAVES, max_size=2),
    by_number=st.dictionaries(INTS, st.decimals(allow_nan=False, allow_infinity=False), max_size=3),
    by_day=st.dictionaries(st.dates(), st.sets(st.uuids(), max_size=3), max_size=2),
    by_uid=st.dictionaries(st.uuids(), FLOATS, max_size=3),
    pair=st.tuples(INTS, TEXT | st.none()),
    many=st.lists(st.timedeltas(), max_size=3).map(tuple),
    tags=st.frozensets(TEXT, max_size=3),
    maybe=LEAVES | st.none(),
    choice=INTS | TEXT | st.lists(st.binary(), max_size=3) | st.none(),
    free=JSON,
)

KINDS = {cls: JobType(key="t", cls=cls, codec=PayloadCodec(cls)) for cls in (Record, Plain)}


def same(left: Any, right: Any) -> bool:
    """Equality that also compares types, all the way down, and aware times by instant and offset."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dt.datetime) and left.tzinfo is not None:
        naive = left.replace(tzinfo=None, fold=0) == right.replace(tzinfo=None, fold=0)
        return bool(naive and left.utcoffset() == right.utcoffset())
    if isinstance(left, (Record, Leaf, Plain)):
        return all(same(getattr(left, name), getattr(right, name)) for name in left.__dataclass_fields__)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return bool(left.keys() == right.keys() and all(same(left[key], right[key]) for key in left))
    if isinstance(left, Decimal):
        return bool(left.as_tuple() == right.as_tuple())
    return bool(left == right)


@given(RECORDS)
def test_records_come_back(record: Record) -> None:
    kind = KINDS[Record]
    text = encode(kind, record)
    assert same(decode(kind, text, 1), record)
    spaced = json.dumps(json.loads(text), indent=1)  # another layout of the same data takes the slower way
    assert same(decode(kind, spaced, 1), record)


@given(st.builds(Plain, text=TEXT | st.none(), number=INTS, share=FLOATS | st.none(), flag=st.booleans()))
def test_plain_records_come_back(record: Plain) -> None:
    kind = KINDS[Plain]
    assert same(decode(kind, encode(kind, record), 1), record)


ANYTHING = st.one_of(
    st.text(st.characters()),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(),
    st.decimals(),
    st.datetimes(timezones=OFFSETS),
    st.times(timezones=OFFSETS),
    st.sampled_from(Colour),
    st.lists(st.integers() | st.floats()),
    st.tuples(st.integers()),
    st.sets(st.text(st.characters())),
    st.dictionaries(st.integers() | st.text(st.characters()), st.floats()),
    st.complex_numbers(),
)


@given(*[ANYTHING] * 4)
def test_anything_in_a_plain_record_comes_back_or_is_refused(a: Any, b: Any, c: Any, d: Any) -> None:
    _comes_back_or_is_refused(KINDS[Plain], Plain(a, b, c, d))


@given(LEAVES, ANYTHING, ANYTHING, ANYTHING)
def test_anything_in_a_record_comes_back_or_is_refused(leaf: Leaf, a: Any, b: Any, c: Any) -> None:
    record = Record(leaf, [], {}, {}, {}, {}, (1, a), (), frozenset(), None, b, c)
    _comes_back_or_is_refused(KINDS[Record], record)


def _comes_back_or_is_refused(kind: JobType, record: Any) -> None:
    try:
        text = encode(kind, record)
    except PayloadError as error:
        str(error).encode()
        return
    assert "\\u0000" not in text.replace("\\\\", "")
    back = decode(kind, text, 1)
    share: Any = getattr(record, "share", None)
    if type(share) is int:  # a float field takes an int that a float holds
        assert type(back.share) is float
        record = dataclasses.replace(record, share=float(share))
    assert same(back, record)


@given(st.text(st.characters()) | JSON.map(json.dumps))
def test_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match=r"^\$"):  # a record of 12 required fields cannot come out of it
        decode(KINDS[Record], text, 1)
