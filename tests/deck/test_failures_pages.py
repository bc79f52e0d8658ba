"""The pages of failure groups: what they show and to whom, names and texts of any kind, and notes."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django.deck.pages import failure as failure_page
from chokaq_django.models import AuditEntry, FailureGroup, FailureReason, FailureTriage, JobDLQ
from chokaq_django.storage import get_storage
from tests import factories as make
from tests.helpers import WorkerProcess

from .pages import inline_code, messages_of

pytestmark = pytest.mark.django_db

F = FailureReason
FAILURES = "/admin/chokaq/deck/failures/"
ONE, OTHER = "1" * 32, "2" * 32
XSS = "<script>alert('🎉')</script>\"'><img src=x onerror=alert(1)>"
SECRET = "the secret of the error"


def failure(group: str = ONE) -> str:
    return f"/admin/chokaq/deck/failure/{group}/"


def dead(count: int = 1, group: str = ONE, **columns: Any) -> list[str]:
    columns.setdefault("failed_at", timezone.now() - dt.timedelta(minutes=5))
    return [make.dead(fingerprint=group, **columns).pk for _ in range(count)]


def counted() -> None:
    get_storage().recount_groups()


def text_of(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    text = str(response.content.decode())
    assert inline_code(text) == []
    return text


# -- the list ----------------------------------------------------------------------------------------------------------


def test_no_dead_job(viewer: Client) -> None:
    assert "Nothing is dead" in text_of(viewer, FAILURES)


def test_each_group_with_what_is_known_of_it(deck: Client) -> None:
    dead(3, queue="mail", type="shop.send.v1")
    dead(1, OTHER, queue="reports", failure_reason=F.ZOMBIE, error_type="WorkerDied", error_details="Worker died.")
    counted()
    text = text_of(deck, FAILURES)
    assert text.index(f'data-fingerprint="{ONE}"') < text.index(f'data-fingerprint="{OTHER}"'), "the largest first"
    for shown in (failure(ONE), "PartnerError", "MaxRetriesExceeded", "shop.send.v1", SECRET, "partly done",
                  "may be done", "Worker died.", "Acknowledge"):  # fmt: skip
        assert shown in text


def test_error_texts_are_for_those_who_may_see_payloads(viewer: Client) -> None:
    dead()
    counted()
    for address in (FAILURES, failure()):
        text = text_of(viewer, address)
        assert SECRET not in text
        assert "hidden from you" in text or "Hidden:" in text
        assert "PartnerError" in text, "what kind of error it was is no secret"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?queue=mail", {ONE}), ("?type=test.add", {OTHER}), ("?reason=Zombie", {OTHER}), ("?reason=zombie", {OTHER}),
        ("?known=yes", {ONE}), ("?known=no", {OTHER}), ("?queue=mail&known=no", set()),
        ("?reason=nothing", {ONE, OTHER}), ("?known=perhaps&order=sideways", {ONE, OTHER}), ("?queue=Mail", set()),
        ("?queue=%00", {ONE, OTHER}), ("?queue=" + "x" * 300, {ONE, OTHER}), ("?order=last_seen", {ONE, OTHER}),
    ],
)  # fmt: skip
def test_filters_stand_in_the_address(viewer: Client, query: str, found: set[str]) -> None:
    dead(2, ONE, queue="mail", type="test.note")
    dead(1, OTHER, queue="reports", type="test.add", failure_reason=F.ZOMBIE)
    counted()
    at = timezone.now()
    FailureTriage.objects.create(fingerprint=ONE, acknowledged_at=at, updated_at=at)
    text = text_of(viewer, FAILURES + query)
    assert {group for group in (ONE, OTHER) if f'data-fingerprint="{group}"' in text} == found
    if not found:
        assert "No group that fits" in text


def test_what_was_chosen_is_in_the_form(viewer: Client) -> None:
    text = text_of(viewer, f"{FAILURES}?queue=%3Cb%3E%22x&reason=Zombie&known=no&order=last_seen")
    assert 'value="&lt;b&gt;&quot;x"' in text
    for value in ("Zombie", "no", "last_seen"):
        part = text[text.index(f'<option value="{value}"') :]
        assert "selected" in part[: part.index(">")], value


def test_reasons_of_which_no_job_dies_are_not_to_choose(viewer: Client) -> None:
    assert 'value="Timeout"' in text_of(viewer, FAILURES)
    for name in ("CircuitBreakerOpen", "Rejected", "Transient"):
        assert f'value="{name}"' not in text_of(viewer, FAILURES)
        assert f'<option value="{name}" selected' in text_of(viewer, f"{FAILURES}?reason={name}"), "as it was asked for"


def test_many_groups_are_cut_and_can_all_be_asked_for(viewer: Client) -> None:
    for number in range(53):
        dead(1, f"{number:032x}")
    counted()
    text = text_of(viewer, f"{FAILURES}?queue=mail")
    assert text.count("data-fingerprint=") == 50
    assert "3 more groups" in text
    assert "?queue=mail&amp;all=1" in text
    assert text_of(viewer, f"{FAILURES}?queue=mail&all=1").count("data-fingerprint=") == 53


def test_the_list_costs_the_same_however_many_jobs_are_dead(viewer: Client) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            text_of(viewer, FAILURES)
        return len(queries)

    dead(1, ONE)
    counted()
    text_of(viewer, FAILURES)
    few = statements()
    for number in range(20):
        dead(2, f"{number:032x}", queue=f"q{number}")
    counted()
    assert statements() == few < 30


def test_a_group_can_be_acknowledged_from_the_list(deck: Client, viewer: Client) -> None:
    dead()
    counted()
    answer = deck.post(FAILURES, {"act": "acknowledge", "fingerprint": ONE}, follow=True)
    assert "Acknowledged." in messages_of(answer)[0]
    row = FailureTriage.objects.get()
    assert (row.acknowledged_by, row.acknowledged_at is not None) == ("grace", True)
    assert "acknowledged" in text_of(viewer, FAILURES)
    FailureGroup.objects.update(last_seen=timezone.now() + dt.timedelta(minutes=1))
    assert "came again" in text_of(viewer, FAILURES)


# -- one group ---------------------------------------------------------------------------------------------------------


def test_one_group_whole(deck: Client) -> None:
    ids = dead(2, queue="mail", type="shop.send.v1")
    dead(1, queue="reports", type="shop.send.v1", failed_at=timezone.now() - dt.timedelta(days=3))
    counted()
    text = text_of(deck, failure())
    for job_id in ids:
        assert f"/admin/chokaq/deck/job/{job_id}/" in text
    for shown in ("shop.partner.PartnerError", SECRET, "Running it again:", f"/admin/chokaq/jobdlq/?fingerprint={ONE}",
                  "/admin/chokaq/deck/queue/?name=reports"):  # fmt: skip
        assert shown in text
    for action in ("resurrect", "edit", "purge"):
        address = f"/admin/chokaq/deck/bulk/new/?action={action}&status=dead&fingerprint={ONE}"
        assert html.escape(address) in text
        assert deck.get(address).status_code == 200


def test_the_ages_of_the_oldest_only(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair of queue and type that came later than all jobs that were counted has no ages."""
    monkeypatch.setattr(failure_page, "MOST_COUNTED", 1)
    dead(2, queue="early", failed_at=timezone.now() - dt.timedelta(hours=2))
    dead(1, queue="late")
    counted()
    text = text_of(viewer, failure())
    assert "early" in text
    assert "late" in text
    assert "Ages are those of the 1 oldest." in text


def test_acts_are_offered_to_those_who_may(viewer: Client) -> None:
    dead()
    counted()
    text = text_of(viewer, failure())
    assert "action=resurrect" not in text
    assert "action=purge" not in text
    assert 'type="submit"' not in text[text.index("chokaq-triage") :]


@pytest.mark.parametrize("group", [OTHER, "nonsense", XSS[:20].replace("/", ""), "1" * 31, "%2e%2e", "🎉"])
def test_a_group_that_there_is_not(viewer: Client, group: str) -> None:
    dead()
    counted()
    assert "Nothing has died of this" in text_of(viewer, failure(group), status=404)


def test_a_group_whose_jobs_are_all_gone(deck: Client) -> None:
    (job,) = dead()
    counted()
    deck.post(f"/admin/chokaq/deck/job/{job}/", {"act": "purge", "sure": "1"})
    assert FailureGroup.objects.count() >= 1
    text = text_of(deck, failure())
    assert "None is in the DLQ any more." in text
    assert "action=resurrect" not in text
    assert f"/admin/chokaq/deck/job/{job}/" in text, "the job that came last is somewhere"


def test_names_and_texts_are_text(deck: Client) -> None:
    name = f"q/{XSS}?#%"[:120]
    dead(2, queue=name, type=XSS, error_type=XSS, error_details=f"Traceback\n{XSS}", note=XSS, assignee=XSS)
    counted()
    deck.post(failure(), {"act": "triage", "note": XSS, "assignee": XSS, "acknowledged": "on", "reason": XSS})
    for address in (FAILURES, failure()):
        text = text_of(deck, address)
        assert "<script>alert" not in text
        assert "<img" not in text
        assert html.escape(XSS[:30]) in text


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (F.EXPIRED, "safe to replay"), (F.UNKNOWN_TYPE, "safe to replay"), (F.ZOMBIE, "may be done"),
        (F.TIMEOUT, "may be done"), (F.CANCELLED, "partly, if it ran"),
        (F.FATAL_ERROR, "partly done"), (F.POISON, "may be done"), (77, "partly done"),
    ],
)  # fmt: skip
def test_the_risk_of_running_it_again_is_said_and_explained(viewer: Client, reason: int, words: str) -> None:
    dead(failure_reason=reason)
    counted()
    FailureGroup.objects.update(reason=reason)
    assert words in text_of(viewer, FAILURES)
    text = text_of(viewer, failure())
    assert f"Running it again: {words}." in " ".join(text.split())


def test_a_payload_that_was_not_read_is_safe_to_replay(viewer: Client) -> None:
    dead(failure_reason=F.FATAL_ERROR, error_type="PayloadError", error_details="PayloadError: $.name: Expected text")
    counted()
    assert "safe to replay" in text_of(viewer, FAILURES)
    assert "its handler did not run" in text_of(viewer, failure())


def test_payloads_that_were_not_read_are_to_be_repaired_first(viewer: Client) -> None:
    dead(failure_reason=F.FATAL_ERROR, error_type="PayloadError")
    # By a handler: of another payload, such as one that it wanted to enqueue.
    dead(group=OTHER, failure_reason=F.FATAL_ERROR, error_type="chokaq_django.job.failures.PayloadError")
    counted()
    assert "Repair them first." in text_of(viewer, failure())
    assert "Repair them first." not in text_of(viewer, failure(OTHER))


def test_what_a_worker_could_not_read_is_to_be_repaired_first(
    deck: Client, worker_process: Callable[..., WorkerProcess]
) -> None:
    make.hot(type="test.note", payload='{"name": 5}')
    assert worker_process("--burst").wait() == 0
    job = JobDLQ.objects.get()
    text = text_of(deck, failure(job.fingerprint))
    assert "Repair them first." in text
    assert "“Repair payloads…” changes them all at once" in text
    assert f"action=edit&amp;status=dead&amp;fingerprint={job.fingerprint}&amp;path%3A0=%24.name" in text


# -- notes -------------------------------------------------------------------------------------------------------------


def test_notes_are_kept_with_who_wrote_them(deck: Client) -> None:
    dead()
    counted()
    posted = {"act": "triage", "note": "partner is down", "assignee": "ada", "acknowledged": "on"}
    answer = deck.post(failure(), posted, follow=True)
    assert messages_of(answer) == ["Noted."]
    row = FailureTriage.objects.get()
    assert (row.note, row.assignee, row.acknowledged_by, row.updated_by) == ("partner is down", "ada", "grace", "grace")
    text = text_of(deck, failure())
    assert ">partner is down</textarea>" in text
    assert 'value="ada"' in text
    again = deck.post(failure(), posted, follow=True)
    assert messages_of(again) == ["The group has these notes already."]
    assert AuditEntry.objects.filter(action="triage", by="grace").count() == 1
    deck.post(failure(), {"act": "triage", "note": "", "assignee": ""})
    row = FailureTriage.objects.get()
    assert (row.note, row.assignee, row.acknowledged_at) == ("", None, None)


def test_a_note_that_is_too_long_is_refused(deck: Client) -> None:
    dead()
    counted()
    answer = deck.post(failure(), {"act": "triage", "note": "x" * 10_001}, follow=True)
    assert "must be at most 10,000 characters" in messages_of(answer)[0]
    assert not FailureTriage.objects.exists()


def test_who_may_not_operate_notes_nothing(viewer: Client) -> None:
    dead()
    counted()
    for address, posted in (
        (failure(), {"act": "triage", "note": "n"}),
        (FAILURES, {"act": "acknowledge", "fingerprint": ONE}),
    ):
        assert viewer.post(address, posted).status_code == 403
    assert not FailureTriage.objects.exists()


def test_without_the_deck_there_are_no_pages() -> None:
    client = Client()
    client.force_login(make.operator("operate", username="bob"))
    for address in (FAILURES, failure()):
        assert client.get(address).status_code == 403
        assert Client().get(address).status_code == 302
    assert client.post(FAILURES, {"act": "acknowledge", "fingerprint": ONE}).status_code == 403


def test_a_look_changes_nothing(deck: Client) -> None:
    dead()
    counted()
    before = list(FailureGroup.objects.values())
    for address in (FAILURES, failure(), f"{FAILURES}?act=acknowledge&fingerprint={ONE}", f"{failure()}?act=triage"):
        text_of(deck, address)
    assert list(FailureGroup.objects.values()) == before
    assert not FailureTriage.objects.exists()
    assert deck.post(failure(), {"act": "nonsense"}, follow=True).status_code == 200
