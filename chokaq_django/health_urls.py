"""Addresses for probes: ``path("chokaq/health/", include("chokaq_django.health_urls"))``."""

from __future__ import annotations

from django.urls import path

from . import health_views

app_name = "chokaq_health"
urlpatterns = [
    path("", health_views.health, name="health"),
    path("live/", health_views.live, name="live"),
    path("ready/", health_views.readiness, name="ready"),
]
