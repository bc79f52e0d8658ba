"""What the tests of the deck share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from chokaq_django.deck.feed import board, hub, pace
from chokaq_django.deck.feed.hub import Hub, get_hub
from chokaq_django.deck.pages import data
from tests import factories as make

ALL = ("view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload")


@pytest.fixture
def deck(db: None) -> Client:
    """The browser of an operator who may do everything."""
    client = Client()
    client.force_login(make.operator(*ALL, username="grace"))
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    """The browser of somebody who may only look, and not at payloads."""
    client = Client()
    client.force_login(make.operator("view_deck", username="viewer"))
    return client


@pytest.fixture(autouse=True)
def patient(patience: None) -> None:
    """What workers' rows say holds for a whole test."""


@pytest.fixture(autouse=True)
def fresh_board() -> None:
    """Nothing of what an earlier test saw."""
    board.clear()
    data.forget()


@pytest.fixture
def feed(transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Hub]:
    """The hub of the live feed at a quicker pace, for tests whose rows it must see; nothing of it is left."""
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": 0.1}}
    monkeypatch.setattr(pace, "SECOND", 0.2)
    monkeypatch.setattr(pace, "GAP", 0.05)
    monkeypatch.setattr(hub, "ACCESS", 0.3)
    yield get_hub()
    thread = get_hub().thread
    if thread is not None:
        thread.join(10)
    assert get_hub().thread is None, "the thread ends with the last socket"
    assert len(get_hub()) == 0
