"""Where Django's admin looks for an app's pages; they live in :mod:`chokaq_django.deck.admin`."""

from __future__ import annotations

from .deck import admin as admin
