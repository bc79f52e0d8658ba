"""Fixtures of the Deck's own tests that its security tests use too."""

from __future__ import annotations

from tests.deck.conftest import feed, fresh_board

__all__ = ["feed", "fresh_board"]
