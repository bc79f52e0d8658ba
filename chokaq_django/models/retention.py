"""What retention remembers from one pass to the next."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import KeyField, UTCDateTimeField


class RetentionMark(models.Model):
    """How far one rule of retention has come, and what its last pass removed.

    A rule walks along an index from its mark on: rows that a more specific rule keeps are read once, and not in each
    pass again. ``place`` is the table of jobs that it walks along, empty for what is deleted without a walk.
    """

    name = KeyField(max_length=300, primary_key=True, help_text=_("The rule, as the option is called."))
    place = KeyField(max_length=10, help_text=_("archive, dlq or nothing."))
    others = KeyField(max_length=32, default="", help_text=_("Digest of the more specific rules."))
    at = UTCDateTimeField(null=True, help_text=_("Whatever ended before this, and by this rule, is deleted."))
    job_id = KeyField(max_length=26, default="", help_text=_("At that very time: up to this job."))
    again_at = UTCDateTimeField(null=True, help_text=_("What ended at this time or later has come back since."))
    passed_at = UTCDateTimeField(null=True, help_text=_("When the last pass ended."))
    removed = models.BigIntegerField(default=0, help_text=_("Rows that it deleted."))
    total = models.BigIntegerField(default=0, help_text=_("Rows that all passes have deleted."))

    class Meta:
        default_permissions = ()
        db_table = "chokaq_retention_mark"

    def __str__(self) -> str:
        return str(self.name)
