"""Registers the pages with Django's admin."""

from __future__ import annotations

from django.contrib import admin

from ..models import AuditEntry, Circuit, JobArchive, JobDLQ, JobHot, Queue, Worker
from .fleet import AuditEntryAdmin, CircuitAdmin, QueueAdmin, WorkerAdmin
from .jobs import ActiveJobAdmin, ArchivedJobAdmin, DeadJobAdmin

admin.site.register(JobHot, ActiveJobAdmin)
admin.site.register(JobArchive, ArchivedJobAdmin)
admin.site.register(JobDLQ, DeadJobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Worker, WorkerAdmin)
admin.site.register(Circuit, CircuitAdmin)
admin.site.register(AuditEntry, AuditEntryAdmin)
