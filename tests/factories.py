"""Rows in any state, written through the ORM: for tests of what looks at rows and acts on them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.contrib.auth.models import Permission, User
from django.utils import timezone

from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    AuditEntry,
    Circuit,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobHot,
    JobStatus,
    JobTrash,
    Queue,
    Worker,
)

WORKER_ID = "worker-1"


def _base(**columns: Any) -> dict[str, Any]:
    now = timezone.now()
    return {
        "id": new_id(),
        "queue": "mail",
        "type": "test.note",
        "payload": '{"name":"a"}',
        "created_at": now,
        "run_at": now,
        "due_at": now,
        **columns,
    }


def hot(**columns: Any) -> JobHot:
    """A pending job, unless ``columns`` say otherwise."""
    row: JobHot = JobHot.objects.create(**_base(updated_at=timezone.now(), **columns))
    return row


def running(**columns: Any) -> JobHot:
    """A job in its first attempt."""
    now = timezone.now()
    started = {"started_at": now, "heartbeat_at": now, "worker_id": WORKER_ID, "attempt": 1, "claim_number": 1}
    return hot(status=JobStatus.PROCESSING, **{**started, **columns})


def archived(**columns: Any) -> JobArchive:
    """A job that succeeded."""
    done = {"finished_at": timezone.now(), "duration_ms": 1530, "wait_ms": 12, "attempt": 1, "result": '{"sent":1}'}
    row: JobArchive = JobArchive.objects.create(**_base(**{**done, **columns}))
    return row


def dead(**columns: Any) -> JobDLQ:
    """A job whose attempts are used up."""
    ended = {
        "failed_at": timezone.now(),
        "failure_reason": FailureReason.MAX_RETRIES_EXCEEDED,
        "error_type": "shop.partner.PartnerError",
        "error_details": "Traceback: the secret of the error",
        "fingerprint": "f" * 32,
        "attempt": 3,
        "claim_number": 3,
    }
    row: JobDLQ = JobDLQ.objects.create(**_base(**{**ended, **columns}))
    return row


def purged(**columns: Any) -> JobTrash:
    """A dead job that was purged."""
    failed = {
        "failed_at": timezone.now(),
        "failure_reason": FailureReason.MAX_RETRIES_EXCEEDED,
        "error_details": "Traceback: the secret of the error",
        "note": "",
        "came_from": "dlq",
        "purged_at": timezone.now(),
        "purged_by": "ada",
    }
    row: JobTrash = JobTrash.objects.create(**_base(**{**failed, **columns}))
    return row


def queue(name: str = "mail", **columns: Any) -> Queue:
    row: Queue = Queue.objects.create(name=name, **{"updated_at": timezone.now(), **columns})
    return row


def worker(worker_id: str = WORKER_ID, **columns: Any) -> Worker:
    now = timezone.now()
    said = {
        "host": "web-1",
        "pid": 4711,
        "version": "0.1.0",
        "queues": "[]",
        "concurrency": 10,
        "async_concurrency": 100,
        "state": "running",
        "started_at": now - dt.timedelta(hours=1),
        "last_seen": now,
    }
    row: Worker = Worker.objects.create(id=worker_id, **{**said, **columns})
    return row


def circuit(type_key: str = "test.note", **columns: Any) -> Circuit:
    row: Circuit = Circuit.objects.create(type=type_key, **{"updated_at": timezone.now(), **columns})
    return row


def audit_entry(**columns: Any) -> AuditEntry:
    said = {"id": new_id(), "at": timezone.now(), "by": "ada", "action": "cancel", "target": new_id()}
    row: AuditEntry = AuditEntry.objects.create(**{**said, **columns})
    return row


def operator(*permissions: str, username: str = "ada", **columns: Any) -> User:
    """A member of the staff with permissions of the app ``chokaq``, such as ``cancel``."""
    user: User = User.objects.create_user(username, password="x", **{"is_staff": True, **columns})
    found = Permission.objects.filter(content_type__app_label="chokaq", codename__in=permissions)
    assert {permission.codename for permission in found} == set(permissions)
    user.user_permissions.set(found)
    return User.objects.get(pk=user.pk)
