"""Gives the Deck its place among admin's pages: ``admin/chokaq/deck/`` and what lies below."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.views.i18n import JavaScriptCatalog

from .pages import PAGES
from .pages.overview import OverviewPage

__all__ = ["DeckAdmin"]


class DeckAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Lists the Deck in admin's index; its pages are :data:`PAGES`."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("chokaq.view_deck")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        # Admin's own too: its jQuery throws away what was loaded before, and its lists count what is selected.
        catalog = JavaScriptCatalog.as_view(packages=["django.contrib.admin", "chokaq_django"])
        texts = self.admin_site.admin_view(catalog, cacheable=True)
        return [
            path("jsi18n/", texts, name="chokaq_deck_jsi18n"),
            OverviewPage.pattern(self.admin_site),
            *(page.pattern(self.admin_site) for page in PAGES),
        ]
