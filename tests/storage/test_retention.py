"""What a pass of a rule deletes, what it leaves to other rules, and how often it looks at what stays."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection

from chokaq_django.conf import parse_options
from chokaq_django.models import FailureReason, JobArchive, JobDLQ, PayloadVersion, RetentionMark
from chokaq_django.storage import JobEdit, Storage
from chokaq_django.storage.mysql.session import LOCK_LIMIT
from chokaq_django.storage.retention_rules import TrimRule, trim_rules

from .support import Jobs, committed, row, rule, trim

pytestmark = committed

EXPIRED, POISON, TIMEOUT = FailureReason.EXPIRED, FailureReason.POISON, FailureReason.TIMEOUT
LONG_AGO = -7_200
"""Seconds: older than all ages here, and than the time by which marks stay behind."""


def left(model: Any) -> list[str]:
    return sorted(model.objects.values_list("pk", flat=True))


def steps(storage: Storage, one: TrimRule, limit: int = 10) -> int:
    """How many steps a pass takes: each looks at so many rows."""
    step, count = storage.trim(one, limit), 1
    while step.walk is not None:
        step, count = storage.trim(one, limit, step.walk), count + 1
    return count


def old(jobs: Jobs, count: int = 1, *, age: float = LONG_AGO, reason: FailureReason | None = None,
        **columns: Any) -> list[str]:  # fmt: skip
    """Jobs that ended long ago: archived, or dead when there is a reason."""
    if reason is None:
        made = jobs.archived(count, **columns)
        jobs.shift(made, JobArchive, finished_at=age)
    else:
        made = jobs.dead(count, reason=reason, **columns)
        jobs.shift(made, JobDLQ, failed_at=age)
    return made


# -- the rules of a project --------------------------------------------------------------------------------------------


def rules_of(**retention: Any) -> dict[str, TrimRule]:
    options, problems = parse_options({"RETENTION": retention})
    assert options is not None, problems
    return {one.name.removeprefix("RETENTION."): one for one in trim_rules(options.retention)}


def test_the_most_specific_rule_of_a_job_counts() -> None:
    rules = rules_of(
        DLQ=50, DLQ_BY_QUEUE={"mail": 40}, DLQ_BY_TYPE={"a.v1": 30, "b.v1": None}, DLQ_BY_REASON={"Expired": 20}
    )

    def of(queue: str, type_key: str, reason: FailureReason) -> list[str]:
        job = {"queue": queue, "type": type_key, "failure_reason": int(reason)}
        return [name for name, one in rules.items() if one.place == "dlq" and one.covers(job)]

    assert of("mail", "a.v1", EXPIRED) == ["DLQ_BY_REASON.Expired"]
    assert of("mail", "a.v1", POISON) == ["DLQ_BY_TYPE.a.v1"]
    assert of("mail", "b.v1", POISON) == ["DLQ_BY_TYPE.b.v1"], "kept for ever, and not for 40 seconds"
    assert of("mail", "c.v1", POISON) == ["DLQ_BY_QUEUE.mail"]
    assert of("other", "c.v1", POISON) == ["DLQ"]
    assert [rules[name].age for name in ("DLQ_BY_TYPE.b.v1", "DLQ")] == [None, 50]


def test_rules_of_the_archive_are_its_own() -> None:
    rules = rules_of(ARCHIVE=None, ARCHIVE_BY_QUEUE={"mail": 5}, DLQ_BY_TYPE={"a.v1": 7})
    archive = {name: one for name, one in rules.items() if one.place == "archive"}
    assert {name: (one.column, one.value, one.age) for name, one in archive.items()} == {
        "ARCHIVE_BY_QUEUE.mail": ("queue", "mail", 5), "ARCHIVE": (None, None, None),
    }  # fmt: skip
    assert archive["ARCHIVE"].but == {"queue": {"mail"}}
    assert archive["ARCHIVE_BY_QUEUE.mail"].but == {}


def test_a_rule_starts_anew_when_more_specific_ones_come_or_go() -> None:
    """And not when these only keep for longer."""
    plain = rules_of(DLQ=5)["DLQ"].others
    assert rules_of(DLQ=9)["DLQ"].others == plain
    assert rules_of(DLQ=5, DLQ_BY_QUEUE={"a": 1})["DLQ"].others != plain
    by_queue = rules_of(DLQ_BY_QUEUE={"a": 1})["DLQ"].others
    assert rules_of(DLQ_BY_QUEUE={"a": 9})["DLQ"].others == by_queue
    assert rules_of(DLQ_BY_TYPE={"a": 1})["DLQ"].others != by_queue


# -- what a pass deletes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["archive", "dlq"])
@pytest.mark.parametrize("column", [None, "queue", "type"])
def test_what_is_older_goes_and_what_is_younger_stays(
    jobs: Jobs, storage: Storage, place: str, column: str | None
) -> None:
    model: Any = JobArchive if place == "archive" else JobDLQ
    reason = None if place == "archive" else TIMEOUT
    value = {None: None, "queue": "mail", "type": "email.send.v1"}[column]
    old(jobs, 25, age=-1_000, reason=reason)
    young = old(jobs, 5, age=-500, reason=reason)
    others = old(jobs, 5, age=-1_000, reason=reason, queue="else", type="else.v1") if column else []
    assert trim(storage, rule(place, 1_100, column, value)) == 0
    assert trim(storage, rule(place, 750, column, value), limit=10) == 25
    assert left(model) == sorted(young + others)
    assert trim(storage, rule(place, 0, column, value)) == 5
    assert left(model) == sorted(others)


def test_one_reason(jobs: Jobs, storage: Storage) -> None:
    """Zero is a reason too."""
    zero, expired = (old(jobs, 3, reason=FailureReason(number)) for number in (0, 11))
    assert trim(storage, rule("dlq", 60, "failure_reason", FailureReason.MAX_RETRIES_EXCEEDED), 2) == 3
    assert left(JobDLQ) == sorted(expired)
    assert trim(storage, rule("dlq", 60, "failure_reason", EXPIRED), 2) == 3
    assert zero


def test_jobs_of_more_specific_rules_are_left_to_these(jobs: Jobs, storage: Storage) -> None:
    by_reason = old(jobs, 3, reason=EXPIRED)
    by_type = old(jobs, 3, reason=TIMEOUT, type="kept.v1")
    by_queue = old(jobs, 3, reason=TIMEOUT, queue="kept")
    old(jobs, 3, reason=TIMEOUT)
    but = {"failure_reason": [EXPIRED], "type": ["kept.v1"], "queue": ["kept"]}
    assert trim(storage, rule("dlq", 60, **but), 2) == 3
    assert left(JobDLQ) == sorted(by_reason + by_type + by_queue)
    assert trim(storage, rule("dlq", 60, "queue", "kept", failure_reason=[EXPIRED], type=["kept.v1"]), 2) == 3
    assert left(JobDLQ) == sorted(by_reason + by_type)


def test_names_are_compared_letter_by_letter(jobs: Jobs, storage: Storage) -> None:
    kept = old(jobs, 2, queue="Mail") + old(jobs, 2, queue="mail-2")
    old(jobs, 2, queue="mail")
    assert trim(storage, rule("archive", 60, "queue", "mail")) == 2
    assert left(JobArchive) == sorted(kept)


def test_the_oldest_go_first_and_each_table_by_itself(jobs: Jobs, storage: Storage) -> None:
    made = jobs.archived(6)
    for number, job_id in enumerate(made):
        jobs.shift(job_id, JobArchive, finished_at=LONG_AGO - number)
    dead, hot = old(jobs, 2, reason=TIMEOUT), jobs.one()
    assert storage.trim(rule("archive", 60), 2).removed == 2
    assert left(JobArchive) == sorted(made[:4])
    assert trim(storage, rule("archive", 60)) == 4
    assert (left(JobDLQ), row(hot)["place"]) == (sorted(dead), "hot")


@pytest.mark.parametrize("place", ["archive", "dlq"])
def test_many_that_ended_at_one_instant(jobs: Jobs, storage: Storage, place: str) -> None:
    reason = None if place == "archive" else TIMEOUT
    old(jobs, 15, reason=reason)
    kept = old(jobs, 10, reason=reason, type="kept.v1")
    assert trim(storage, rule(place, 60, type=["kept.v1"]), 4) == 15
    assert trim(storage, rule(place, 60, "queue", "mail", type=["kept.v1"]), 4) == 0
    assert left(JobArchive if place == "archive" else JobDLQ) == sorted(kept)


def test_for_ever(jobs: Jobs, storage: Storage) -> None:
    old(jobs, 2)
    for age in (None, 1e12):
        assert trim(storage, rule("archive", age)) == 0
        assert storage.trim_due(rule("archive", age), 10) == (0, False)


# -- what a pass reads -------------------------------------------------------------------------------------------------


def test_what_stays_is_looked_at_once(jobs: Jobs, storage: Storage) -> None:
    old(jobs, 60, type="kept.v1")
    old(jobs, 10)
    one = rule("archive", 60, type=["kept.v1"])
    assert steps(storage, one) == 8
    assert steps(storage, one) == 1, "nothing is left on the way"
    old(jobs, 15, age=-300)
    assert steps(storage, one) == 2
    assert JobArchive.objects.count() == 60


def test_a_pass_that_is_broken_off_goes_on_where_it_was(jobs: Jobs, storage: Storage) -> None:
    old(jobs, 60, type="kept.v1")
    one = rule("archive", 60, type=["kept.v1"])
    step = storage.trim(one, 10)
    for _ in range(3):
        assert step.walk is not None
        step = storage.trim(one, 10, step.walk)
    assert steps(storage, one) == 3


def test_what_ended_lately_is_looked_at_again(jobs: Jobs, storage: Storage) -> None:
    """A long transaction may bring a row with an earlier time."""
    one = rule("archive", 60)
    assert trim(storage, one) == 0
    old(jobs, 3, age=-400)
    assert trim(storage, one) == 3


def test_a_rule_that_becomes_shorter_or_longer(jobs: Jobs, storage: Storage) -> None:
    ages = [-30_000, -20_000, -10_000]
    made = [old(jobs, 1, age=age)[0] for age in ages]
    assert trim(storage, rule("archive", 25_000)) == 1
    assert trim(storage, rule("archive", 9_000)) == 2
    assert left(JobArchive) == []
    made = [old(jobs, 1, age=age)[0] for age in ages]
    RetentionMark.objects.all().delete()
    assert trim(storage, rule("archive", 25_000)) == 1
    assert left(JobArchive) == sorted(made[1:])
    assert trim(storage, rule("archive", 25_000)) == 0


def test_a_more_specific_rule_that_goes_leaves_its_jobs_to_the_others(jobs: Jobs, storage: Storage) -> None:
    old(jobs, 5, type="kept.v1")
    assert trim(storage, rule("archive", 60, type=["kept.v1"])) == 0
    assert trim(storage, rule("archive", 60)) == 5


def test_what_comes_back_from_the_trash_is_looked_at_again(jobs: Jobs, storage: Storage) -> None:
    made = old(jobs, 3) + old(jobs, 2, reason=TIMEOUT)
    assert len(storage.purge(made, "ada", None).applied) == 5
    for one in (rule("archive", 60), rule("dlq", 60), rule("dlq", 60, "queue", "mail")):
        assert trim(storage, one) == 0
    assert len(storage.restore(made).applied) == 5
    assert trim(storage, rule("archive", 60)) == 3
    assert trim(storage, rule("dlq", 60)) == 2


def test_a_dead_job_that_gets_another_queue_gets_its_rule(jobs: Jobs, storage: Storage) -> None:
    (job_id,) = old(jobs, 1, reason=TIMEOUT, queue="kept")
    one = rule("dlq", 60, "queue", "mail")
    assert trim(storage, one) == 0
    assert storage.edit({job_id: None}, "ada", JobEdit(queue="mail")).applied
    assert trim(storage, one) == 1


def test_a_look_at_what_a_pass_would_delete(jobs: Jobs, storage: Storage) -> None:
    old(jobs, 6)
    old(jobs, 3, type="kept.v1")
    one = rule("archive", 60, type=["kept.v1"])
    assert storage.trim_due(one, 100) == (6, False)
    count, more = storage.trim_due(one, 5)
    assert (count <= 5, more) == (True, True)
    assert not RetentionMark.objects.exists(), "it only looks"
    trim(storage, one)
    assert storage.trim_due(one, 100) == (0, False)


# -- beside others -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time: no row is locked by itself")
def test_a_job_that_is_being_written_is_passed_over_and_taken_the_next_time(
    jobs: Jobs, storage: Storage, other: Any
) -> None:
    made = old(jobs, 9, reason=TIMEOUT)
    for number, job_id in enumerate(made):
        jobs.shift(job_id, JobDLQ, failed_at=LONG_AGO + number)
    with other._transaction():
        other._execute("UPDATE chokaq_job_dlq SET note = 'hm' WHERE id = %s", [made[4]])
        began = time.monotonic()
        assert trim(storage, rule("dlq", 60), 2) == 8
        assert time.monotonic() - began < LOCK_LIMIT
    assert left(JobDLQ) == [made[4]]
    assert trim(storage, rule("dlq", 60), 2) == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one writer at a time: no row is locked by itself")
def test_trimming_does_not_wait_for_earlier_payloads_of_others(jobs: Jobs, storage: Storage, other: Any) -> None:
    *mine, held = jobs.dead(6)
    assert storage.edit(dict.fromkeys([*mine, held]), "ada", JobEdit(payload="{}")).applied
    jobs.shift(mine, JobDLQ, failed_at=-100)
    if connection.vendor == "mysql":  # a plan by the statistics of a small table reads all of it
        other._query("ANALYZE TABLE chokaq_payload_version")
    with other._transaction():
        other._execute("UPDATE chokaq_payload_version SET replaced_by = 'bob' WHERE job_id = %s", [held])
        began = time.monotonic()
        assert trim(storage, rule("dlq", 50)) == 5
        assert time.monotonic() - began < LOCK_LIMIT
    assert set(PayloadVersion.objects.values_list("job_id", flat=True)) == {held}


# -- marks -------------------------------------------------------------------------------------------------------------


def test_what_passes_have_removed_is_remembered(storage: Storage) -> None:
    for removed in (3, 0, 20):
        storage.trimmed("RETENTION.TRASH", "", removed)
    mark = RetentionMark.objects.get()
    assert (mark.name, mark.removed, mark.total) == ("RETENTION.TRASH", 20, 23)
    assert abs((mark.passed_at - storage.now()).total_seconds()) < 60


def test_marks_of_rules_that_are_gone_are_forgotten(storage: Storage) -> None:
    for name in ("RETENTION.DLQ", "RETENTION.DLQ_BY_QUEUE.a", "RETENTION.DLQ_BY_QUEUE.A"):
        storage.trimmed(name, "dlq", 0)
    storage.forget_rules(["RETENTION.DLQ", "RETENTION.DLQ_BY_QUEUE.a", "RETENTION.ARCHIVE"])
    assert left(RetentionMark) == ["RETENTION.DLQ", "RETENTION.DLQ_BY_QUEUE.a"]
    storage.forget_rules([])
    assert left(RetentionMark) == []


def test_whose_turn_it_is_is_not_forgotten(jobs: Jobs, storage: Storage) -> None:
    made = old(jobs, 1)
    storage.purge(made, "ada", None)
    storage.restore(made)
    storage.forget_rules([])
    assert left(RetentionMark) == ["archive"]
