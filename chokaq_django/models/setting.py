"""Options that operators change at run time."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CharField, KeyField, TextField, UTCDateTimeField


class Setting(models.Model):
    """An option that an operator has set: it wins over ``CHOKAQ`` in every process until it is reset."""

    name = KeyField(max_length=255, primary_key=True, help_text=_("The option's dotted name."))
    value = TextField(help_text=_("JSON."))
    updated_at = UTCDateTimeField()
    updated_by = CharField(max_length=150, null=True)

    class Meta:
        default_permissions = ()
        db_table = "chokaq_setting"
        verbose_name = _("setting")
        verbose_name_plural = _("settings")
        ordering = ["name"]

    def __str__(self) -> str:
        return str(self.name)
