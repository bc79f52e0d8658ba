"""Failure groups: the dead jobs that died alike, counted by whatever moves jobs into and out of the DLQ."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..job.failures import FailureReason
from .fields import CharField, KeyField, TextField, ULIDField, UTCDateTimeField


class FailureGroup(models.Model):
    """Dead jobs of one fingerprint, queue and type, as one writer has counted them.

    Sharded by writer, as metric buckets are, so that workers that bury jobs of one group never wait for one row: what
    is in the DLQ is the sum over the shards, of which a single one may be negative. ``series`` is a digest of
    fingerprint, queue, type and shard; that of rows that hold what was folded begins with a letter behind all digits,
    so that the few others stand side by side in the primary key.
    """

    series = KeyField(max_length=32, primary_key=True)
    fingerprint = KeyField(max_length=32)
    queue = KeyField(max_length=255)
    type = KeyField(max_length=255)
    shard = KeyField(max_length=100)
    reason = models.IntegerField(choices=[(r.value, r.name) for r in FailureReason])
    error_type = KeyField(max_length=255, null=True)
    message = TextField(default="", help_text=_("The error's last line, of the job that came last."))
    sample_id = ULIDField(help_text=_("The job that came last."))
    count = models.BigIntegerField(default=0, help_text=_("Came into the DLQ less left it."))
    total = models.BigIntegerField(default=0, help_text=_("Died, ever: only grows."))
    first_seen = UTCDateTimeField()
    last_seen = UTCDateTimeField()

    class Meta:
        default_permissions = ()
        db_table = "chokaq_failure_group"
        verbose_name = _("failure group")
        verbose_name_plural = _("failure groups")
        indexes = [models.Index(fields=["fingerprint", "series"], name="chokaq_group_series")]

    def __str__(self) -> str:
        return f"{self.error_type} {self.fingerprint}"


class FailureTotal(models.Model):
    """What was folded of one fingerprint, over queues and types: found by index are those with most jobs, and those
    that came last. With the rows that are not folded yet it is the truth of the moment."""

    fingerprint = KeyField(max_length=32, primary_key=True)
    count = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    first_seen = UTCDateTimeField()
    last_seen = UTCDateTimeField()

    class Meta:
        default_permissions = ()
        db_table = "chokaq_failure_total"
        verbose_name = _("total of a failure group")
        verbose_name_plural = _("totals of failure groups")
        indexes = [
            models.Index(fields=["count", "fingerprint"], name="chokaq_total_count"),
            models.Index(fields=["last_seen", "fingerprint"], name="chokaq_total_last_seen"),
        ]

    def __str__(self) -> str:
        return str(self.fingerprint)


class FailureTriage(models.Model):
    """What people have noted on the failures of one fingerprint."""

    fingerprint = KeyField(max_length=32, primary_key=True)
    note = TextField(default="", blank=True)
    assignee = CharField(max_length=150, null=True, blank=True)
    acknowledged_at = UTCDateTimeField(null=True, blank=True)
    acknowledged_by = CharField(max_length=150, null=True, blank=True)
    updated_at = UTCDateTimeField()
    updated_by = CharField(max_length=150, null=True)

    class Meta:
        default_permissions = ()
        db_table = "chokaq_failure_triage"
        verbose_name = _("triage of a failure group")
        verbose_name_plural = _("triage of failure groups")

    def __str__(self) -> str:
        return str(self.fingerprint)
