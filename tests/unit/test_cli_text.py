"""What the command writes with: harmless text, widths, tables, times."""

from __future__ import annotations

import datetime as dt
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chokaq_django.cli.arguments import time_of
from chokaq_django.cli.table import Column, pairs, render, wrap
from chokaq_django.cli.text import age, block, brief_age, clip, duration, instant, moment, one_line, pad, width

NOW = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
HARMFUL = {"Cc", "Cs", "Zl", "Zp"}


@given(st.text(st.characters(codec=None), max_size=60))
def test_nothing_that_moves_the_cursor_comes_through(text: str) -> None:
    shown = one_line(text)
    assert not [character for character in shown if unicodedata.category(character) in HARMFUL]
    assert not [c for c in shown if unicodedata.category(c) == "Cf" and c != "\u200d"]
    assert "\n" not in shown
    for line in block(text).split("\n"):
        assert not [character for character in line if unicodedata.category(character) in HARMFUL]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("ü🎉", "ü🎉"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202eabc", r"\u202eabc"),
        ("\x9b2J", r"\x9b2J"),
        ("\ud800", r"\ud800"),
        ("\u2028", r"\u2028"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("x" * 2_000, "x" * 1_000 + "…"),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(max_size=40), st.integers(min_value=1, max_value=30))
def test_clipped_and_padded_text_has_its_width(text: str, columns: int) -> None:
    assert width(clip(one_line(text), columns)) <= columns
    assert width(pad(clip(one_line(text), columns), columns)) == columns


@given(st.text(max_size=200), st.integers(min_value=2, max_value=40))
def test_wrapping_loses_nothing_but_blanks(text: str, room: int) -> None:
    text = one_line(text)
    lines = wrap(text, room)
    assert all(width(line) <= room for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_table_fits() -> None:
    flexible = (Column("NAME", flexible=True), Column("KEY", flexible=True, least=10))
    columns = (Column("ID"), *flexible, Column("N", right=True))
    rows = [("0" * 26, "name " * 20, "key" * 30, 5), ("1" * 26, "🎉" * 40, "short", 12345)]
    lines = render(columns, rows, 80)
    assert {width(line) for line in lines} == {80}
    assert lines[1].endswith("    5")
    assert "0" * 26 in lines[1]
    narrow = render(columns, rows, 40)  # what cannot give any more stays as wide as it is
    assert all("0" * 26 in line or "1" * 26 in line or "ID" in line for line in narrow)
    assert render(columns, rows, None)[1].count("name") == 20


def test_pairs_wrap_below_each_other() -> None:
    lines = pairs([("a", "word " * 30), ("longer", 5), ("none", None), ("empty", "")], 40)
    assert [line[:8] for line in lines if not line.startswith(" ")] == ["a       ", "longer  "]
    assert all(width(line) <= 40 for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0123, "12 ms"),
        (3.14, "3.1 s"),
        (59, "59 s"),
        (3_725, "1 h 2 min"),
        (86_400 * 3, "3 d"),
        (-5, "0 ms"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_times() -> None:
    assert age(NOW - dt.timedelta(minutes=5), NOW) == "5 min ago"
    assert age(NOW + dt.timedelta(hours=2), NOW) == "in 2 h"
    assert brief_age(NOW - dt.timedelta(minutes=5), NOW) == "5m ago"
    assert brief_age(NOW + dt.timedelta(days=2), NOW) == "in 2d"
    assert (age(None, NOW), brief_age(None, NOW), instant(None)) == ("-", "-", None)
    assert moment(NOW, NOW) == "2026-01-31 12:00:00 UTC (now)"
    assert instant(NOW.astimezone(dt.timezone(dt.timedelta(hours=2)))) == "2026-01-31T12:00:00+00:00"
    assert "9999" in moment(dt.datetime.max.replace(tzinfo=dt.UTC), NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("15 min", 900), ("2h", 7_200), ("1.5h", 5_400), ("7d", 604_800), ("1W", 604_800)],
)
def test_spans(text: str, seconds: float) -> None:
    assert (NOW - time_of(text, NOW)).total_seconds() == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-30", dt.datetime(2026, 1, 30, tzinfo=dt.UTC)),
        ("2026-01-30 08:00", dt.datetime(2026, 1, 30, 8, tzinfo=dt.UTC)),
        ("2026-01-30T08:00:00+02:00", dt.datetime(2026, 1, 30, 6, tzinfo=dt.UTC)),
    ],
)
def test_moments_given(text: str, expected: dt.datetime) -> None:
    assert time_of(text, NOW) == expected
