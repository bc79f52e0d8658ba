"""Edits of waiting and dead jobs, and archived jobs that are run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from chokaq_django.models import JobArchive, JobDLQ, JobHot, PayloadVersion
from chokaq_django.storage import Copies, EditResult, JobEdit, OutcomeKind, Storage
from chokaq_django.storage.contract import AGAIN_HEADER

from .invariants import assert_one_place
from .support import NOBODY, PENDING, PLACES, Jobs, base, committed, near, new_job, row, together
from .test_settle import full_job
from .test_trash import filled

pytestmark = committed


def refused(result: Any) -> dict[str, str]:
    return {conflict.id: conflict.reason for conflict in result.refused}


def versions(job_id: str) -> list[tuple[int, str, int, str, str | None]]:
    found = PayloadVersion.objects.filter(job_id=job_id).order_by("revision")
    return list(found.values_list("revision", "type", "schema_version", "payload", "replaced_by"))


# -- edit --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["hot", "dlq"])
def test_what_is_not_edited_stays(jobs: Jobs, storage: Storage, place: str) -> None:
    job_id = filled(PLACES[place], 1, nulls=False).pk
    before, now = row(job_id), jobs.now()
    answer = storage.edit({job_id: before["revision"]}, "ada", JobEdit(priority=7))
    assert (answer.applied, answer.refused) == ([job_id], [])
    after = row(job_id)
    if place == "hot":
        assert near(after.pop("updated_at"), now)
        del before["updated_at"]
    assert after == {**before, "priority": 7, "revision": before["revision"] + 1, "modified_by": "ada"}
    kept = ("queue", "type", "priority", "tags", "schema_version", "revision")
    assert answer.before == {job_id: {name: before[name] for name in kept}}
    assert versions(job_id) == [], "the payload is the one it had"


@pytest.mark.parametrize("dead", [False, True])
def test_a_replaced_payload_is_kept(jobs: Jobs, storage: Storage, dead: bool) -> None:
    (job_id,) = jobs.dead(1, payload='{"to":"a"}', schema_version=2) if dead else jobs.add(1, payload='{"to":"a"}')
    version = 2 if dead else 1
    now = jobs.now()
    storage.edit({job_id: 0}, "ada", JobEdit(payload='{"to":"b"}', schema_version=3))
    storage.edit({job_id: 1}, None, JobEdit(payload='{"to":"💶"}', schema_version=3, type="email.send.v2"))
    stored = row(job_id)
    assert (stored["payload"], stored["schema_version"], stored["type"]) == ('{"to":"💶"}', 3, "email.send.v2")
    assert (stored["revision"], stored["modified_by"]) == (2, None)
    assert versions(job_id) == [
        (0, "email.send.v1", version, '{"to":"a"}', "ada"), (1, "email.send.v1", 3, '{"to":"b"}', None),
    ]  # fmt: skip
    assert near(PayloadVersion.objects.first().replaced_at, now)  # type: ignore[union-attr]


def test_a_payload_edited_on_resurrection_is_kept_too(jobs: Jobs, storage: Storage) -> None:
    edited, held, plain = (jobs.dead(1, payload=f'{{"n":{n}}}', idempotency_key=f"k{n}")[0] for n in range(3))
    jobs.one(idempotency_key="k1")
    storage.resurrect([edited, held], "ada", payload="{}")
    storage.resurrect([plain], "ada", priority=3)
    assert versions(edited) == [(0, "email.send.v1", 1, '{"n":0}', "ada")]
    assert versions(held) == versions(plain) == []


def test_everything_at_once_and_of_many(jobs: Jobs, storage: Storage) -> None:
    waiting, dead = jobs.add(700, delay=60), jobs.dead(700)
    changes = JobEdit(tags='["fixed"]', priority=3, queue="repaired", type="email.send.v9")
    answer = storage.edit(dict.fromkeys(waiting + dead), "ada", changes)
    assert sorted(answer.applied) == sorted(waiting + dead) == sorted(answer.before)
    for model in (JobHot, JobDLQ):
        found = model.objects.values_list("tags", "priority", "queue", "type", "revision").distinct()
        assert list(found) == [('["fixed"]', 3, "repaired", "email.send.v9", 1)]
    assert_one_place(1_400)


def test_a_waiting_job_runs_as_edited(jobs: Jobs, storage: Storage) -> None:
    job_id = jobs.one(queue="old", priority=1)
    first = jobs.one(queue="new", priority=5)
    storage.edit({job_id: 0}, "ada", JobEdit(queue="new", priority=9, payload="[]"))
    assert jobs.take(queues=["old"]) == []
    assert [(job.id, job.payload) for job in jobs.take(queues=["new"])] == [(job_id, "[]"), (first, new_job().payload)]


def test_the_second_of_two_editors_is_refused(jobs: Jobs, storage: Storage) -> None:
    job_id = jobs.one()
    assert storage.edit({job_id: 0}, "ada", JobEdit(priority=1)).applied == [job_id]
    answer = storage.edit({job_id: 0}, "bob", JobEdit(payload="{}"))
    assert answer.applied == []
    assert answer.outdated == {job_id: 1}
    assert refused(answer) == {job_id: "The job was changed meanwhile by ada: it is at revision 1, not 0."}
    assert (row(job_id)["priority"], row(job_id)["payload"]) == (1, new_job().payload)
    assert versions(job_id) == []


def test_of_two_editors_at_once_one_is_first(jobs: Jobs) -> None:
    made = jobs.add(20) + jobs.dead(20, queue="d")

    def work(number: int, own: Storage) -> EditResult:
        order = made if number % 2 else made[::-1]
        return own.edit(dict.fromkeys(order, 0), f"editor-{number}", JobEdit(payload=f'{{"by":{number}}}'))

    answers = together(6, work)
    applied = [job_id for answer in answers for job_id in answer.applied]
    assert sorted(applied) == sorted(made)
    assert all(len(answer.applied) + len(answer.outdated) == 40 for answer in answers)
    for number, answer in enumerate(answers):
        assert {row(job_id)["payload"] for job_id in answer.applied} <= {f'{{"by":{number}}}'}
    assert PayloadVersion.objects.count() == 40


def test_edit_and_claim_race_for_each_job(jobs: Jobs) -> None:
    """Who is claimed first runs as it was; who is edited first runs as edited."""
    made = jobs.add(60, payload='"old"')

    def work(number: int, own: Storage) -> Any:
        if number == 0:
            return set(own.edit(dict.fromkeys(made), "ada", JobEdit(payload='"new"')).applied)
        claimer = Jobs(own)
        return [(job.id, job.payload) for _ in range(12) for job in claimer.take(5, worker=f"w{number}")]

    edited, first, second = together(3, work)
    claimed = dict(first + second)
    assert len(claimed) == len(first + second)
    for job_id, payload in claimed.items():
        # A claim that came before the edit has the old payload, and then the edit was refused.
        assert (payload == '"new"') == (job_id in edited)


@pytest.mark.parametrize("state", ["fetched", "running", "awaiting", "archive", "trash", "nowhere"])
def test_only_waiting_and_dead_jobs_are_edited(jobs: Jobs, storage: Storage, state: str) -> None:
    job_id = {
        "fetched": lambda: jobs.fetched()[0].id, "running": lambda: jobs.running()[0].id,
        "awaiting": lambda: jobs.awaiting()[0], "archive": lambda: jobs.archived()[0], "trash": lambda: jobs.dead()[0],
        "nowhere": lambda: NOBODY,
    }[state]()  # fmt: skip
    if state == "trash":
        storage.purge([job_id], "ada", None)
    before = None if state == "nowhere" else row(job_id)
    answer = storage.edit({job_id: None}, "ada", JobEdit(priority=1, payload="{}"))
    assert (answer.applied, list(refused(answer)), answer.before) == ([], [job_id], {})
    assert len(refused(answer)[job_id]) > 10
    if before:
        assert row(job_id) == before
    assert versions(job_id) == []


def test_an_edit_that_changes_nothing(jobs: Jobs, storage: Storage) -> None:
    same, other = jobs.one(priority=4), jobs.one(priority=5)
    answer = storage.edit({same: None, other: None}, "ada", JobEdit(priority=4))
    assert answer.applied == [other]
    assert refused(answer) == {same: "The job has these values already."}
    assert row(same)["revision"] == 0
    with pytest.raises(ValueError, match="must change something"):
        storage.edit({same: None}, "ada", JobEdit())
    assert storage.edit({}, "ada", JobEdit(priority=1)).applied == []


def test_a_megabyte_of_payload(jobs: Jobs, storage: Storage) -> None:
    old, new = json.dumps("ü" * 500_000, ensure_ascii=False), json.dumps("€" * 300_000, ensure_ascii=False)
    job_id = jobs.one(payload=old)
    storage.edit({job_id: 0}, "ada", JobEdit(payload=new))
    assert row(job_id)["payload"] == new
    assert versions(job_id)[0][3] == old


# -- run again ---------------------------------------------------------------------------------------------------------


def test_a_copy_is_a_new_job_linked_to_the_old(jobs: Jobs, storage: Storage) -> None:
    job = full_job(jobs, start=True)
    jobs.settle(job, result='"done"')
    before, now = row(job.id), jobs.now()
    answer = storage.run_again([job.id], "lin")
    assert (answer.applied, answer.refused) == ([job.id], [])
    new = answer.new_ids[job.id]
    assert row(job.id) == before, "the old job stays as it is"
    copy = row(new)
    own = (
        "id", "attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision", "worker_id",
        "modified_by", "created_at", "started_at", "run_at", "due_at", "headers", "attempt_log",
    )  # fmt: skip
    assert base(copy, *own) == base(before, *own)
    for name in ("attempt", "crash_count", "snooze_count", "claim_number", "generation", "revision"):
        assert copy[name] == 0, name
    assert (copy["place"], copy["status"], copy["worker_id"], copy["attempt_log"]) == ("hot", PENDING, None, "[]")
    assert (copy["modified_by"], copy["created_by"], copy["started_at"]) == ("lin", before["created_by"], None)
    assert near(copy["created_at"], now)
    assert copy["run_at"] == copy["due_at"]
    assert near(copy["run_at"], now)
    assert json.loads(copy["headers"]) == {**json.loads(before["headers"]), AGAIN_HEADER: job.id}
    assert_one_place(2)
    (again,) = jobs.take()
    assert (again.id, again.attempt, again.claim_number) == (new, 1, 1)


def test_the_link_is_to_the_job_it_was_made_of(jobs: Jobs, storage: Storage) -> None:
    (first,) = jobs.archived()
    second = storage.run_again([first], None).new_ids[first]
    (job,) = jobs.take()
    jobs.settle(job)
    third = storage.run_again([second], None).new_ids[second]
    assert json.loads(row(third)["headers"]) == {AGAIN_HEADER: second}


@pytest.mark.parametrize("headers", ["", "[]", "no json", "null"])
def test_headers_that_are_none_are_left_alone(jobs: Jobs, storage: Storage, headers: str) -> None:
    (job_id,) = jobs.archived()
    JobArchive.objects.update(headers=headers)
    assert row(storage.run_again([job_id], None).new_ids[job_id])["headers"] == headers


def test_a_passed_deadline_is_left_out(jobs: Jobs, storage: Storage) -> None:
    passed, future = jobs.archived(2, deadline_after=3600)
    jobs.shift(passed, JobArchive, deadline_at=-1)
    new = storage.run_again([passed, future], None).new_ids
    assert row(new[passed])["deadline_at"] is None
    assert row(new[future])["deadline_at"] == row(future)["deadline_at"]


@pytest.mark.parametrize("policy", ["skip", "drop"])
def test_a_held_key_of_an_archived_job(jobs: Jobs, storage: Storage, policy: str) -> None:
    first, second, free = (jobs.archived(1, idempotency_key=key)[0] for key in ("k", "k", "f"))
    answer = storage.run_again([first, second, free], "ada", on_key_conflict=policy)
    keys = {job_id: row(new)["idempotency_key"] for job_id, new in answer.new_ids.items()}
    if policy == "skip":
        assert keys == {first: "k", free: "f"}
        assert answer.new_ids[first] in refused(answer)[second]
    else:
        assert keys == {first: "k", second: None, free: "f"}
        assert answer.refused == []
    with pytest.raises(ValueError, match="on_key_conflict"):
        storage.run_again([first], "ada", on_key_conflict="steal")


@pytest.mark.parametrize("where", ["hot", "dlq", "trash", "nowhere"])
def test_only_archived_jobs_are_run_again(jobs: Jobs, storage: Storage, where: str) -> None:
    job_id = {
        "hot": lambda: jobs.one(delay=60), "dlq": lambda: jobs.dead()[0], "trash": lambda: jobs.archived()[0],
        "nowhere": lambda: NOBODY,
    }[where]()  # fmt: skip
    if where == "trash":
        storage.purge([job_id], "ada", None)
    total = 0 if where == "nowhere" else 1
    answer = storage.run_again([job_id], "ada")
    assert (answer.applied, answer.new_ids, list(refused(answer))) == ([], {}, [job_id])
    assert_one_place(total)


def test_many_are_run_again_and_counted_when_they_end(
    jobs: Jobs, storage: Storage, counts: Callable[[], dict[Any, int]]
) -> None:
    done = jobs.archived(120)
    before = counts()
    answer = storage.run_again([*done, *done, NOBODY], "ada")
    assert (answer.applied, len(set(answer.new_ids.values()))) == (done, 120)
    assert counts() == before
    assert_one_place(240)
    jobs.settle(jobs.take(200), OutcomeKind.SUCCEEDED)
    assert sum(counts().values()) == 240


def test_operators_at_once_make_a_copy_each(jobs: Jobs) -> None:
    """Running again leaves the old job where it is: two acts are two copies, unless a key allows one only."""
    plain, (keyed,) = jobs.archived(5), jobs.archived(1, idempotency_key="k")

    def work(number: int, own: Storage) -> Copies:
        return own.run_again([*plain, keyed], f"operator-{number}")

    answers = together(4, work)
    assert JobHot.objects.filter(idempotency_key=None).count() == 20
    assert JobHot.objects.filter(idempotency_key="k").count() == 1
    assert sum(keyed in answer.new_ids for answer in answers) == 1
