"""Failure groups: what comes into the DLQ and what leaves it is counted in the same transaction, by every way in and
out, and the counts can be folded, forgotten and set right while jobs move."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models import Max, Min, Sum
from django.test.utils import CaptureQueriesContext

from chokaq_django.job.error_info import describe
from chokaq_django.job.failures import FailureReason
from chokaq_django.job.fingerprint import fingerprint
from chokaq_django.models import FailureGroup, FailureTotal, JobDLQ
from chokaq_django.storage import JobEdit, OutcomeKind, Storage, StorageError, get_storage
from chokaq_django.storage.contract import RescueAction
from chokaq_django.storage.groups import last_line

from .invariants import assert_one_place
from .support import NOBODY, WORKER, Jobs, committed, outcome, row, rule, together, trim, undone

pytestmark = committed

F = FailureReason
ONE, OTHER = "1" * 32, "2" * 32
MAIL = (ONE, "mail", "email.send.v1")


def counted() -> dict[tuple[str, str, str], tuple[int, int]]:
    """Fingerprint, queue, type -> how many are in the DLQ, and how many ever died, of all shards together."""
    rows = FailureGroup.objects.order_by().values_list("fingerprint", "queue", "type")
    return {tuple(kind): (count, total) for *kind, count, total in rows.annotate(c=Sum("count"), t=Sum("total"))}


@pytest.fixture(autouse=True)
def groups_are_true(transactional_db: None) -> Iterator[None]:
    """At the end of every test, whatever it did."""
    yield
    assert_one_place()


def dead(jobs: Jobs, count: int = 1, *, group: str = ONE, **columns: Any) -> list[str]:
    """Jobs that have died in one settle, of this fingerprint."""
    running = jobs.running(count, **columns)
    told = {"error_type": "shop.Refused", "error_details": "Traceback:\nshop.Refused: no stock", "fingerprint": group}
    assert len(jobs.settle(running, OutcomeKind.DEAD, **told)) == count
    return [job.id for job in running]


# -- in ----------------------------------------------------------------------------------------------------------------


def test_a_group_tells_what_died_how_often_and_since_when(jobs: Jobs) -> None:
    before = jobs.now()
    (first,) = dead(jobs)
    between = jobs.now()
    second, third = sorted(dead(jobs, 2))
    after = jobs.now()
    assert counted() == {MAIL: (3, 3)}
    group = FailureGroup.objects.order_by("-last_seen").first()
    assert group is not None
    assert (group.reason, group.error_type, group.message) == (F.FATAL_ERROR, "shop.Refused", "shop.Refused: no stock")
    assert group.sample_id in (second, third)
    seen = FailureGroup.objects.aggregate(first=Min("first_seen"), last=Max("last_seen"))
    assert before <= seen["first"] <= between < seen["last"] <= after
    assert before <= row(first)["failed_at"] <= between < row(third)["failed_at"] <= after


@pytest.mark.parametrize("kind", [OutcomeKind.DEAD, OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD])
@pytest.mark.parametrize("count", [1, 3])
def test_each_kind_of_death_is_counted(jobs: Jobs, kind: OutcomeKind, count: int) -> None:
    taken = jobs.running(count) if kind is OutcomeKind.DEAD else jobs.fetched(count)
    jobs.settle(taken, kind, fingerprint=ONE)
    assert counted() == {MAIL: (count, count)}


def test_one_settle_of_many_groups(jobs: Jobs, storage: Storage) -> None:
    """Several groups, several jobs each, beside outcomes of other kinds."""
    running = [*jobs.running(6), *jobs.running(3, queue="reports", type="report.v1")]
    kinds = [OutcomeKind.DEAD] * 7 + [OutcomeKind.SUCCEEDED, OutcomeKind.RETRY]
    outcomes = [
        outcome(job, kind, fingerprint=(ONE, OTHER)[number % 2], error_details=f"E: {job.id}")
        for number, (job, kind) in enumerate(zip(running, kinds, strict=True))
    ]
    assert len(storage.settle(WORKER, outcomes)) == 9
    assert counted() == {
        MAIL: (3, 3), (OTHER, "mail", "email.send.v1"): (3, 3), (ONE, "reports", "report.v1"): (1, 1),
    }  # fmt: skip
    for group in FailureGroup.objects.all():
        assert group.message == f"E: {group.sample_id}", "the sample's own"


def test_hundreds_of_groups_in_one_settle(jobs: Jobs, storage: Storage) -> None:
    running = jobs.running(300)
    storage.settle(WORKER, [outcome(job, OutcomeKind.DEAD, fingerprint=f"{n:032x}") for n, job in enumerate(running)])
    assert len(counted()) == 300


def test_what_does_not_apply_is_not_counted(jobs: Jobs, storage: Storage) -> None:
    held, lost = jobs.running(2)
    storage.settle(WORKER, [outcome(lost)])
    outcomes = [outcome(job, OutcomeKind.DEAD, fingerprint=ONE, error_details=f"E: {job.id}") for job in (held, lost)]
    assert storage.settle(WORKER, outcomes) == {held.id}
    assert counted() == {MAIL: (1, 1)}
    assert FailureGroup.objects.get().sample_id == held.id
    assert FailureGroup.objects.get().message == f"E: {held.id}"


def test_a_settle_that_is_repeated_counts_once(jobs: Jobs) -> None:
    running = jobs.running(2)
    for _ in range(2):
        assert len(jobs.settle(running, OutcomeKind.DEAD, fingerprint=ONE)) == 2
    assert counted() == {MAIL: (2, 2)}


def test_a_settle_that_is_rolled_back_counts_nothing(jobs: Jobs) -> None:
    running = jobs.running(2)
    with undone():
        jobs.settle(running, OutcomeKind.DEAD, fingerprint=ONE)
    assert counted() == {}


def test_every_dead_job_is_in_a_group(jobs: Jobs, storage: Storage) -> None:
    """Also those of which no more is known than why."""
    plain = jobs.running(2)
    jobs.settle(plain, OutcomeKind.DEAD)
    (typed,) = jobs.running()
    jobs.settle(typed, OutcomeKind.DEAD, error_type="E")
    cancelled = jobs.add(2)
    storage.cancel(cancelled, "ada")
    (late,) = jobs.add(1, deadline_after=-1.0)
    assert storage.expire(10) == 1
    kinds = {job_id: row(job_id)["fingerprint"] for job_id in (plain[0].id, typed.id, cancelled[0], late)}
    assert len(set(kinds.values())) == 4
    assert kinds[cancelled[0]] == fingerprint(F.CANCELLED, None)
    assert kinds[late] == fingerprint(F.EXPIRED, None)
    assert {kind[0]: count for kind, (count, _) in counted().items()} == {
        kinds[plain[0].id]: 2, kinds[typed.id]: 1, kinds[cancelled[0]]: 2, kinds[late]: 1,
    }  # fmt: skip


def test_rescued_and_cancelled_while_running(jobs: Jobs, storage: Storage) -> None:
    zombie, asked = jobs.running(2)
    storage.cancel([asked.id], "ada")
    rows = {live.id: live for live in storage.live_rows()}
    actions = [
        RescueAction(rows[job.id], "dlq", "[]", reason=F.ZOMBIE, error_details="Worker died.\n", fingerprint=ONE)
        for job in (zombie, asked)
    ]
    assert storage.rescue(actions) == {zombie.id, asked.id}
    assert counted()[MAIL] == (1, 1)
    assert FailureGroup.objects.get(fingerprint=ONE).message == "Worker died."
    assert FailureGroup.objects.get(fingerprint=fingerprint(F.CANCELLED, None)).reason == F.CANCELLED


def test_a_late_request_to_cancel_is_counted(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    storage.cancel([job.id], "ada")
    jobs.settle(job, OutcomeKind.RETRY)
    assert row(job.id)["place"] == "dlq"
    assert list(counted().values()) == [(1, 1)]


# -- out and back ------------------------------------------------------------------------------------------------------


def test_resurrected_jobs_leave_their_group(jobs: Jobs, storage: Storage) -> None:
    first, second, third = dead(jobs, 3)
    (kept,) = dead(jobs, idempotency_key="k", group=OTHER)
    jobs.one(idempotency_key="k")
    answer = storage.resurrect([first, second, kept, NOBODY], "ada")
    assert answer.applied == [first, second]
    assert counted() == {MAIL: (1, 3), (OTHER, "mail", "email.send.v1"): (1, 1)}
    storage.resurrect([third], "ada", payload="{}", priority=3)
    storage.resurrect([kept], "ada", on_key_conflict="drop")
    assert counted() == {MAIL: (0, 3), (OTHER, "mail", "email.send.v1"): (0, 1)}


def test_a_job_that_dies_again_is_counted_again(jobs: Jobs, storage: Storage) -> None:
    ids = dead(jobs, 2)
    storage.resurrect(ids, "ada")
    jobs.settle(jobs.take(10), OutcomeKind.DEAD, fingerprint=ONE)
    assert counted() == {MAIL: (2, 4)}


def test_purged_and_restored(jobs: Jobs, storage: Storage) -> None:
    ids = dead(jobs, 3)
    archived = jobs.archived(2)
    storage.purge([*ids[:2], *archived], "ada", None)
    assert counted() == {MAIL: (1, 3)}
    before = FailureGroup.objects.aggregate(Min("first_seen"), Max("last_seen"))
    storage.restore([*ids[:2], *archived])
    assert counted() == {MAIL: (3, 3)}
    assert FailureGroup.objects.aggregate(Min("first_seen"), Max("last_seen")) == before, "nothing new has happened"


def test_a_restored_job_whose_group_is_forgotten_brings_it_back(jobs: Jobs, storage: Storage) -> None:
    (job_id,) = dead(jobs)
    storage.purge([job_id], "ada", None)
    FailureGroup.objects.all().delete()
    storage.restore([job_id])
    group, stored = FailureGroup.objects.get(), row(job_id)
    assert (group.count, group.total, group.sample_id) == (1, 0, job_id)
    assert (group.reason, group.error_type) == (stored["failure_reason"], stored["error_type"])
    assert group.first_seen == group.last_seen == stored["failed_at"]


def test_removed_and_expired_in_the_trash_touches_no_group(jobs: Jobs, storage: Storage) -> None:
    storage.remove(jobs.add(2), "ada", None)
    storage.purge(dead(jobs), "ada", -1.0)
    before = counted()
    assert storage.expire_trash(10) == 1
    assert counted() == before == {MAIL: (0, 1)}


@pytest.mark.parametrize("changes", [{"queue": "other"}, {"type": "other.v1"}, {"queue": "other", "type": "other.v1"}])
def test_an_edit_of_queue_or_type_moves_dead_jobs_between_groups(
    jobs: Jobs, storage: Storage, changes: dict[str, str]
) -> None:
    ids = dead(jobs, 3)
    waiting = jobs.one()
    storage.edit(dict.fromkeys([*ids[:2], waiting]), "ada", JobEdit(**changes))
    moved = (ONE, changes.get("queue", "mail"), changes.get("type", "email.send.v1"))
    assert counted() == {MAIL: (1, 3), moved: (2, 0)}
    group = FailureGroup.objects.filter(queue=moved[1], type=moved[2]).get()
    assert (group.reason, group.error_type, group.sample_id in ids[:2]) == (F.FATAL_ERROR, "shop.Refused", True)
    storage.resurrect(ids, "ada")
    assert counted() == {MAIL: (0, 3), moved: (0, 0)}


def test_an_edit_of_anything_else_moves_nothing(jobs: Jobs, storage: Storage) -> None:
    first, second = dead(jobs, 2)
    storage.edit({first: None}, "ada", JobEdit(priority=3, payload="{}"))
    storage.edit({first: None, second: None}, "ada", JobEdit(priority=4, queue="mail"))
    assert counted() == {MAIL: (2, 2)}
    assert FailureGroup.objects.count() == 1, "and writes no row"


def test_retention_takes_jobs_out_of_their_groups(jobs: Jobs, storage: Storage) -> None:
    old, young = dead(jobs, 2), dead(jobs, 1)
    (other,) = dead(jobs, group=OTHER)
    jobs.shift([*old, other], JobDLQ, failed_at=-3600.0)
    assert trim(storage, rule("dlq", 1800.0)) == 3
    assert counted() == {MAIL: (1, 3), (OTHER, "mail", "email.send.v1"): (0, 1)}
    assert trim(storage, rule("dlq", 0.0, failure_reason=[int(F.ZOMBIE)])) == 1
    assert counted()[MAIL] == (0, 3)
    assert row(jobs.one())["place"] == "hot"
    assert not JobDLQ.objects.filter(pk__in=young).exists()


def test_a_job_of_before_there_were_groups_is_counted_nowhere_until_it_is(jobs: Jobs, storage: Storage) -> None:
    ids = dead(jobs, 2)
    FailureGroup.objects.all().delete()
    JobDLQ.objects.update(fingerprint=None)
    storage.resurrect(ids[:1], "ada")
    storage.purge(ids[1:], "ada", None)
    storage.restore(ids[1:])
    assert counted() == {}
    assert storage.recount_groups() == 1
    assert list(counted().values()) == [(1, 1)]


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(connection.vendor == "microsoft", reason="settles are one batch there")
def test_work_that_does_not_fail_costs_no_statement_for_groups(jobs: Jobs, storage: Storage) -> None:
    running = jobs.running(4)
    kinds = (OutcomeKind.SUCCEEDED, OutcomeKind.RETRY, OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED)
    with CaptureQueriesContext(connection) as queries:
        storage.settle(WORKER, [outcome(job, kind) for job, kind in zip(running, kinds, strict=True)])
    assert not [query["sql"] for query in queries if "failure_group" in query["sql"]]


def test_jobs_that_die_alike_cost_one_statement_together(jobs: Jobs, storage: Storage) -> None:
    running = jobs.running(50)
    with CaptureQueriesContext(connection) as queries:
        jobs.settle(running, OutcomeKind.DEAD, fingerprint=ONE)
    writes = [query["sql"] for query in queries if "failure_group" in query["sql"]]
    assert len(writes) == 1
    with CaptureQueriesContext(connection) as queries:
        storage.resurrect([job.id for job in running], "ada")
    assert len([query["sql"] for query in queries if "failure_group" in query["sql"]]) == 1


# -- shards ------------------------------------------------------------------------------------------------------------


def shards() -> set[str]:
    return set(FailureGroup.objects.values_list("shard", flat=True))


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time: a single shard")
def test_writers_of_one_group_do_not_wait_for_each_other(jobs: Jobs, other: Storage) -> None:
    first, second = jobs.running(1), jobs.running(1, worker="worker-2")
    with transaction.atomic():
        jobs.settle(first, OutcomeKind.DEAD, fingerprint=ONE)
        assert other.settle("worker-2", [outcome(second[0], OutcomeKind.DEAD, fingerprint=ONE)]) == {second[0].id}
    mine, theirs = jobs.one(), jobs.one()
    with transaction.atomic():
        get_storage().cancel([mine], "ada")
        assert other.cancel([theirs], "bob").applied
    assert counted()[MAIL] == (2, 2)
    assert len(shards()) >= 2


def test_many_writers_lose_no_count(jobs: Jobs) -> None:
    jobs.add(120)

    def work(number: int, own: Storage) -> None:
        mine, worker = Jobs(own), f"worker-{number}"
        for turn in range(8):
            taken = mine.take(5, worker=worker)
            outcomes = [outcome(job, OutcomeKind.DEAD, fingerprint=(ONE, OTHER)[turn % 2]) for job in taken]
            own.settle(worker, outcomes)
            own.resurrect([job.id for job in taken[:2]], "ada")
            own.purge([job.id for job in taken[2:3]], "ada", None)
            own.fold_groups(100)

    together(3, work)


def test_folding_leaves_one_row_for_each_group(jobs: Jobs, storage: Storage, other: Storage) -> None:
    ids = dead(jobs, 3)
    dead(Jobs(other), 2)
    dead(jobs, group=OTHER)
    (newest,) = dead(jobs)
    other.resurrect(ids[:1], "ada")
    before = counted()
    seen = FailureGroup.objects.aggregate(Min("first_seen"), Max("last_seen"))
    assert storage.fold_groups(100) >= (2 if connection.vendor == "sqlite" else 3)
    assert storage.fold_groups(100) == 0
    assert shards() == {""}
    assert counted() == before == {MAIL: (5, 6), (OTHER, "mail", "email.send.v1"): (1, 1)}
    assert FailureGroup.objects.aggregate(Min("first_seen"), Max("last_seen")) == seen
    group = FailureGroup.objects.get(fingerprint=ONE)
    assert (group.sample_id, group.message) == (newest, "shop.Refused: no stock")
    storage.resurrect(ids[1:], "ada")
    storage.fold_groups(100)
    assert counted()[MAIL] == (3, 6)
    assert FailureGroup.objects.get(fingerprint=ONE).sample_id == newest


def test_folding_stops_at_its_limit_and_goes_on(jobs: Jobs, storage: Storage) -> None:
    for number in range(5):
        dead(jobs, group=f"{number:032x}")
    before = counted()
    rounds = [storage.fold_groups(2) for _ in range(4)]
    assert rounds == [2, 2, 1, 0]
    assert counted() == before


def test_folding_reads_what_is_not_folded_and_nothing_else(jobs: Jobs, storage: Storage) -> None:
    """However many groups there are: each step finds its rows by the beginning of the primary key."""
    for number in range(12):
        dead(jobs, group=f"{number:032x}")
    while storage.fold_groups(5):
        pass
    dead(jobs, group=ONE)
    with CaptureQueriesContext(connection) as queries:
        assert storage.fold_groups(100) == 1
    found = [query["sql"] for query in queries if "SELECT series FROM chokaq_failure_group" in query["sql"]]
    assert len(found) == 2, "a look, and the step"
    assert all("WHERE series > " in sql and "AND series < " in sql for sql in found), found
    assert not [sql for sql in found if "shard" in sql]
    unfolded = FailureGroup.objects.filter(series__lt="g")
    assert (unfolded.count(), FailureGroup.objects.filter(series__gte="g").count()) == (0, 13)


def test_what_is_folded_has_a_total_for_each_fingerprint(jobs: Jobs, storage: Storage) -> None:
    (first,), _, (other,) = dead(jobs), dead(jobs, 2, queue="reports"), dead(jobs, group=OTHER)
    storage.fold_groups(100)
    totals = FailureTotal.objects.order_by("fingerprint")
    assert list(totals.values_list("fingerprint", "count", "total")) == [(ONE, 3, 3), (OTHER, 1, 1)]
    seen = FailureGroup.objects.filter(fingerprint=ONE).aggregate(first=Min("first_seen"), last=Max("last_seen"))
    assert (totals[0].first_seen, totals[0].last_seen) == (seen["first"], seen["last"])
    storage.resurrect([first, other], "ada")
    storage.fold_groups(100)
    assert list(totals.values_list("count", "total")) == [(2, 3), (0, 1)]
    FailureGroup.objects.update(last_seen=jobs.now() - dt.timedelta(hours=2))
    assert storage.trim_groups(3600.0, 10) == 1
    assert [each.fingerprint for each in totals.all()] == [ONE]


def test_a_recount_sets_totals_right(jobs: Jobs, storage: Storage) -> None:
    dead(jobs, 3)
    storage.fold_groups(100)
    FailureTotal.objects.update(count=7, total=1)
    FailureTotal.objects.create(fingerprint=OTHER, count=5, total=5, first_seen=jobs.now(), last_seen=jobs.now())
    assert storage.recount_groups() == 0, "the groups were right"
    assert dict(FailureTotal.objects.values_list("fingerprint", "count")) == {ONE: 3}
    assert FailureTotal.objects.get(fingerprint=ONE).total == 3


def test_the_way_back_and_forward_again_loses_no_count(jobs: Jobs, storage: Storage) -> None:
    """Totals go with their table; rows whose keys say that they are folded would not get others."""
    dead(jobs, 3)
    storage.fold_groups(100)
    before = counted()
    migration = importlib.import_module("chokaq_django.migrations.0007_failure_totals")
    with connection.schema_editor() as editor:
        migration.unfold(apps, editor)
    FailureTotal.objects.all().delete()
    assert counted() == before
    assert storage.fold_groups(100) == 1
    assert (counted(), FailureTotal.objects.get().count) == (before, 3)


def test_rows_that_were_folded_by_older_code_are_folded_once_more(jobs: Jobs, storage: Storage) -> None:
    """Their keys do not tell them from those of writers, and they have no totals."""
    dead(jobs, 3)
    FailureGroup.objects.update(shard="", series="0" * 32)
    before = counted()
    assert storage.fold_groups(100) == 1
    assert counted() == before
    assert FailureTotal.objects.get().count == 3


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time: a single shard")
def test_folding_passes_over_what_is_written_now(jobs: Jobs, other: Storage) -> None:
    (job,) = jobs.running()
    dead(jobs, group=OTHER)
    with transaction.atomic():
        jobs.settle(job, OutcomeKind.DEAD, fingerprint=OTHER)
        assert other.fold_groups(100) == 0
    assert other.fold_groups(100) == 1


def test_groups_without_a_job_are_forgotten_after_a_while(jobs: Jobs, storage: Storage) -> None:
    gone, kept = dead(jobs, 2), dead(jobs, group=OTHER)
    storage.resurrect(gone, "ada")
    storage.fold_groups(100)
    assert storage.trim_groups(3600.0, 10) == 0, "it may come again"
    FailureGroup.objects.update(last_seen=jobs.now() - dt.timedelta(hours=2))
    assert storage.trim_groups(3600.0, 10) == 1
    assert counted() == {(OTHER, "mail", "email.send.v1"): (1, 1)}
    assert row(kept[0])["place"] == "dlq"


def test_a_failure_is_forgotten_as_a_whole_or_not_at_all(jobs: Jobs, storage: Storage) -> None:
    """Rows that count to nothing know how many have died as long as jobs of their fingerprint are dead."""
    storage.resurrect(dead(jobs, 2), "ada")
    storage.fold_groups(100)
    (left,) = dead(jobs, 1, queue="other")
    FailureGroup.objects.update(last_seen=jobs.now() - dt.timedelta(hours=2))
    assert storage.trim_groups(3600.0, 10) == 0
    storage.resurrect([left], "ada")
    storage.fold_groups(100)
    FailureGroup.objects.update(last_seen=jobs.now() - dt.timedelta(hours=2))
    assert storage.trim_groups(3600.0, 10) == 2
    assert counted() == {}


def drift(storage: Storage) -> dict[tuple[str, str | None], tuple[int, int]]:
    return {(each.column, each.value): (each.dead, each.missing) for each in storage.group_drift()}


# -- setting right -----------------------------------------------------------------------------------------------------


def test_a_group_that_is_true_has_no_drift(jobs: Jobs, storage: Storage) -> None:
    dead(jobs, 3)
    storage.resurrect(dead(jobs, 1), "ada")
    assert storage.group_drift() == []
    before = list(FailureGroup.objects.order_by("series").values())
    assert storage.recount_groups() == 0
    assert list(FailureGroup.objects.order_by("series").values()) == before


def test_what_was_dead_before_there_were_groups_is_counted(jobs: Jobs, storage: Storage) -> None:
    old, new = dead(jobs, 2), dead(jobs, 1, queue="reports", type="report.v1")
    jobs.shift(old[:1], JobDLQ, failed_at=-3600.0)
    FailureGroup.objects.all().delete()
    assert drift(storage) == {
        ("fingerprint", ONE): (3, 3), ("queue", "mail"): (2, 2), ("queue", "reports"): (1, 1),
        ("type", "email.send.v1"): (2, 2), ("type", "report.v1"): (1, 1),
    }  # fmt: skip
    assert storage.recount_groups() == 2
    assert counted() == {MAIL: (2, 2), (ONE, "reports", "report.v1"): (1, 1)}
    group, (oldest, newest) = FailureGroup.objects.get(queue="mail"), [row(job_id) for job_id in old]
    assert (group.first_seen, group.last_seen) == (oldest["failed_at"], newest["failed_at"])
    assert (group.sample_id, group.message, group.shard) == (old[1], "shop.Refused: no stock", "")
    assert group.error_type == newest["error_type"]
    assert FailureGroup.objects.get(queue="reports").sample_id == new[0]


def test_a_recount_takes_off_what_is_not_there(jobs: Jobs, storage: Storage) -> None:
    gone, _ = dead(jobs, 2)
    JobDLQ.objects.filter(pk=gone).delete()
    assert drift(storage) == {
        ("fingerprint", ONE): (1, -1), ("queue", "mail"): (1, -1), ("type", "email.send.v1"): (1, -1),
    }  # fmt: skip
    assert storage.recount_groups() == 1
    assert counted() == {MAIL: (1, 2)}
    JobDLQ.objects.all().delete()
    assert storage.recount_groups() == 1
    assert counted() == {MAIL: (0, 2)}


def test_jobs_without_a_fingerprint_get_one(jobs: Jobs, storage: Storage) -> None:
    plain = jobs.dead(2, reason=F.TIMEOUT)
    known = dead(jobs, 1)
    expected = row(plain[0])["fingerprint"]
    JobDLQ.objects.filter(pk__in=plain).update(fingerprint=None)
    FailureGroup.objects.all().delete()
    assert drift(storage)["fingerprint", None] == (2, 2)
    assert storage.recount_groups() == 2
    assert {row(job_id)["fingerprint"] for job_id in plain} == {expected}
    assert counted() == {(expected, "mail", "email.send.v1"): (2, 2), MAIL: (1, 1)}
    assert row(known[0])["fingerprint"] == ONE


def test_only_one_recounts_at_a_time(storage: Storage, other: Storage) -> None:
    assert other.lead("recount", "somebody", 60.0)
    with pytest.raises(StorageError, match="already"):
        storage.recount_groups()
    other.resign("recount", "somebody")
    assert storage.recount_groups() == 0


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time")
def test_a_recount_is_right_while_jobs_move(jobs: Jobs) -> None:
    ids = dead(jobs, 60)
    FailureGroup.objects.all().delete()

    def work(number: int, own: Storage) -> None:
        if number == 0:
            own.recount_groups()
            return
        for start in range(0, 30, 3):
            own.resurrect(ids[30 * (number - 1) + start :][:3], "ada")

    together(3, work)


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("details", "line"),
    [
        (None, ""), ("", ""), ("one", "one"), ("Traceback:\n  File x\nE: no\n\n", "E: no"),
        ("  | E: 1\n  +-----\n", "E: 1"), ("x" * 600, None), ("nul \x00 and \ud800", r"nul \x00 and \ud800"),
    ],
)  # fmt: skip
def test_the_last_line_says_what_happened(details: str | None, line: str | None) -> None:
    found = last_line(details)
    assert len(found) <= 500
    assert found.endswith("characters]") if line is None else found == line


@pytest.mark.parametrize("text", ["🐙" * 400, "a\x00b", "\ud800", "';--", "<script>", "x" * 5_000])
def test_any_text_of_an_error_can_be_counted(jobs: Jobs, text: str) -> None:
    for count in (1, 2):
        running = jobs.running(count)
        assert (
            len(jobs.settle(running, OutcomeKind.DEAD, error_type=text, error_details=text, fingerprint=ONE)) == count
        )
    storage = get_storage()
    storage.cancel(jobs.add(1), "ada")
    storage.fold_groups(10)
    assert counted()[MAIL] == (3, 3)


def test_names_that_differ_in_case_or_blanks_are_different_groups(jobs: Jobs) -> None:
    names = ["mail", "Mail", "MAIL", "mäil", "mail x"]
    for name in names:
        dead(jobs, queue=name)
    assert {queue: count for (_, queue, _), (count, _) in counted().items()} == dict.fromkeys(names, 1)


def test_the_real_fingerprint_of_an_error(jobs: Jobs) -> None:
    """As a worker makes it: like errors of different jobs share a group."""
    running = jobs.running(2)
    for number, job in enumerate(running):
        info = describe(ValueError(f"order {number} has no stock"))
        told = {"error_type": info.type, "error_details": info.details, "fingerprint": fingerprint(F.FATAL_ERROR, info)}
        jobs.settle(job, OutcomeKind.DEAD, **told)
    assert list(counted().values()) == [(2, 2)]


def test_a_job_that_is_counted_in_the_wrong_queue_shows(jobs: Jobs, storage: Storage) -> None:
    (job_id,) = dead(jobs)
    JobDLQ.objects.filter(pk=job_id).update(queue="other")
    assert drift(storage) == {("queue", "mail"): (0, -1), ("queue", "other"): (1, 1)}
    assert storage.recount_groups() == 2
    assert counted() == {MAIL: (0, 1), (ONE, "other", "email.send.v1"): (1, 1)}
    assert drift(storage) == {}
