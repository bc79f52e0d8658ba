"""The four places a job can be in: Hot, Archive, DLQ, Trash. A job is in exactly one of them at every instant.

No foreign key, CHECK or trigger on these tables: moves copy and delete rows in whatever order is quick, and SQL Server
refuses the OUTPUT of statements on tables with triggers. Hence plain integers instead of Positive*Field, and text
instead of JSONField.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..job.failures import FailureReason
from .fields import CharField, KeyField, TextField, ULIDField, UTCDateTimeField
from .indexes import SparseIndex, SparseUniqueIndex, StatusIndex

__all__ = [
    "FailureReason",
    "JobArchive",
    "JobBase",
    "JobDLQ",
    "JobHot",
    "JobStatus",
    "JobTrash",
    "PayloadVersion",
]


class JobStatus(models.IntegerChoices):
    """Status of a job. Only 0, 1, 2 and 7 are stored; the others follow from the table and the failure reason."""

    PENDING = 0, _("Pending")
    FETCHED = 1, _("Fetched")
    PROCESSING = 2, _("Processing")
    SUCCEEDED = 3, _("Succeeded")
    FAILED = 4, _("Failed")
    CANCELLED = 5, _("Cancelled")
    ZOMBIE = 6, _("Zombie")
    AWAITING = 7, _("Awaiting")
    EXPIRED = 8, _("Expired")


class JobBase(models.Model):
    """What a job keeps wherever it is."""

    id = ULIDField(primary_key=True)
    queue = KeyField(max_length=255)
    type = KeyField(max_length=255, help_text=_("The stored contract name, such as email.send.v1."))
    schema_version = models.IntegerField(default=1)
    payload = TextField()
    tags = TextField(default="[]", help_text=_("JSON list of strings."))
    priority = models.IntegerField(default=10, help_text=_("Higher runs first."))
    attempt = models.IntegerField(default=0, help_text=_("Executions started in this generation."))
    max_attempts = models.IntegerField(default=3, help_text=_("Total executions allowed."))
    crash_count = models.IntegerField(default=0, help_text=_("How often a worker died while it ran."))
    snooze_count = models.IntegerField(default=0)
    claim_number = models.IntegerField(default=0, help_text=_("Grows at each claim, never reset: the lease fence."))
    generation = models.IntegerField(default=0, help_text=_("How often it was resurrected."))
    revision = models.IntegerField(default=0, help_text=_("How often it was edited."))
    worker_id = KeyField(max_length=100, null=True)
    created_by = CharField(max_length=100, null=True)
    modified_by = CharField(max_length=100, null=True)
    created_at = UTCDateTimeField()
    started_at = UTCDateTimeField(null=True)
    run_at = UTCDateTimeField(help_text=_("When it may be claimed."))
    due_at = UTCDateTimeField(help_text=_("When it was asked to run."))
    deadline_at = UTCDateTimeField(null=True, help_text=_("Latest time any attempt may start."))
    idempotency_key = KeyField(max_length=255, null=True)
    concurrency_key = KeyField(max_length=255, null=True)
    headers = TextField(default="{}", help_text=_("JSON object: trace context and user headers."))
    attempt_log = TextField(default="[]", help_text=_("JSON list of the last attempts."))

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


class JobHot(JobBase):
    """Active work: waiting, leased, running, or awaiting a parent."""

    status = models.IntegerField(choices=JobStatus.choices, default=JobStatus.PENDING)
    heartbeat_at = UTCDateTimeField(null=True)
    updated_at = UTCDateTimeField()
    cancel_requested_at = UTCDateTimeField(null=True)
    cancel_requested_by = CharField(max_length=100, null=True)
    progress = models.IntegerField(null=True, help_text=_("Percent."))
    progress_message = TextField(null=True)

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_job_hot"
        verbose_name = _("active job")
        verbose_name_plural = _("active jobs")
        permissions = [
            ("view_deck", "Can see the operator deck"),
            ("operate", "Can operate queues, workers and circuits"),
            ("edit_payload", "Can edit job payloads"),
            ("resurrect", "Can resurrect dead jobs"),
            ("cancel", "Can cancel jobs"),
            ("purge", "Can purge jobs"),
            ("view_payload", "Can see payloads, results and error texts"),
        ]
        # Every index here is paid at every transition: these serve the claim, caps and rescue, idempotency, expiry.
        indexes = [
            StatusIndex(statuses=(0,), fields=["queue", "priority", "run_at", "id"], name="chokaq_hot_claim"),
            StatusIndex(statuses=(1, 2), fields=["queue"], name="chokaq_hot_live"),
            StatusIndex(statuses=(7,), fields=["queue"], name="chokaq_hot_awaiting"),  # costs only such jobs
            SparseUniqueIndex(fields=["idempotency_key"], name="chokaq_hot_key"),
            SparseIndex(fields=["deadline_at"], name="chokaq_hot_deadline"),  # costs only jobs with a deadline
        ]


class JobArchive(JobBase):
    """Work that succeeded."""

    finished_at = UTCDateTimeField()
    duration_ms = models.BigIntegerField()
    wait_ms = models.BigIntegerField(help_text=_("From the due time to the start."))
    result = TextField(null=True)

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_job_archive"
        verbose_name = _("archived job")
        verbose_name_plural = _("archived jobs")
        indexes = [
            models.Index(fields=["finished_at", "id"], name="chokaq_archive_time"),
            models.Index(fields=["queue", "finished_at"], name="chokaq_archive_queue"),
            models.Index(fields=["type", "finished_at"], name="chokaq_archive_type"),
        ]


class JobDLQ(JobBase):
    """Work that needs a person. Nothing of the original is lost."""

    failure_reason = models.IntegerField(choices=[(r.value, r.name) for r in FailureReason])
    error_type = CharField(max_length=255, null=True)
    error_details = TextField(null=True)
    fingerprint = KeyField(max_length=32, null=True)
    failed_at = UTCDateTimeField()
    note = TextField(default="", blank=True)
    assignee = CharField(max_length=150, null=True, blank=True)
    acknowledged_at = UTCDateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_job_dlq"
        verbose_name = _("dead job")
        verbose_name_plural = _("dead jobs")
        indexes = [
            models.Index(fields=["failed_at", "id"], name="chokaq_dlq_time"),
            models.Index(fields=["queue", "failed_at"], name="chokaq_dlq_queue"),
            models.Index(fields=["type", "failed_at"], name="chokaq_dlq_type"),
            models.Index(fields=["failure_reason", "failed_at"], name="chokaq_dlq_reason"),
            models.Index(fields=["fingerprint", "failed_at"], name="chokaq_dlq_fingerprint"),
        ]


class JobTrash(JobBase):
    """A purged or removed row, restorable until it expires: every column that it had, those of other tables NULL."""

    came_from = CharField(max_length=10, help_text=_("hot, archive or dlq."))
    purged_at = UTCDateTimeField()
    purged_by = CharField(max_length=100, null=True)
    expires_at = UTCDateTimeField(null=True, help_text=_("When it is deleted for good; empty: never."))
    operation_id = ULIDField(null=True, help_text=_("The bulk operation that purged or removed it."))

    # of Hot
    status = models.IntegerField(choices=JobStatus.choices, null=True)
    heartbeat_at = UTCDateTimeField(null=True)
    updated_at = UTCDateTimeField(null=True)
    cancel_requested_at = UTCDateTimeField(null=True)
    cancel_requested_by = CharField(max_length=100, null=True)
    progress = models.IntegerField(null=True)
    progress_message = TextField(null=True)

    # of the Archive
    finished_at = UTCDateTimeField(null=True)
    duration_ms = models.BigIntegerField(null=True)
    wait_ms = models.BigIntegerField(null=True)
    result = TextField(null=True)

    # of the DLQ
    failure_reason = models.IntegerField(choices=[(r.value, r.name) for r in FailureReason], null=True)
    error_type = CharField(max_length=255, null=True)
    error_details = TextField(null=True)
    fingerprint = KeyField(max_length=32, null=True)
    failed_at = UTCDateTimeField(null=True)
    note = TextField(null=True)
    assignee = CharField(max_length=150, null=True)
    acknowledged_at = UTCDateTimeField(null=True)

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_job_trash"
        verbose_name = _("purged job")
        verbose_name_plural = _("purged jobs")
        indexes = [
            models.Index(fields=["expires_at", "id"], name="chokaq_trash_expiry"),
            models.Index(fields=["purged_at", "id"], name="chokaq_trash_time"),
        ]


class PayloadVersion(models.Model):
    """The payload that an edit replaced. It is deleted with its job."""

    pk = models.CompositePrimaryKey("job_id", "revision")
    job_id = ULIDField()
    revision = models.IntegerField(help_text=_("The job's revision while it had this payload."))
    type = KeyField(max_length=255)
    schema_version = models.IntegerField()
    payload = TextField()
    replaced_at = UTCDateTimeField()
    replaced_by = CharField(max_length=100, null=True)

    class Meta:
        default_permissions = ()
        db_table = "chokaq_payload_version"
        verbose_name = _("payload version")
        verbose_name_plural = _("payload versions")

    def __str__(self) -> str:
        return f"{self.job_id} at revision {self.revision}"
