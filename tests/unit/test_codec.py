"""What goes into a payload comes out of it, and what would not is refused with its path."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.contrib.auth.models import User
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from chokaq_django.job.annotations import UnsupportedTypeError
from chokaq_django.job.codec import PayloadCodec, decode, encode, encode_result
from chokaq_django.job.definition import JobType
from chokaq_django.job.failures import PayloadError, PayloadTooLarge, SchemaVersionError
from chokaq_django.job.schema import migrates
from chokaq_django.job.shape import MAX_DEPTH


def job_type(cls: type[Any], **options: Any) -> JobType:
    return JobType(key="test.v1", cls=cls, codec=PayloadCodec(cls), **options)


def refusal(obj: Any) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        encode(job_type(type(obj)), obj)
    return caught.value


def come_back(obj: Any) -> Any:
    kind = job_type(type(obj))
    return decode(kind, encode(kind, obj), 1)


@dataclass(frozen=True)
class Flat:
    to: str
    count: int = 1
    share: float = 0.5
    flag: bool = False
    note: str | None = None


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    label: str = ""


class Extra(TypedDict):
    a: int
    b: NotRequired[str]


CustomerId = NewType("CustomerId", int)


@dataclass(frozen=True)
class Item:
    price: Decimal
    name: str = ""


@dataclass(frozen=True)
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    KIND: ClassVar[str] = "order"
    items: list[Item]
    by_name: dict[str, Item] = field(default_factory=dict)
    numbers: dict[int, str] = field(default_factory=dict)
    days: dict[dt.date, set[UUID]] = field(default_factory=dict)
    at: dt.datetime | None = None
    day: dt.date | None = None
    hour: dt.time | None = None
    wait: dt.timedelta | None = None
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    access: Access = Access.READ
    pair: tuple[int, str] = (0, "")
    many: tuple[int, ...] = ()
    tags: frozenset[str] = frozenset()
    point: Point = Point(0)  # noqa: RUF009 - a NamedTuple cannot change
    extra: Extra | None = None
    customer: CustomerId = CustomerId(1)
    size: Literal["s", "m"] = "s"
    blob: bytes = b""
    tree: Tree | None = None
    free: Any = None


FULL = Order(
    items=[Item(Decimal("1.10"), "é"), Item(Decimal("-0.00"))],
    by_name={"a b": Item(Decimal("1E+50"))},
    numbers={-3: "x", 2**80: "y"},
    days={dt.date(2026, 1, 2): {UUID(int=5)}},
    at=dt.datetime(2026, 3, 1, 12, 30, 15, 999999, tzinfo=dt.UTC),
    day=dt.date(1, 1, 1),
    hour=dt.time(23, 59, 59, 1),
    wait=dt.timedelta(days=-1, microseconds=1),
    colour=Colour.BLUE,
    level=Level.HIGH,
    access=Access.READ | Access.WRITE,
    pair=(5, "five"),
    many=(1, 2, 3),
    tags=frozenset({"a"}),
    point=Point(1, "p"),
    extra={"a": 1, "b": "x"},
    customer=CustomerId(7),
    size="m",
    blob=b"\x00\xff",
    tree=Tree(1, [Tree(2), Tree(3, [Tree(4)])]),
    free={"list": [1, 2.5, None, True, "x", {"deep": []}]},
)


def test_everything_promised_comes_back() -> None:
    assert come_back(FULL) == FULL


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**4000, -(10**4000)])
def test_integers_beyond_64_bits_come_back(number: int) -> None:
    assert come_back(Flat("x", number)).count == number
    assert come_back(Order([], free=number)).free == number


def test_integers_too_long_for_digits_are_refused() -> None:
    assert refusal(Flat("x", 10**5000)).path == "$.count"


def test_aware_times_keep_their_instant_across_a_clock_change() -> None:
    twice = dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    back = come_back(Order([], at=twice)).at
    assert back.astimezone(dt.UTC) == twice.astimezone(dt.UTC)
    assert back.utcoffset() == twice.utcoffset()


def test_naive_times_stay_naive() -> None:
    assert come_back(Order([], at=dt.datetime(2026, 1, 1))).at.tzinfo is None  # noqa: DTZ001


def test_text_is_stored_as_given() -> None:
    assert json.loads(encode(job_type(Flat), Flat("📮 \\u0000 é"))) == {
        "to": "📮 \\u0000 é",
        "count": 1,
        "share": 0.5,
        "flag": False,
        "note": None,
    }


def test_an_int_in_a_float_field_comes_back_as_an_equal_float() -> None:
    assert come_back(Flat("x", share=3)).share == 3.0
    assert "not exact" in refusal(Flat("x", share=2**53 + 1)).message
    # ... also when a small one of the same types was accepted before
    kind = job_type(Flat)
    encode(kind, Flat("x", share=3))
    with pytest.raises(PayloadError, match=r"\$\.share"):
        encode(kind, Flat("x", share=2**53 + 1))


BAD_TEXT = [("a\x00b", "NUL"), ("a\ud800", "U+D800"), ("\udfff", "U+DFFF")]


@pytest.mark.parametrize(("text", "word"), BAD_TEXT)
@pytest.mark.parametrize("warm", [False, True], ids=["first", "seen"])
def test_text_that_no_engine_stores(text: str, word: str, warm: bool) -> None:
    kind = job_type(Flat)
    if warm:
        encode(kind, Flat("x", note="y"))
    with pytest.raises(PayloadError) as caught:
        encode(kind, Flat("x", note=text))
    assert caught.value.path == "$.note"
    assert word in caught.value.message


@pytest.mark.parametrize(("text", "word"), BAD_TEXT)
def test_text_that_no_engine_stores_inside(text: str, word: str) -> None:
    for bad, path in [
        (Order([Item(Decimal(1)), Item(Decimal(1), text)]), "$.items[1].name"),
        (Order([], free=[{"a": text}]), '$.free[0]["a"]'),
        (Order([], by_name={text: Item(Decimal(1))}), None),
        (Order([], free={text: 1}), None),
        (Order([], tags=frozenset({text})), "$.tags[0]"),
    ]:
        error = refusal(bad)
        assert word in error.message
        assert path in (None, error.path)
        str(error).encode()  # the refusal itself can be shown


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("warm", [False, True], ids=["first", "seen"])
def test_numbers_that_json_lacks(number: float, warm: bool) -> None:
    kind = job_type(Flat)
    if warm:
        encode(kind, Flat("x"))
    with pytest.raises(PayloadError) as caught:
        encode(kind, Flat("x", share=number))
    assert caught.value.path == "$.share"
    assert refusal(Order([], free=[1, [number]])).path == "$.free[1][0]"
    assert refusal(Order([Item(Decimal(number))])).path == "$.items[0].price"


def test_signalling_nan_is_refused() -> None:
    assert refusal(Order([Item(Decimal("sNaN"))])).path == "$.items[0].price"


def with_bad(**values: Any) -> Order:
    return Order(**{"items": [], **values})


class Text(str):
    __slots__ = ()


@dataclass(frozen=True)
class SpecialItem(Item):
    colour: str = "red"


@dataclass(eq=False)
class Sloppy:
    value: int = dataclasses.field(compare=False)


@dataclass
class Lax:
    sloppy: Sloppy


# The same classes for arguments that a type checker would refuse.
BadFlat: Any = Flat
BadItem: Any = Item
BadSpecialItem: Any = SpecialItem
BadPoint: Any = Point
BadTree: Any = Tree
BadSloppy: Any = Sloppy
BadLax: Any = Lax


@pytest.mark.parametrize(
    ("obj", "path", "word"),
    [
        (BadFlat(5), "$.to", "expected str, got int"),
        (BadFlat("x", "1"), "$.count", "expected int, got str"),
        (BadFlat("x", True), "$.count", "expected int, got bool"),
        (BadFlat("x", 1.0), "$.count", "expected int, got float"),
        (BadFlat("x", flag=1), "$.flag", "expected bool, got int"),
        (BadFlat("x", note=5), "$.note", "got int"),
        (BadFlat("x", share="1"), "$.share", "expected float, got str"),
        (BadFlat("x", share=True), "$.share", "expected float, got bool"),
        (BadFlat(mark_safe("x")), "$.to", "str(...)"),
        (BadFlat(gettext_lazy("x")), "$.to", "str(...)"),
        (BadFlat(Text("x")), "$.to", "str(...)"),
        (BadFlat(User(username="ada")), "$.to", "primary key"),
        (BadFlat("x", Level.LOW), "$.count", ".value"),
        (with_bad(items=(BadItem(Decimal(1)),)), "$.items", "got tuple"),
        (
            with_bad(items=[BadItem(Decimal(1))] * 3 + [BadItem("3.50")]),
            "$.items[3].price",
            "expected Decimal, got str",
        ),
        (with_bad(items=[BadItem(0.5)]), "$.items[0].price", "expected Decimal, got float"),
        (with_bad(items=[BadItem(5)]), "$.items[0].price", "expected Decimal, got int"),
        (with_bad(items=[BadSpecialItem(Decimal(1))]), "$.items[0]", "SpecialItem"),
        (with_bad(by_name={"a b": BadItem(1)}), '$.by_name["a b"].price', "Decimal"),
        (with_bad(numbers={"1": "x"}), '$.numbers["1"]', "key: expected int, got str"),
        (with_bad(numbers={True: "x"}), '$.numbers["True"]', "key: expected int, got bool"),
        (with_bad(at=dt.date(2026, 1, 1)), "$.at", "date"),
        (with_bad(day=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), "$.day", "datetime"),
        (with_bad(at="2026-01-01T00:00:00"), "$.at", "str"),
        (with_bad(at=dt.datetime(2026, 1, 1, fold=1)), "$.at", "fold"),  # noqa: DTZ001
        (with_bad(at=dt.datetime(1850, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))), "$.at", "whole minutes"),
        (with_bad(hour=dt.time(1, fold=1)), "$.hour", "fold"),
        (with_bad(hour=dt.time(1, tzinfo=ZoneInfo("Europe/Berlin"))), "$.hour", "offset"),
        (with_bad(wait=5), "$.wait", "timedelta"),
        (with_bad(colour="red"), "$.colour", "expected Colour, got str"),
        (with_bad(level=1), "$.level", "expected Level, got int"),
        (with_bad(pair=(1, 2)), "$.pair[1]", "expected str, got int"),
        (with_bad(pair=(1,)), "$.pair", "expected 2 items, got 1"),
        (with_bad(pair=[1, "x"]), "$.pair", "got list"),
        (with_bad(many=(1, "2")), "$.many[1]", "expected int, got str"),
        (with_bad(tags={"a"}), "$.tags", "got set"),
        (with_bad(point=BadPoint("1")), "$.point[0]", "expected int, got str"),
        (with_bad(point=(1, "")), "$.point", "expected Point, got tuple"),
        (with_bad(extra={"b": "x"}), "$.extra", "'a' is missing"),
        (with_bad(extra={"a": 1, "bb": "x"}), "$.extra.bb", "no such field"),
        (with_bad(extra={"a": "1"}), "$.extra.a", "expected int, got str"),
        (with_bad(size="l"), "$.size", "Literal"),
        (with_bad(blob=bytearray(b"x")), "$.blob", "bytearray"),
        (with_bad(tree=BadTree(1, [BadTree("2")])), "$.tree.children[0].value", "expected int, got str"),
        (with_bad(free=(1, 2)), "$.free", "would come back as a list"),
        (with_bad(free={1: "x"}), "$.free", "would come back as a string"),
        (with_bad(free=[{"a": {2}}]), '$.free[0]["a"]', "would come back as a list"),
        (with_bad(free=Decimal(1)), "$.free", "got Decimal"),
        (with_bad(free=dt.date(2026, 1, 1)), "$.free", "got date"),
        (with_bad(free=UUID(int=1)), "$.free", "got uuid.UUID"),
        (with_bad(free=b"x"), "$.free", "got bytes"),
        (with_bad(free=Level.LOW), "$.free", ".value"),
        (with_bad(free=BadItem(Decimal(1))), "$.free", "Item"),
        (with_bad(free=object()), "$.free", "got object"),
        (with_bad(free=1j), "$.free", "got complex"),
        (with_bad(free=User(username="ada")), "$.free", "primary key"),
        (with_bad(free=lambda: None), "$.free", "function"),
        (BadLax(BadSloppy("x")), "$.sloppy.value", "expected int, got str"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("$") else "",
)
def test_values_that_would_not_come_back(obj: Any, path: str, word: str) -> None:
    error = refusal(obj)
    assert (error.path, word in error.message) == (path, True), str(error)


def test_a_good_payload_does_not_excuse_the_next() -> None:
    kind = job_type(Flat)
    encode(kind, Flat("x"))
    with pytest.raises(PayloadError, match=r"\$\.count: expected int, got bool"):
        encode(kind, Flat("x", True))


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 5000])
def test_too_deep(levels: int) -> None:
    assert "levels deep" in refusal(Order([], free=nested(levels))).message


def test_deep_enough() -> None:
    value = Order([], free=nested(MAX_DEPTH - 5))
    assert come_back(value) == value


def test_too_deep_by_records() -> None:
    tree = Tree(0)
    for _ in range(MAX_DEPTH):
        tree = Tree(0, [tree])
    assert "levels deep" in refusal(tree).message


def test_a_value_within_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "within itself" in refusal(Order([], free=loop)).message


def test_too_large(settings: Any) -> None:
    settings.CHOKAQ = {"MAX_PAYLOAD_BYTES": 1000}
    kind = job_type(Flat)
    encode(kind, Flat("x" * 800))
    with pytest.raises(PayloadTooLarge, match=r"MAX_PAYLOAD_BYTES \(1,000\)") as caught:
        encode(kind, Flat("é" * 600))  # 600 characters, 1,200 bytes
    assert caught.value.limit == 1000
    assert caught.value.size > 1200


def test_an_object_of_another_class_is_refused() -> None:
    with pytest.raises(PayloadError, match="expected Flat"):
        encode(job_type(Flat), Item(Decimal(1)))


@dataclass
class Limited:
    percent: Annotated[int, msgspec.Meta(ge=0, le=100)]


def test_constraints_are_checked_at_enqueue() -> None:
    assert come_back(Limited(5)) == Limited(5)
    assert refusal(Limited(500)).path == "$.percent"


# --- decode --------------------------------------------------------------------------------------------------------


def unreadable(cls: type[Any], text: str) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        decode(job_type(cls), text, 1)
    return caught.value


ORDER = '{"items":[{"price":"1"},{"price":"2"},{"price":"3"},%s]}'


@pytest.mark.parametrize(
    ("cls", "text", "path", "word"),
    [
        (Order, ORDER % '{"price":true}', "$.items[3].price", "got `bool`"),
        (Order, ORDER % '{"price":"abc"}', "$.items[3].price", "decimal"),
        (Order, ORDER % '{"price":"1","pirce":2}', "$.items[3].pirce", "did you mean 'price'"),
        (Order, ORDER % "{}", "$.items[3].price", "the required field is missing"),
        (Order, '{"items":[],"by_name":{"b c":{}}}', '$.by_name["b c"].price', "the required field is missing"),
        (Order, '{"items":[],"by_name":{"a":{"price":"1"},"b c":{"price":[]}}}', '$.by_name["b c"].price', "array"),
        (Order, '{"items":[],"by_name":{"a":{"price":"1","x":1}}}', '$.by_name["a"].x', "no such field"),
        (Order, '{"items":[],"numbers":{"1":"x","y":"z"}}', '$.numbers["y"]', "key: "),
        (Order, '{"items":[],"tree":{"value":1,"children":[{"value":2,"up":1}]}}', "$.tree.children[0].up", "no such"),
        (Order, '{"items":[],"extra":{"a":1,"c":2}}', "$.extra.c", "no such field"),
        (Order, '{"items":[],"colour":"green"}', "$.colour", "green"),
        (Flat, '{"to":"x","count":"5"}', "$.count", "Expected `int`, got `str`"),
        (Flat, '{"to":"x","count":5.0}', "$.count", "Expected `int`, got `float`"),
        (Flat, '{"to":"x","share":null}', "$.share", "Expected `float`, got `null`"),
        (Flat, '{"to":"x","To":"y"}', "$.To", "did you mean 'to'"),
        (Flat, '{"to":"x","a b":"y"}', '$["a b"]', "no such field"),
        (Flat, "{}", "$.to", "the required field is missing"),
        (Flat, "[]", "$", "Expected `object`, got `array`"),
        (Flat, "null", "$", "Expected `object`, got `null`"),
        (Flat, "", "$", "not valid JSON"),
        (Flat, '{"to":"x"', "$", "not valid JSON"),
        (Flat, '{"to":"x"} y', "$", "not valid JSON"),
        (Flat, '{"to":NaN}', "$", "not valid JSON"),
        (Flat, '{"to":"\\ud800"}', "$", "not valid JSON"),
        (Flat, '{"to":"\ud800"}', "$", "not valid text"),
        (Order, '{"items":[],"free":' + "[" * 100_000, "$", "levels deep"),
        (Order, '{"items":[],"by_name":{"a":{"price":[]}},', "$.by_name[...].price", "array"),
        (Order, '{"items":[],"by_name":{"a":{"price":[]}},"by_name":{}}', "$.by_name[...].price", "array"),
        (Order, '{"items":[],"colour":"x - at `$.y`"}', "$.colour", "x - at"),
        (Flat, '{"to":"x","share":1e999}', "$.share", "out of range"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("$") else "",
)
def test_text_that_is_no_such_payload(cls: type[Any], text: str, path: str, word: str) -> None:
    error = unreadable(cls, text)
    assert (error.path, word in error.message) == (path, True), str(error)


def test_text_in_another_layout_is_read() -> None:
    assert decode(job_type(Flat), '{ "count": 2,\n "to": "x" }', 1) == Flat("x", 2)


@dataclass
class Picky:
    a: int

    def __post_init__(self) -> None:
        if self.a == 1:
            raise ValueError("one is not enough")
        if self.a == 2:
            raise KeyError("two")


def test_a_class_may_refuse_what_it_is_given() -> None:
    assert "one is not enough" in unreadable(Picky, '{"a":1}').message
    assert "Picky refuses it: KeyError" in unreadable(Picky, '{"a":2}').message


# --- classes that cannot be payloads -------------------------------------------------------------------------------


@dataclass
class WithModel:
    user: User


@dataclass
class WithMixedEnum:
    kind: Mixed


class Mixed(enum.Enum):
    A = 1
    B = "b"


@dataclass
class WithStruct:
    inner: Inner


class Inner(msgspec.Struct):
    a: int


@dataclass
class WithTupleKeys:
    a: dict[tuple[int, int], str]


@dataclass
class WithAmbiguity:
    a: dt.date | str


@dataclass
class WithComputed:
    a: int = field(init=False, default=1)


@dataclass
class WithInitOnly:
    a: dataclasses.InitVar[int]


@dataclass
class WithUnresolved:
    a: Nowhere  # type: ignore[name-defined]  # noqa: F821


@dataclass
class WithComplex:
    a: complex


@dataclass
class WithCallable:
    a: Any
    b: list[type]


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (WithModel, "WithModel.user: values of User .* primary key"),
        (WithMixedEnum, "WithMixedEnum.kind: the values of Mixed must be all strings or all integers"),
        (WithStruct, "WithStruct.inner: .*use a dataclass"),
        (WithTupleKeys, r"WithTupleKeys.a: tuple\[int, int\] cannot be the key"),
        (WithAmbiguity, "WithAmbiguity"),
        (WithComputed, "WithComputed.a: a field with init=False"),
        (WithInitOnly, "InitVar"),
        (WithUnresolved, "Nowhere.*import its name"),
        (WithComplex, "WithComplex.a: values of complex"),
        (WithCallable, "WithCallable.b: values of type"),
    ],
)
def test_classes_that_cannot_be_payloads(cls: type[Any], words: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=words):
        PayloadCodec(cls).compile()


# --- raw, results, schema versions ---------------------------------------------------------------------------------

RAW = JobType(key="legacy.a", cls=None, wants_raw=True)


def test_raw_text_is_kept_to_the_letter() -> None:
    assert encode(RAW, "any <text> ") == "any <text> "
    assert decode(RAW, "any <text> ", 7) == "any <text> "


@pytest.mark.parametrize("bad", ["a\x00", "\ud800", {"a": 1}, b"x", None])
def test_raw_text_that_cannot_be_stored(bad: Any) -> None:
    with pytest.raises(PayloadError):
        encode(RAW, bad)


def test_raw_text_too_large(settings: Any) -> None:
    settings.CHOKAQ = {"MAX_PAYLOAD_BYTES": 10}
    with pytest.raises(PayloadTooLarge):
        encode(RAW, "é" * 6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0, "0"),
        ({"a": (1, 2)}, '{"a":[1,2]}'),
        (Item(Decimal("1.5")), '{"price":"1.5","name":""}'),
        (dt.date(2026, 1, 1), '"2026-01-01"'),
        ("", '""'),
    ],
)
def test_results(value: Any, text: str | None) -> None:
    assert encode_result(value) == text


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "$"),
        ({"a": [1, float("inf")]}, '$["a"][1]'),
        (["a\x00"], "$[0]"),
        ({"\ud800": 1}, None),
        (Item(Decimal(1), "\x00"), "$.name"),
        (object(), "$"),
        (User(username="ada"), "$"),
        (nested(300), None),
    ],
)
def test_results_that_cannot_be_stored(value: Any, path: str | None) -> None:
    with pytest.raises(PayloadError) as caught:
        encode_result(value)
    assert path in (None, caught.value.path)


def test_results_too_large(settings: Any) -> None:
    settings.CHOKAQ = {"MAX_PAYLOAD_BYTES": 10}
    with pytest.raises(PayloadTooLarge):
        encode_result("x" * 20)


def test_old_payloads_are_lifted_step_by_step() -> None:
    @dataclass
    class Mail:
        to: list[str]
        subject: str

    @migrates(Mail, from_version=1)
    def _rename(payload: dict[str, Any]) -> dict[str, Any]:
        return {"to": payload["address"], "subject": "hello"}

    @migrates(Mail, from_version=2)
    def _many(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "to": [payload["to"]]}

    kind = job_type(Mail, schema_version=3)
    assert decode(kind, '{"address":"a"}', 1) == Mail(["a"], "hello")
    assert decode(kind, '{"to":"a","subject":"s"}', 2) == Mail(["a"], "s")
    assert decode(kind, '{"to":["a"],"subject":"s"}', 3) == Mail(["a"], "s")
    with pytest.raises(ValueError, match="already has a step from version 1"):
        migrates(Mail, from_version=1)(_many)
    with pytest.raises(SchemaVersionError, match="this code knows 3"):
        decode(kind, "{}", 4)
    with pytest.raises(SchemaVersionError, match="from schema version 3 to 4"):
        decode(job_type(Mail, schema_version=4), "{}", 1 + 2)
    with pytest.raises(SchemaVersionError, match=r"migration from schema version 1 raised KeyError: 'address'"):
        decode(kind, "{}", 1)
    with pytest.raises(SchemaVersionError, match="expected an object"):
        decode(kind, "[]", 1)
    with pytest.raises(PayloadError, match="not valid JSON"):
        decode(kind, "{", 1)


@pytest.mark.parametrize("version", [0, -1, True, "1", None])
def test_wrong_migration_versions(version: Any) -> None:
    with pytest.raises(ValueError, match="from_version"):
        migrates(Flat, from_version=version)


def test_a_migration_that_returns_no_json() -> None:
    @dataclass
    class Mail:
        to: str

    @migrates(Mail, from_version=1)
    def _bad(payload: dict[str, Any]) -> Any:
        return {"to": object()}

    with pytest.raises(SchemaVersionError, match="not JSON"):
        decode(job_type(Mail, schema_version=2), "{}", 1)


def test_a_number_beyond_every_float_is_one_for_a_decimal() -> None:
    """And where a field is unknown beside it, that is what is said, not an error of its own."""

    @dataclass
    class Price:
        amount: Decimal

    kind = job_type(Price)
    assert decode(kind, '{"amount":1e400}', 1) == Price(Decimal("1e400"))
    with pytest.raises(PayloadError, match=r"\$\.tax: .* has no such field"):
        decode(kind, '{"amount":1,"tax":1e400}', 1)
    assert kind.codec is not None
    assert [each.path for each in kind.codec.problems('{"amount":1e400,"tax":1e400}')] == ["$.tax"]
