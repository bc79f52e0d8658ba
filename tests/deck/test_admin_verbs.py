"""Acts of operators through the admin: from a list, and from the page of one row."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chokaq_django import control
from chokaq_django.deck import base
from chokaq_django.models import AuditEntry, FailureReason, JobArchive, JobDLQ, JobHot, Queue, Worker
from tests import factories as make

from .pages import list_of, messages_of, page_of


def run(client: Client, model: str, action: str, keys: list[str], **more: str) -> Any:
    """Choose an action of the list for these rows."""
    data: dict[str, Any] = {"action": action, "_selected_action": keys, "index": "0", **more}
    response = client.post(list_of(model), data, follow=True)
    assert response.status_code == 200
    return response


def test_cancel_from_the_list(deck: Client) -> None:
    waiting, running = make.hot(), make.running()
    response = run(deck, "jobhot", "cancel", [waiting.pk, running.pk])
    assert messages_of(response) == [
        "Cancelled: 1.",
        "Asked to stop: 1. Their workers act on it within seconds.",
    ]
    assert JobDLQ.objects.get().failure_reason == FailureReason.CANCELLED
    assert JobHot.objects.get().cancel_requested_by == "grace"
    assert {entry.by for entry in AuditEntry.objects.all()} == {"grace"}


def test_resurrect_from_the_list(deck: Client) -> None:
    held, free = make.dead(idempotency_key="k"), make.dead()
    holder = make.hot(idempotency_key="k")
    response = run(deck, "jobdlq", "resurrect", [held.pk, free.pk])
    first, second = messages_of(response)
    assert first == "Resurrected: 1. Pending again, attempts counted afresh."
    assert held.pk in second
    assert holder.pk in second
    assert set(JobHot.objects.values_list("pk", flat=True)) == {holder.pk, free.pk}


def test_a_purge_and_many_jobs_are_a_bulk_operation_that_is_to_be_confirmed(deck: Client) -> None:
    for model, action, rows in (
        ("jobdlq", "purge", [make.dead()]),
        ("jobarchive", "purge", [make.archived()]),
        ("jobdlq", "resurrect", [make.dead() for _ in range(25)]),
        ("jobhot", "cancel", [make.hot() for _ in range(25)]),
    ):
        keys = {row.pk for row in rows}
        page = run(deck, model, action, list(keys))
        assert page.context["preview"].total == len(keys)
        assert page.context["target"] == f"/admin/chokaq/deck/bulk/new/?action={action}"
        assert set(page.context["ids"]) == keys
        assert not AuditEntry.objects.exists(), "nothing is done yet"


def test_what_is_to_be_edited_is_asked_on_the_page_of_a_new_operation(deck: Client) -> None:
    for model, make_job in (("jobhot", make.hot), ("jobdlq", make.dead)):
        keys = [make_job().pk, make_job().pk]
        make_job()
        page = run(deck, model, "edit", keys)
        assert page.context["edits"]
        assert page.context["target"] == "/admin/chokaq/deck/bulk/new/?action=edit"
        assert set(page.context["ids"]) == set(keys)
        posted = {"act": "begin", "ids": " ".join(keys), "new_priority": "7"}
        deck.post(page.context["target"], posted)
        control.bulk_run(control.bulk_list()[0].id)
        changed = (JobHot if model == "jobhot" else JobDLQ).objects.filter(priority=7)
        assert {job.pk for job in changed} == set(keys)


def test_editing_what_is_selected_is_offered_to_who_may_edit(db: None) -> None:
    for permission, is_offered in (("edit_payload", True), ("cancel", False)):
        client = Client()
        client.force_login(make.operator("view_deck", permission, username=permission))
        for model, make_job in (("jobhot", make.hot), ("jobdlq", make.dead)):
            job = make_job()
            offered = 'value="edit"' in client.get(list_of(model)).content.decode()
            assert offered is is_offered, (permission, model)
            if not is_offered:
                run(client, model, "edit", [job.pk])
    assert not AuditEntry.objects.exists()


def test_restore(deck: Client) -> None:
    one, two = make.dead(), make.archived()
    control.purge([one.pk, two.pk], by="ada")
    shown = messages_of(run(deck, "jobtrash", "restore", [one.pk, two.pk]))
    assert shown == ["Restored: 2. They are where they were, as they were."]
    assert JobDLQ.objects.filter(pk=one.pk).exists()
    assert JobArchive.objects.filter(pk=two.pk).exists()


def test_run_again(deck: Client) -> None:
    job = make.archived()
    assert messages_of(run(deck, "jobarchive", "run_again", [job.pk])) == ["Run again, as new jobs: 1."]
    assert JobHot.objects.get().payload == job.payload


def test_a_selection_that_left_the_list(deck: Client) -> None:
    gone = make.archived().pk
    assert messages_of(run(deck, "jobhot", "cancel", [gone])) == [
        "Nothing was done: what was selected is not in this list any more."
    ]


def test_what_was_not_ticked_is_not_acted_on(deck: Client) -> None:
    """Admin can be asked to act on all pages of a list: here that is a bulk operation's affair."""
    jobs = [make.hot().pk for _ in range(3)]
    response = run(deck, "jobhot", "cancel", jobs[:1], select_across="1")
    assert messages_of(response) == ["Cancelled: 1."]
    assert set(JobHot.objects.values_list("pk", flat=True)) == set(jobs[1:])


def test_whole_lists_are_bounded(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST_AT_ONCE", 3)
    queues = [make.queue(f"q{number}").pk for number in range(4)]
    response = run(deck, "queue", "pause", queues[:1], select_across="1")
    assert messages_of(response) == ["At most 3 at once: narrow the list, or select fewer."]
    assert not Queue.objects.filter(is_paused=True).exists()


def test_many_refusals_are_summed_up(deck: Client) -> None:
    jobs = [make.dead(idempotency_key=f"k{n}").pk for n in range(7)]
    for number in range(7):
        make.hot(idempotency_key=f"k{number}")
    shown = messages_of(run(deck, "jobdlq", "resurrect", jobs))
    assert len(shown) == 6
    assert shown[-1] == "2 more were refused."


# -- queues and workers ------------------------------------------------------------------------------------------------


def test_pause_and_resume_queues(deck: Client) -> None:
    make.queue("mail")
    make.queue("reports", is_paused=True)
    shown = messages_of(run(deck, "queue", "pause", ["mail", "reports"]))
    assert shown == ["Paused: 1.", "reports: The queue is paused already."]
    assert messages_of(run(deck, "queue", "resume", ["mail", "reports"])) == ["Resumed: 2."]
    queue = Queue.objects.get(pk="mail")
    html = deck.post(page_of(queue, "pause"), {"reason": "partner down"}, follow=True).content.decode()
    assert "partner down" in html
    assert page_of(queue, "resume") in html
    assert page_of(queue, "pause") not in html


def test_edit_limits(deck: Client) -> None:
    queue = make.queue("mail", max_workers=4, execution_timeout=60)
    form = {"max_workers": "2", "execution_timeout": "60.0", "zombie_timeout": ""}
    response = deck.post(page_of(queue), form)
    assert response.status_code == 302
    queue.refresh_from_db()
    assert (queue.max_workers, queue.execution_timeout, queue.zombie_timeout) == (2, 60.0, None)
    assert queue.updated_by == "grace"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.by) == ("set_queue", "grace")
    assert entry.details == '{"max_workers": {"from": 4, "to": 2}}'
    deck.post(page_of(queue), form)
    assert AuditEntry.objects.count() == 1  # nothing changed


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("max_workers", "0", "to stop a queue, pause it"),
        ("max_workers", "x", "whole number"),
        ("max_workers", "99999999999999999999", "must be from 1 to 1,000,000"),
        ("execution_timeout", "-1", "must be more than 0"),
        ("execution_timeout", "nan", "Enter a number"),
        ("zombie_timeout", "0.1", "must be longer than the time between heartbeats"),
    ],
)
def test_bad_limits_are_said_beside_their_field(deck: Client, field: str, value: str, words: str) -> None:
    queue = make.queue("mail", max_workers=4)
    form = {"max_workers": "4", "execution_timeout": "", "zombie_timeout": "", field: value}
    response = deck.post(page_of(queue), form)
    assert response.status_code == 200
    assert words in str(response.context["adminform"].form.errors[field])
    queue.refresh_from_db()
    assert (queue.max_workers, queue.execution_timeout, queue.zombie_timeout) == (4, None, None)


def test_other_columns_of_a_queue_cannot_be_posted(deck: Client) -> None:
    queue = make.queue("mail")
    deck.post(
        page_of(queue), {"max_workers": "", "is_paused": "on", "is_active": "", "name": "other", "updated_by": "x"}
    )
    queue.refresh_from_db()
    assert (queue.is_paused, queue.is_active, queue.updated_by) == (False, True, None)
    assert list(Queue.objects.values_list("name", flat=True)) == ["mail"]


def test_stop_workers(deck: Client) -> None:
    make.worker("w1")
    make.worker("w2", stop_requested=True)
    shown = messages_of(run(deck, "worker", "stop", ["w1", "w2"]))
    assert shown[0].startswith("Asked to stop: 1.")
    assert shown[1] == "w2: The worker was asked to stop already."
    assert Worker.objects.filter(stop_requested=True).count() == 2
    html = deck.get(list_of("worker")).content.decode()
    assert html.count("Asked to stop</span>") == 2


def test_an_unknown_queue_is_not_made_by_a_bad_name(deck: Client) -> None:
    response = deck.post(page_of(Queue(name="two words"), "pause"), follow=True)
    assert "queue must be letters" in " ".join(messages_of(response))
    assert not Queue.objects.exists()
