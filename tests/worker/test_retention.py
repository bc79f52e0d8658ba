"""What the retention loop deletes, and what it leaves alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.utils import timezone

from chokaq_django.conf import get_options
from chokaq_django.models import FailureReason, JobArchive, JobDLQ, JobTrash
from chokaq_django.storage import get_storage, open_storage
from chokaq_django.worker.retention import Retention
from tests import factories as make

from .support import committed, use_options

pytestmark = committed

DAY = dt.timedelta(days=1)


def trim(settings: Any, **retention: Any) -> None:
    use_options(settings, RETENTION=retention)
    Retention(get_options(), "worker-1", open_storage).trim(get_storage())


def test_each_place_has_its_own_time(settings: Any) -> None:
    now = timezone.now()
    kept = [
        make.archived(finished_at=now - 29 * DAY).pk,
        make.dead(failed_at=now - 300 * DAY).pk,
        make.dead(failed_at=now - 6 * DAY, failure_reason=FailureReason.EXPIRED).pk,
        make.purged(purged_at=now - 300 * DAY, expires_at=now + DAY).pk,
        make.purged(purged_at=now - 300 * DAY, expires_at=None).pk,
    ]
    make.archived(finished_at=now - 31 * DAY)
    make.dead(failed_at=now - 8 * DAY, failure_reason=FailureReason.EXPIRED)
    make.purged(purged_at=now, expires_at=now - dt.timedelta(seconds=5))
    trim(settings)
    left = [
        pk for model in (JobArchive, JobDLQ, JobTrash) for pk in model._default_manager.values_list("pk", flat=True)
    ]
    assert sorted(left) == sorted(kept)


def test_what_was_purged_keeps_the_time_it_was_given(settings: Any) -> None:
    """Whatever the setting says now: somebody may count on getting it back."""
    make.purged(expires_at=timezone.now() - dt.timedelta(seconds=5))
    row = make.purged(expires_at=timezone.now() + DAY)
    trim(settings, TRASH=None)
    assert [found.pk for found in JobTrash.objects.all()] == [row.pk]
    trim(settings, TRASH=1)
    assert JobTrash.objects.count() == 1
