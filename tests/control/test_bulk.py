"""Bulk operations: a frozen set, acted on chunk by chunk, each job once."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import control
from chokaq_django.control import BulkItemState, BulkRefusedError, BulkState, BulkView, JobFilter
from chokaq_django.job.envelope import EnvelopeError
from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    AuditEntry,
    BulkItem,
    BulkOperation,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobHot,
    JobTrash,
)
from chokaq_django.storage import bulk as bulk_storage
from chokaq_django.storage import bulk_sets, bulk_work, get_storage
from tests import factories as make

pytestmark = pytest.mark.django_db

DEAD = JobFilter(status="dead")


def step(view: BulkView, times: int = 1, limit: int = 500) -> BulkView:
    """So many steps of an operation, whether they pause or not."""
    for _ in range(times):
        get_storage().bulk_step(view.id, limit)
    return seen(view)


def seen(view: BulkView) -> BulkView:
    found = control.bulk_get(view.id)
    assert found is not None
    return found


def states(view: BulkView) -> dict[str, BulkItemState]:
    return {item.job_id: BulkItemState(item.state) for item in control.bulk_items(view.id, limit=1_000).items}


def test_by_filter_and_by_selection() -> None:
    corpses = [make.dead(queue="mail" if number % 2 else "sms").pk for number in range(10)]
    view = control.bulk_resurrect(where=JobFilter(status="dead", queue="mail"), by="ada", reason="mended")
    assert (view.state, view.total, view.where) == (BulkState.PREPARING, 0, {"status": "dead", "queue": "mail"})
    assert JobHot.objects.count() == 0, "the request itself does nothing to a job"
    view = control.bulk_run(view.id)
    assert (view.state, view.total, view.done, view.applied, view.refused) == (BulkState.DONE, 5, 5, 5, 0)
    assert set(JobHot.objects.values_list("queue", "generation", "modified_by")) == {("mail", 1, "ada")}
    rest = control.bulk_run(control.bulk_resurrect([*corpses, "x", new_id()], by="ada", priority=50).id)
    assert (rest.total, rest.done, rest.applied, rest.refused) == (12, 12, 5, 7)
    assert JobHot.objects.filter(priority=50, queue="sms").count() == 5
    reasons = Counter(refusal.reason for refusal in rest.refusals)
    assert reasons["The job is active."] == 5
    assert reasons["There is no such job."] == 1
    assert any(refusal.id == "x" for refusal in rest.refusals)
    assert JobDLQ.objects.count() == 0


def test_later_arrivals_do_not_belong_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 3)
    now = timezone.now()
    # Of the same instant, so that the chunks end among equals.
    frozen = {make.dead(failed_at=now - dt.timedelta(hours=number // 4)).pk for number in range(10)}
    view = control.bulk_resurrect(where=DEAD, by="ada")
    # As if they came while the server reads, and after it has read its clock.
    later = {make.dead(failed_at=get_storage().now() + dt.timedelta(seconds=after)).pk for after in (0, 1, 3600)}
    view = step(view, 2)
    assert (view.state, view.total) == (BulkState.PREPARING, 6)
    assert control.bulk_run(view.id).applied == 10
    assert set(JobHot.objects.values_list("pk", flat=True)) == frozen
    assert set(JobDLQ.objects.values_list("pk", flat=True)) == later


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (JobFilter(status="dead"), "abcdef"),
        (JobFilter(status="failed"), "abcd"),
        (JobFilter(status="cancelled"), "e"),
        (JobFilter(status="expired"), "f"),
        (JobFilter(status="dead", type="test.sleep"), "b"),
        (JobFilter(status="dead", reason=FailureReason.TIMEOUT), "c"),
        (JobFilter(status="dead", fingerprint="abc"), "d"),
        (JobFilter(status="dead", tag="Red"), "a"),
        (JobFilter(status="dead", tag='a"%_'), "b"),
        (JobFilter(status="dead", tag="ed"), ""),
        (JobFilter(status="dead", queue="Mail"), ""),
        (JobFilter(status="dead", queue="mail", since=timezone.now() - dt.timedelta(hours=2)), "abcde"),
    ],
)
def test_filters(where: JobFilter, expected: str) -> None:
    old = timezone.now() - dt.timedelta(days=3)  # the time in the filter was now when the suite began
    rows = {
        "a": make.dead(tags='["blue","Red"]'),
        "b": make.dead(type="test.sleep", tags='["red","a\\"%_"]'),
        "c": make.dead(failure_reason=FailureReason.TIMEOUT),
        "d": make.dead(fingerprint="abcd" + "0" * 28),
        "e": make.dead(failure_reason=FailureReason.CANCELLED),
        "f": make.dead(failure_reason=FailureReason.EXPIRED, failed_at=old),
    }
    view = control.bulk_purge(where=where, by="ada", hold=True)
    view = step(view, 3)
    names = {row.pk: name for name, row in rows.items()}
    assert "".join(sorted(names[job_id] for job_id in states(view))) == expected
    assert control.bulk_preview(where).total == len(expected)
    assert view.state == (BulkState.PAUSED if expected else BulkState.DONE)


def test_active_jobs_by_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 2)
    soon = timezone.now() + dt.timedelta(hours=1)
    due, later, at_work = make.hot(), make.hot(run_at=soon), make.running()
    for wanted, expected in (
        ("pending", {due.pk, later.pk}), ("due", {due.pk}), ("scheduled", {later.pk}), ("processing", {at_work.pk}),
        ("active", {due.pk, later.pk, at_work.pk}), ("retrying", set()),
    ):  # fmt: skip
        view = step(control.bulk_cancel(where=JobFilter(status=wanted), by="ada", hold=True), 4)
        assert set(states(view)) == expected, wanted
    view = control.bulk_run(control.bulk_cancel(where=JobFilter(), by="ada").id)
    assert (view.applied, view.requested, view.refused) == (2, 1, 0)
    assert states(view)[at_work.pk] is BulkItemState.REQUESTED
    assert JobHot.objects.get().cancel_requested_by == "ada"
    assert set(JobDLQ.objects.values_list("failure_reason", flat=True)) == {FailureReason.CANCELLED}


def test_an_empty_set() -> None:
    assert control.bulk_run(control.bulk_purge(where=DEAD, by="ada").id).state is BulkState.DONE
    view = control.bulk_run(control.bulk_cancel([], by="ada").id)
    assert (view.state, view.total, view.share) == (BulkState.DONE, 0, 1.0)


def test_pause_resume_cancel() -> None:
    for _ in range(6):
        make.dead()
    view = step(control.bulk_resurrect(where=DEAD, by="ada"), 2)
    assert view.state is BulkState.RUNNING
    view = step(view, 1, limit=2)
    assert (view.done, view.share) == (2, 2 / 6)
    assert control.bulk_pause(view.id, by="bob", reason="look first").state is BulkState.PAUSED
    assert step(view, 3, limit=2).done == 2, "a paused operation does nothing"
    with pytest.raises(BulkRefusedError, match="paused"):
        control.bulk_pause(view.id, by="bob")
    assert control.bulk_resume(view.id, by="bob", rate=1_000).rate == 1_000
    assert step(view, 1, limit=2).done in (0, 2, 3, 4)
    view = control.bulk_abort(view.id, by="bob")
    done = view.done
    assert view.state is BulkState.CANCELLED
    assert view.ended_at is not None
    assert step(view, 2).done == done == JobHot.objects.count() == 6 - JobDLQ.objects.count()
    for verb in (control.bulk_pause, control.bulk_resume, control.bulk_abort):
        with pytest.raises(BulkRefusedError, match="cancelled"):
            verb(view.id, by="ada")
    with pytest.raises(BulkRefusedError, match="no bulk operation"):
        control.bulk_resume(new_id(), by="ada")
    acts = AuditEntry.objects.filter(target=view.id).order_by("at", "id").values_list("action", "by", "reason")
    assert list(acts) == [
        ("bulk_resurrect", "ada", ""), ("bulk_pause", "bob", "look first"), ("bulk_resume", "bob", ""),
        ("bulk_abort", "bob", ""),
    ]  # fmt: skip


def test_paused_while_it_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 2)
    for _ in range(5):
        make.dead()
    view = step(control.bulk_purge(where=DEAD, by="ada"), 1)
    assert (view.state, view.total) == (BulkState.PREPARING, 2)
    control.bulk_pause(view.id, by="ada")
    assert step(view, 3).total == 2
    assert control.bulk_resume(view.id, by="ada").state is BulkState.PREPARING
    assert control.bulk_run(view.id).applied == 5


def test_held_until_somebody_has_looked_at_the_counts() -> None:
    old = timezone.now() - dt.timedelta(days=3)
    for number in range(5):
        make.dead(queue="mail" if number < 3 else "sms", failed_at=old if number < 2 else timezone.now())
    (mail, sms) = control.bulk_preview(DEAD).counts
    assert (mail.queue, mail.count, sms.queue, sms.count) == ("mail", 3, "sms", 2)
    assert mail.ages == {"hour": 1, "day": 0, "week": 2, "older": 0}
    bounded = control.bulk_preview(DEAD, limit=4)
    assert (bounded.total, bounded.complete) == (4, False)
    for limit in (0, -1, 100_001, 2**63, 1.5):
        with pytest.raises(EnvelopeError, match="limit must be from 1 to 100,000"):
            control.bulk_preview(DEAD, limit=limit)  # type: ignore[arg-type]
    view = control.bulk_run(control.bulk_purge(where=DEAD, by="ada", hold=True).id)
    assert (view.state, view.total, view.done) == (BulkState.PAUSED, 5, 0)
    make.dead()
    assert [(each.queue, each.count) for each in control.bulk_counts(view.id)] == [("mail", 3), ("sms", 2)]
    control.bulk_resume(view.id, by="ada")
    assert control.bulk_run(view.id).applied == 5 == JobTrash.objects.count()


def test_whoever_begins_a_held_one_freezes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 3)
    for _ in range(10):
        make.dead()
    view = control.bulk_purge(where=DEAD, by="ada", hold=True)
    assert control.bulk_freeze(view.id, seconds=0).total == 0, "no time, no work"
    view = control.bulk_freeze(view.id, seconds=60)
    assert (view.state, view.total, view.done, view.awaits_go) == (BulkState.PAUSED, 10, 0, True)
    assert control.bulk_freeze(view.id, seconds=60) == view
    running = control.bulk_purge(where=DEAD, by="ada")
    assert control.bulk_freeze(running.id, seconds=60).state is BulkState.PREPARING, "only what is held is frozen here"


def test_what_was_paused_before_it_was_frozen_is_held_all_the_same() -> None:
    make.dead()
    view = control.bulk_purge(where=DEAD, by="ada", hold=True)
    control.bulk_pause(view.id, by="ada")
    view = control.bulk_resume(view.id, by="ada")
    assert (view.state, view.held) == (BulkState.PREPARING, True)
    view = control.bulk_run(view.id)
    assert (view.awaits_go, view.done) == (True, 0)
    assert control.bulk_run(control.bulk_resume(view.id, by="ada").id).applied == 1


def test_so_many_at_a_time_as_the_options_say(settings: Any) -> None:
    ids = [make.dead().pk for _ in range(30)]
    settings.CHOKAQ = {"DECK": {"BULK_CHUNK": 7}}
    view = control.bulk_resurrect(ids, by="ada")
    steps = []
    while (step_ := bulk_work.advance(get_storage(), view.id)).pause is not None:
        steps.append(step_.done)
    assert [*steps, step_.done] == [0, 7, 14, 21, 28, 30]


def test_more_at_a_time_than_one_statement_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_storage, "LONG", 60.0)  # a step also ends by the clock: see test_patch_extremes
    pattern = make.dead()
    fields = {field.attname: getattr(pattern, field.attname) for field in pattern._meta.concrete_fields}
    JobDLQ.objects.bulk_create([JobDLQ(**{**fields, "id": new_id()}) for _ in range(1_199)])
    view = step(control.bulk_resurrect(where=DEAD, by="ada"), 2)  # frozen
    assert step(view, limit=1_100).done == 1_100
    assert step(view, limit=1_100).applied == 1_200 == JobHot.objects.count()


def test_counting_a_set_looks_at_each_row_once(engine: str) -> None:
    """On MariaDB a window's least value costs the square of its rows."""
    make.dead()
    view = control.bulk_purge(where=DEAD, by="ada")
    with CaptureQueriesContext(connection) as asked:
        control.bulk_preview(DEAD)
        control.bulk_counts(view.id)
    counting = [query["sql"] for query in asked if "COUNT(*)" in query["sql"]]
    assert len(counting) == 2
    assert engine == "microsoft" or not any("OVER" in sql for sql in counting)


def test_each_job_tells_which_operations_it_was_in() -> None:
    corpse = make.dead()
    first = control.bulk_run(control.bulk_edit([corpse.pk], priority=3, by="ada").id)
    second = control.bulk_run(control.bulk_resurrect(where=DEAD, by="bob").id)
    told = [(view.id, item.state) for view, item in control.bulk_of_job(corpse.pk)]
    assert told == [(first.id, BulkItemState.APPLIED), (second.id, BulkItemState.APPLIED)]
    assert [view.id for view in control.bulk_list(state="done")] == [second.id, first.id]
    assert [view.id for view in control.bulk_list(before=second.id)] == [first.id]
    assert [view.id for view in control.bulk_list(state=["done", "failed"], action="edit", by="ada")] == [first.id]
    assert control.bulk_list(action="resurrect", by="ada") == control.bulk_list(state=BulkState.RUNNING) == []
    assert AuditEntry.objects.filter(action__startswith="bulk_").count() == 2, "one entry for each operation"


def test_two_operations_on_overlapping_sets() -> None:
    ids = [make.dead().pk for _ in range(10)]
    first, second = control.bulk_resurrect(ids[:7], by="ada"), control.bulk_purge(ids[3:], by="bob")
    step(first), step(second)
    for _ in range(8):
        step(first, limit=2), step(second, limit=2)
    first, second = seen(first), seen(second)
    assert first.state is second.state is BulkState.DONE
    hot, trash = (set(model.objects.values_list("pk", flat=True)) for model in (JobHot, JobTrash))
    assert hot | trash == set(ids)
    assert not hot & trash
    assert (first.applied, second.applied) == (len(hot), len(trash))
    assert first.refused + second.refused == 4
    assert {each.reason for each in (*first.refusals, *second.refusals)} <= {
        "The job is active.", "The job is in the Trash.",
    }  # fmt: skip


def test_a_job_that_died_anew_since_it_was_selected_is_left_alone() -> None:
    fresh, again = make.dead(), make.dead()
    view = step(control.bulk_purge(where=DEAD, by="ada", hold=True), 2)
    JobDLQ.objects.filter(pk=again.pk).update(generation=1)
    control.bulk_resume(view.id, by="ada")
    view = control.bulk_run(view.id)
    assert (view.applied, view.refused) == (1, 1)
    assert states(view) == {fresh.pk: BulkItemState.APPLIED, again.pk: BulkItemState.REFUSED}
    assert view.refusals[0].reason == "The job was resurrected since it was selected."
    assert JobDLQ.objects.get().pk == again.pk


@pytest.mark.parametrize("policy", ["skip", "drop"])
def test_key_conflicts_are_reported(policy: Any) -> None:
    holder, corpse, twin, free = (
        make.hot(idempotency_key="k"), make.dead(idempotency_key="k"), make.dead(idempotency_key="k"), make.dead(),
    )  # fmt: skip
    view = control.bulk_run(control.bulk_resurrect(where=DEAD, by="ada", on_key_conflict=policy).id)
    if policy == "drop":
        assert (view.applied, view.refused) == (3, 0)
        return
    assert (view.applied, view.refused) == (1, 2)
    (item, _) = control.bulk_items(view.id, state=BulkItemState.REFUSED).items
    assert item.note is not None
    assert holder.pk in item.note
    assert {each.id for each in view.refusals} == {corpse.pk, twin.pk}
    assert JobHot.objects.filter(pk=free.pk).exists()


# -- undo --------------------------------------------------------------------------------------------------------------


def test_undo_of_a_purge() -> None:
    for number in range(7):
        make.dead(payload=f'{{"name":"{number}"}}')
        make.archived(result=str(number))
    before = [list(model.objects.order_by("pk").values()) for model in (JobDLQ, JobArchive)]
    dead = control.bulk_run(control.bulk_purge(where=DEAD, by="ada").id)
    done = control.bulk_run(control.bulk_purge(where=JobFilter(status="succeeded"), by="ada").id)
    assert (dead.applied, done.applied, JobTrash.objects.count()) == (7, 7, 14)
    for view in (dead, done):
        undone = control.bulk_run(control.bulk_undo(view.id, by="bob").id)
        assert (undone.undo_of, undone.applied, undone.refused) == (view.id, 7, 0)
    assert [list(model.objects.order_by("pk").values()) for model in (JobDLQ, JobArchive)] == before


def test_undo_of_an_edit() -> None:
    rows = [make.dead(priority=number, queue=f"q{number}") for number in range(4)] + [make.hot(priority=9)]
    edited = control.bulk_run(control.bulk_edit([row.pk for row in rows], by="ada", priority=5, queue="slow").id)
    assert edited.applied == 5
    assert set(JobDLQ.objects.values_list("priority", "queue", "revision")) == {(5, "slow", 1)}
    control.edit(rows[0].pk, by="eve", priority=7)
    undone = control.bulk_run(control.bulk_undo(edited.id, by="bob").id)
    assert (undone.applied, undone.refused) == (4, 1)
    assert undone.refusals[0].id == rows[0].pk
    assert "changed meanwhile by eve" in undone.refusals[0].reason
    assert set(JobDLQ.objects.values_list("priority", "queue")) == {(7, "slow"), (1, "q1"), (2, "q2"), (3, "q3")}
    assert list(JobHot.objects.values_list("priority", "queue")) == [(9, "mail")]


def test_undo_of_a_removal_that_was_cancelled_half_way() -> None:
    for _ in range(6):
        make.hot()
    view = step(control.bulk_remove(where=JobFilter(), by="ada"), 2)
    view = step(view, 1, limit=4)
    with pytest.raises(BulkRefusedError, match="has not ended"):
        control.bulk_undo(view.id, by="ada")
    control.bulk_abort(view.id, by="ada")
    assert JobTrash.objects.count() == 4
    assert control.bulk_run(control.bulk_undo(view.id, by="ada").id).applied == 4
    assert JobHot.objects.count() == 6
    with pytest.raises(BulkRefusedError, match="cannot be undone"):
        control.bulk_undo(control.bulk_run(control.bulk_cancel(where=JobFilter(), by="ada").id).id, by="ada")


@pytest.mark.parametrize("place", ["dlq", "archive", "hot"])
def test_undo_restores_only_what_the_operation_put_into_the_trash(place: str) -> None:
    """Not what a person or another operation has purged since it was restored."""
    made = {"dlq": make.dead, "archive": make.archived, "hot": make.hot}[place]
    corpses = [made().pk for _ in range(6)]
    bulk, single = (control.bulk_remove, control.remove) if place == "hot" else (control.bulk_purge, control.purge)
    first = control.bulk_run(bulk(corpses, by="ada").id)
    assert set(JobTrash.objects.values_list("operation_id", flat=True)) == {first.id}
    for _ in range(2):  # once it is undone, there is nothing more of it
        undone = control.bulk_run(control.bulk_undo(first.id, by="ada").id)
    assert (undone.applied, undone.refused) == (0, 6)
    assert JobTrash.objects.count() == 0
    single(corpses[:2], by="eve")
    second = control.bulk_run(bulk(corpses[2:4], by="eve").id)
    undone = control.bulk_run(control.bulk_undo(first.id, by="ada").id)
    assert (undone.applied, undone.refused, JobTrash.objects.count()) == (0, 6, 4)
    reasons = Counter(refusal.reason for refusal in undone.refusals)
    assert reasons["The job was purged or removed anew since."] == 4
    assert control.bulk_run(control.bulk_undo(second.id, by="ada").id).applied == 2
    control.restore(corpses[:2], by="eve")  # whoever means these jobs, and not the operation, is not asked
    assert JobTrash.objects.count() == 0


def test_undo_of_an_operation_that_noted_nothing_restores_what_is_there() -> None:
    """As one that an earlier version has worked off."""
    corpses = [make.dead().pk for _ in range(3)]
    view = control.bulk_run(control.bulk_purge(corpses, by="ada").id)
    BulkItem.objects.update(note=None)
    JobTrash.objects.filter(pk=corpses[0]).update(operation_id=None)
    assert control.bulk_run(control.bulk_undo(view.id, by="ada").id).applied == 3


def test_undo_of_a_purge_that_stopped_and_went_on() -> None:
    for _ in range(6):
        make.dead()
    view = step(control.bulk_purge(where=DEAD, by="ada"), 2)
    step(view, 1, limit=2)
    control.bulk_pause(view.id, by="ada")
    control.bulk_resume(view.id, by="ada")
    assert control.bulk_run(view.id).applied == 6
    undo = step(control.bulk_undo(view.id, by="ada"), 2)
    step(undo, 1, limit=4)
    again = JobDLQ.objects.order_by("pk").values_list("pk", flat=True)[0]
    control.purge(again, by="eve")  # what the undo has restored already
    assert (control.bulk_run(undo.id).applied, JobTrash.objects.get().pk) == (6, again)


def test_restore_by_selection() -> None:
    ids = [make.dead().pk for _ in range(3)]
    control.purge(ids, by="ada")
    assert control.bulk_run(control.bulk_restore(ids, by="ada").id).applied == 3 == JobDLQ.objects.count()


# -- who may, and what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "act"),
    [
        (["resurrect"], lambda by: control.bulk_resurrect(where=DEAD, by=by)),
        (["purge"], lambda by: control.bulk_purge(where=DEAD, by=by)),
        (["cancel"], lambda by: control.bulk_cancel([], by=by)),
        (["cancel", "purge"], lambda by: control.bulk_remove([], by=by)),
        (["edit_payload"], lambda by: control.bulk_edit([], priority=1, by=by)),
        (["purge"], lambda by: control.bulk_restore([], by=by)),
    ],
)
def test_permissions(permissions: list[str], act: Callable[[Any], BulkView]) -> None:
    nobody = make.operator(*{"resurrect", "purge", "cancel", "edit_payload", "operate"} - set(permissions))
    with pytest.raises(PermissionDenied):
        act(nobody)
    assert not BulkOperation.objects.exists()
    view = act(make.operator(*permissions, username="bob"))
    assert view.by == "bob"
    for verb in (control.bulk_pause, control.bulk_resume, control.bulk_abort):
        with pytest.raises(PermissionDenied):
            verb(view.id, by=nobody)


def test_undo_needs_the_permission_of_what_it_does() -> None:
    view = control.bulk_run(control.bulk_edit([make.dead().pk], priority=1, by="ada").id)
    with pytest.raises(PermissionDenied):
        control.bulk_undo(view.id, by=make.operator("purge"))
    assert control.bulk_undo(view.id, by=make.operator("edit_payload", username="bob")).by == "bob"


@pytest.mark.parametrize(
    ("error", "act"),
    [
        (EnvelopeError, lambda: control.bulk_purge(by="ada")),
        (EnvelopeError, lambda: control.bulk_purge([], where=DEAD, by="ada")),
        (EnvelopeError, lambda: control.bulk_edit([], by="ada")),
        (EnvelopeError, lambda: control.bulk_purge([], by=" ")),
        (EnvelopeError, lambda: control.bulk_resurrect([], by="ada", on_key_conflict="x")),  # type: ignore[arg-type]
        (EnvelopeError, lambda: control.bulk_resurrect(where=JobFilter(), by="ada")),
        (EnvelopeError, lambda: control.bulk_cancel(where=DEAD, by="ada")),
        (EnvelopeError, lambda: control.bulk_cancel(where=JobFilter(fingerprint="f"), by="ada")),
        (EnvelopeError, lambda: control.bulk_purge(where=JobFilter(status="dead", reason=99), by="ada")),  # type: ignore[arg-type]
        (EnvelopeError, lambda: control.bulk_purge(where=JobFilter(status="dead", tag=5), by="ada")),  # type: ignore[arg-type]
        (EnvelopeError, lambda: control.bulk_purge(where=JobFilter(status="deceased"), by="ada")),
        (EnvelopeError, lambda: control.bulk_purge(where=JobFilter(status="dead", since="x"), by="ada")),  # type: ignore[arg-type]
        (EnvelopeError, lambda: control.bulk_resurrect([], by="ada", rate=0)),
        (EnvelopeError, lambda: control.bulk_resurrect([], by="ada", rate=float("nan"))),
        (EnvelopeError, lambda: control.bulk_resurrect([], by="ada", rate=1e-320)),
        (EnvelopeError, lambda: control.bulk_resurrect([], by="ada", canary=0)),
        (EnvelopeError, lambda: control.bulk_resurrect([], by="ada", stop_at=1.1)),
        (EnvelopeError, lambda: control.bulk_edit([], by="ada", priority=10**12)),
        (EnvelopeError, lambda: control.bulk_list(state="x")),
    ],
)
def test_bad_input(error: type[Exception], act: Callable[[], object]) -> None:
    with pytest.raises(error):
        act()
    assert not BulkOperation.objects.exists()
    assert not AuditEntry.objects.exists()


def test_what_would_fail_at_every_try_ends_it_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    make.dead()
    view = control.bulk_purge(where=DEAD, by="ada")
    BulkOperation.objects.filter(pk=view.id).update(conditions=json.dumps([["payload", "=", "x"]]))
    view = control.bulk_run(view.id)
    assert view.state is BulkState.FAILED
    assert "payload" in view.message
    assert view.at_rest
    assert any("failed" in record.getMessage() for record in caplog.records)
    BulkOperation.objects.filter(pk=view.id).update(conditions="[]")
    control.bulk_resume(view.id, by="ada")
    assert control.bulk_run(view.id).applied == 1


def test_what_newer_code_asks_for_is_not_done_by_half() -> None:
    """While workers are deployed one after the other, an old one may meet an operation of the new web."""
    job = make.hot(priority=1)
    view = control.bulk_edit([job.pk], by="ada", priority=9)
    arguments = {"priority": 9, "deadline": "tomorrow"}
    BulkOperation.objects.filter(pk=view.id).update(arguments=json.dumps(arguments))
    view = control.bulk_run(view.id)
    assert (view.state, view.done) == (BulkState.FAILED, 0)
    assert view.message == "StorageError: newer code began it: the code here does not know deadline"
    assert JobHot.objects.get().priority == 1


def test_what_newer_code_edited_is_not_given_back_by_half() -> None:
    job = make.hot(priority=1)
    edited = control.bulk_run(control.bulk_edit([job.pk], by="ada", priority=9).id)
    item = BulkItem.objects.get(operation_id=edited.id)
    BulkItem.objects.filter(pk=item.pk).update(note=json.dumps(json.loads(item.note) | {"deadline": None}))
    undone = control.bulk_run(control.bulk_undo(edited.id, by="ada").id)
    assert (undone.state, undone.done) == (BulkState.FAILED, 0)
    assert undone.message == "StorageError: newer code made the edit: the code here cannot give back deadline"
    assert JobHot.objects.get().priority == 9


def test_it_is_forgotten_after_its_time() -> None:
    old = control.bulk_run(control.bulk_purge([make.dead().pk for _ in range(5)], by="ada").id)
    new = control.bulk_run(control.bulk_purge([make.dead().pk], by="ada").id)
    open_one = control.bulk_purge([make.dead().pk], by="ada")
    BulkOperation.objects.filter(pk=old.id).update(ended_at=timezone.now() - dt.timedelta(days=40))
    storage = get_storage()
    steps = 0
    while storage.trim_bulk(30 * 86_400.0, 2) == 2:
        steps += 1
        assert steps < 10
    assert set(BulkOperation.objects.values_list("pk", flat=True)) == {new.id, open_one.id}
    assert set(BulkItem.objects.values_list("operation_id", flat=True)) == {new.id, open_one.id}


def test_database_trouble_is_raised_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    view = control.bulk_purge([make.dead().pk], by="ada")
    storage = get_storage()

    def lost(operation_id: str, limit: int = 500) -> Any:
        raise OperationalError("gone")

    monkeypatch.setattr(type(storage), "bulk_step", lambda self, operation_id, limit=500: lost(operation_id))
    with pytest.raises(OperationalError):
        bulk_work.advance(storage, view.id)
    assert seen(view).state is BulkState.PREPARING
