"""Text is stored as given on every engine, and a failure write never fails because of its text."""

from __future__ import annotations

import pytest
from django.db import connection

from chokaq_django.job.failures import FailureReason
from chokaq_django.models import JobDLQ
from chokaq_django.storage import OutcomeKind, Storage
from chokaq_django.storage.contract import CircuitPolicy, CircuitReport, QueueRow, RescueAction

from .invariants import assert_one_place
from .support import WORKER, Jobs, committed, ids, new_job, outcome, row

pytestmark = committed

TEXTS = {
    "four bytes": "🐙🦑 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠜎 👩‍👩‍👧‍👦",
    "right to left": "שלום עולם, \u202eabc",
    "combining": "e\u0301 \u00e9 n\u0303",
    "quotes": """it's "quoted" \\ back\\slash `tick` %s %% {} $1 :name ?""",
    "lines": "a\r\nb\nc\rd\te\x0b\x0c\x1f",
    "an escaped NUL": '{"text":"a\\u0000b"}',
    "an escaped surrogate": '{"text":"\\ud83d alone, \\ud83d\\ude00 together"}',
    "a noncharacter": "a\uffffb\ufffe",
    "blank": "   ",
    "empty": "",
    "sql": "'); DROP TABLE chokaq_job_hot; --",
    "array syntax": '{"a","b"},{NULL},[1,2]',
}
CASES = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
PADDED = connection.vendor == "microsoft"
"""SQL Server takes 'a' and 'a ' for one text, whatever the collation. Names and keys come to the storage trimmed."""


def told_apart(*names: str) -> list[str]:
    """Those of the names that the engine can tell apart."""
    return [name for name in names if not (PADDED and name.endswith(" "))]


KEYS = told_apart("a", "A", "a ", " a", "á", "a\u0301", "ａ", "ß", "SS", "ss", "i", "İ", "ı")


@CASES
def test_text_survives_enqueue_and_claim(jobs: Jobs, text: str) -> None:
    given = {"payload": text, "tags": text, "headers": text, "created_by": text[:100]}
    job_id = jobs.one(**given)
    (job,) = jobs.take()
    assert (job.payload, job.tags, job.headers, job.created_by) == tuple(given.values())
    stored = row(job_id)
    assert {name: stored[name] for name in given} == given


@CASES
def test_text_survives_success(jobs: Jobs, text: str) -> None:
    (job,) = jobs.running(payload=text, tags=text, headers=text)
    assert jobs.settle(job, result=text, attempt_log=text, modified_by=text[:100]) == {job.id}
    stored = row(job.id)
    for name in ("payload", "tags", "headers", "result", "attempt_log"):
        assert stored[name] == text, name
    assert stored["modified_by"] == text[:100]


@CASES
def test_text_survives_death_and_resurrection(jobs: Jobs, storage: Storage, text: str) -> None:
    (job,) = jobs.running(payload=text)
    applied = jobs.settle(job, OutcomeKind.DEAD, error_type=text[:255], error_details=text, attempt_log=text)
    assert applied == {job.id}
    stored = row(job.id)
    assert (stored["error_type"], stored["error_details"], stored["attempt_log"]) == (text[:255], text, text)
    assert storage.resurrect([job.id], text[:100], payload=text * 2, tags=text).applied == [job.id]
    stored = row(job.id)
    assert (stored["payload"], stored["tags"], stored["attempt_log"]) == (text * 2, text, text)


@CASES
def test_text_survives_retry_rescue_and_progress(jobs: Jobs, storage: Storage, text: str) -> None:
    (job,) = jobs.running()
    storage.progress(WORKER, {job.lease: (10, text)})
    assert row(job.id)["progress_message"] == text
    jobs.settle(job, OutcomeKind.RETRY, attempt_log=text)
    assert row(job.id)["attempt_log"] == text
    jobs.take()
    (live,) = storage.live_rows()
    assert live.attempt_log == text
    action = RescueAction(live, "dlq", text + "x", reason=FailureReason.ZOMBIE, error_details=text)
    assert storage.rescue([action]) == {job.id}
    stored = row(job.id)
    assert (stored["attempt_log"], stored["error_details"]) == (text + "x", text)


# -- names and keys are compared byte by byte --------------------------------------------------------------------------


def test_keys_that_look_alike_are_different(storage: Storage) -> None:
    first = storage.enqueue([new_job(idempotency_key=key) for key in KEYS])
    assert all(answer.created for answer in first)
    again = storage.enqueue([new_job(idempotency_key=key) for key in reversed(KEYS)])
    assert [answer.id for answer in again] == [answer.id for answer in reversed(first)]
    assert not any(answer.created for answer in again)


def test_queues_that_look_alike_are_different(jobs: Jobs, storage: Storage) -> None:
    given = {name: jobs.one(queue=name) for name in KEYS}
    assert sorted(storage.pending_queues()) == sorted(KEYS)
    for name, job_id in given.items():
        assert ids(jobs.take(queues=[name])) == [job_id]


def test_control_rows_that_look_alike_are_different(jobs: Jobs, storage: Storage) -> None:
    names = told_apart("a", "A", "a ")
    for name in names:
        storage.seed_queue(QueueRow(name, name == "A", True, None, None, None, None))
    assert sorted(found.name for found in storage.queues()) == sorted(names)
    given = {name: jobs.one(queue=name) for name in names}
    assert sorted(ids(jobs.take(queues=names))) == sorted(given[name] for name in names if name != "A")


def test_types_that_look_alike_are_different(jobs: Jobs, storage: Storage) -> None:
    names = told_apart("x.v1", "X.v1", "x.v1 ")
    given = {name: jobs.one(type=name) for name in names}
    got = [job.id for _ in range(3) for job in jobs.take(blocked={"x.v1": 60.0})]
    assert sorted(got) == sorted(given[name] for name in names if name != "x.v1")
    policy = CircuitPolicy(1, 60, 30, 1, 30)
    storage.report_circuits([CircuitReport(name, policy, failures=1) for name in names])
    assert len(storage.circuits()) == len(names)


def test_workers_that_look_alike_are_different(jobs: Jobs) -> None:
    (job,) = jobs.running(worker="Worker-1")
    for impostor in told_apart("worker-1", "Worker-1 ", "WORKER-1"):
        assert jobs.settle(job, worker=impostor) == set()
    assert jobs.settle(job, worker="Worker-1") == {job.id}


@pytest.mark.parametrize("length", [255])
def test_the_longest_names(jobs: Jobs, storage: Storage, length: int) -> None:
    name = ("ü🐙" * length)[:length]
    (job,) = jobs.running(queue=name, type=name[::-1], idempotency_key=name, concurrency_key=name)
    (answer,) = storage.enqueue([new_job(idempotency_key=name)])
    assert answer.id == job.id
    assert jobs.settle(job) == {job.id}
    stored = row(job.id)
    assert (stored["queue"], stored["type"], stored["concurrency_key"]) == (name, name[::-1], name)


# -- huge --------------------------------------------------------------------------------------------------------------


def test_huge_text(jobs: Jobs, storage: Storage) -> None:
    huge = "ä🐙" * 1_000_000
    first, second = jobs.running(2, payload=huge)
    assert first.payload == huge
    assert jobs.settle(first, result=huge, attempt_log=huge) == {first.id}
    assert jobs.settle(second, OutcomeKind.DEAD, error_details=huge) == {second.id}
    stored = row(first.id)
    assert (stored["payload"], stored["result"], stored["attempt_log"]) == (huge, huge, huge)
    assert row(second.id)["payload"] == huge
    assert row(second.id)["error_details"].startswith(huge[:1000])
    assert storage.resurrect([second.id], "ada").applied == [second.id]
    assert row(second.id)["payload"] == huge


# -- a failure write never fails because of its text -------------------------------------------------------------------


UNSTORABLE = {
    "a NUL": "before\x00after",
    "a lone surrogate": "before\ud83dafter",
    "both, many times": "\x00\udfff" * 500,
}


@pytest.mark.parametrize("text", UNSTORABLE.values(), ids=UNSTORABLE.keys())
@pytest.mark.parametrize("kind", [OutcomeKind.DEAD, OutcomeKind.RETRY, OutcomeKind.UNSTARTED_DEAD])
def test_unstorable_text_does_not_stop_a_failure(jobs: Jobs, storage: Storage, kind: OutcomeKind, text: str) -> None:
    good, bad = (jobs.fetched if kind is OutcomeKind.UNSTARTED_DEAD else jobs.running)(2)
    outcomes = [
        outcome(good, kind),
        outcome(bad, kind, error_type=text[:200], error_details=text, attempt_log=f'["{text}"]', fingerprint="f" * 32),
    ]
    assert storage.settle(WORKER, outcomes) == {good.id, bad.id}
    stored = row(bad.id)
    assert "\x00" not in stored["attempt_log"]
    if kind is not OutcomeKind.RETRY:
        assert stored["place"] == "dlq"
        assert "\x00" not in stored["error_details"]
        if len(text) < 20:
            assert stored["error_details"].startswith("before\\")
            assert stored["error_details"].endswith("after")


def test_texts_too_long_for_their_columns_do_not_stop_a_failure(jobs: Jobs) -> None:
    (job,) = jobs.running()
    assert jobs.settle(job, OutcomeKind.DEAD, error_type="x" * 5_000, modified_by="y" * 5_000) == {job.id}
    stored = row(job.id)
    assert stored["error_type"].startswith("xxx")


def test_unstorable_text_does_not_stop_a_rescue(jobs: Jobs, storage: Storage) -> None:
    first, second = jobs.running(2)
    actions = [RescueAction(live, "dlq", '["\x00"]', reason=FailureReason.ZOMBIE, error_details="a\x00\ud800b")
               for live in storage.live_rows()]  # fmt: skip
    assert storage.rescue(actions) == {first.id, second.id}
    assert set(JobDLQ.objects.values_list("failure_reason", flat=True)) == {FailureReason.ZOMBIE}
    assert_one_place(2)


def test_unstorable_progress_does_not_stop_the_notes_of_others(jobs: Jobs, storage: Storage) -> None:
    first, second = jobs.running(2)
    notes = {first.lease: (1, "a\x00b\ud800c"), second.lease: (2, "fine")}
    assert storage.progress(WORKER, notes) == {first.id, second.id}
    assert row(second.id)["progress_message"] == "fine"
