"""What workers share: who is alive, who leads, which circuits are open."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CharField, KeyField, TextField, UTCDateTimeField


class Worker(models.Model):
    """One worker process. Removed on clean exit, swept when dead."""

    id = KeyField(max_length=100, primary_key=True, help_text=_("Random at each start."))
    host = CharField(max_length=255)
    pid = models.IntegerField()
    version = CharField(max_length=50)
    queues = TextField(help_text=_("JSON list of names; empty for all queues."))
    concurrency = models.IntegerField()
    async_concurrency = models.IntegerField()
    desired_concurrency = models.IntegerField(null=True)
    state = CharField(max_length=20, help_text=_("running or draining."))
    started_at = UTCDateTimeField()
    last_seen = UTCDateTimeField()
    busy = models.IntegerField(default=0)
    buffered = models.IntegerField(default=0)
    succeeded = models.BigIntegerField(default=0)
    failed = models.BigIntegerField(default=0)
    retried = models.BigIntegerField(default=0)
    conflicts = models.BigIntegerField(default=0)
    rss_mb = models.FloatField(null=True)
    stop_requested = models.BooleanField(default=False)
    clock_offset = models.FloatField(
        null=True, help_text=_("Seconds that its machine's clock is ahead of the database's; negative: behind.")
    )
    clock_doubt = models.FloatField(null=True, help_text=_("Seconds by which clock_offset may be wrong."))
    types = TextField(null=True, help_text=_("JSON list of the type keys and patterns that its code knows."))

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_worker"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        ordering = ["host", "pid"]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class LeaderLease(models.Model):
    """One worker in the fleet does this now."""

    name = KeyField(max_length=100, primary_key=True)
    holder = KeyField(max_length=100)
    term = models.BigIntegerField(default=0)
    expires_at = UTCDateTimeField()

    class Meta:
        default_permissions = ()
        db_table = "chokaq_leader_lease"

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder}"


class Circuit(models.Model):
    """Shared circuit breaker of one type key. No row means closed."""

    CLOSED, OPEN, HALF_OPEN = 0, 1, 2

    type = KeyField(max_length=255, primary_key=True)
    state = models.IntegerField(choices=[(0, _("Closed")), (1, _("Open")), (2, _("Half open"))], default=0)
    failures = models.IntegerField(default=0)
    window_started_at = UTCDateTimeField(null=True)
    opened_at = UTCDateTimeField(null=True)
    open_until = UTCDateTimeField(null=True)
    probes = TextField(default="[]", help_text=_("JSON list of probe leases: job id and expiry."))
    probe_successes = models.IntegerField(default=0)
    forced = models.BooleanField(default=False, help_text=_("Opened by an operator; only an operator closes it."))
    updated_at = UTCDateTimeField()
    updated_by = CharField(max_length=100, null=True)

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_circuit"
        verbose_name = _("circuit")
        verbose_name_plural = _("circuits")
        ordering = ["type"]

    def __str__(self) -> str:
        return str(self.type)
