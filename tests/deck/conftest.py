"""What the tests of the deck share."""

from __future__ import annotations

import pytest
from django.test import Client

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
