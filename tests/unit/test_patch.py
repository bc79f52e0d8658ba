"""Patches of payloads: what RFC 6902 says of add, replace, remove and test, on numbers that keep their digits."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chokaq_django.job.envelope import EnvelopeError
from chokaq_django.job.patch import PatchRefusedError, PayloadPatch, pointer_of
from chokaq_django.job.verbatim import Members, read, write

EXACT = '{"big":9223372036854775807,"exact":1.10,"long":12345678901234567890.123400,"e":1E+2,"a":{"b":[1,2.50,3]}}'


def applied(text: str, *changes: dict[str, Any]) -> str:
    return write(PayloadPatch.of(changes).apply(read(text)))


def op(name: str, path: str, value: object = ...) -> dict[str, Any]:
    return {"op": name, "path": path} | ({} if value is ... else {"value": value})


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ('{"a":1}', op("add", "/b", [2]), '{"a":1,"b":[2]}'),
        ('{"a":1,"b":2}', op("add", "/a", None), '{"a":null,"b":2}'),
        ('{"a":[1,2]}', op("add", "/a/1", 9), '{"a":[1,9,2]}'),
        ('{"a":[1,2]}', op("add", "/a/2", 9), '{"a":[1,2,9]}'),
        ('{"a":[]}', op("add", "/a/-", {"x": 1}), '{"a":[{"x":1}]}'),
        ('{"a":{"b":1}}', op("replace", "/a/b", "x"), '{"a":{"b":"x"}}'),
        ('{"a":[1,2]}', op("replace", "/a/0", True), '{"a":[true,2]}'),
        ('{"a":[1,2],"b":0}', op("remove", "/a/0"), '{"a":[2],"b":0}'),
        ('{"b":0,"a":1}', op("remove", "/b"), '{"a":1}'),
        ('{"a/b":1,"m~n":2}', op("replace", "/a~1b", 3), '{"a/b":3,"m~n":2}'),
        ('{"a/b":1,"m~n":2}', op("remove", "/m~0n"), '{"a/b":1}'),
        ('{"":1}', op("replace", "/", 2), '{"":2}'),
        ('{"~1":1}', op("replace", "/~01", 2), '{"~1":2}'),
        ('{"0":1}', op("replace", "/0", 2), '{"0":2}'),
        ('{"a":1,"a":2}', op("replace", "/a", 3), '{"a":3,"a":3}'),
    ],
)
def test_changes(text: str, change: dict[str, Any], expected: str) -> None:
    assert applied(text, change) == expected


@pytest.mark.parametrize(
    ("text", "change", "path"),
    [
        ('{"a":1}', op("replace", "/b", 1), "/b"),
        ('{"a":1}', op("remove", "/b"), "/b"),
        ('{"a":1}', op("add", "/b/c", 1), "/b"),
        ('{"a":1}', op("add", "/a/c", 1), "/a/c"),
        ('{"a":[1]}', op("add", "/a/2", 1), "/a/2"),
        ('{"a":[1]}', op("replace", "/a/-", 1), "/a/-"),
        ('{"a":[1]}', op("remove", "/a/01"), "/a/01"),
        ('{"a":[1]}', op("remove", "/a/1"), "/a/1"),
        ('{"a":{"b":{}}}', op("remove", "/a/b/c/d"), "/a/b/c"),
        ("[1]", op("remove", "/x"), "/x"),
        ("7", op("add", "/x", 1), "/x"),
    ],
)
def test_what_is_not_there_is_named_by_its_path(text: str, change: dict[str, Any], path: str) -> None:
    with pytest.raises(PatchRefusedError) as refused:
        applied(text, change)
    assert (refused.value.path, refused.value.tested) == (path, False)


@pytest.mark.parametrize(
    ("stored", "value", "holds"),
    [
        ('"EURO"', '"EURO"', True),
        ('"EURO"', '"EUR"', False),
        ("1", "1.0", True),
        ("1e2", "100", True),
        ("1.10", "1.1", True),
        ("9223372036854775807", "9223372036854775808", False),
        ("0.1", "0.10000000000000000001", False),
        ("1e9999999999999999999999", "1", False),
        ("1", "true", False),
        ("0", "false", False),
        ('"1"', "1", False),
        ("null", "null", True),
        ("null", "false", False),
        ('{"a":1,"b":[2]}', '{"b":[2.0],"a":1}', True),
        ('{"a":1}', '{"a":1,"b":null}', False),
        ("[1,2]", "[2,1]", False),
        ("[]", "{}", False),
    ],
)
def test_a_condition_compares_json(stored: str, value: str, holds: bool) -> None:
    patch = PayloadPatch.of(
        f'[{{"op":"test","path":"/x","value":{value}}},{{"op":"replace","path":"/x","value":"new"}}]'
    )
    node = read(f'{{"x":{stored}}}')
    if holds:
        assert write(patch.apply(node)) == '{"x":"new"}'
        return
    with pytest.raises(PatchRefusedError) as refused:
        patch.apply(node)
    assert (refused.value.tested, str(refused.value)) == (True, "/x has another value")


def test_a_condition_on_what_is_not_there() -> None:
    patch = PayloadPatch.of([{"op": "test", "path": "/a/b", "absent": True}, op("add", "/a/b", 1)])
    assert write(patch.apply(read('{"a":{}}'))) == '{"a":{"b":1}}'
    with pytest.raises(PatchRefusedError, match="/a/b is there"):
        patch.apply(read('{"a":{"b":null}}'))
    with pytest.raises(PatchRefusedError, match="/x is not there"):
        applied("{}", op("test", "/x", 1), op("add", "/y", 1))


def test_an_error_quotes_nothing_that_is_stored() -> None:
    for change in (op("test", "/token", "x"), op("replace", "/token/x", 1), op("remove", "/token/0")):
        with pytest.raises(PatchRefusedError) as refused:
            applied('{"token":"S3CRET"}', change, op("add", "/y", 1))
        assert "S3CRET" not in str(refused.value)


def test_digits_stay_and_the_tree_it_was_made_of_too() -> None:
    node = read(EXACT)
    changed = PayloadPatch.of('[{"op":"replace","path":"/a/b/0","value":7.00}]').apply(node)
    assert write(changed) == EXACT.replace("[1,", "[7.00,")
    assert write(node) == EXACT


def test_all_or_nothing_and_in_order() -> None:
    text = '{"a":1}'
    assert applied(text, op("add", "/b", {}), op("add", "/b/c", 2), op("test", "/b/c", 2), op("remove", "/a")) == (
        '{"b":{"c":2}}'
    )
    with pytest.raises(PatchRefusedError):
        applied(text, op("remove", "/a"), op("test", "/a", 1))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "is no JSON"),
        ("{}", "must be a list of 1 to 50"),
        ([], "must be a list of 1 to 50"),
        ([op("add", "/a", 1)] * 51, "must be a list of 1 to 50"),
        ('[{"op":"add","path":"/a","value":NaN}]', "is no JSON"),
        ([op("add", "/a", float("inf"))], "is no JSON"),
        ([op("add", "/a", Decimal(1))], "is no JSON"),
        (7, "is no JSON"),
        (["x"], "operation 1: must be an object"),
        ([op("move", "/a")], "operation 1: op must be one of add, replace, remove, test"),
        ([op("add", "/a", 1), {"op": "remove"}], "operation 2: path must be"),
        ([op("add", "a", 1)], "operation 1 (a): a path must begin with /"),
        ([op("add", "", 1)], "a path must begin with /"),
        ([op("add", "/a~2", 1)], "~ in a path is written ~0"),
        ([op("add", "/a")], "operation 1 (/a): add needs a value"),
        ([{"op": "add", "path": "/a", "absent": True}], "add takes no 'absent'"),
        ([op("remove", "/a", 1)], "remove takes no 'value'"),
        ([{"op": "remove", "path": "/a", "from": "/b"}], "remove takes no 'from'"),
        ([{"op": "test", "path": "/a"}], "needs a value, or absent: true"),
        ([{"op": "test", "path": "/a", "value": 1, "absent": True}], "and not both"),
        ([{"op": "test", "path": "/a", "absent": 1}], "absent must be true or false"),
        ([op("test", "/a", 1)], "only tests"),
        ([op("add", "/a", "x" * 100_001)], "at most 100,000 characters"),
        ("[" * 100_001, "at most 100,000 characters"),
        (repeat(op("add", "/a", 1)), "must be a list of 1 to 50"),
        ([op("remove", "/a"), op("add", "/b" * 101, 1)], "operation 2 (/b/b/b"),
        ([op("add", "/b" * 101, 1)], "a path must have at most 100 steps"),
        ('[{"op":"add","path":"/a","value":' + "[" * 101 + "]" * 101 + "}]", "operation 1 (/a): its value is nested"),
        ('[{"op":"add","path":"/a","value":' + "[" * 40_000 + "]" * 40_000, "is no JSON: nested more than 100 levels"),
    ],
)
def test_what_is_no_patch(bad: Any, words: str) -> None:
    with pytest.raises(EnvelopeError) as error:
        PayloadPatch.of(bad)
    assert error.value.field == "patch"
    assert words in str(error.value)


def test_a_patch_may_be_as_deep_as_it_says() -> None:
    value = json.loads("[" * 100 + "]" * 100)
    patch = PayloadPatch.of([op("add", "/a" * 100, value)])
    assert PayloadPatch.stored(patch.text()) == patch


def test_large_objects_are_walked_once_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty operations on an object of ninety thousand members took ten seconds."""
    text = json.dumps({"big": {str(number): number for number in range(1_000)}})
    node, looks = read(text), []
    monkeypatch.setattr(Members, "names", property(lambda self: looks.append(len(self)) or list(dict(self))))
    get = Members.get
    monkeypatch.setattr(Members, "get", lambda self, *name: looks.append(len(self)) or get(self, *name))
    patch = PayloadPatch.of([op("test", "/big", json.loads(text)["big"]), op("replace", "/big/999", 0)])
    looks.clear()
    assert json.loads(write(patch.apply(node)))["big"]["999"] == 0
    assert [look for look in looks if look == 1_000] == []


@pytest.mark.parametrize(
    ("typed", "pointer"),
    [
        ("currency", "/currency"),
        (" $.currency ", "/currency"),
        ("/currency", "/currency"),
        ("lines[0].sku", "/lines/0/sku"),
        ("$.lines[-]", "/lines/-"),
        ('$["a b"]["c/d~"].e', "/a b/c~1d~0/e"),
        ("first name", "/first name"),
        ("$ref", "/$ref"),
        ("/a~1b", "/a~1b"),
    ],
)
def test_paths_as_people_write_them(typed: str, pointer: str) -> None:
    assert pointer_of(typed) == pointer


@pytest.mark.parametrize("typed", ["", "$", "a..b", "a.", "a[x]", "a[0", 'a["x', "/a~", '$["\\x"]'])
def test_what_is_no_path(typed: str) -> None:
    with pytest.raises(EnvelopeError):
        pointer_of(typed)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(some.dictionaries(some.text(max_size=4), JSON, max_size=4), some.text(max_size=4), JSON, JSON)
def test_what_is_set_is_there_and_the_rest_is_as_it_was(
    document: dict[str, Any], name: str, old: object, new: object
) -> None:
    document = {**document, name: old}
    path = "/" + name.replace("~", "~0").replace("/", "~1")
    patch = PayloadPatch.of([op("test", path, old), op("replace", path, new)])
    assert PayloadPatch.of(patch.text()) == patch, "it survives being stored"
    assert json.loads(write(patch.apply(read(json.dumps(document))))) == {**document, name: new}
