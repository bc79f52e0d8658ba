"""``bulk``, and acts in the background: what is started, asked, shown, and how it ends."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import pytest

from chokaq_django import control
from chokaq_django.cli import console, following
from chokaq_django.deck.bulk_words import filter_words
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, BulkOperation, FailureReason, JobDLQ, JobHot, JobTrash
from chokaq_django.storage import get_storage
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is open is worked off while a command waits, as by a worker."""

    def work(seconds: float) -> None:
        for view in control.bulk_list(state=["preparing", "running"]):
            control.bulk_run(view.id)

    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=work))


def one() -> control.BulkView:
    [view] = control.bulk_list()
    return view


# -- starting ----------------------------------------------------------------------------------------------------------


def test_a_filter_in_the_background(chokaq: Run, at_work: None) -> None:
    make.worker()
    for _ in range(3):
        make.dead(queue="partner")
    kept = make.dead(queue="mail")
    answer = chokaq("resurrect", "--queue", "partner", "--background", "--yes", "--by", "ada", "--reason", "it is back")
    assert answer.code == 0
    assert f"resurrect {one().id}: done, 3 of 3." in answer.out
    assert (one().by, one().reason, one().where) == ("ada", "it is back", {"status": "dead", "queue": "partner"})
    assert (JobHot.objects.count(), JobDLQ.objects.get().pk) == (3, kept.pk)


@pytest.mark.parametrize(
    ("given", "column", "value"),
    [
        (("--rate", "50"), "rate", 50),
        (("--canary", "2"), "canary", 2),
        (("--stop-share", "20%"), "stop_share", 0.2),
        (("--stop-share", "0.25", "--canary-failures", "5%"), "canary_share", 0.05),
        (("--priority", "70", "--background"), "arguments", '{"priority": 70}'),
        (("--drop-key", "--background"), "arguments", '{"on_key_conflict": "drop"}'),
    ],
)
def test_what_makes_an_act_a_bulk_operation(chokaq: Run, given: tuple[str, ...], column: str, value: object) -> None:
    make.dead()
    answer = chokaq("resurrect", "--all", *given, "--yes", "--detach", "--json")
    assert answer.code == 0
    assert getattr(BulkOperation.objects.get(), column) == value
    assert answer.json["operation"]["id"] == one().id
    assert JobHot.objects.count() == 0


@pytest.mark.parametrize(
    ("command", "make_job", "model"),
    [
        ("cancel", make.hot, JobDLQ), ("remove", make.hot, JobTrash), ("purge", make.dead, JobTrash),
        ("edit --priority 5 --set-queue other", make.hot, JobHot),
    ],
)  # fmt: skip
def test_each_act_on_ids_or_the_first_that_match(
    chokaq: Run, at_work: None, command: str, make_job: object, model: type[JobHot]
) -> None:
    make.worker()
    jobs = [make_job() for _ in range(3)]  # type: ignore[operator]
    first, *options = command.split()
    assert chokaq(first, jobs[2].pk, *options, "--background", "--yes").code == 0
    assert chokaq(first, "--all", "--limit", "1", *options, "--background", "--yes").code == 0
    changed = {jobs[0].pk, jobs[2].pk}
    rows = model.objects.filter(priority=5, queue="other") if model is JobHot else model.objects
    assert set(rows.values_list("pk", flat=True)) == changed


def test_a_filter_that_finds_nothing_in_the_background(chokaq: Run, at_work: None) -> None:
    make.worker()
    make.dead(queue="mail")
    answer = chokaq("purge", "--queue", "mail", "--tag", "old", "--background", "--yes")
    assert answer.code == 4
    assert answer.lines[-1].strip() == "without --tag: 1"


def test_a_dry_run_starts_nothing(chokaq: Run) -> None:
    for _ in range(3):
        make.dead(queue="partner")
    answer = chokaq("purge", "--queue", "partner", "--rate", "0.01", "--dry-run")
    assert answer.code == 0
    assert "3 jobs to purge." in answer.out
    assert "At 0.01 a second it takes about 5 minutes." in answer.out
    document = chokaq("purge", "--queue", "partner", "--background", "--dry-run", "--json").json
    assert (document["selected"], document["kinds"]) == (3, [{"queue": "partner", "type": "test.note", "count": 3}])
    assert chokaq("purge", "--queue", "none", "--background", "--dry-run").code == 4
    assert not BulkOperation.objects.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("purge", "--all", "--background"), "say --yes"),
        (("purge", "--background", "--yes"), "Which jobs?"),
        (("resurrect", new_id(), "--payload", "{}", "--rate", "1", "--yes"), "brought back as they are"),
        (("edit", new_id(), "--set-tags", "a", "--detach", "--yes"), "--priority and --set-queue can"),
        (("purge", "--all", "--rate", "20000", "--yes"), "rate must be at most 10,000"),
        (("purge", "--status", "active", "--detach", "--yes"), "works on"),
    ],
)
def test_what_cannot_be_started(chokaq: Run, given: tuple[str, ...], said: str) -> None:
    make.dead()
    answer = chokaq(*given)
    assert (answer.code, said in answer.error) == (2, True), answer
    assert not BulkOperation.objects.exists()


@pytest.mark.parametrize("given", [("--rate", "0"), ("--rate", "x"), ("--stop-share", "120%"), ("--stop-share", "-1")])
def test_bad_numbers(chokaq: Run, given: tuple[str, ...]) -> None:
    answer = chokaq("resurrect", "--all", "--yes", *given)
    assert f"{given[0]} must be" in answer.error
    assert not BulkOperation.objects.exists()


def test_a_person_is_shown_the_frozen_set(chokaq: Run, at_work: None, monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()
    for _ in range(3):
        make.dead()
    answers = iter(["no", "yes"])
    monkeypatch.setattr(console.Console, "is_interactive", True)
    monkeypatch.setattr("builtins.input", lambda: (make.dead(), next(answers))[1])  # one more dies meanwhile
    answer = chokaq("purge", "--all", "--background")
    assert (answer.code, "3 jobs to purge." in answer.out) == (2, True)
    assert (one().state, JobDLQ.objects.count()) == (control.BulkState.CANCELLED, 4)
    answer = chokaq("purge", "--all", "--background")
    assert (answer.code, "4 jobs to purge." in answer.out) == (0, True)
    assert (JobTrash.objects.count(), JobDLQ.objects.count()) == (4, 1)


def test_nobody_works_it_off(chokaq: Run) -> None:
    make.dead()
    answer = chokaq("purge", "--all", "--detach", "--yes")
    assert "No worker is alive to work it off." in answer.out
    assert f"python manage.py chokaq bulk run {one().id}" in answer.out
    answer = chokaq("bulk", "run", one().id)
    assert (answer.code, JobTrash.objects.count()) == (0, 1)


def test_an_interruption_leaves_it_to_the_workers(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()
    make.dead()
    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=lambda seconds: signal.raise_signal(signal.SIGINT)))
    answer = chokaq("purge", "--all", "--background", "--yes")
    assert answer.code == 1
    assert "It is left to the workers. To look at it again:" in answer.lines
    assert f"  python manage.py chokaq bulk show {one().id} --follow" in answer.lines
    assert one().state is control.BulkState.PREPARING


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_that_nobody_works_it_off_is_said_once_while_it_is_followed(
    chokaq: Run, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    make.dead()
    looks = 0

    def nothing_happens(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 4 * following.STILL:
            make.worker()
        if looks == 6 * following.STILL:
            control.bulk_run(one().id)

    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=nothing_happens))
    answer = chokaq("purge", "--all", "--background", "--yes", *how)
    assert answer.code == 0
    assert answer.aside.splitlines() == [
        "No worker is alive to work it off. Start one, or work it off yourself:",
        "  python manage.py runworker",
        f"  python manage.py chokaq bulk run {one().id}",
        "A worker is alive again.",
    ]


def test_the_failures_of_what_was_brought_back_stop_it(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()
    for _ in range(30):
        make.dead()

    def work(seconds: float) -> None:
        get_storage().bulk_step(one().id, 10)
        for job in JobHot.objects.all():  # every one of them dies again
            values = {name: value for name, value in vars(job).items() if name in {f.name for f in JobDLQ._meta.fields}}
            job.delete()
            make.dead(**{**values, "failure_reason": FailureReason.TIMEOUT})

    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=work))
    answer = chokaq("resurrect", "--all", "--stop-share", "20%", "--yes")
    assert answer.code == 1
    assert "stopped" in answer.out
    assert "20 of the last 20 jobs that ended have died; at most 20.0% may." in answer.out
    assert "Of 20 that have run since, 20 died (100.0 %)." in answer.out
    assert one().done < 30


# -- bulk --------------------------------------------------------------------------------------------------------------


def test_pause_resume_abort(chokaq: Run) -> None:
    for _ in range(3):
        make.dead()
    view = control.bulk_purge(where=control.JobFilter(status="dead"), by="ada")
    answer = chokaq("bulk", "pause", view.id.lower(), "--by", "grace", "--reason", "too fast")
    assert (answer.code, f"{view.id} is paused, 0 of 0 done." in answer.out) == (0, True)
    assert AuditEntry.objects.get(action="bulk_pause").reason == "too fast"
    again = chokaq("bulk", "pause", view.id)
    assert (again.code, "The operation is paused." in again.out) == (1, True)
    document = chokaq("bulk", "resume", "--all", "--rate", "5", "--json").json
    assert [each["rate"] for each in document["operations"]] == [5]
    assert chokaq("bulk", "abort", view.id).code == 0
    assert (one().state, JobDLQ.objects.count()) == (control.BulkState.CANCELLED, 3)
    assert chokaq("bulk", "abort", "--all").code == 4
    for given in ((), (view.id, "--all"), (new_id(),)):
        assert chokaq("bulk", "pause", *given).code == 2


def test_another_rate_or_none_is_said(chokaq: Run) -> None:
    view = control.bulk_purge([make.dead().pk], by="ada", rate=5)
    for given in ((), ("--rate", "2", "--full-speed")):
        refused = chokaq("bulk", "rate", view.id, *given)
        assert (refused.code, "How fast?" in refused.error, one().rate) == (2, True, 5)
    assert (chokaq("bulk", "rate", view.id, "--rate", "2").code, one().rate) == (0, 2)
    faster = chokaq("bulk", "rate", "--all", "--full-speed")
    assert (faster.code, one().rate, "goes on at another rate, 0 of 1" in faster.out) == (0, None, True)
    control.bulk_pause(view.id, by="ada")
    paused = chokaq("bulk", "rate", view.id, "--rate", "9")
    assert (paused.code, one().rate) == (0, 9)
    assert f"{view.id} is paused (the rate holds when it is resumed), 0 of 1 done." in paused.out
    assert "goes on" not in paused.out


def test_undo(chokaq: Run, at_work: None, monkeypatch: pytest.MonkeyPatch) -> None:
    make.worker()
    job = make.dead()
    view = control.bulk_run(control.bulk_purge([job.pk], by="ada").id)
    assert "say --yes" in chokaq("bulk", "undo", view.id).error
    answer = chokaq("bulk", "undo", view.id, "--yes")
    assert (answer.code, "restore" in answer.out) == (0, True)
    assert JobDLQ.objects.get().pk == job.pk


def test_what_cannot_be_undone_is_refused_before_anything_is_asked(
    chokaq: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.Console, "is_interactive", True)
    monkeypatch.setattr(console.Console, "confirm", lambda self, question: pytest.fail(question))
    resurrected = control.bulk_resurrect([make.dead().pk], by="ada")
    open_one = control.bulk_purge([make.dead().pk], by="ada")
    for view, why in ((resurrected, "cannot be undone"), (open_one, "has not ended")):
        for given in ((), ("--yes",)):
            answer = chokaq("bulk", "undo", view.id, *given)
            assert (answer.code, why in answer.out) == (1, True), answer
    assert chokaq("bulk", "undo", resurrected.id, "--json").json == {
        "operation": None, "refused": "What this operation did cannot be undone.",
    }  # fmt: skip
    assert control.bulk_list(action="restore") == []


def test_list_and_show(chokaq: Run) -> None:
    assert "There was no bulk operation yet." in chokaq("bulk").out
    dead, gone = make.dead(), new_id()
    done = control.bulk_run(control.bulk_purge([dead.pk, gone], by="ada", reason="test data").id)
    begun = control.bulk_cancel([new_id()], by="grace" * 20, rate=0.5)
    answer = chokaq("bulk", "list")
    assert [line.split()[0] for line in answer.lines] == ["ID", begun.id, done.id]
    assert max(map(len, answer.lines)) <= 80
    assert len(chokaq("bulk", "--open", "--json").json["operations"]) == 1
    answer = chokaq("bulk", "show", done.id, "--refused")
    for words in (f"purge {done.id}: done, 2 of 2.", "test data", gone, "ada"):
        assert words in answer.out, words
    document = chokaq("bulk", "show", done.id, "--refused", "--json").json
    assert [each["id"] for each in document["all_refused"]] == [gone]
    assert document["operation"]["applied"] == 1
    assert chokaq("bulk", "show", done.id, "--follow").code == 1  # it has ended, and one was refused
    assert chokaq("bulk", "show", "nonsense").code == 2


@pytest.mark.parametrize(("stored", "told"), [("FATAL_ERROR", "FatalError"), ("99", "99")])
def test_the_reason_of_a_filter_is_said_as_it_is_typed(chokaq: Run, stored: str, told: str) -> None:
    """Also one that only newer code knows, and has begun an operation with."""
    begun = control.bulk_purge(where=control.JobFilter(status="dead", reason=FailureReason.FATAL_ERROR), by="ada")
    where = json.dumps({"status": "dead", "reason": stored})
    BulkOperation.objects.update(selection=where)
    assert f"status dead, reason {told}" in chokaq("bulk", "show", begun.id).out
    assert str(filter_words(json.loads(where))[1][1]) == told
