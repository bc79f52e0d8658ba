"""Authentication backends of a project's own, for tests."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import BaseBackend


class AllowMonday(BaseBackend):
    """Whoever is called monday may look at the Deck."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return bool(user_obj.username == "monday" and perm == "chokaq.view_deck")


class NoMonday(BaseBackend):
    """Has nothing to say."""
