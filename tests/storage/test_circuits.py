"""Circuits shared through the database: counting, opening, probing, closing."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest
from django.db.models import F

from chokaq_django.models import Circuit, JobHot
from chokaq_django.storage import ClaimedJob, ClaimRequest, OutcomeKind, Storage, deferrals
from chokaq_django.storage.contract import CircuitPolicy, CircuitReport, CircuitRow
from tests.helpers import wait_until

from .support import PENDING, WORKER, Jobs, committed, ids, row, together

pytestmark = committed

TYPE = "partner.call.v1"
POLICY = CircuitPolicy(failures=5, window=60.0, break_=30.0, probes=1, probe_timeout=30.0)
TWO_PROBES = CircuitPolicy(failures=5, window=60.0, break_=30.0, probes=2, probe_timeout=30.0)


def report(storage: Storage, policy: CircuitPolicy = POLICY, type_: str = TYPE, **named: object) -> CircuitRow | None:
    rows = storage.report_circuits([CircuitReport(type_, policy, **named)])  # type: ignore[arg-type]
    return next((found for found in rows if found.type == type_), None)


def state(storage: Storage, type_: str = TYPE) -> int:
    return next((found.state for found in storage.circuits() if found.type == type_), Circuit.CLOSED)


def opened(storage: Storage, policy: CircuitPolicy = POLICY) -> None:
    """An open circuit whose break is over: it may be probed."""
    report(storage, policy, failures=policy.failures)
    assert state(storage) == Circuit.OPEN
    Circuit.objects.filter(type=TYPE).update(open_until=storage.now() - dt.timedelta(milliseconds=1))


def probe(jobs: Jobs, permits: int = 1, timeout: float = 30.0, limit: int = 10, **request: object) -> list[ClaimedJob]:
    """What a worker gets of the half open type; asks again while the claim moves rows out of its way."""
    for _ in range(20):
        claim = jobs.claim(limit, probing={TYPE: (permits, timeout)}, **request)
        if claim.jobs or not (claim.deferred or claim.contended):
            return claim.jobs
    raise AssertionError("the claim never came to an end")


# -- counting and opening ----------------------------------------------------------------------------------------------


def test_no_row_means_closed(storage: Storage) -> None:
    assert storage.circuits() == []
    assert storage.report_circuits([]) == []
    report(storage, successes=10)
    assert state(storage) == Circuit.CLOSED


def test_failures_are_counted_and_open_it_at_the_limit(storage: Storage) -> None:
    report(storage, failures=2)
    (found,) = storage.circuits()
    assert (found.type, found.state, found.failures, found.forced) == (TYPE, Circuit.CLOSED, 2, False)
    report(storage, failures=2)
    assert state(storage) == Circuit.CLOSED
    after = report(storage, failures=1)
    assert after is not None
    assert after.state == Circuit.OPEN
    assert 25 < after.reopens_in <= 30
    (found,) = storage.circuits()
    assert (found.type, found.state, found.forced) == (TYPE, Circuit.OPEN, False)
    assert 25 < found.reopens_in <= 30


def test_one_report_can_open_it(storage: Storage) -> None:
    found = report(storage, failures=50)
    assert found is not None
    assert found.state == Circuit.OPEN


def test_failures_outside_the_window_are_forgotten(storage: Storage) -> None:
    report(storage, failures=4)
    Circuit.objects.update(window_started_at=storage.now() - dt.timedelta(seconds=61))
    report(storage, failures=1)
    assert state(storage) == Circuit.CLOSED
    report(storage, failures=3)
    assert state(storage) == Circuit.CLOSED
    report(storage, failures=1)
    assert state(storage) == Circuit.OPEN


def test_each_type_has_a_circuit_of_its_own(storage: Storage) -> None:
    storage.report_circuits(
        [CircuitReport("a.v1", POLICY, failures=5), CircuitReport("b.v1", POLICY, failures=1),
         CircuitReport("A.v1", POLICY, failures=1)]
    )  # fmt: skip
    assert (state(storage, "a.v1"), state(storage, "b.v1"), state(storage, "A.v1")) == (1, 0, 0)


def test_failures_of_eight_workers_add_up(storage: Storage) -> None:
    policy = CircuitPolicy(failures=1_000, window=600.0, break_=30.0, probes=1, probe_timeout=30.0)

    def work(number: int, own: Storage) -> None:
        for _ in range(10):
            reports = [CircuitReport(type_, policy, failures=1) for type_ in ("a.v1", "b.v1")]
            own.report_circuits(reports[::-1] if number % 2 else reports)

    together(8, work)
    assert {found.type: found.failures for found in storage.circuits()} == {"a.v1": 80, "b.v1": 80}


def test_late_failures_of_an_open_circuit_do_not_prolong_it_beyond_one_break(storage: Storage) -> None:
    report(storage, failures=5)
    after = report(storage, failures=3)
    assert after is not None
    assert after.state == Circuit.OPEN
    assert after.reopens_in <= 30


def test_an_open_circuit_tells_when_it_may_be_probed(storage: Storage) -> None:
    opened(storage)
    (found,) = storage.circuits()
    assert found.reopens_in <= 0
    assert found.state in (Circuit.OPEN, Circuit.HALF_OPEN)


def test_late_successes_do_not_close_an_open_circuit(storage: Storage) -> None:
    report(storage, failures=5)
    report(storage, successes=20)
    assert state(storage) == Circuit.OPEN


# -- probing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("permits", "policy"), [(1, POLICY), (2, TWO_PROBES)])
def test_at_most_the_permits_start(jobs: Jobs, storage: Storage, permits: int, policy: CircuitPolicy) -> None:
    opened(storage, policy)
    given = jobs.add(5, type=TYPE, priority=50)
    free = jobs.one(type="other.v1")
    got = [job for _ in range(6) for job in probe(jobs, permits)]
    assert sorted(ids(got)) == sorted([*given[:permits], free])
    assert JobHot.objects.filter(type=TYPE, status=PENDING, attempt=0, claim_number=0).count() == 5 - permits


def test_a_probe_claim_into_the_buffer_obeys_the_permits_too(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    jobs.add(5, type=TYPE)
    got = [job for _ in range(4) for job in probe(jobs, start=False)]
    assert len(got) <= 1


def test_eight_workers_share_the_permits(jobs: Jobs, storage: Storage) -> None:
    opened(storage, TWO_PROBES)
    jobs.add(30, type=TYPE)

    def work(number: int, own: Storage) -> list[str]:
        got: list[str] = []
        for _ in range(12):
            claim = own.claim(ClaimRequest(f"worker-{number}", ["mail"], 5, probing={TYPE: (2, 60.0)}))
            got += ids(claim.jobs)
        return got

    got = list(itertools.chain(*together(8, work)))
    assert len(got) <= 2
    assert JobHot.objects.filter(type=TYPE).exclude(status=PENDING).count() == len(got)

    def all_used() -> bool:
        """In a scramble a permit may have been left: whoever asks alone gets it."""
        _due(jobs)
        got.extend(ids(probe(jobs, 2, 60.0)))
        return len(got) >= 2

    wait_until(all_used, what="both permits used")
    _due(jobs)
    assert (len(got), probe(jobs, 2, 60.0)) == (2, [])


def test_an_expired_probe_lease_frees_its_permit(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    jobs.add(2, type=TYPE)
    (first,) = probe(jobs, timeout=0.3)
    (second,) = wait_until(lambda: _due(jobs) and probe(jobs, timeout=60.0), what="the probe lease expired")
    assert second.id != first.id
    assert _due(jobs)
    assert probe(jobs, timeout=60.0) == []


def _due(jobs: Jobs) -> bool:
    """Makes rows that a claim moved out of its way due again."""
    JobHot.objects.filter(status=PENDING).update(run_at=jobs.now() - dt.timedelta(seconds=1))
    return True


def test_enough_successful_probes_close_it(jobs: Jobs, storage: Storage) -> None:
    opened(storage, TWO_PROBES)
    jobs.add(4, type=TYPE)
    first, second = probe(jobs, 2)
    report(storage, TWO_PROBES, successes=1, probes={first.id: True})
    assert state(storage) != Circuit.CLOSED
    report(storage, TWO_PROBES, successes=1, probes={second.id: True})
    assert state(storage) == Circuit.CLOSED
    assert not [found for found in storage.circuits() if found.failures]
    _due(jobs)
    assert len(jobs.take()) == 2


def test_a_closed_circuit_counts_from_nothing(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    jobs.add(1, type=TYPE)
    (job,) = probe(jobs)
    report(storage, successes=1, probes={job.id: True})
    report(storage, failures=4)
    assert state(storage) == Circuit.CLOSED


def test_a_failed_probe_opens_it_again_for_a_whole_break(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    jobs.add(2, type=TYPE)
    (job,) = probe(jobs)
    after = report(storage, failures=1, probes={job.id: False})
    assert after is not None
    assert after.state == Circuit.OPEN
    assert 25 < after.reopens_in <= 30


def test_a_failed_probe_outweighs_a_successful_one(jobs: Jobs, storage: Storage) -> None:
    opened(storage, TWO_PROBES)
    jobs.add(2, type=TYPE)
    first, second = probe(jobs, 2)
    report(storage, TWO_PROBES, successes=1, failures=1, probes={first.id: True, second.id: False})
    assert state(storage) == Circuit.OPEN


def test_successes_of_an_earlier_break_do_not_count(jobs: Jobs, storage: Storage) -> None:
    opened(storage, TWO_PROBES)
    jobs.add(4, type=TYPE)
    first, second = probe(jobs, 2)
    report(storage, TWO_PROBES, successes=1, probes={first.id: True})
    report(storage, TWO_PROBES, failures=1, probes={second.id: False})
    Circuit.objects.update(open_until=storage.now() - dt.timedelta(seconds=1))
    _due(jobs)
    third, _fourth = probe(jobs, 2)
    report(storage, TWO_PROBES, successes=1, probes={third.id: True})
    assert state(storage) != Circuit.CLOSED


def test_a_neutral_probe_gives_its_permit_back(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    jobs.add(2, type=TYPE)
    (first,) = probe(jobs)
    assert jobs.settle(first, OutcomeKind.SNOOZED, delay=60.0)
    report(storage, probes={first.id: None})
    assert state(storage) != Circuit.CLOSED
    JobHot.objects.exclude(pk=first.id).update(run_at=jobs.now() - dt.timedelta(seconds=1))
    assert len(probe(jobs)) == 1


def test_a_blocked_job_uses_no_attempt_and_no_place(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    jobs.add(3, type=TYPE)
    probe(jobs)
    probe(jobs)
    waiting = JobHot.objects.filter(status=PENDING)
    assert {(job.attempt, job.claim_number, job.worker_id) for job in waiting} == {(0, 0, None)}


# -- after the block ---------------------------------------------------------------------------------------------------


def deferred(jobs: Jobs, count: int, seconds: float, **columns: object) -> list[str]:
    """Jobs of the type that a claim has moved out of its way for so long."""
    ids = jobs.add(count, type=TYPE, **columns)
    assert jobs.claim(10, blocked={TYPE: seconds}).deferred == count
    return ids


def test_deferred_jobs_get_their_place_back(jobs: Jobs, storage: Storage) -> None:
    waiting = [*deferred(jobs, 2, 3600.0, priority=5), *deferred(jobs, 2, 3600.0, priority=20)]
    assert jobs.claim(10).jobs == []
    assert storage.advance(["mail"], {TYPE}, 3600.0, 100) == 4
    assert storage.advance(["mail"], {TYPE}, 3600.0, 100) == 0
    newer = jobs.one(type="other.v1", priority=20)
    assert [job.id for job in jobs.claim(10).jobs] == [*waiting[2:], newer, *waiting[:2]]


def test_only_what_a_block_has_moved_is_advanced(jobs: Jobs, storage: Storage) -> None:
    (failed, snoozed) = jobs.running(2, type=TYPE)
    jobs.settle(failed, OutcomeKind.RETRY, delay=60.0)
    jobs.settle(snoozed, OutcomeKind.SNOOZED, delay=60.0)
    later = jobs.one(type=TYPE, delay=60.0)
    elsewhere = deferred(jobs, 1, 60.0, queue="mail")
    jobs.add(1, type="other.v1")
    assert jobs.claim(10, blocked={"other.v1": 60.0}).deferred == 1
    assert storage.advance(["mail"], {TYPE}, 60.0, 100) == 1
    assert [job.id for job in jobs.claim(10).jobs] == elsewhere
    assert row(later)["run_at"] > storage.now()


def test_advancing_keeps_to_its_limit_its_queues_and_its_reach(jobs: Jobs, storage: Storage) -> None:
    far = deferred(jobs, 1, 7200.0)
    near = deferred(jobs, 5, 60.0)
    assert storage.advance(["other"], {TYPE}, 60.0, 100) == 0
    assert storage.advance(["mail"], {TYPE}, 60.0, 3) == 3
    assert storage.advance(["mail"], {TYPE}, 60.0, 100) == 2
    assert storage.advance(["mail"], {TYPE}, 7200.0, 100) == 1
    assert ids(jobs.claim(10).jobs) == [*far, *near]


def test_deferred_jobs_are_found_between_others_few_at_a_time(
    jobs: Jobs, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferrals, "PAGE", 2)
    at = storage.now() + dt.timedelta(seconds=30)
    waiting = []
    for _ in range(3):
        waiting += deferred(jobs, 3, 60.0)
        jobs.add(2, type="other.v1", run_at=at)
        JobHot.objects.filter(pk__in=waiting).update(run_at=at)  # as one deferral moves many to one instant
    assert storage.advance(["mail"], {TYPE}, 60.0, 100) == 9
    assert ids(jobs.claim(20).jobs) == waiting


def test_advancing_ends_however_many_others_wait(jobs: Jobs, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferrals, "PAGE", 4)
    monkeypatch.setattr(deferrals, "LOOKED_AT", 12)
    jobs.add(10, type="other.v1", delay=30.0)
    waiting = deferred(jobs, 4, 60.0)
    JobHot.objects.filter(pk__in=waiting).update(run_at=storage.now() + dt.timedelta(seconds=60))
    assert storage.advance(["mail"], {TYPE}, 60.0, 100) == 2, "twelve rows were looked at"
    assert storage.advance(["mail"], {TYPE}, 60.0, 100) == 2, "the next look goes on behind those that are gone"
    assert storage.advance(["mail"], {TYPE}, 60.0, 100) == 0


def test_jobs_of_many_queues_are_advanced(jobs: Jobs, storage: Storage) -> None:
    queues = [f"q{number:02}" for number in range(30)]
    for queue in queues:
        jobs.add(1, queue=queue, type=TYPE)
    while jobs.claim(10, queues=queues, blocked={TYPE: 60.0}).deferred:
        pass
    assert storage.advance(queues, {TYPE}, 60.0, 100) == len(queues)


def test_eight_workers_advance_each_row_once(jobs: Jobs) -> None:
    for _ in range(10):
        deferred(jobs, 10, 60.0)
    moved = together(8, lambda _, storage: storage.advance(["mail"], {TYPE}, 60.0, 50))
    assert sum(moved) == 100 - len(JobHot.objects.filter(run_at__gt=F("due_at")))
    assert sum(moved) > 0


# -- operators ---------------------------------------------------------------------------------------------------------


def test_a_forced_circuit_stays_open_whatever_workers_report(storage: Storage) -> None:
    report(storage, failures=1)
    Circuit.objects.update(state=Circuit.OPEN, forced=True, open_until=None)
    report(storage, successes=5, probes={"01BX5ZZKBKACTAV9WEVGEMMVRZ": True})
    report(storage, failures=50)
    (found,) = storage.circuits()
    assert (found.state, found.forced) == (Circuit.OPEN, True)


def test_a_forced_circuit_lets_no_probe_through(jobs: Jobs, storage: Storage) -> None:
    opened(storage)
    Circuit.objects.update(forced=True)
    jobs.add(2, type=TYPE)
    free = jobs.one(type="other.v1")
    assert [job.id for _ in range(3) for job in probe(jobs)] == [free]


def test_a_row_of_a_circuit_at_rest_is_not_told(storage: Storage) -> None:
    Circuit.objects.create(type=TYPE, state=Circuit.CLOSED, failures=0, updated_at=storage.now())
    assert storage.circuits() == []


def test_settles_go_on_while_a_circuit_is_open(jobs: Jobs, storage: Storage) -> None:
    (job,) = jobs.running(type=TYPE)
    report(storage, failures=5)
    assert jobs.settle(job) == {job.id}
    assert storage.heartbeat(WORKER, [job.lease]).lost == {job.id}
