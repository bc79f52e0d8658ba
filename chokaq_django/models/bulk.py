"""Bulk operations: one verb on a frozen set of jobs, worked off in the background.

What is in the set is written down before the first job is touched, one row for each; what was done to it is written
into that row in the transaction that does it. So an operation can stop anywhere and go on, and nothing is done twice.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CharField, KeyField, TextField, ULIDField, UTCDateTimeField


class BulkAction(models.TextChoices):
    """What an operation does to each job."""

    RESURRECT = "resurrect", _("Resurrect")
    PURGE = "purge", _("Purge")
    CANCEL = "cancel", _("Cancel")
    REMOVE = "remove", _("Remove")
    EDIT = "edit", _("Edit")
    RESTORE = "restore", _("Restore")
    REVERT = "revert", _("Revert")


class BulkState(models.TextChoices):
    """Where an operation is. Done and cancelled are final."""

    PREPARING = "preparing", _("Preparing")
    RUNNING = "running", _("Running")
    PAUSED = "paused", _("Paused")
    DONE = "done", _("Done")
    CANCELLED = "cancelled", _("Cancelled")
    STOPPED = "stopped", _("Stopped by itself")
    FAILED = "failed", _("Failed")


class BulkItemState(models.IntegerChoices):
    """What became of one job of an operation. The three that begin with "Applied, then" are known only where somebody
    watches for them."""

    WAITING = 0, _("Waiting")
    APPLIED = 1, _("Applied")
    REFUSED = 2, _("Refused")
    REQUESTED = 3, _("Requested of its worker")
    SUCCEEDED = 4, _("Applied, then succeeded")
    DIED = 5, _("Applied, then died")
    GONE = 6, _("Applied, then cancelled or deleted")
    LEFT_ALONE = 7, _("Left alone")


TOLD = (BulkItemState.REFUSED, BulkItemState.LEFT_ALONE)
"""States of jobs that an operation did not act on: their notes say why."""


class BulkOperation(models.Model):
    """One verb on many jobs. Counts are of jobs; durations are seconds."""

    id = ULIDField(primary_key=True)
    action = KeyField(max_length=20, choices=BulkAction.choices)
    state = KeyField(max_length=20, choices=BulkState.choices, default=BulkState.PREPARING)
    message = TextField(default="", blank=True, help_text=_("Why it stopped or failed."))
    place = KeyField(max_length=10, default="", help_text=_("hot, archive or dlq; empty: a selection by id."))
    selection = TextField(default="{}", help_text=_("JSON object: the filter as it was given."))
    conditions = TextField(default="[]", help_text=_("JSON list: the filter as the storage reads it."))
    arguments = TextField(default="{}", help_text=_("JSON object: what the verb was given."))
    undo_of = ULIDField(null=True, help_text=_("The operation whose effects this one takes back."))
    requested_by = CharField(max_length=150, null=True)
    reason = TextField(default="", blank=True)
    held = models.BooleanField(default=False, help_text=_("Pause when the set is frozen."))

    created_at = UTCDateTimeField()
    started_at = UTCDateTimeField(null=True, help_text=_("When the set was frozen."))
    ended_at = UTCDateTimeField(null=True)
    updated_at = UTCDateTimeField()

    total = models.IntegerField(default=0)
    counts = TextField(null=True, help_text=_("JSON: the set by queue and type, counted while it was frozen."))
    done = models.IntegerField(default=0)
    applied = models.IntegerField(default=0)
    requested = models.IntegerField(default=0)
    refused = models.IntegerField(default=0)
    left_alone = models.IntegerField(
        default=0, db_default=0, help_text=_("Not meant by a condition, or as it was to be already.")
    )
    samples = TextField(default="[]", help_text=_("JSON list of the first refusals: id and reason."))
    succeeded = models.IntegerField(default=0)
    died = models.IntegerField(default=0)
    gone = models.IntegerField(default=0)

    rate = models.FloatField(null=True, help_text=_("Jobs per second; empty: as fast as it goes."))
    canary = models.IntegerField(null=True, help_text=_("So many first, then wait until they have ended."))
    canary_share = models.FloatField(default=0.0, help_text=_("Share of these that may die."))
    canary_timeout = models.FloatField(default=600.0)
    canary_decision = KeyField(max_length=20, default="", blank=True, help_text=_("waiting, passed or failed."))
    canary_at = UTCDateTimeField(null=True)
    stop_share = models.FloatField(null=True, help_text=_("Stop when a greater share of the jobs died."))
    stop_sample = models.IntegerField(default=20, help_text=_("Judge no fewer ended jobs than this."))
    stop_window = models.IntegerField(default=200, help_text=_("Judge about so many of the last that ended."))

    # where it is
    freeze_at = UTCDateTimeField(null=True)
    freeze_id = KeyField(max_length=26, default="", blank=True)
    last_id = KeyField(max_length=26, default="", blank=True)
    watch_id = KeyField(max_length=26, default="", blank=True)
    paid_at = UTCDateTimeField(null=True, help_text=_("Up to when the drip rate is used up."))
    recent = TextField(default="[]", help_text=_("JSON: ended and died, in the window before and in this one."))
    history = TextField(default="[]", help_text=_("JSON list: seconds since the start, ended and died until then."))

    class Meta:
        default_permissions = ()
        db_table = "chokaq_bulk_operation"
        verbose_name = _("bulk operation")
        verbose_name_plural = _("bulk operations")
        indexes = [models.Index(fields=["state", "id"], name="chokaq_bulk_state")]

    def __str__(self) -> str:
        return f"{self.action} {self.id}"


class BulkItem(models.Model):
    """One job of an operation's frozen set. The second index answers which operations a job was in."""

    pk = models.CompositePrimaryKey("operation_id", "job_id")
    operation_id = ULIDField()
    job_id = ULIDField()
    generation = models.IntegerField(null=True, help_text=_("The job's when it was selected by a filter."))
    state = models.IntegerField(choices=BulkItemState.choices, default=BulkItemState.WAITING)
    note = TextField(
        null=True,
        help_text=_(
            "Why it was refused or left alone; or JSON of what an edit replaced, or the operation that put it into the "
            "Trash."
        ),
    )

    class Meta:
        default_permissions = ()
        db_table = "chokaq_bulk_item"
        verbose_name = _("job of a bulk operation")
        verbose_name_plural = _("jobs of bulk operations")
        indexes = [models.Index(fields=["job_id"], name="chokaq_bulk_item_job")]

    def __str__(self) -> str:
        return f"{self.job_id} in {self.operation_id}"

    @property
    def why(self) -> str:
        """Why the operation did not act on it; empty where it did."""
        return (self.note or "") if self.state in TOLD else ""
