"""Parts of a page that are drawn anew while somebody acts on them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import Deck
from .test_repair import NEW, corpses, done, moved, state

pytestmark = pytest.mark.any_engine

JOBS = 2_000
"""At twenty a second: a minute and a half."""


def under_way(deck: Deck) -> Page:
    """The page of an operation at twenty jobs a second: a part of it is drawn anew every three seconds."""
    corpses(JOBS)
    page = deck.open(f"{NEW}?action=purge&status=dead")
    page.get_by_label("Drip: jobs per second").fill("20")
    page.get_by_role("button", name="Freeze the set and review").click()
    page.get_by_label(re.compile("to confirm")).fill(f"{JOBS}")
    page.keyboard.press("Enter")
    state(page, "running")
    moved(page)
    return page


def test_who_takes_their_time_to_confirm_is_heard(deck: Deck) -> None:
    page = under_way(deck)
    page.get_by_role("button", name="Cancel the rest").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    moved(page, done(page) + 100)  # five seconds later
    dialog.get_by_role("button", name="Cancel the rest").click()
    state(page, "cancelled")


def test_a_button_that_is_pressed_long_is_pressed(deck: Deck) -> None:
    page = under_way(deck)
    page.get_by_role("button", name="Pause").hover()
    page.mouse.down()
    moved(page, done(page) + 100)
    page.mouse.up()
    state(page, "paused")
