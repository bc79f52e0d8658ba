"""What a worker remembers of queues and circuits, and the small things that it reckons with."""

from __future__ import annotations

import datetime as dt

import pytest
import time_machine

from chokaq_django import control
from chokaq_django.conf import get_options
from chokaq_django.conf.options import window_open
from chokaq_django.models import Circuit, Queue
from chokaq_django.storage import Storage, get_storage
from chokaq_django.storage.contract import CircuitRow
from chokaq_django.worker import pace, views
from chokaq_django.worker.pace import Pace
from chokaq_django.worker.views import CircuitView, QueueView

from .support import Clock, Settings, committed, store_raw, use_options

BERLIN = "Europe/Berlin"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(views, "time", clock)
    monkeypatch.setattr(pace, "time", clock)
    return clock


# -- windows -----------------------------------------------------------------------------------------------------------


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-03-01T21:59:59+01:00", False),
        ("2026-03-01T22:00:00+01:00", True),
        ("2026-03-01T23:59:59+01:00", True),
        ("2026-03-02T00:00:00+01:00", True),
        ("2026-03-02T05:59:59+01:00", True),
        ("2026-03-02T06:00:00+01:00", False),
        ("2026-03-02T12:00:00+01:00", False),
    ],
)
def test_a_window_over_midnight(now: str, is_open: bool) -> None:
    assert window_open((dt.time(22), dt.time(6), BERLIN), at(now)) is is_open


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-03-01T07:59:59+01:00", False),
        ("2026-03-01T08:00:00+01:00", True),
        ("2026-03-01T16:59:59+01:00", True),
        ("2026-03-01T17:00:00+01:00", False),
        ("2026-03-01T07:30:00+00:00", True),  # another zone's way to say 08:30 in Berlin
        ("2026-07-01T06:30:00+00:00", True),  # 08:30 in summer
        ("2026-07-01T15:30:00+00:00", False),
    ],
)
def test_a_window_within_a_day_goes_by_its_own_zone(now: str, is_open: bool) -> None:
    assert window_open((dt.time(8), dt.time(17), BERLIN), at(now)) is is_open


def test_no_window_is_always_open() -> None:
    assert window_open(None, at("2026-03-01T00:00:00+00:00"))


# -- queues ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def storage() -> Storage:
    return get_storage()


def view(settings: Settings, storage: Storage, *named: str, **queues: dict[str, object]) -> QueueView:
    use_options(settings, QUEUES=queues)
    made = QueueView(get_options(), named)
    made.seed(storage)
    made.refresh(storage, force=True)
    return made


def limits() -> dict[str, tuple[int | None, float | None, str | None]]:
    rows = Queue.objects.values_list("name", "max_workers", "execution_timeout", "window_zone")
    return {name: tuple(rest) for name, *rest in rows}  # type: ignore[misc]


@committed
class TestLimitsOfTheSettings:
    def test_a_row_that_nobody_edited_follows_them(self, settings: Settings, storage: Storage) -> None:
        view(
            settings,
            storage,
            mail={"MAX_WORKERS": 2},
            reports={"WINDOW": f"22:00-06:00 {BERLIN}"},
            old={"MAX_WORKERS": 1},
        )
        settings.CHOKAQ = {"QUEUES": {"mail": {"EXECUTION_TIMEOUT": 60}, "reports": {"MAX_WORKERS": 5}}}
        QueueView(get_options(), []).seed(storage)
        assert limits() == {"mail": (None, 60, None), "reports": (5, None, None), "old": (None, None, None)}

    def test_a_row_that_an_operator_edited_keeps_its_own(self, settings: Settings, storage: Storage) -> None:
        view(settings, storage, mail={"MAX_WORKERS": 2}, reports={"MAX_WORKERS": 2})
        control.set_queue("mail", by="ada", max_workers=9)
        control.pause_queue("mail", by="bob")
        view(settings, storage, mail={"MAX_WORKERS": 3}, reports={"MAX_WORKERS": 3})
        assert limits() == {"mail": (9, None, None), "reports": (3, None, None)}

    def test_a_row_of_which_only_switches_were_turned_follows_them(self, settings: Settings, storage: Storage) -> None:
        view(settings, storage, mail={"MAX_WORKERS": 2})
        for verb in (control.pause_queue, control.resume_queue, control.hide_queue):
            verb("mail", by="ada")
        view(settings, storage, mail={"MAX_WORKERS": 3})
        assert limits() == {"mail": (3, None, None)}
        assert not Queue.objects.get().is_active

    def test_limits_that_were_given_back_follow_them_again(self, settings: Settings, storage: Storage) -> None:
        view(settings, storage, mail={"MAX_WORKERS": 2})
        control.set_queue("mail", by="ada", max_workers=9)
        control.reset_queue("mail", by="ada")
        assert limits() == {"mail": (2, None, None)}
        view(settings, storage, mail={"MAX_WORKERS": 3})
        assert limits() == {"mail": (3, None, None)}

    def test_workers_with_older_and_newer_settings_do_not_fight(self, settings: Settings, storage: Storage) -> None:
        older = view(settings, storage, mail={"MAX_WORKERS": 2})
        view(settings, storage, mail={"MAX_WORKERS": 3})
        older.seed(storage)  # once a process has said what holds, it says so no more
        use_options(settings, QUEUES={"mail": {"MAX_WORKERS": 2}, "new": {"MAX_WORKERS": 1}})
        replacing = QueueView(get_options(), [], renews=False)
        replacing.seed(storage)
        assert limits() == {"mail": (3, None, None), "new": (1, None, None)}

    def test_what_is_as_it_should_be_is_not_written(self, settings: Settings, storage: Storage) -> None:
        said = {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 0.1, "ZOMBIE_TIMEOUT": 700, "WINDOW": f"22:00-06:00 {BERLIN}"}
        view(settings, storage, mail=said)
        before = Queue.objects.values().get()
        view(settings, storage, mail=said)
        assert Queue.objects.values().get() == before


@committed
class TestQueues:
    def test_all_queues_with_work_or_a_row_are_claimed_by_default(self, settings: Settings, storage: Storage) -> None:
        store_raw("test.note", queue="mail")
        queues = view(settings, storage, reports={})
        assert queues.claimable() == ["mail", "reports"]
        queues.found("announced")
        assert queues.claimable() == ["announced", "mail", "reports"]

    def test_named_queues_keep_the_order_of_the_command_line(self, settings: Settings, storage: Storage) -> None:
        store_raw("test.note", queue="mail")
        queues = view(settings, storage, "z", "a")
        assert queues.claimable() == ["z", "a"]
        assert queues.interested("z")
        assert not queues.interested("mail")

    def test_paused_and_hidden_queues_are_left_alone(self, settings: Settings, storage: Storage, clock: Clock) -> None:
        queues = view(settings, storage, "paused", "hidden", "open")
        control.pause_queue("paused", by="grace")
        control.set_queue("hidden", by="grace", max_workers=1)
        Queue.objects.filter(pk="hidden").update(is_active=False)
        queues.refresh(storage)
        assert queues.claimable() == ["paused", "hidden", "open"], "for a second it goes by what it knows"
        clock.now += 1.1
        queues.refresh(storage)
        assert queues.claimable() == ["open"]

    def test_a_queue_outside_its_window_is_left_alone(self, settings: Settings, storage: Storage, clock: Clock) -> None:
        now = storage.now().astimezone(dt.UTC)
        around = f"{now - dt.timedelta(hours=2):%H:%M}-{now + dt.timedelta(hours=2):%H:%M} UTC"
        before = f"{now - dt.timedelta(hours=4):%H:%M}-{now - dt.timedelta(hours=2):%H:%M} UTC"
        queues = view(settings, storage, "now", "later", now={"WINDOW": around}, later={"WINDOW": before})
        assert queues.claimable() == ["now"]

    def test_windows_go_by_the_databases_clock(self, settings: Settings, storage: Storage, engine: str) -> None:
        if engine == "sqlite":
            pytest.skip("SQLite's clock is this machine's own")
        now = storage.now().astimezone(dt.UTC)
        around = f"{now - dt.timedelta(hours=2):%H:%M}-{now + dt.timedelta(hours=2):%H:%M} UTC"
        with time_machine.travel(now + dt.timedelta(hours=7)):
            assert view(settings, storage, "now", now={"WINDOW": around}).claimable() == ["now"]

    def test_settings_seed_a_queues_row_and_the_row_wins_afterwards(self, settings: Settings, storage: Storage) -> None:
        seeded = {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 60, "ZOMBIE_TIMEOUT": 90}
        queues = view(settings, storage, reports=seeded)
        assert queues.caps(["reports", "mail"]) == {"reports": 2}
        assert queues.execution_timeout("reports") == 60
        assert queues.zombie_timeout("reports") == 90
        assert queues.execution_timeout("mail") is None
        assert queues.zombie_timeout("mail") == get_options().recovery.zombie_timeout
        control.set_queue("reports", by="grace", max_workers=7, zombie_timeout=None)
        queues = view(settings, storage, reports=seeded)
        assert queues.caps(["reports"]) == {"reports": 7}
        assert queues.zombie_timeout("reports") == get_options().recovery.zombie_timeout


# -- circuits ----------------------------------------------------------------------------------------------------------


def circuit(state: int, reopens_in: float = 0.0, *, forced: bool = False, key: str = "a") -> CircuitRow:
    return CircuitRow(key, state, 5, reopens_in, forced)


def test_an_open_circuit_blocks_until_it_may_be_probed(clock: Clock) -> None:
    circuits = CircuitView()
    circuits.replace([circuit(Circuit.OPEN, 10.0)])
    assert circuits.blocked() == {"a": 10.0}
    assert circuits.probing() == []
    clock.now += 9
    assert circuits.blocked() == {"a": 1.0}
    clock.now += 1
    assert circuits.blocked() == {}
    assert circuits.probing() == ["a"]


def test_a_half_open_circuit_is_probed_and_a_closed_one_runs_free(clock: Clock) -> None:
    circuits = CircuitView()
    circuits.replace([circuit(Circuit.HALF_OPEN), circuit(Circuit.CLOSED, key="b")])
    assert circuits.blocked() == {}
    assert circuits.probing() == ["a"]


def test_a_type_is_free_once_its_circuit_has_closed_while_its_jobs_may_be_deferred(clock: Clock) -> None:
    circuits = CircuitView()
    circuits.replace([circuit(Circuit.OPEN, 30.0), circuit(Circuit.HALF_OPEN, key="b")])
    circuits.replace([circuit(Circuit.OPEN, 10.0), circuit(Circuit.HALF_OPEN, key="b")])
    assert circuits.freed() == {}
    circuits.replace([circuit(Circuit.CLOSED, key="b")])
    assert circuits.freed() == {"a": 30.0, "b": 0.0}
    circuits.replace([circuit(Circuit.OPEN, 60.0)])
    circuits.let_go(["a", "c"], 30.0)
    assert circuits.freed() == {"b": 0.0, "c": 30.0}, "what is blocked is not free"
    circuits.replace([])
    assert circuits.freed() == {"a": 60.0, "b": 0.0, "c": 30.0}
    clock.now += 60
    assert set(circuits.freed()) == {"a", "b"}
    clock.now += views.LONGEST_SPREAD
    assert circuits.freed() == {}


def test_a_forced_circuit_blocks_and_is_never_probed(clock: Clock) -> None:
    circuits = CircuitView()
    circuits.replace([circuit(Circuit.OPEN, 0.0, forced=True)])
    clock.now += 1_000
    assert set(circuits.blocked()) == {"a"}
    assert circuits.probing() == []


def test_an_unknown_type_is_left_alone_for_longer_and_longer(clock: Clock) -> None:
    circuits = CircuitView()
    pauses = []
    for _ in range(7):
        unknown_for, pause = circuits.unknown_type("new")
        pauses.append(pause)
        assert circuits.blocked() == {"new": pause}
        clock.now += pause
        assert circuits.blocked() == {}
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert unknown_for == sum(pauses[:-1])


def test_many_jobs_of_an_unknown_type_make_one_pause(clock: Clock) -> None:
    circuits = CircuitView()
    assert [circuits.unknown_type("new")[1] for _ in range(50)] == [1.0] * 50
    clock.now += 0.25
    assert circuits.unknown_type("new") == (0.25, 0.75)
    clock.now += 0.75
    assert circuits.unknown_type("new") == (1.0, 2.0)


# -- pace --------------------------------------------------------------------------------------------------------------


def test_pace_knows_nothing_at_first(clock: Clock) -> None:
    measured = Pace()
    assert not measured.known
    assert measured.rate() == 0.0


def test_pace_takes_the_first_job_as_the_mean_and_follows_slowly(clock: Clock) -> None:
    measured = Pace()
    measured.ended(1.0)
    assert measured.mean == 1.0
    for _ in range(200):
        measured.ended(0.001)
    assert measured.mean == pytest.approx(0.001, rel=0.1)


def test_pace_rises_at_once_and_falls_slowly(clock: Clock) -> None:
    measured = Pace()
    for _ in range(100):
        measured.ended(0.001)
    clock.now += 0.1
    assert measured.rate() == pytest.approx(1_000)
    clock.now += 0.1
    assert measured.rate() == pytest.approx(800)
    assert measured.rate() == pytest.approx(800), "too short a time to measure anything new"
