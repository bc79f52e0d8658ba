"""Registers the pages with Django's admin."""

from __future__ import annotations

from django.contrib import admin

from ..models import AuditEntry, Circuit, Deck, JobArchive, JobDLQ, JobHot, JobTrash, Queue, Worker
from .audit import AuditEntryAdmin
from .fleet import CircuitAdmin, QueueAdmin, WorkerAdmin
from .jobs import ActiveJobAdmin, ArchivedJobAdmin, DeadJobAdmin, PurgedJobAdmin
from .site import DeckAdmin

admin.site.register(Deck, DeckAdmin)
admin.site.register(JobHot, ActiveJobAdmin)
admin.site.register(JobArchive, ArchivedJobAdmin)
admin.site.register(JobDLQ, DeadJobAdmin)
admin.site.register(JobTrash, PurgedJobAdmin)
admin.site.register(Queue, QueueAdmin)
admin.site.register(Worker, WorkerAdmin)
admin.site.register(Circuit, CircuitAdmin)
admin.site.register(AuditEntry, AuditEntryAdmin)
