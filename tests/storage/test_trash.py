"""The Trash: remove and purge, restore, expiry. What comes back is what went, to the last column."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, models

from chokaq_django.job.failures import FailureReason
from chokaq_django.job.ids import new_id
from chokaq_django.models import JobArchive, JobDLQ, JobHot, JobTrash, PayloadVersion
from chokaq_django.models.fields import UTCDateTimeField
from chokaq_django.storage import JobEdit, OutcomeKind, Storage
from chokaq_django.storage.contract import RescueAction

from ..scale import VERY_MANY
from .invariants import assert_one_place, look
from .support import (
    AWAITING,
    LOG,
    NOBODY,
    PENDING,
    PLACES,
    PROCESSING,
    WORKER,
    Jobs,
    committed,
    ids,
    near,
    new_job,
    row,
    rule,
    together,
    trim,
)

pytestmark = committed

DAY = 86_400.0
AT = dt.datetime(2031, 5, 17, 23, 59, 59, 120_001, tzinfo=dt.UTC)
LONG = 'line "one"\n\\two\t€ 💶 \' ' * 20_000  # half a megabyte


def refused(result: Any) -> dict[str, str]:
    return {conflict.id: conflict.reason for conflict in result.refused}


def filled(model: type[models.Model], number: int, *, nulls: bool) -> models.Model:
    """A row whose every column has a value of its own, or NULL wherever that is allowed."""
    values: dict[str, Any] = {}
    for place, field in enumerate(model._meta.concrete_fields):
        if field.primary_key:
            values[field.attname] = new_id()
        elif field.null and nulls:
            values[field.attname] = None
        elif isinstance(field, UTCDateTimeField):
            # Whole seconds and single microseconds: both are lost by careless texts.
            values[field.attname] = AT.replace(microsecond=0 if place % 2 else place) + dt.timedelta(days=place)
        elif isinstance(field, models.TextField):
            values[field.attname] = f"{place} {number} {LONG}"
        elif isinstance(field, models.CharField):
            values[field.attname] = f"{place}-{number} Ä💶'\""[: field.max_length]
        else:
            values[field.attname] = place * (-1 if place % 2 else 1_000_003)
    if model is JobHot:
        values["status"] = AWAITING if nulls else PENDING
    return model._default_manager.create(**values)


def assert_nothing_lost(total: int) -> None:
    """Each row in one place; rows that tests have written are in no failure group."""
    picture = look(connection)
    assert (picture.total, picture.doubles) == (total, {})


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", [False, True], ids=["every column", "only what must be"])
@pytest.mark.parametrize("place", ["hot", "archive", "dlq"])
def test_what_comes_back_is_identical_in_every_column(storage: Storage, place: str, nulls: bool) -> None:
    made = [filled(PLACES[place], number, nulls=nulls).pk for number in range(3)]
    before = [row(job_id) for job_id in made]
    away = storage.remove if place == "hot" else storage.purge
    assert away(made, "ada", DAY).applied == made
    for job_id in made:
        stored = row(job_id)
        assert (stored["place"], stored["came_from"], stored["purged_by"]) == ("trash", place, "ada")
    assert storage.restore(made).applied == made
    assert [row(job_id) for job_id in made] == before
    assert_nothing_lost(3)


def test_the_trash_itself_shows_every_column(storage: Storage) -> None:
    for place in ("hot", "archive", "dlq"):
        job_id = filled(PLACES[place], 1, nulls=False).pk
        before = row(job_id)
        (storage.remove if place == "hot" else storage.purge)([job_id], None, None)
        after = row(job_id)
        own = {name for name in before if name != "place"}
        assert {name: after[name] for name in own} == {name: before[name] for name in own}
        others = {f.attname for f in JobTrash._meta.concrete_fields} - own
        assert {name for name in others if after[name] is not None} == {"came_from", "purged_at"}


def test_when_and_by_whom(jobs: Jobs, storage: Storage) -> None:
    kept, dated, over = jobs.dead(3)
    now = jobs.now()
    storage.purge([kept], "ada", None)
    storage.purge([dated], None, 2 * DAY)
    storage.purge([over], "ada", 0.0)
    assert row(kept)["expires_at"] is None
    assert near(row(kept)["purged_at"], now)
    assert row(dated)["purged_by"] is None
    assert near(row(dated)["expires_at"], now + dt.timedelta(days=2))
    assert near(row(over)["expires_at"], now)


def test_thousands_in_one_call(jobs: Jobs, storage: Storage) -> None:
    waiting, dead, done = jobs.add(1_100, delay=60), jobs.dead(600), jobs.archived(600)
    assert storage.remove(waiting, "ada", None).applied == waiting
    assert sorted(storage.purge(dead + done, "ada", None).applied) == sorted(dead + done)
    assert JobTrash.objects.count() == 2_300
    assert_one_place(2_300)
    assert sorted(storage.restore(waiting + dead + done).applied) == sorted(waiting + dead + done)
    assert (JobHot.objects.count(), JobDLQ.objects.count(), JobArchive.objects.count()) == (1_100, 600, 600)
    assert_one_place(2_300)


def test_nothing_is_no_error(storage: Storage) -> None:
    for answer in (storage.remove([], "ada", None), storage.purge([], "ada", None), storage.restore([])):
        assert (answer.applied, answer.requested, answer.refused) == ([], [], [])


def test_an_id_given_twice_goes_once(jobs: Jobs, storage: Storage) -> None:
    (dead,) = jobs.dead()
    assert storage.purge([dead, dead], "ada", None).applied == [dead]
    assert storage.restore([dead, dead]).applied == [dead]


def test_no_metric_is_touched(jobs: Jobs, storage: Storage, counts: Callable[[], dict[Any, int]]) -> None:
    """Counters count what happened to jobs; a row put away and fetched back happened once."""
    (dead,), (done,), waiting = jobs.dead(), jobs.archived(), jobs.one()
    before = counts()
    storage.purge([dead, done], "ada", None)
    storage.remove([waiting], "ada", None)
    storage.restore([dead, done, waiting])
    assert counts() == before


# -- remove ------------------------------------------------------------------------------------------------------------


def test_a_running_job_is_not_removed(jobs: Jobs, storage: Storage) -> None:
    (job,), waiting = jobs.running(), jobs.one()
    before = row(job.id)
    answer = storage.remove([job.id, waiting], "ada", None)
    assert answer.applied == [waiting]
    assert refused(answer) == {job.id: "The job is running: cancel it instead."}
    assert row(job.id) == before
    assert jobs.settle(job) == {job.id}


def test_a_leased_job_is_given_back_before_it_goes(jobs: Jobs, storage: Storage) -> None:
    """Its lease must not come to life when the row is restored."""
    (job,) = jobs.fetched()
    assert storage.remove([job.id], "ada", None).applied == [job.id]
    assert storage.start(WORKER, [job.lease]).started == {}
    storage.restore([job.id])
    stored = row(job.id)
    assert (stored["status"], stored["worker_id"], stored["claim_number"]) == (PENDING, None, job.claim_number)
    assert storage.start(WORKER, [job.lease]).started == {}
    (again,) = jobs.take()
    assert (again.id, again.claim_number) == (job.id, job.claim_number + 1)


@pytest.mark.parametrize("where", ["archive", "dlq", "trash", "nowhere"])
def test_what_is_not_active_cannot_be_removed(jobs: Jobs, storage: Storage, where: str) -> None:
    job_id = {"archive": jobs.archived, "dlq": jobs.dead, "trash": jobs.dead, "nowhere": lambda: [NOBODY]}[where]()[0]
    if where == "trash":
        storage.purge([job_id], "ada", None)
    answer = storage.remove([job_id], "ada", None)
    assert answer.applied == []
    assert (
        refused(answer)[job_id]
        == {
            "archive": "The job has already succeeded.",
            "dlq": "The job is already dead.",
            "trash": "The job is in the Trash.",
            "nowhere": "There is no such job.",
        }[where]
    )


def test_a_removed_job_frees_its_key(jobs: Jobs, storage: Storage) -> None:
    storage.remove([jobs.one(idempotency_key="k")], "ada", None)
    assert storage.enqueue([new_job(idempotency_key="k")])[0].created


def test_remove_and_start_race_for_each_job_once(jobs: Jobs) -> None:
    claimed = jobs.fetched(60)

    def work(number: int, own: Storage) -> set[str]:
        order = claimed if number % 2 else claimed[::-1]
        if number < 2:
            return set(own.remove(ids(order), "ada", None).applied)
        return set(own.start(WORKER, [job.lease for job in order]).started)

    answers = together(4, work)
    assert not answers[0] & answers[1], "one job was removed twice"
    removed, started = answers[0] | answers[1], answers[2] | answers[3]
    assert not removed & started
    assert removed | started == set(ids(claimed))
    assert set(JobTrash.objects.values_list("pk", flat=True)) == removed
    assert set(JobHot.objects.filter(status=PROCESSING).values_list("pk", flat=True)) == started
    assert_one_place(60)


# -- purge -------------------------------------------------------------------------------------------------------------


def test_what_is_active_cannot_be_purged(jobs: Jobs, storage: Storage) -> None:
    waiting, (job,), (dead,) = jobs.one(delay=60), jobs.running(), jobs.dead()
    answer = storage.purge([waiting, job.id, NOBODY, dead], "ada", None)
    assert answer.applied == [dead]
    assert refused(answer) == {
        waiting: "The job is active.", job.id: "The job is active.", NOBODY: "There is no such job.",
    }  # fmt: skip
    assert refused(storage.purge([dead], "ada", None)) == {dead: "The job is in the Trash."}


def test_purge_and_resurrect_race_for_each_job_once(jobs: Jobs) -> None:
    dead = jobs.dead(60)

    def work(number: int, own: Storage) -> list[str]:
        order = dead if number % 2 else dead[::-1]
        return own.purge(order, "ada", None).applied if number < 2 else own.resurrect(order, "bob").applied

    answers = [set(answer) for answer in together(4, work)]
    assert sum(map(len, answers)) == 60
    assert set.union(*answers) == set(dead)
    assert set(JobTrash.objects.values_list("pk", flat=True)) == answers[0] | answers[1]
    assert_one_place(60)


# -- restore -----------------------------------------------------------------------------------------------------------


def test_a_restored_job_runs(jobs: Jobs, storage: Storage) -> None:
    job_id = jobs.one()
    storage.remove([job_id], "ada", None)
    assert jobs.take() == []
    storage.restore([job_id])
    (job,) = jobs.take()
    assert jobs.settle(job) == {job_id}


def test_a_restored_dead_job_can_be_resurrected_and_its_old_lease_is_still_dead(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running()
    jobs.settle(job, OutcomeKind.DEAD)
    storage.purge([job.id], "ada", None)
    storage.restore([job.id])
    storage.resurrect([job.id], "ada")
    (again,) = jobs.take()
    assert again.claim_number == job.claim_number + 1
    assert jobs.settle(job) == set()


@pytest.mark.parametrize("where", ["hot", "archive", "dlq", "nowhere"])
def test_only_what_is_in_the_trash_is_restored(jobs: Jobs, storage: Storage, where: str) -> None:
    job_id = {
        "hot": lambda: jobs.one(delay=60), "archive": lambda: jobs.archived()[0], "dlq": lambda: jobs.dead()[0],
        "nowhere": lambda: NOBODY,
    }[where]()  # fmt: skip
    answer = storage.restore([job_id])
    assert (answer.applied, list(refused(answer))) == ([], [job_id])


def test_a_key_that_was_taken_meanwhile(jobs: Jobs, storage: Storage) -> None:
    away = jobs.one(idempotency_key="order-1")
    storage.remove([away], "ada", None)
    holder = jobs.one(idempotency_key="order-1")
    free = jobs.one(idempotency_key="order-2")
    storage.remove([free], "ada", None)
    before = row(away)
    answer = storage.restore([away, free])
    assert answer.applied == [free]
    assert holder in refused(answer)[away]
    assert row(away) == before
    assert storage.restore([away], on_key_conflict="drop").applied == [away]
    assert row(away)["idempotency_key"] is None
    assert row(free)["idempotency_key"] == "order-2"
    with pytest.raises(ValueError, match="on_key_conflict"):
        storage.restore([away], on_key_conflict="steal")


@pytest.mark.parametrize("policy", ["skip", "drop"])
def test_two_of_one_key_in_one_call(jobs: Jobs, storage: Storage, policy: str) -> None:
    made = []
    for _ in range(2):
        made.append(jobs.one(idempotency_key="k"))
        storage.remove(made[-1:], "ada", None)
    answer = storage.restore(made, on_key_conflict=policy)
    assert len(answer.applied) == (1 if policy == "skip" else 2)
    assert JobHot.objects.filter(idempotency_key="k").count() == 1
    assert_one_place(2)


def test_history_keeps_its_key_whoever_holds_it(jobs: Jobs, storage: Storage) -> None:
    """Only active jobs hold keys."""
    (dead,), (done,) = jobs.dead(1, idempotency_key="k"), jobs.archived(1, idempotency_key="k")
    storage.purge([dead, done], "ada", None)
    jobs.one(idempotency_key="k")
    assert sorted(storage.restore([dead, done]).applied) == sorted([dead, done])
    assert row(dead)["idempotency_key"] == row(done)["idempotency_key"] == "k"


def test_eight_operators_restore_each_job_once(jobs: Jobs, storage: Storage) -> None:
    away = [*jobs.add(30), *jobs.dead(10, queue="d"), *jobs.archived(10, queue="a")]
    keyed = []
    for _ in range(3):
        keyed.append(jobs.one(idempotency_key="k", queue="k"))
        storage.remove(keyed[-1:], "ada", None)
    storage.remove(away[:30], "ada", None)
    storage.purge(away[30:], "ada", None)

    def work(number: int, own: Storage) -> list[str]:
        order = away + keyed
        return own.restore(order[::-1] if number % 2 else order).applied

    applied = [job_id for answer in together(8, work) for job_id in answer]
    assert len(applied) == len(set(applied)) == 51
    assert JobTrash.objects.count() == 2
    assert_one_place(53)


def test_restoring_and_enqueueing_race_for_one_key(jobs: Jobs, storage: Storage) -> None:
    away = jobs.add(10, delay=0)
    for number, job_id in enumerate(away):
        JobHot.objects.filter(pk=job_id).update(idempotency_key=f"k{number}")
    storage.remove(away, "ada", None)

    def work(number: int, own: Storage) -> None:
        if number % 2:
            own.restore(away)
        else:
            own.enqueue([new_job(idempotency_key=f"k{n}") for n in range(10)])

    together(6, work)
    assert JobHot.objects.count() == JobHot.objects.values("idempotency_key").distinct().count() == 10
    assert_one_place(10 + JobTrash.objects.count())


def test_a_rescuer_with_an_old_picture_leaves_a_removed_job_alone(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.fetched()
    (seen,) = storage.live_rows()
    storage.remove([job.id], "ada", None)
    assert storage.rescue([RescueAction(seen, "pending", LOG, reason=FailureReason.ZOMBIE)]) == set()
    assert row(job.id)["place"] == "trash"


# -- out of the Trash --------------------------------------------------------------------------------------------------


def test_what_has_expired_is_deleted_oldest_first(jobs: Jobs, storage: Storage) -> None:
    dead = jobs.dead(6)
    storage.purge(dead, "ada", DAY)
    storage.purge([jobs.dead()[0]], "ada", None)
    for hours, job_id in enumerate(dead[:4], 1):
        jobs.shift(job_id, JobTrash, expires_at=-3600.0 * hours)
    assert storage.expire_trash(3) == 3
    assert set(JobTrash.objects.values_list("pk", flat=True)) >= {dead[0], *dead[4:]}
    assert storage.expire_trash(3) == 1
    assert storage.expire_trash(3) == 0
    assert JobTrash.objects.count() == 3
    assert refused(storage.restore(dead[:1])) == {dead[0]: "There is no such job."}


@pytest.mark.parametrize("how", ["trash", "dlq", "archive"])
def test_earlier_payloads_go_with_their_job(jobs: Jobs, storage: Storage, how: str) -> None:
    waiting, other = jobs.one(), jobs.one(queue="else")
    storage.edit({waiting: None, other: None}, "ada", JobEdit(payload='{"to":"b"}'))
    (job,) = jobs.take()
    jobs.settle(job, OutcomeKind.SUCCEEDED if how == "archive" else OutcomeKind.DEAD)
    assert PayloadVersion.objects.count() == 2
    if how == "trash":
        storage.purge([job.id], "ada", 0.0)
        assert PayloadVersion.objects.count() == 2, "it can still be restored"
        assert storage.expire_trash(10) == 1
    else:
        assert trim(storage, rule(how, -5.0)) == 1
    assert [version.job_id for version in PayloadVersion.objects.all()] == [other]


def test_a_purge_inside_a_transaction_that_is_undone(jobs: Jobs, storage: Storage) -> None:
    from .support import undone

    (dead,) = jobs.dead()
    with undone():
        storage.purge([dead], "ada", None)
        assert row(dead)["place"] == "trash"
    assert row(dead)["place"] == "dlq"


# -- many --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_very_many_rows_there_and_back(storage: Storage) -> None:
    """Half dead and half archived, each told from the others in every column; compared in the database."""
    for model in (JobDLQ, JobArchive):
        _fill(model, VERY_MANY // 2)
    with connection.cursor() as cursor:
        for model in (JobDLQ, JobArchive):
            cursor.execute(_copy(model._meta.db_table))
    try:
        made = [*JobDLQ.objects.values_list("pk", flat=True), *JobArchive.objects.values_list("pk", flat=True)]
        began = time.monotonic()
        assert sorted(storage.purge(made, "ada", DAY).applied) == sorted(made)
        purged = time.monotonic()
        assert look(connection).total == JobTrash.objects.count() == VERY_MANY
        began_back = time.monotonic()
        assert sorted(storage.restore(made).applied) == sorted(made)
        restored = time.monotonic()
        print(f"\n{VERY_MANY:,} rows: purged in {purged - began:.1f} s, restored in {restored - began_back:.1f} s")
        for model in (JobDLQ, JobArchive):
            assert _differences(model) == 0
        assert_nothing_lost(VERY_MANY)
    finally:
        with connection.cursor() as cursor:
            for model in (JobDLQ, JobArchive):
                cursor.execute(f"DROP TABLE before_{model._meta.db_table}")


def _copy(table: str) -> str:
    if connection.vendor == "microsoft":
        return f"SELECT * INTO before_{table} FROM {table}"  # noqa: S608
    return f"CREATE TABLE before_{table} AS SELECT * FROM {table}"  # noqa: S608


def _fill(model: type[models.Model], count: int) -> None:
    few = [filled(model, number, nulls=number % 2 == 0) for number in range(2)]
    made = []
    for number in range(count - len(few)):
        values = {field.attname: getattr(few[number % 2], field.attname) for field in model._meta.concrete_fields}
        for field in model._meta.concrete_fields:
            if isinstance(field, models.TextField) and values[field.attname] is not None:
                values[field.attname] = f"{number} {LONG[: number % 400]}"
            elif isinstance(field, UTCDateTimeField) and values[field.attname] is not None:
                values[field.attname] += dt.timedelta(microseconds=number)
        made.append(model(**{**values, "id": new_id()}))
    model._default_manager.bulk_create(made, batch_size=400)


def _differences(model: type[models.Model]) -> int:
    """Rows of which any column is not what it was, or that are on one side only."""
    table = model._meta.db_table
    columns = [field.column for field in model._meta.concrete_fields]
    if connection.vendor == "microsoft":
        sides = (", ".join(f"{side}.{column}" for column in columns) for side in "ba")
        equal = f"EXISTS (SELECT {' INTERSECT SELECT '.join(sides)})"
    else:
        same = {"sqlite": "IS", "mysql": "<=>"}.get(connection.vendor, "IS NOT DISTINCT FROM")
        equal = " AND ".join(f"b.{column} {same} a.{column}" for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*) FROM before_{table} b WHERE NOT EXISTS (SELECT 1 FROM {table} a WHERE a.id = b.id AND {equal})"  # noqa: S608, E501
        )
        (different,) = cursor.fetchone()
        cursor.execute(f"SELECT COUNT(*) FROM before_{table}")  # noqa: S608
        (then,) = cursor.fetchone()
    counted = model._default_manager.count()
    return int(different) + abs(then - counted)
