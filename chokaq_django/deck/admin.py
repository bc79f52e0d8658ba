"""Registers the pages with Django's admin."""

from __future__ import annotations

from django.contrib import admin

from ..models import AuditEntry, Circuit, JobArchive, JobDLQ, JobHot, JobTrash, Queue, Worker
from .fleet import AuditEntryAdmin, CircuitAdmin, QueueAdmin, WorkerAdmin
from .jobs import ActiveJobAdmin, ArchivedJobAdmin, DeadJobAdmin, PurgedJobAdmin

admin.site.register(JobHot, ActiveJobAdmin)
admin.site.register(JobArchive, ArchivedJobAdmin)
admin.site.register(JobDLQ, DeadJobAdmin)
admin.site.register(JobTrash, PurgedJobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Worker, WorkerAdmin)
admin.site.register(Circuit, CircuitAdmin)
admin.site.register(AuditEntry, AuditEntryAdmin)
