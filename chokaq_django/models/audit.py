"""Who did what: every operator act."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CharField, KeyField, TextField, ULIDField, UTCDateTimeField


class AuditEntry(models.Model):
    """One act of an operator or of a program in an operator's name."""

    id = ULIDField(primary_key=True)
    at = UTCDateTimeField()
    by = CharField(max_length=150, null=True)
    action = CharField(max_length=50)
    target = KeyField(max_length=255, help_text=_("Job id, queue name, worker id or type key."))
    reason = TextField(default="", blank=True)
    details = TextField(default="{}", help_text=_("JSON object: what changed."))

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_audit_entry"
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        indexes = [
            models.Index(fields=["at", "id"], name="chokaq_audit_time"),
            models.Index(fields=["target", "at"], name="chokaq_audit_target"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target}"
