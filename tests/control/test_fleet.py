"""The operator's verbs on queues and workers."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import override_settings

from chokaq_django import EnvelopeError, control, wake
from chokaq_django.conf import Window
from chokaq_django.models import AuditEntry, Queue, Worker
from chokaq_django.storage import BulkResult
from tests import factories as make

pytestmark = pytest.mark.django_db

ODD = 'we/ird ?#% "name"'


@pytest.fixture
def woken() -> Iterator[list[str]]:
    calls: list[str] = []

    def listener() -> None:
        calls.append("woken")

    wake.subscribe("default", listener, {"mail"}.__contains__)
    yield calls
    wake.unsubscribe("default", listener)


def test_pause_and_resume(woken: list[str], django_capture_on_commit_callbacks: Any) -> None:
    make.queue("mail", max_workers=4)
    assert control.pause_queue("mail", by="ada", reason="partner down").applied == ["mail"]
    row = Queue.objects.get()
    assert (row.is_paused, row.max_workers, row.updated_by) == (True, 4, None)
    again = control.pause_queue("mail", by="bob")
    assert again.applied == []
    assert again.refused[0].reason == "The queue is paused already."
    with django_capture_on_commit_callbacks(execute=True):
        assert control.resume_queue("mail", by="bob").applied == ["mail"]
    assert not Queue.objects.get().is_paused
    assert len(woken) == 1
    assert control.resume_queue("mail", by="bob").refused[0].reason == "The queue is not paused."
    entries = list(AuditEntry.objects.order_by("id").values_list("action", "target", "by", "reason", "details"))
    assert entries == [
        ("pause_queue", "mail", "ada", "partner down", '{"is_paused": {"from": false, "to": true}}'),
        ("resume_queue", "mail", "bob", "", '{"is_paused": {"from": true, "to": false}}'),
    ]


def test_a_missing_row_is_made_from_the_settings() -> None:
    limits = {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 60, "WINDOW": "22:00-06:00 Europe/Berlin"}
    with override_settings(CHOKAQ={"QUEUES": {"reports": limits}}):
        assert control.pause_queue("reports", by="ada").applied == ["reports"]
        assert control.pause_queue(" plain ", by="ada").applied == ["plain"]
    row = Queue.objects.get(pk="reports")
    assert (row.is_paused, row.is_active, row.max_workers, row.execution_timeout) == (True, True, 2, 60.0)
    assert (row.window_start, row.window_end, row.window_zone) == (dt.time(22), dt.time(6), "Europe/Berlin")
    plain = Queue.objects.get(pk="plain")
    assert (plain.is_paused, plain.max_workers, plain.window_zone) == (True, None, None)


def test_names_are_checked_unless_the_queue_exists() -> None:
    for name in ("", "two words", "a/b", "q" * 256, 5):
        with pytest.raises(EnvelopeError, match="queue must be"):
            control.pause_queue(name, by="ada")  # type: ignore[arg-type]
    assert not Queue.objects.exists()
    make.queue(ODD)
    assert control.pause_queue(ODD, by="ada").applied == [ODD]


def test_set_limits() -> None:
    make.queue("mail", max_workers=4, zombie_timeout=99)
    answer = control.set_queue(
        "mail", by="ada", max_workers=2, zombie_timeout=None, execution_timeout=dt.timedelta(minutes=1)
    )
    assert answer.applied == ["mail"]
    row = Queue.objects.get()
    assert (row.max_workers, row.zombie_timeout, row.execution_timeout) == (2, None, 60.0)
    assert json.loads(AuditEntry.objects.get().details) == {
        "max_workers": {"from": 4, "to": 2},
        "zombie_timeout": {"from": 99.0, "to": None},
        "execution_timeout": {"from": None, "to": 60.0},
    }
    assert control.set_queue("mail", by="ada", max_workers=2).refused[0].reason == "The queue has these limits already."
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_workers": 0}, "max_workers must be from 1 to 1,000,000, got 0; to stop a queue, pause it"),
        ({"max_workers": -1}, "max_workers must be from 1"),
        ({"max_workers": 10**12}, "max_workers must be from 1"),
        ({"max_workers": True}, "max_workers must be an integer, got True"),
        ({"max_workers": 1.5}, "max_workers must be an integer"),
        ({"execution_timeout": 0}, "execution_timeout must be more than 0"),
        ({"execution_timeout": float("nan")}, "execution_timeout must be a finite"),
        ({"execution_timeout": "5"}, "execution_timeout must be a timedelta or a number"),
        ({"execution_timeout": 10**9}, "execution_timeout must be at most"),
        ({"zombie_timeout": -1}, "zombie_timeout must be more than 0"),
        ({"zombie_timeout": 0.8}, r"zombie_timeout must be longer than the time between heartbeats \(0.8 s\)"),
    ],
)
def test_bad_limits_are_refused(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvelopeError, match=words):
        control.set_queue("mail", by="ada", **limits)
    assert not Queue.objects.exists()


def test_something_must_be_set() -> None:
    with pytest.raises(EnvelopeError, match=r"max_workers is missing: .* zombie_timeout, .*, window must"):
        control.set_queue("mail", by="ada")


SETTINGS = {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 60, "WINDOW": "22:00-06:00 Europe/Berlin"}


def _seeded() -> Queue:
    """A queue's row as a worker makes it from SETTINGS."""
    return make.queue("mail", max_workers=2, execution_timeout=60, window_start=dt.time(22), window_end=dt.time(6),
                      window_zone="Europe/Berlin")  # fmt: skip


@pytest.mark.any_engine
@override_settings(CHOKAQ={"QUEUES": {"mail": SETTINGS}})
def test_who_turns_a_switch_sets_no_limits() -> None:
    for signed in (None, "cleo"):
        row = _seeded()
        Queue.objects.update(updated_by=signed)
        since = Queue.objects.get().updated_at
        for verb in (control.pause_queue, control.resume_queue, control.hide_queue, control.show_queue):
            assert verb("mail", by="ada").applied == ["mail"]
            row.refresh_from_db()
            assert (row.updated_by, row.updated_at) == (signed, since)
        row.delete()


@pytest.mark.any_engine
@override_settings(CHOKAQ={"QUEUES": {"mail": SETTINGS}})
def test_limits_are_given_back_to_the_settings(woken: list[str], django_capture_on_commit_callbacks: Any) -> None:
    row = _seeded()
    control.pause_queue("mail", by="ada")
    control.set_queue("mail", by="ada", max_workers=9, zombie_timeout=600, window=None)
    row.refresh_from_db()
    assert row.updated_by == "ada"
    with django_capture_on_commit_callbacks(execute=True):
        assert control.reset_queue(" mail ", by="bob", reason="it is over").applied == ["mail"]
    assert woken == ["woken"]
    row.refresh_from_db()
    assert (row.max_workers, row.zombie_timeout, row.execution_timeout) == (2, None, 60.0)
    assert (row.window_start, row.window_end, row.window_zone) == (dt.time(22), dt.time(6), "Europe/Berlin")
    assert (row.is_paused, row.updated_by) == (True, None)
    entry = AuditEntry.objects.get(action="reset_queue")
    assert (entry.target, entry.by, entry.reason) == ("mail", "bob", "it is over")
    assert json.loads(entry.details) == {
        "max_workers": {"from": 9, "to": 2}, "zombie_timeout": {"from": 600.0, "to": None},
        "window_start": {"from": None, "to": "22:00:00"}, "window_end": {"from": None, "to": "06:00:00"},
        "window_zone": {"from": None, "to": "Europe/Berlin"}, "updated_by": {"from": "ada", "to": None},
    }  # fmt: skip
    assert control.reset_queue("mail", by="bob").refused[0].reason == (
        "Nobody has set its limits: they are what the project's settings say."
    )
    assert AuditEntry.objects.filter(action="reset_queue").count() == 1


@override_settings(CHOKAQ={"QUEUES": {"mail": SETTINGS}})
def test_what_is_given_back() -> None:
    """Also what somebody has signed for that is as the settings say, what a worker has not renewed yet, and a queue
    that the settings do not name."""
    _seeded()
    Queue.objects.update(updated_by="ada")
    make.queue("old", max_workers=7)
    for name in ("mail", "old"):
        assert control.reset_queue(name, by="bob").applied == [name]
        assert control.reset_queue(name, by="bob").applied == []
    assert list(Queue.objects.order_by("name").values_list("name", "max_workers", "updated_by")) == [
        ("mail", 2, None), ("old", None, None)
    ]  # fmt: skip
    with pytest.raises(EnvelopeError, match="queue must be"):
        control.reset_queue("two words", by="ada")


def test_stop_a_worker() -> None:
    make.worker("w1")
    assert control.stop_worker("w1", by="ada", reason="old host").requested == ["w1"]
    assert Worker.objects.get().stop_requested
    assert control.stop_worker("w1", by="ada").refused[0].reason == "The worker was asked to stop already."
    assert control.stop_worker("w2", by="ada").refused[0].reason == "There is no worker with this id."
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.reason) == ("stop_worker", "w1", "old host")
    assert json.loads(entry.details) == {
        "host": "web-1", "pid": 4711, "stop_requested": {"from": False, "to": True},
    }  # fmt: skip


@pytest.mark.parametrize(
    "act",
    [
        lambda by: control.pause_queue("mail", by=by),
        lambda by: control.resume_queue("mail", by=by),
        lambda by: control.set_queue("mail", by=by, max_workers=1),
        lambda by: control.reset_queue("mail", by=by),
        lambda by: control.stop_worker(make.WORKER_ID, by=by),
    ],
)
def test_all_of_it_needs_operate(act: Callable[[Any], BulkResult]) -> None:
    make.queue("mail", is_paused=False)
    make.worker()
    with pytest.raises(PermissionDenied, match=r"chokaq\.operate"):
        act(make.operator("view_deck", "cancel", "resurrect", "edit_payload", "purge", "view_payload"))
    assert not Queue.objects.filter(is_paused=True).exists()
    assert not Worker.objects.filter(stop_requested=True).exists()
    assert not AuditEntry.objects.exists()
    assert act(make.operator("operate", username="op")) is not None


# -- hidden queues, windows ------------------------------------------------------------------------------------------


def test_hide_and_show(woken: list[str], django_capture_on_commit_callbacks: Any) -> None:
    assert control.hide_queue("mail", by="ada", reason="retired").applied == ["mail"]
    row = Queue.objects.get()
    assert (row.is_active, row.is_paused, row.updated_by) == (False, False, None)
    assert control.hide_queue("mail", by="bob").refused[0].reason == "The queue is hidden already."
    with django_capture_on_commit_callbacks(execute=True):
        assert control.show_queue("mail", by="bob").applied == ["mail"]
    assert woken == ["woken"]
    assert Queue.objects.get().is_active
    assert control.show_queue("mail", by="bob").refused[0].reason == "The queue is not hidden."
    entry = AuditEntry.objects.get(action="hide_queue")
    assert json.loads(entry.details) == {"is_active": {"from": True, "to": False}}
    for verb in (control.hide_queue, control.show_queue):
        with pytest.raises(PermissionDenied, match=r"chokaq\.operate"):
            verb("mail", by=make.operator("cancel", username=verb.__name__))


def test_a_window() -> None:
    control.set_queue("mail", by="ada", window="22:00-6:30 Europe/Berlin")
    row = Queue.objects.get()
    assert (row.window_start, row.window_end, row.window_zone) == (dt.time(22), dt.time(6, 30), "Europe/Berlin")
    assert (
        control.set_queue("mail", by="ada", window=Window(dt.time(22), dt.time(6, 30), "Europe/Berlin")).applied == []
    )
    assert control.set_queue("mail", by="ada", window="22:00-07:00 Europe/Berlin").applied == ["mail"]
    assert json.loads(AuditEntry.objects.latest("at", "id").details) == {
        "window_end": {"from": "06:30:00", "to": "07:00:00"}
    }
    assert control.set_queue("mail", by="ada", window=None).applied == ["mail"]
    row.refresh_from_db()
    assert (row.window_start, row.window_end, row.window_zone) == (None, None, None)
    for bad in ("always", "22:00-22:00 UTC", "22:00-25:00 UTC", "22:00-23:00 Mars/Base", 5):
        with pytest.raises(EnvelopeError, match="window must"):
            control.set_queue("mail", by="ada", window=bad)  # type: ignore[arg-type]


# -- concurrency -----------------------------------------------------------------------------------------------------


def test_set_concurrency_and_drain() -> None:
    worker = make.worker(concurrency=10)
    assert control.set_concurrency(worker.pk, 10, by="ada").refused[0].reason == (
        "The worker has this concurrency already."
    )
    assert control.set_concurrency(worker.pk, 4, by="ada", reason="memory").requested == [worker.pk]
    assert Worker.objects.get().desired_concurrency == 4
    assert json.loads(AuditEntry.objects.get().details) == {
        "host": "web-1", "pid": 4711, "desired_concurrency": {"from": None, "to": 4},
    }  # fmt: skip
    assert control.drain_worker(worker.pk, by="ada").requested == [worker.pk]
    assert Worker.objects.get().desired_concurrency == 0
    assert control.drain_worker(worker.pk, by="ada").refused[0].reason == "The worker was asked to drain already."
    assert control.set_concurrency(worker.pk, 10, by="ada").requested == [worker.pk], "back to work"
    assert AuditEntry.objects.count() == 3
    for bad in (0, -1, 10_001, True, 2.5, "4", None):
        with pytest.raises(EnvelopeError, match="concurrency must be"):
            control.set_concurrency(worker.pk, bad, by="ada")  # type: ignore[arg-type]
    for answer in (control.set_concurrency("nobody", 3, by="ada"), control.drain_worker("nobody", by="ada")):
        assert answer.refused[0].reason == "There is no worker with this id."
    with pytest.raises(PermissionDenied, match=r"chokaq\.operate"):
        control.drain_worker(worker.pk, by=make.operator("cancel"))
