"""Queues: the operational partitions of the work."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CharField, KeyField, UTCDateTimeField


class Queue(models.Model):
    """Limits and switches of one queue. A missing row means the defaults; enqueue never writes here.

    ``updated_at`` and ``updated_by`` are of the limits: while somebody has signed for them, they are not the settings'.
    """

    name = KeyField(max_length=255, primary_key=True)
    is_paused = models.BooleanField(default=False, help_text=_("Nothing new is claimed; jobs keep their place."))
    is_active = models.BooleanField(default=True, help_text=_("Off hides the queue and stops claiming."))
    max_workers = models.IntegerField(
        null=True, blank=True, help_text=_("At most this many jobs of the queue at once, in the whole fleet.")
    )
    zombie_timeout = models.FloatField(null=True, blank=True, help_text=_("Seconds without a heartbeat."))
    execution_timeout = models.FloatField(null=True, blank=True, help_text=_("Seconds a job may run."))
    window_start = models.TimeField(null=True, blank=True)
    window_end = models.TimeField(null=True, blank=True)
    window_zone = CharField(max_length=64, null=True, blank=True)
    updated_at = UTCDateTimeField()
    updated_by = CharField(max_length=100, null=True, blank=True)

    class Meta:
        default_permissions = ("view",)
        db_table = "chokaq_queue"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        ordering = ["name"]

    def __str__(self) -> str:
        return str(self.name)
