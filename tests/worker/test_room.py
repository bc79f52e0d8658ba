"""How much a worker claims ahead of its free slots. No database here."""

from __future__ import annotations

from unittest.mock import MagicMock, Mock

import pytest

from chokaq_django.conf import get_options
from chokaq_django.storage import ClaimRequest
from chokaq_django.storage.contract import Claim
from chokaq_django.worker import fetch, pace, room
from chokaq_django.worker.doubts import Doubts
from chokaq_django.worker.pace import Pace
from chokaq_django.worker.room import CLAIMS, LONGEST_AHEAD, Room

from .executions import claimed
from .support import Clock

SIZE = 10
FULL = 0
QUEUES = ["a"]


class Slots:
    size = SIZE

    def __init__(self) -> None:
        self.left = SIZE

    def free(self) -> int:
        return self.left

    def waiting(self) -> int:
        return max(0, -self.left)


class Place:
    """A room whose slots, of threads, and whose clock the test moves."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.slots, self.pace = clock, Slots(), Pace()
        self.room = Room(get_options().worker, False, {False: self.slots, True: Slots()}, self.pace)  # type: ignore[dict-item]
        self.room._kinds = frozenset({False})

    def ended(self, seconds: float) -> None:
        self.pace.ended(seconds)

    def claims(self, *seconds: float) -> None:
        for each in seconds:
            self.room.claimed(each)
            self.clock.now += each

    def plan(self, held: int = 0) -> tuple[int, bool]:
        _, limit, start = self.room.plan(QUEUES, held)
        return limit, start


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    clock = Clock()
    monkeypatch.setattr(room, "time", clock)
    monkeypatch.setattr(pace, "time", clock)
    return Place(clock)


def test_a_slow_claim_brings_what_runs_during_the_next(place: Place) -> None:
    place.ended(0.004)
    place.claims(*[0.06] * CLAIMS)
    place.ended(0.004)
    assert place.plan() == (SIZE + SIZE * 0.06 / 0.004, True)


def test_one_slow_claim_among_quick_ones_changes_nothing(place: Place) -> None:
    place.ended(0.004)
    place.claims(*[0.9] * (CLAIMS - 1), 0.002)
    place.ended(0.004)
    limit, start = place.plan()
    assert (limit, start) == (SIZE, True)


def test_the_work_of_one_claim_has_its_bounds(place: Place) -> None:
    place.ended(0.004)
    place.claims(*[60.0] * CLAIMS)
    place.ended(0.004)
    assert place.plan() == (get_options().worker.fetch_batch, True)
    assert place.room._meanwhile(0.0) == LONGEST_AHEAD


def test_long_jobs_are_not_started_ahead_of_their_slots_however_slow_claims_are(place: Place) -> None:
    place.ended(0.5)
    place.claims(*[0.6] * CLAIMS)
    place.ended(0.5)
    assert place.plan() == (SIZE, True)
    place.slots.left = FULL
    assert place.plan() == (0, False)


def test_jobs_of_medium_length_are_leased_for_the_time_of_a_claim(place: Place) -> None:
    place.ended(0.02)
    place.slots.left = FULL
    assert place.plan() == (SIZE * 0.05 / 0.02, False)
    place.claims(*[0.2] * CLAIMS)
    place.ended(0.02)
    assert place.plan() == (SIZE * 0.2 / 0.02, False)


@pytest.fixture
def storage() -> Mock:
    return Mock()


@pytest.fixture
def buffer() -> MagicMock:
    """An empty one."""
    buffer = MagicMock()
    buffer.__len__.return_value = 0
    buffer.__bool__.return_value = False
    return buffer


@pytest.fixture
def fetcher(place: Place, storage: Mock, buffer: MagicMock, monkeypatch: pytest.MonkeyPatch) -> fetch.Fetcher:
    monkeypatch.setattr(fetch, "time", place.clock)  # before it notes when it was made
    queues, circuits = Mock(), Mock()
    queues.claimable.return_value, queues.caps.return_value = QUEUES, {}
    circuits.blocked.return_value, circuits.probing.return_value, circuits.freed.return_value = {}, [], {}
    plan = fetch.FetchPlan("worker-1", strict=False, burst=False)
    return fetch.Fetcher(
        get_options(), plan, lambda: storage, Mock(), queues, circuits, place.room, buffer,
        Doubts("worker-1", list, list, 0.0), Mock(), Mock(), Mock(), Mock(), Mock(), Mock(),
    )  # fmt: skip


def test_each_claim_tells_how_long_it_took(place: Place, fetcher: fetch.Fetcher, storage: Mock) -> None:
    def claim(request: ClaimRequest) -> Claim:
        place.clock.now += 0.25
        return Claim([])

    storage.claim.side_effect = claim
    for _ in range(CLAIMS):
        fetcher._round(storage)
    assert place.room._meanwhile(0.0) == pytest.approx(0.25)


@pytest.mark.parametrize("asked", range(4))
def test_a_slot_that_comes_free_during_a_look_lets_no_job_pass_those_before_it(
    place: Place, fetcher: fetch.Fetcher, storage: Mock, buffer: MagicMock, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    """What is given back is claimed again, behind what is kept: only the head may be kept."""
    jobs = [claimed(id=f"01J0000000000000000000000{number}", queue="a", status=1) for number in range(4)]
    place.room._kinds = frozenset({False, True})
    place.slots.left = FULL
    place.room.had("a", False)
    answers = iter([FULL] * asked)

    def look(request: ClaimRequest) -> Claim:
        monkeypatch.setattr(place.slots, "free", lambda: next(answers, 1))
        return Claim(list(jobs))

    storage.claim.side_effect = look
    storage.release.side_effect = lambda worker_id, leases: {lease.id for lease in leases}
    fetcher._storage = storage
    fetcher._round(storage)
    assert place.room.peeked
    kept = [call.args[0].id for call in buffer.add.call_args_list]
    given_back = [lease.id for call in storage.release.call_args_list for lease in call.args[1]]
    assert kept + given_back == [job.id for job in jobs]
