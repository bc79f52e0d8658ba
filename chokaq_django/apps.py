"""The app: finds the project's job types and registers the system checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChokaQConfig(AppConfig):
    name = "chokaq_django"
    label = "chokaq"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import every app's jobs modules. Handlers stay out: only workers import them."""
        from . import checks
        from .job.registry import autodiscover

        checks.register_checks()
        autodiscover(handlers=False)
