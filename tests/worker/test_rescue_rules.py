"""When a rescuer may call something dead: the rules by themselves, on a clock that the test moves.

The rows are real; what is watched is what one scan after another does to them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from django.db.models import F

from chokaq_django import FailureReason, control
from chokaq_django.conf import Options, get_options
from chokaq_django.models import JobHot, JobStatus, LeaderLease
from chokaq_django.models import Worker as WorkerRecord
from chokaq_django.storage import ClaimRequest, Storage, get_storage
from chokaq_django.storage.contract import WorkerRow
from chokaq_django.worker import rescue
from chokaq_django.worker.rescue import Rescuer, Sightings, Steadiness
from chokaq_django.worker.views import QueueView

from ..claims import claim_and_start
from .support import Clock, Settings, committed, job, store_raw, use_options

TIMEOUT, ZOMBIE, FETCHED, SCAN = 10.0, 30.0, 60.0, 2.0
ALWAYS = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rescue, "time", clock)
    return clock


# -- steadiness --------------------------------------------------------------------------------------------------------


def test_steadiness_is_how_long_writes_have_gone_well_without_a_gap(clock: Clock) -> None:
    steady = Steadiness(gap=5)
    for _ in range(4):
        clock.pass_(4)
        steady.wrote()
    clock.pass_(1)
    assert steady.lasted() == 17


def test_steadiness_is_nothing_when_the_last_write_is_too_old_to_say(clock: Clock) -> None:
    steady = Steadiness(gap=5)
    clock.pass_(4)
    steady.wrote()
    clock.pass_(5.1)
    assert steady.lasted() == 0


def test_steadiness_begins_again_after_a_gap(clock: Clock) -> None:
    steady = Steadiness(gap=5)
    clock.pass_(100)
    steady.wrote()
    assert steady.lasted() == 0
    clock.pass_(3)
    assert steady.lasted() == 3


# -- sightings ---------------------------------------------------------------------------------------------------------


def test_a_thing_stands_still_since_this_process_first_saw_its_value(clock: Clock) -> None:
    seen = Sightings()
    assert seen.still_for({"a": 1}, ALWAYS) == {"a": 0}
    clock.pass_(3)
    assert seen.still_for({"a": 1, "b": 1}, ALWAYS) == {"a": 3, "b": 0}
    clock.pass_(2)
    assert seen.still_for({"a": 2, "b": 1}, ALWAYS) == {"a": 0, "b": 2}


def test_a_value_that_moves_back_has_moved(clock: Clock) -> None:
    """A stepped database clock writes an older heartbeat: somebody wrote it."""
    seen = Sightings()
    seen.still_for({"a": 10}, ALWAYS)
    clock.pass_(50)
    assert seen.still_for({"a": 5}, ALWAYS) == {"a": 0}


def test_what_was_away_is_new_when_it_is_back(clock: Clock) -> None:
    seen = Sightings()
    seen.still_for({"a": 1}, ALWAYS)
    seen.still_for({}, ALWAYS)
    clock.pass_(50)
    assert seen.still_for({"a": 1}, ALWAYS) == {"a": 0}
    seen.forget()
    clock.pass_(50)
    assert seen.still_for({"a": 1}, ALWAYS) == {"a": 0}


def test_what_stood_still_while_nobody_could_write_does_not_count(clock: Clock) -> None:
    seen = Sightings()
    seen.still_for({"a": 1}, ALWAYS)
    clock.pass_(50)
    assert seen.still_for({"a": 1}, 4.0) == {"a": 4}


def test_what_was_passed_over_counts_from_when_it_is_seen_next(clock: Clock) -> None:
    seen = Sightings()
    seen.still_for({"a": 1, "b": 1}, ALWAYS)
    clock.pass_(50)
    seen.restart(["a", "unknown"])
    assert seen.still_for({"a": 1, "b": 1}, ALWAYS) == {"a": 0, "b": 50}


# -- judgement ---------------------------------------------------------------------------------------------------------


class Scanner:
    """A rescuer that scans when the test says, and the fleet around it."""

    def __init__(self, options: Options, clock: Clock, storage: Storage) -> None:
        self.clock, self.storage, self.options = clock, storage, options
        self.woken = 0
        self.crashed: list[str] = []
        self.hearts: list[Callable[[], object]] = []
        self.restart("rescuer")

    def restart(self, worker_id: str) -> None:
        """Another process takes the place of the one that scanned."""
        LeaderLease.objects.filter(pk=rescue.LEASE).delete()
        queues = QueueView(self.options, [])
        queues.refresh(self.storage, force=True)
        steadiness = Steadiness(gap=TIMEOUT / 2)
        self.rescuer = Rescuer(
            self.options, worker_id, lambda: self.storage, queues, steadiness, self._woke, self.crashed.append
        )

    def _woke(self) -> None:
        self.woken += 1

    def beat(self, worker_id: str) -> None:
        """The worker's row, written by its registry."""
        self.storage.register(WorkerRow(worker_id, "host", 1, "1", "[]", 10, 100, "running"))

    def run(self, worker_id: str, *, start: bool = True, queue: str = "default") -> str:
        """A job in that worker's hands: running, or leased into its buffer."""
        job_id = store_raw("test.note", '{"name":""}', queue=queue)
        claim = self.storage.claim(ClaimRequest(worker_id, [queue], 1, start))
        assert [claimed.id for claimed in claim.jobs] == [job_id]
        return job_id

    def scan(self, seconds: float, *, writes: bool = True) -> None:
        """Time passes in steps of a second; the rescuer scans at each unless it cannot write."""
        for _ in range(round(seconds)):
            self.clock.pass_(1)
            for heart in self.hearts:
                heart()
            if writes:
                self.rescuer.scan(self.storage)


@pytest.fixture
def scanner(clock: Clock, settings: Settings) -> Scanner:
    use_options(
        settings,
        RECOVERY={
            "WORKER_TIMEOUT": TIMEOUT, "ZOMBIE_TIMEOUT": ZOMBIE, "FETCHED_TIMEOUT": FETCHED, "SCAN_INTERVAL": SCAN,
        },
    )  # fmt: skip
    return Scanner(get_options(), clock, get_storage())


def status(job_id: str) -> int:
    return job(job_id).status


@committed
class TestJudgement:
    def test_a_dead_workers_running_job_follows_its_crash_policy(self, scanner: Scanner) -> None:
        scanner.beat("dead")
        job_id = scanner.run("dead")
        scanner.scan(TIMEOUT - 1)
        assert status(job_id) == JobStatus.PROCESSING
        scanner.scan(3)
        view = job(job_id)
        assert view.status == JobStatus.ZOMBIE
        assert view.failure_reason is FailureReason.ZOMBIE
        assert scanner.crashed == ["test.note"], "a crash is a failure for the circuit"
        assert view.crash_count == 1
        assert "dead" in (view.error_details or "")
        assert [entry["outcome"] for entry in view.attempts] == ["crashed"]
        assert not WorkerRecord.objects.filter(pk="dead").exists()
        assert scanner.woken == 1

    def test_one_death_is_one_failure_of_a_type_however_many_jobs_it_takes(self, scanner: Scanner) -> None:
        """Else one kill would open the circuits of all types that have five jobs running there."""
        ids = [scanner.run(worker_id) for worker_id in ("dead", "dead", "dead", "dead too")]
        scanner.scan(TIMEOUT + 2)
        assert [job(job_id).crash_count for job_id in ids] == [1, 1, 1, 1]
        assert scanner.crashed == ["test.note"] * 2

    def test_a_dead_workers_buffered_job_goes_back_unconsumed(self, scanner: Scanner) -> None:
        scanner.beat("dead")
        job_id = scanner.run("dead", start=False)
        scanner.scan(TIMEOUT + 2)
        view = job(job_id)
        assert (view.status, view.attempt, view.crash_count) == (JobStatus.PENDING, 0, 0)

    def test_a_worker_that_never_registered_is_dead_after_the_same_time(self, scanner: Scanner) -> None:
        running, buffered = scanner.run("stranger"), scanner.run("stranger", start=False)
        scanner.scan(TIMEOUT - 1)
        assert [status(running), status(buffered)] == [JobStatus.PROCESSING, JobStatus.FETCHED]
        scanner.scan(3)
        assert [status(running), status(buffered)] == [JobStatus.ZOMBIE, JobStatus.PENDING]

    def test_a_live_workers_silent_job_waits_for_the_zombie_timeout(self, scanner: Scanner) -> None:
        scanner.hearts.append(lambda: scanner.beat("alive"))
        job_id = scanner.run("alive")
        scanner.scan(ZOMBIE - 1)
        assert status(job_id) == JobStatus.PROCESSING
        scanner.scan(3)
        assert status(job_id) == JobStatus.ZOMBIE

    def test_a_live_workers_buffered_job_waits_for_the_fetched_timeout(self, scanner: Scanner) -> None:
        scanner.hearts.append(lambda: scanner.beat("alive"))
        job_id = scanner.run("alive", start=False)
        scanner.scan(FETCHED - 1)
        assert status(job_id) == JobStatus.FETCHED
        scanner.scan(3)
        assert status(job_id) == JobStatus.PENDING

    def test_a_job_with_a_heartbeat_lives_for_ever(self, scanner: Scanner) -> None:
        job_id = scanner.run("busy")
        lease = JobHot.objects.get(pk=job_id)
        scanner.hearts.append(
            lambda: JobHot.objects.filter(pk=job_id).update(heartbeat_at=dt.datetime.now(dt.UTC), run_at=lease.run_at)
        )
        scanner.scan(ZOMBIE * 3)
        assert status(job_id) == JobStatus.PROCESSING

    def test_an_outage_buries_nothing(self, scanner: Scanner) -> None:
        """The database was away for everybody: nobody's heartbeat moved, and that proves nothing."""
        scanner.beat("other")
        job_id = scanner.run("other")
        scanner.scan(TIMEOUT / 2)
        scanner.scan(TIMEOUT * 100, writes=False)
        scanner.scan(TIMEOUT - 1)
        assert status(job_id) == JobStatus.PROCESSING
        scanner.scan(3)
        assert status(job_id) == JobStatus.ZOMBIE

    @pytest.mark.parametrize("heard_at", [1, 3])
    def test_after_an_outage_a_silent_job_of_a_live_worker_gets_its_whole_time(
        self, scanner: Scanner, heard_at: int
    ) -> None:
        """Whichever loop of the rescuer's process reaches the database first: its row, a heartbeat or the scan."""
        scanner.hearts.append(lambda: scanner.beat("alive"))
        job_id = scanner.run("alive")
        scanner.scan(TIMEOUT / 2)
        scanner.scan(ZOMBIE * 2, writes=False)
        for _ in range(heard_at):
            scanner.scan(1, writes=False)
            scanner.rescuer._steadiness.wrote()
        scanner.scan(ZOMBIE - heard_at - 1)
        assert status(job_id) == JobStatus.PROCESSING
        scanner.scan(heard_at + 2)
        assert status(job_id) == JobStatus.ZOMBIE

    def test_outages_in_a_row_bury_nothing(self, scanner: Scanner) -> None:
        scanner.beat("other")
        job_id = scanner.run("other")
        for _ in range(20):
            scanner.scan(TIMEOUT - 2)
            scanner.scan(TIMEOUT, writes=False)
        assert status(job_id) == JobStatus.PROCESSING

    def test_a_worker_that_just_started_judges_nobody(self, scanner: Scanner) -> None:
        scanner.beat("old")
        job_id = scanner.run("old")
        for name in ("first", "second", "third"):
            scanner.restart(name)
            scanner.scan(TIMEOUT - 1)
        assert status(job_id) == JobStatus.PROCESSING

    @pytest.mark.parametrize("step", [dt.timedelta(hours=2), -dt.timedelta(hours=2)])
    def test_a_stepped_database_clock_buries_nothing(self, scanner: Scanner, step: dt.timedelta) -> None:
        """All times in the database jump; no process's own clock does."""
        scanner.beat("other")
        job_id = scanner.run("other")
        scanner.scan(TIMEOUT / 2)
        for row in JobHot.objects.all():
            JobHot.objects.filter(pk=row.pk).update(
                heartbeat_at=row.heartbeat_at + step, updated_at=row.updated_at + step
            )
        for worker in WorkerRecord.objects.all():
            WorkerRecord.objects.filter(pk=worker.pk).update(last_seen=worker.last_seen + step)
        scanner.scan(TIMEOUT - 2)
        assert status(job_id) == JobStatus.PROCESSING

    def test_a_live_workers_job_that_nobody_could_write_gets_its_whole_time(
        self, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody's long transaction held the row, which its heartbeats pass over, and so does a rescue."""
        scanner.hearts.append(lambda: scanner.beat("alive"))
        held, silent = scanner.run("alive"), scanner.run("alive")
        kind, holds = type(scanner.storage), {held}
        rescue_all = kind.rescue
        monkeypatch.setattr(
            kind, "rescue",
            lambda self, actions: rescue_all(self, [action for action in actions if action.row.id not in holds]),
        )  # fmt: skip
        scanner.scan(ZOMBIE + 2)
        holds.clear()
        scanner.scan(ZOMBIE - 3)
        assert [status(held), status(silent)] == [JobStatus.PROCESSING, JobStatus.ZOMBIE]
        scanner.scan(5)
        assert status(held) == JobStatus.ZOMBIE

    def test_only_the_leader_scans(self, scanner: Scanner) -> None:
        scanner.beat("dead")
        job_id = scanner.run("dead")
        assert scanner.storage.lead(rescue.LEASE, "another", 3_600)
        scanner.scan(TIMEOUT * 3)
        assert status(job_id) == JobStatus.PROCESSING
        scanner.storage.resign(rescue.LEASE, "another")
        scanner.scan(TIMEOUT - 1)
        assert status(job_id) == JobStatus.PROCESSING, "what it did not see itself proves nothing"
        scanner.scan(3)
        assert status(job_id) == JobStatus.ZOMBIE

    def test_the_queues_own_zombie_timeout_wins(self, scanner: Scanner) -> None:
        control.set_queue("slow", by="grace", zombie_timeout=90)
        scanner.restart("rescuer")
        scanner.hearts.append(lambda: scanner.beat("alive"))
        slow, usual = scanner.run("alive", queue="slow"), scanner.run("alive")
        scanner.scan(ZOMBIE + 2)
        assert [status(slow), status(usual)] == [JobStatus.PROCESSING, JobStatus.ZOMBIE]
        scanner.scan(60)
        assert status(slow) == JobStatus.ZOMBIE

    def test_crash_policy_retry_gives_the_attempts_that_are_left(self, scanner: Scanner) -> None:
        job_id = store_raw("test.die_and_retry", "{}", max_attempts=2)
        for attempt in (1, 2):
            claim_and_start(scanner.storage, f"dead-{attempt}")
            scanner.scan(TIMEOUT + 2)
            if attempt == 1:
                view = job(job_id)
                assert (view.status, view.attempt, view.crash_count) == (JobStatus.PENDING, 1, 1)
        view = job(job_id)
        assert view.failure_reason is FailureReason.MAX_RETRIES_EXCEEDED
        assert view.crash_count == 2
        assert len(view.attempts) == 2

    def test_crashes_beyond_the_limit_are_poison(self, scanner: Scanner) -> None:
        job_id = store_raw("test.die_and_retry", "{}", max_attempts=100)
        for attempt in range(1, 5):
            assert status(job_id) == JobStatus.PENDING
            JobHot.objects.update(run_at=F("due_at"))  # after the second it is put off for a moment
            claim_and_start(scanner.storage, f"dead-{attempt}")
            scanner.scan(TIMEOUT + 2)
        view = job(job_id)
        assert view.failure_reason is FailureReason.POISON
        assert view.crash_count == 4

    def test_what_died_together_twice_comes_back_apart(self, scanner: Scanner) -> None:
        """Else the company of a job that kills its process is buried as poison with it."""
        ids = [store_raw("test.die_and_retry", "{}", max_attempts=100) for _ in range(5)]
        for crash in (1, 2):
            jobs = claim_and_start(scanner.storage, f"dead-{crash}", 5)
            assert {job.id for job in jobs} == set(ids)
            scanner.scan(TIMEOUT + 2)
            times = set(JobHot.objects.values_list("run_at", flat=True))
            if crash == 1:
                assert max(times) <= scanner.storage.now(), "after the first they run at once"
        assert len(times) == 5
        assert max(times) - min(times) > dt.timedelta(milliseconds=1)

    def test_pending_jobs_past_their_deadline_expire_wherever_they_are(self, scanner: Scanner) -> None:
        past = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
        gone = store_raw("test.note", queue="nobody works here", deadline_at=past)
        waits = store_raw("test.note", queue="nobody works here")
        scanner.scan(1)
        assert status(gone) == JobStatus.EXPIRED
        assert status(waits) == JobStatus.PENDING
