"""Bulk operations under kill -9, and at the size that they are for."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from chokaq_django import control
from chokaq_django.control import BulkItemState, BulkState, BulkView, JobFilter
from chokaq_django.job.ids import new_id
from chokaq_django.models import BulkItem, FailureReason, JobArchive, JobDLQ, JobHot, JobTrash, PayloadVersion
from chokaq_django.storage import get_storage

from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from ..scale import VERY_MANY
from ..storage.invariants import Sampler
from .support import workers_there

OPTIONS = {
    "RECOVERY": {"WORKER_TIMEOUT": 2, "SCAN_INTERVAL": 0.3, "CRASH_LIMIT": 1_000},
    "EXECUTION": {"HEARTBEAT_MIN": 0.2, "HEARTBEAT_MAX": 0.4},
    "CIRCUIT": {"FAILURES": 10_000},
}
WHERE = JobFilter(status="dead", queue="mail")


def corpses(sampler: Sampler, count: int, **columns: Any) -> None:
    now = timezone.now()

    def rows() -> Iterator[JobDLQ]:
        for number in range(count):
            base = {
                "queue": "mail", "type": "test.note", "payload": '{"name":"a"}', "created_at": now, "run_at": now,
                "due_at": now, "failed_at": now - dt.timedelta(milliseconds=number),
                "failure_reason": FailureReason.FATAL_ERROR, **columns,
            }  # fmt: skip
            yield JobDLQ(id=new_id(), **base)

    with sampler.accepting(count), transaction.atomic():
        JobDLQ.objects.bulk_create(rows(), batch_size=2_000)
        get_storage().recount_groups()


def seen(view: BulkView) -> BulkView:
    found = control.bulk_get(view.id)
    assert found is not None
    return found


def test_killed_half_way_it_acts_on_exactly_the_frozen_set_each_job_once(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    total, others = 3_000, 200
    corpses(sampler, total)
    corpses(sampler, others, queue="sms")
    frozen = set(JobDLQ.objects.filter(queue="mail").values_list("pk", flat=True))
    view = control.bulk_resurrect(where=WHERE, by="ada", rate=600)
    reached = kills = 0
    while kills < 5 and total - reached >= 800:
        worker = worker_process("--processes=2", "--concurrency=2", options=OPTIONS)
        reached += 400
        wait_until(lambda reached=reached: seen(view).done >= reached, 60, what=f"kill {kills}: {seen(view)}")
        worker.kill()
        reached = seen(view).done
        kills += reached < total  # on a busy machine it may be over before this process notices
    assert kills >= 2, "it was over before it was killed: the test shows nothing"
    if reached < total:
        control.bulk_pause(view.id, by="ada")
    worker_process("--concurrency=4", options=OPTIONS)
    if reached < total:
        control.bulk_resume(view.id, by="ada")
    view = control.bulk_wait(view.id, 60)
    wait_until(lambda: not JobHot.objects.exists(), 60, what="all jobs have ended")
    assert (view.state, view.total, view.done, view.applied, view.refused) == (BulkState.DONE, total, total, total, 0)
    items = BulkItem.objects.filter(operation_id=view.id)
    assert set(items.values_list("job_id", flat=True)) == frozen
    assert set(items.values_list("state", flat=True)) == {BulkItemState.APPLIED}
    for model in (JobArchive, JobDLQ):  # where jobs are that ran, and those that ran when their worker was killed
        assert set(model.objects.filter(pk__in=frozen).values_list("generation", flat=True)) <= {1}
    assert set(JobDLQ.objects.filter(queue="sms").values_list("generation", flat=True)) == {0}
    assert max(ledger.per_job().values()) == 1, "a job ran twice"


def test_killed_half_way_it_patches_each_payload_once(
    worker_process: Callable[..., WorkerProcess], sampler: Sampler
) -> None:
    total = 3_000
    corpses(sampler, total, type="test.every", payload='{"number":1,"names":["a"]}')
    patch = [{"op": "test", "path": "/number", "value": 1}, {"op": "add", "path": "/names/-", "value": "b"}]
    view = control.bulk_edit(where=WHERE, patch=patch, by="ada", rate=500)
    for kill in range(2):
        before = seen(view).done
        worker = worker_process("--concurrency=1", options=OPTIONS)
        wait_until(lambda before=before: seen(view).done > before + 200, 60, what=f"kill {kill}", interval=0.01)
        worker.kill()
        assert seen(view).done < total, "it was over before it was killed: the test shows nothing"
    control.bulk_set_rate(view.id, None, by="ada")
    view = control.bulk_run(view.id)  # no worker runs
    assert (view.state, view.total, view.applied, view.refused) == (BulkState.DONE, total, total, 0)
    [(payload, revision)] = set(JobDLQ.objects.values_list("payload", "revision"))
    assert (json.loads(payload)["names"], revision) == (["a", "b"], 1)
    assert PayloadVersion.objects.count() == total


def test_killed_while_the_set_is_frozen(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    total = 11_000
    corpses(sampler, total)
    view = control.bulk_purge(where=WHERE, by="ada")
    for kill in range(2):
        before = seen(view)
        worker = worker_process("--concurrency=1", options=OPTIONS)
        wait_until(
            lambda before=before: (
                (now := seen(view)).total > before.total or now.done > before.done or now.state is BulkState.DONE
            ),
            60, what=f"kill {kill}", interval=0.002,
        )  # fmt: skip
        worker.kill()
    view = control.bulk_run(view.id) if seen(view).state is not BulkState.DONE else seen(view)  # no worker runs
    assert (view.state, view.applied, view.refused) == (BulkState.DONE, total, 0)
    assert (JobTrash.objects.count(), JobDLQ.objects.count()) == (total, 0)
    assert BulkItem.objects.count() == total


@pytest.mark.slow
def test_very_many_at_full_speed(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """One of the two workers is killed half-way."""
    corpses(sampler, VERY_MANY)
    workers = [worker_process("--concurrency=4", options=OPTIONS) for _ in range(2)]
    wait_until(lambda: workers_there(2), 30, what="both workers are up")
    began = time.monotonic()
    view = control.bulk_resurrect(where=WHERE, by="ada")
    answered = time.monotonic() - began
    wait_until(lambda: seen(view).done >= VERY_MANY // 3, 60, what="a third is done", interval=0.005)
    workers.pop().kill()
    view = control.bulk_wait(view.id, 120)
    took = time.monotonic() - began
    assert view.started_at is not None
    freezing = (view.started_at - view.created_at).total_seconds()
    print(f"request {answered * 1000:.0f} ms, frozen after {freezing:.1f} s, {view.done:,} resurrected in {took:.1f} s")
    for worker in workers:
        worker.signal(signal.SIGTERM)
    assert (view.state, view.applied, view.refused) == (BulkState.DONE, VERY_MANY, 0)
    assert took < 60
    assert JobDLQ.objects.filter(generation=0).count() == 0
    assert max(ledger.per_job().values()) == 1, "a job ran twice"


@pytest.mark.slow
def test_very_many_at_a_drip_stop_by_themselves(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    """The first are fine, then each dies again, and 20 % may. The worker is killed on the way, and another goes on."""
    fine = 250
    corpses(sampler, fine)
    corpses(sampler, VERY_MANY - fine, type="test.fail", payload="{}", max_attempts=1)
    frozen = list(JobDLQ.objects.order_by("pk").values_list("pk", flat=True))
    worker = worker_process("--processes=2", "--concurrency=4", options=OPTIONS)
    view = control.bulk_resurrect(where=WHERE, by="ada", rate=50, stop_at=0.2)
    wait_until(lambda: seen(view).done >= 70, 60, what="it is under way", interval=0.01)
    worker.kill()
    assert seen(view).done < fine, "it was killed too late to show anything"
    worker_process("--concurrency=4", options=OPTIONS)
    view = control.bulk_wait(view.id, 60)
    print(f"stopped after {view.done} of {view.total:,}: {view.message}")
    assert (view.state, view.total, view.refused) == (BulkState.STOPPED, VERY_MANY, 0)
    assert "at most 20.0% may" in view.message
    assert fine < view.done < VERY_MANY
    wait_until(lambda: not JobHot.objects.exists(), 30, what="all that came back have ended")
    again = {
        pk for model in (JobArchive, JobDLQ) for pk in model.objects.filter(generation=1).values_list("pk", flat=True)
    }
    assert again == set(frozen[: view.done])
    assert set(JobDLQ.objects.exclude(pk__in=again).values_list("generation", flat=True)) == {0}
    assert max(ledger.per_job().values()) == 1, "a job ran twice"


def digest() -> tuple[int, str]:
    """How many dead jobs there are, and what all their columns say."""
    total, text = 0, hashlib.sha256()
    for values in JobDLQ.objects.order_by("pk").values_list().iterator(2_000):
        total += 1
        text.update(repr(values).encode())
    return total, text.hexdigest()


@pytest.mark.slow
def test_very_many_purged_and_restored_are_identical_in_every_column(
    worker_process: Callable[..., WorkerProcess], ledger: Ledger, sampler: Sampler
) -> None:
    corpses(
        sampler,
        VERY_MANY,
        attempt_log='[{"attempt":1}]',
        error_details="Zeile 1\n\U0001f600",
        tags='["a"]',
        idempotency_key=None,
    )
    before = digest()
    worker_process("--concurrency=1", options=OPTIONS)
    began = time.monotonic()
    purged = control.bulk_wait(control.bulk_purge(where=WHERE, by="ada").id, 120)
    took = time.monotonic() - began
    assert (purged.applied, JobDLQ.objects.count(), JobTrash.objects.count()) == (VERY_MANY, 0, VERY_MANY)
    began = time.monotonic()
    undone = control.bulk_wait(control.bulk_undo(purged.id, by="ada").id, 120)
    print(f"{VERY_MANY:,} purged in {took:.1f} s, restored in {time.monotonic() - began:.1f} s")
    assert (undone.applied, undone.refused) == (VERY_MANY, 0)
    assert digest() == before
