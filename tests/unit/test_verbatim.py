"""JSON that keeps its digits, values masked by name, and two texts side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chokaq_django.deck.diff import AROUND, MOST_COMPARED, side_by_side
from chokaq_django.job.verbatim import read, write
from chokaq_django.reading.masks import CHANGED, MASK, is_secret, mask_change, mask_node, mask_text, unmask

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_read_is_written_as_it_was(value: Any) -> None:
    text = json.dumps(value)
    assert json.loads(write(read(text))) == value
    assert json.loads(write(read(text), 2)) == value


@pytest.mark.parametrize(
    "number", ["1.10", "-0", "9223372036854775808", "1e400", "-1.0E-7", "0.1000000000000000000001"]
)
def test_digits_stay(number: str) -> None:
    assert write(read(f'[{number},{{"a":{number}}}]')) == f'[{number},{{"a":{number}}}]'


@pytest.mark.parametrize(
    "text", ["", "NaN", "[Infinity]", "01", "{", "[1,]", "'a'", "[" * 101 + "]" * 101, "[" * 99_999]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)


def test_the_deepest_that_is_read() -> None:
    assert write(read("[" * 100 + "1" + "]" * 100)) == "[" * 100 + "1" + "]" * 100


def test_a_name_that_comes_twice_counts_last() -> None:
    node = read('{"a":1,"b":2,"a":3}')
    assert (node.get("a"), node.names, write(node)) == ("3", ["a", "b"], '{"a":1,"b":2,"a":3}')


@pytest.mark.parametrize(
    "name", ["password", "PassWord", "db-password", "new_pass.word", "x-api-key", "API_KEY", "Authorization"]
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["", "pass", "name", "tok", "apik", "author"])
def test_plain_names(name: str) -> None:
    assert not is_secret(name)


def test_masks_come_off_where_something_is_stored() -> None:
    stored = read('{"a":[{"token":"x"},{"token":1.10}],"secret":{"deep":[1]},"password":null}')
    masked, hidden = mask_node(stored)
    assert hidden == 3
    assert write(masked) == f'{{"a":[{{"token":"{MASK}"}},{{"token":"{MASK}"}}],"secret":"{MASK}","password":null}}'
    assert write(unmask(masked, stored)) == write(stored)
    with pytest.raises(LookupError, match=r"\$\.b\.token"):
        unmask(read(f'{{"b":{{"token":"{MASK}"}}}}'), stored)
    assert write(unmask(read(f'{{"name":"{MASK}"}}'), stored)) == f'{{"name":"{MASK}"}}', "a name that is not masked"


def test_another_secret_says_so() -> None:
    before, after = (
        read('{"token":"x","pin_token":"y","n":1}'),
        read('{"token":"x","pin_token":"z","new_token":"q","n":2}'),
    )
    assert json.loads(write(mask_change(after, before))) == {
        "token": MASK, "pin_token": CHANGED, "new_token": CHANGED, "n": 2,
    }  # fmt: skip


def test_text_that_is_no_json_is_hidden_whole_where_a_secret_may_be_in_it() -> None:
    assert mask_text('{"pass_word":"x"').text == MASK
    assert mask_text('{"name":"x"').text == '{"name":"x"'


# -- side by side ------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
def test_both_texts_can_be_read_from_a_comparison(old: list[str], new: list[str]) -> None:
    diff = side_by_side("\n".join(old), "\n".join(new))
    changed = [line for line in diff.lines if line.changed]
    assert diff.removed == sum(line.old is not None for line in changed)
    assert diff.added == sum(line.new is not None for line in changed)
    assert diff.is_same == (old == new or ("\n".join(old) == "\n".join(new)))
    for line in diff.lines:
        if not line.gap and not line.changed:
            assert line.old == line.new
    numbers = [line.old_number for line in diff.lines if line.old_number is not None]
    assert numbers == sorted(set(numbers))


def test_long_stretches_without_a_change_are_folded() -> None:
    before = [str(n) for n in range(100)]
    after = [*before[:50], "new", *before[50:]]
    diff = side_by_side("\n".join(before), "\n".join(after))
    assert [line.gap for line in diff.lines if line.gap] == [50 - AROUND, 50 - AROUND]
    assert (diff.added, diff.removed) == (1, 0)


def test_very_long_texts_are_shown_as_one_change() -> None:
    before = "\n".join(f"a{n}" for n in range(MOST_COMPARED + 1))
    diff = side_by_side(before, before.replace("a", "b"))
    assert (diff.added, diff.removed, diff.cut) == (MOST_COMPARED + 1, MOST_COMPARED + 1, True)
