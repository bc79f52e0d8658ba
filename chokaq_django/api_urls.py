"""Addresses of the JSON API: ``path("chokaq/api/", include("chokaq_django.api_urls"))``."""

from __future__ import annotations

from .api.routes import urlpatterns

__all__ = ["app_name", "urlpatterns"]

app_name = "chokaq_api"
