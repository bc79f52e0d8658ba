"""Sentences that are made here and read elsewhere."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from django.utils import translation

from chokaq_django.sentence import Sentence, in_words, number, percent, recovered, span, stored

LATE = "the queue %(name)s runs %(running)s jobs, and its cap is %(most)s."


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 ms"), (0.25, "250 ms"), (1.0, "1 s"), (59.4, "59 s"), (95.0, "1 min 35 s"), (3600.0, "1 h"),
        (12_000.0, "3 h 20 min"), (90_061.0, "1 d 1 h"), (200 * 86_400.0, "200 d"), (86_400_000.0, "1,000 d"),
    ],
)  # fmt: skip
def test_a_span_has_two_units_at_most(seconds: float, said: str) -> None:
    assert span(seconds) == said
    assert Sentence("%(time)s", time=seconds) == said


def test_numbers_are_written_as_the_language_does() -> None:
    assert number(1_234_567) == "1,234,567"
    assert number(1234.5, 2) == "1,234.50"
    with translation.override("de"):
        assert number(1_234_567) == "1.234.567"
        assert number(1234.5, 2) == "1.234,50"
        assert span(86_400_000.0) == "1.000 d"


def test_shares_are_written_as_the_language_does() -> None:
    assert [percent(share) for share in (0.0, 0.125, 0.2, 1.0, 12.0)] == ["0%", "12.5%", "20%", "100%", "1,200%"]
    told = Sentence("at most %(share)s may.", share="12.5%")
    assert in_words(told) == "at most 12.5% may."
    with translation.override("de"):
        assert [percent(share) for share in (0.125, 1.0, 12.0)] == ["12,5\u00a0%", "100\u00a0%", "1.200\u00a0%"]
        assert in_words(told) == "at most 12,5\u00a0% may."


def test_a_sentence_is_its_english_text() -> None:
    said = Sentence(LATE, name="mail", running=1200, most=1000)
    assert said == "the queue mail runs 1,200 jobs, and its cap is 1,000."
    assert json.loads(json.dumps({"said": said})) == {"said": str(said)}
    assert Sentence("100 % sure") == "100 % sure"
    with translation.override("de"):
        assert f"{said}" == "the queue mail runs 1,200 jobs, and its cap is 1,000."


def test_it_can_be_said_in_another_language_later() -> None:
    said = Sentence(LATE, name="mail", running=1200, most=1000)
    assert in_words(said) == str(said)
    with translation.override("de"):
        assert in_words(said) == "die Queue mail führt 1.200 Jobs aus, und ihre Obergrenze ist 1.000."
        assert in_words("The job is in the Trash.") == "Der Job ist im Papierkorb.", "as it was stored"
        assert in_words("whatever somebody typed") == "whatever somebody typed"
        assert in_words("") == ""


def test_a_sentence_in_a_sentence_is_said_in_the_same_language() -> None:
    said = Sentence(
        "%(key)s is not registered here%(hint)s", key="'a'", hint=Sentence("; did you mean %(name)s?", name="'b'")
    )
    assert said == "'a' is not registered here; did you mean 'b'?"
    with translation.override("de"):
        assert in_words(said) == "'a' ist hier nicht registriert; war 'b' gemeint?"


def test_what_was_stored_as_text_is_known_again() -> None:
    template = stored("%(died)s of the first %(sample)s jobs have died; at most %(share)s may.")
    said = recovered("1,200 of the first 5,000 jobs have died; at most 10.0% may.")
    assert isinstance(said, Sentence)
    assert (said.template, said.values) == (template, {"died": 1200, "sample": 5000, "share": "10.0%"})
    assert recovered(said) is said
    assert recovered("somebody's own words") == "somebody's own words"
    with translation.override("de"):
        assert in_words(str(said)) == "1.200 der ersten 5.000 Jobs sind gestorben; höchstens 10\u00a0% dürfen."


def test_it_survives_copies() -> None:
    said = Sentence(LATE, name="mail", running=1, most=2)
    for again in (copy.copy(said), copy.deepcopy(said), pickle.loads(pickle.dumps(said))):  # noqa: S301 - our own bytes
        assert (again, again.template, again.values) == (said, said.template, said.values)


def test_a_browser_gets_what_it_is_made_of() -> None:
    said = Sentence("a %(time)s %(other)s", time=1.5, other=Sentence("b %(n)s", n=2))
    assert Sentence("%(time)s", time=3_725.0).document() == ["%(time)s", {"time": {"seconds": 3_720}}]
    assert said.document() == ["a %(time)s %(other)s", {"time": {"seconds": 2}, "other": ["b %(n)s", {"n": 2}]}]
