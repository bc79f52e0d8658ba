"""Workers, their orders, and the control rows of queues."""

from __future__ import annotations

import datetime as dt

from chokaq_django.models import Queue, Setting, Worker
from chokaq_django.storage import Storage
from chokaq_django.storage.contract import QueueRow, WorkerRow

from .support import Jobs, committed, near, together

pytestmark = committed

SAME_CLOCK = 0.1
"""Seconds: the servers of the tests are on this machine, or on one that follows the same time service."""


def worker(id_: str = "worker-1", **columns: object) -> WorkerRow:
    named = {"host": "db.example", "pid": 4711, "version": "1.0", "queues": '["mail"]', "concurrency": 10,
             "async_concurrency": 100, "state": "running", **columns}  # fmt: skip
    return WorkerRow(id_, **named)  # type: ignore[arg-type]


# -- workers -----------------------------------------------------------------------------------------------------------


def test_a_worker_registers_itself(storage: Storage) -> None:
    now = storage.now()
    orders = storage.register(worker(busy=3, buffered=4, succeeded=5, failed=6, retried=7, conflicts=8, rss_mb=61.5))
    assert (orders.desired_concurrency, orders.stop_requested) == (None, False)
    stored = Worker.objects.get()
    assert (stored.id, stored.host, stored.pid, stored.version) == ("worker-1", "db.example", 4711, "1.0")
    assert (stored.queues, stored.state) == ('["mail"]', "running")
    assert (stored.concurrency, stored.async_concurrency) == (10, 100)
    assert (stored.busy, stored.buffered, stored.succeeded, stored.failed) == (3, 4, 5, 6)
    assert (stored.retried, stored.conflicts, stored.rss_mb) == (7, 8, 61.5)
    assert near(stored.started_at, now)
    assert near(stored.last_seen, now)


def test_a_beat_updates_the_row_and_leaves_its_start(storage: Storage) -> None:
    storage.register(worker())
    old = storage.now() - dt.timedelta(seconds=300)
    Worker.objects.update(started_at=old, last_seen=old)
    storage.register(worker(state="draining", busy=9, concurrency=20, succeeded=5_000_000_000, rss_mb=None))
    stored = Worker.objects.get()
    assert (stored.state, stored.busy, stored.concurrency, stored.succeeded) == ("draining", 9, 20, 5_000_000_000)
    assert stored.started_at == old
    assert near(stored.last_seen, storage.now())


def test_a_beat_reads_the_orders_and_keeps_them(storage: Storage) -> None:
    storage.register(worker())
    Worker.objects.update(desired_concurrency=4, stop_requested=True)
    for _ in range(2):
        orders = storage.register(worker())
        assert (orders.desired_concurrency, orders.stop_requested) == (4, True)
    assert Worker.objects.get().desired_concurrency == 4


def test_each_beat_measures_the_clock_and_stores_the_last_measure(storage: Storage) -> None:
    first = storage.register(worker()).clock
    assert first is not None
    assert 0 <= first.doubt < 5
    assert abs(first.offset) <= first.doubt + SAME_CLOCK
    stored = Worker.objects.get()
    assert (stored.clock_offset, stored.clock_doubt) == (first.offset, first.doubt)
    second = storage.register(worker(clock_offset=1.5, clock_doubt=0.25)).clock
    assert second is not None
    assert abs(second.offset) <= second.doubt + SAME_CLOCK
    stored = Worker.objects.get()
    assert (stored.clock_offset, stored.clock_doubt) == (1.5, 0.25)


def test_a_row_that_was_swept_comes_back(storage: Storage) -> None:
    storage.register(worker())
    storage.sweep_workers(["worker-1"])
    assert not Worker.objects.exists()
    storage.register(worker())
    assert Worker.objects.count() == 1


def test_a_new_row_has_what_the_worker_says_is_wanted_of_it(storage: Storage) -> None:
    for wanted in (0, 7, None):
        storage.sweep_workers(["worker-1"])
        assert storage.register(worker(desired_concurrency=wanted)).desired_concurrency == wanted
        assert Worker.objects.get().desired_concurrency == wanted
    Worker.objects.update(desired_concurrency=4)
    assert storage.register(worker(desired_concurrency=0)).desired_concurrency == 4
    assert Worker.objects.get().desired_concurrency == 4, "where there is a row, operators say it there"


def test_unregister_removes_one_row(storage: Storage) -> None:
    storage.register(worker("worker-1"))
    storage.register(worker("worker-2"))
    storage.unregister("worker-1")
    storage.unregister("worker-1")
    storage.unregister("nobody")
    assert list(Worker.objects.values_list("id", flat=True)) == ["worker-2"]


def test_workers_seen(storage: Storage) -> None:
    assert storage.workers_seen() == {}
    for number in range(3):
        storage.register(worker(f"worker-{number}"))
    old = storage.now() - dt.timedelta(seconds=100)
    Worker.objects.filter(pk="worker-1").update(last_seen=old)
    seen = storage.workers_seen()
    assert sorted(seen) == ["worker-0", "worker-1", "worker-2"]
    assert seen["worker-1"] == old
    assert near(seen["worker-0"], storage.now())


def test_sweep_removes_those_named(storage: Storage) -> None:
    for number in range(4):
        storage.register(worker(f"worker-{number}"))
    storage.sweep_workers(["worker-1", "worker-3", "nobody"])
    storage.sweep_workers([])
    assert sorted(storage.workers_seen()) == ["worker-0", "worker-2"]


def test_eight_workers_register_at_once() -> None:
    def work(number: int, own: Storage) -> None:
        for beat in range(10):
            own.register(worker(f"worker-{number}", busy=beat))
            own.register(worker("shared", busy=beat))

    together(8, work)
    assert Worker.objects.count() == 9


# -- queues ------------------------------------------------------------------------------------------------------------


def test_a_seeded_queue(storage: Storage) -> None:
    assert storage.queues() == []
    full = QueueRow("reports", True, False, 3, 12.5, 3600.0, (dt.time(22, 0), dt.time(6, 30), "Europe/Berlin"))
    plain = QueueRow("mail", False, True, None, None, None, None)
    now = storage.now()
    storage.seed_queue(full)
    storage.seed_queue(plain)
    assert sorted(storage.queues(), key=lambda found: found.name) == [plain, full]
    stored = Queue.objects.get(name="reports")
    assert near(stored.updated_at, now)
    assert (stored.max_workers, stored.zombie_timeout, stored.execution_timeout) == (3, 12.5, 3600.0)
    assert (stored.window_start, stored.window_end) == (dt.time(22), dt.time(6, 30))
    assert stored.window_zone == "Europe/Berlin"


def test_an_existing_row_wins_over_the_seed(storage: Storage) -> None:
    storage.seed_queue(QueueRow("mail", False, True, 3, None, None, None))
    Queue.objects.update(max_workers=9, is_paused=True, updated_by="ada")
    before = Queue.objects.values().get()
    storage.seed_queue(QueueRow("mail", False, True, 5, 1.0, 2.0, None))
    assert Queue.objects.values().get() == before


def test_a_row_that_no_operator_has_changed_gets_other_limits(storage: Storage) -> None:
    window = (dt.time(22, 0), dt.time(6, 30), "Europe/Berlin")
    first, second = (
        QueueRow("mail", False, True, 3, None, None, None),
        QueueRow("mail", False, True, None, 9, 30, window),
    )
    assert not storage.renew_queue(second)
    assert storage.queues() == []
    assert storage.seed_queue(first)
    assert not storage.seed_queue(second)
    Queue.objects.update(is_paused=True)
    assert storage.renew_queue(second)
    assert storage.queues() == [QueueRow("mail", True, True, None, 9, 30, window)]
    Queue.objects.update(updated_by="ada")
    assert not storage.renew_queue(first)
    assert storage.queues() == [QueueRow("mail", True, True, None, 9, 30, window)]


def test_eight_workers_seed_at_once(storage: Storage) -> None:
    def work(number: int, own: Storage) -> None:
        for name in ("a", "b", "c") if number % 2 else ("c", "b", "a"):
            own.seed_queue(QueueRow(name, False, True, number, None, None, None))

    together(8, work)
    assert sorted(found.name for found in storage.queues()) == ["a", "b", "c"]


# -- the clock of the server -------------------------------------------------------------------------------------------


def test_now_is_aware_and_never_goes_back(jobs: Jobs, storage: Storage, other: Storage) -> None:
    first, second, third = storage.now(), other.now(), storage.now()
    assert first.tzinfo is not None
    assert first.utcoffset() == dt.timedelta(0)
    assert first <= second <= third


# -- settings ----------------------------------------------------------------------------------------------------------


def test_a_worker_learns_that_an_option_was_set_changed_or_reset(storage: Storage) -> None:
    storage.register(worker())
    seen = [storage.register(worker()).settings]

    def learns() -> bool:
        seen.append(storage.register(worker()).settings)
        return seen[-1] != seen[-2]

    assert not learns()
    now = storage.now()
    first = Setting.objects.create(name="DECK.LAG_WARNING", value="7", updated_at=now)
    assert learns()
    assert not learns()
    Setting.objects.filter(pk=first.pk).update(value="8", updated_at=now + dt.timedelta(seconds=1))
    assert learns()
    Setting.objects.create(name="RETENTION.DLQ_BY_QUEUE.🐙", value="null", updated_at=now)
    assert learns()
    assert sorted(storage.settings()) == [("DECK.LAG_WARNING", "8"), ("RETENTION.DLQ_BY_QUEUE.🐙", "null")]
    first.delete()
    assert learns()
    assert len(storage.settings()) == 1
