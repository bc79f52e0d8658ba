"""Bulk operations from the Deck: preview, frozen set, typed confirmation, progress, and taking it back."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from chokaq_django import control
from chokaq_django.control import BulkState, BulkView, JobFilter
from chokaq_django.control.arguments import LEAST_PER_SECOND, MOST_PER_SECOND
from chokaq_django.deck.pages import bulk_one
from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    AuditEntry,
    BulkItem,
    BulkItemState,
    BulkOperation,
    Circuit,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobHot,
    JobTrash,
)
from chokaq_django.reading import bulk_items as reading
from chokaq_django.storage import get_storage
from tests import factories as make

from .pages import inline_code

pytestmark = pytest.mark.django_db

LIST = "/admin/chokaq/deck/bulk/"
NEW = f"{LIST}new/"
XSS = "<script>alert('🎉')</script>\"'><img src=x onerror=alert(1)>"
DEAD = {"action": "resurrect", "status": "dead"}


def corpses(count: int, **columns: Any) -> list[str]:
    """So many dead jobs, written at once."""
    pattern = make.dead(**columns)
    JobDLQ.objects.filter(pk=pattern.pk).delete()
    ids = [new_id() for _ in range(count)]
    fields = {field.attname: getattr(pattern, field.attname) for field in pattern._meta.concrete_fields}
    JobDLQ.objects.bulk_create([JobDLQ(**{**fields, "id": job_id}) for job_id in ids])
    return ids


def address(query: dict[str, str], page: str = NEW) -> str:
    return f"{page}?{urlencode(query)}"


def text_of(response: Any) -> str:
    assert response.status_code == 200, response
    return str(response.content.decode())


def begin(client: Client, query: dict[str, str], **form: Any) -> HttpResponse:
    return client.post(address(query), {"act": "begin", **form})  # type: ignore[return-value]


def begun(client: Client, query: dict[str, str], **form: Any) -> tuple[str, BulkView]:
    """The page of a new operation, and the operation."""
    response = begin(client, query, **form)
    assert response.status_code == 302, response.content.decode()[:2_000]
    page = response.headers["Location"]
    return page, seen(page)


def seen(page: str) -> BulkView:
    view = control.bulk_get(page.rstrip("/").rpartition("/")[2])
    assert view is not None
    return view


def act(client: Client, page: str, name: str, **form: Any) -> str:
    """What the page says after an act."""
    return text_of(client.post(page, {"act": name, **form}, follow=True))


def worked_off(page: str) -> BulkView:
    return control.bulk_run(seen(page).id)


# -- preview -----------------------------------------------------------------------------------------------------------


def test_without_a_filter_there_is_a_form_and_nothing_is_counted(deck: Client) -> None:
    make.dead()
    text = text_of(deck.get(NEW))
    assert 'name="queue"' in text
    assert "data-total" not in text
    assert "Purge" in text_of(deck.get(f"{NEW}?action=purge"))


def test_the_preview_counts_by_queue_type_and_age(deck: Client) -> None:
    corpses(3, queue="mail")
    corpses(2, queue="reports/eu #1 🎉", failed_at=timezone.now() - dt.timedelta(days=3))
    make.dead(queue="other", failure_reason=FailureReason.TIMEOUT)
    text = text_of(deck.get(address(DEAD)))
    assert 'data-total="6"' in text
    assert "reports/eu #1 🎉" in text
    assert "1 Timeout: they were stopped in the middle." in text
    narrow = text_of(deck.get(address({**DEAD, "queue": "reports/eu #1 🎉", "since": "7d"})))
    assert 'data-total="2"' in narrow
    assert "since: 20" in narrow, "a span is resolved to a time"
    assert "Timeout:" not in narrow
    assert 'data-total="0"' in text_of(deck.get(address({**DEAD, "until": "2d", "since": "2026-01-31", "tag": "x"})))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"status": "deceased"}, "must be one of"),
        ({"status": "pending"}, "must be one of dead"),
        ({"status": "dead", "reason": "Nothing"}, "must be a failure reason"),
        ({"status": "dead", "since": "soon"}, "must be a time"),
        ({"status": "dead", "queue": "x" * 300}, "at most 255"),
        ({"status": "dead", "queue": "a\x00b"}, "NUL"),
        ({"status": "dead", "id_prefix": "%"}, "id_prefix"),
        ({"action": "cancel", "status": "active", "fingerprint": "ff"}, "of dead jobs only"),
        ({"action": "restore", "status": "purged"}, "must be one of"),
        ({"status": "dead", "rate": "1", "queue": XSS, "since": XSS}, "must be a time"),
    ],
)
def test_a_bad_filter_is_said_and_shown_again(deck: Client, query: dict[str, str], said: str) -> None:
    response = deck.get(address({"action": "resurrect", **query}))
    assert response.status_code == 400
    text = response.content.decode()
    assert said in text
    assert "<img src=x" not in text
    assert begin(deck, {"action": "resurrect", **query}).status_code == 400
    assert not BulkOperation.objects.exists()


def test_a_preview_that_is_not_complete_says_so(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chokaq_django.deck.pages.bulk_new.MOST_COUNTED", 10)
    corpses(11)
    text = text_of(deck.get(address(DEAD)))
    assert ">10+</strong>" in text
    _, view = begun(deck, DEAD)
    assert (view.total, view.awaits_go) == (11, False), "eleven need no confirmation; they were counted when frozen"


def test_how_long_it_takes_by_what_such_jobs_took(deck: Client) -> None:
    corpses(100)
    assert "unknown" in text_of(deck.get(address(DEAD)))
    make.worker(concurrency=2)
    make.archived(duration_ms=3_000)
    text = text_of(deck.get(address(DEAD)))
    assert "about 2 min 30 s of work for 2 slots" in text, "100 x 3 s on two slots"
    assert ">2 s</dd>" in text, "100 at 50 a second"
    make.queue(is_paused=True)
    assert "Paused or hidden:" in text_of(deck.get(address(DEAD)))


# -- beginning ---------------------------------------------------------------------------------------------------------


def test_a_few_begin_at_once(deck: Client) -> None:
    ids = corpses(3)
    page, view = begun(deck, DEAD, why="mended", new_priority="70")
    assert (view.state, view.total, view.by, view.reason) == (BulkState.RUNNING, 3, "grace", "mended")
    assert (view.rate, view.canary, view.stop_share, view.arguments) == (None, None, None, {"priority": 70})
    assert worked_off(page).applied == 3
    assert set(JobHot.objects.filter(priority=70).values_list("pk", flat=True)) == set(ids)


def test_many_are_frozen_looked_at_and_confirmed_by_their_number(deck: Client) -> None:
    ids = corpses(1_200, failure_reason=FailureReason.ZOMBIE)
    form = {"rate": "50", "canary": "20", "canary_failures": "5", "stop_at": "12.5", "drop_key": "1"}
    page, view = begun(deck, DEAD, **form)
    assert view.awaits_go
    assert (view.rate, view.canary, view.canary_share, view.stop_share) == (50.0, 20, 0.05, 0.125)
    assert view.arguments == {"on_key_conflict": "drop"}
    later = make.dead(failed_at=get_storage().now() + dt.timedelta(seconds=1))
    text = text_of(deck.get(page))
    assert "Type 1,200 to confirm" in text
    assert "1,200 Zombie: their worker died while they ran." in text
    for wrong in ("", "1201", "120", "1,200 jobs", "yes", "-1200", "1200.0", "0x4b0", "一二〇〇"):
        assert "Nothing was done: type the number" in act(deck, page, "go", confirm=wrong), wrong
    assert "It has not begun yet" in act(deck, page, "resume"), "this is no way around the number"
    assert (seen(page).awaits_go, JobHot.objects.count()) == (True, 0)
    assert "It has begun." in act(deck, page, "go", confirm=" 1,200 ")
    assert seen(page).state is BulkState.RUNNING
    get_storage().bulk_step(view.id)
    BulkOperation.objects.update(canary=None, rate=None)  # what they do is tested elsewhere
    assert worked_off(page).applied == 1_200
    assert set(JobHot.objects.values_list("pk", flat=True)) == set(ids)
    assert JobDLQ.objects.get().pk == later.pk, "what came later is not in it"
    assert "It is not waiting" in act(deck, page, "go", confirm="1200")


def test_a_purge_is_always_confirmed(deck: Client) -> None:
    make.archived(), make.dead()
    page, view = begun(deck, {"action": "purge", "status": "succeeded"})
    assert (view.awaits_go, view.total) == (True, 1)
    assert "Type 1 to confirm" in text_of(deck.get(page))
    act(deck, page, "go")
    assert worked_off(page).done == 0
    act(deck, page, "go", confirm="1")
    assert worked_off(page).applied == 1
    assert (JobArchive.objects.count(), JobDLQ.objects.count(), JobTrash.objects.count()) == (0, 1, 1)


def test_a_held_one_can_be_discarded(deck: Client) -> None:
    corpses(30)
    page, _ = begun(deck, DEAD)
    assert "Discard it" in text_of(deck.get(page))
    act(deck, page, "cancel")
    assert seen(page).state is BulkState.CANCELLED
    assert JobDLQ.objects.count() == 30


def test_the_request_costs_the_same_for_few_and_for_many(deck: Client) -> None:
    costs = []
    for count in (3_999, 30, 4_000):  # at the first, servers are asked once for what a connection then knows
        ids = corpses(count, queue=f"q{count}")
        with CaptureQueriesContext(connection) as asked:
            page, view = begun(deck, {**DEAD, "queue": f"q{count}"}, rate="50")
        assert (view.total, view.awaits_go) == (len(ids), True)
        with CaptureQueriesContext(connection) as looked:
            deck.get(page)
        costs.append((len(asked), len(looked)))
    assert costs[1] == costs[2]
    assert costs[0][0] - costs[1][0] in (0, 1)
    assert costs[0][1] == costs[1][1]
    assert max(costs[0]) < 60


def test_what_was_not_frozen_in_time_is_frozen_by_the_workers(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = control.bulk_freeze
    monkeypatch.setattr(control, "bulk_freeze", lambda operation_id: frozen(operation_id, seconds=0))
    corpses(30)
    page, view = begun(deck, DEAD)
    assert (view.state, view.total) == (BulkState.PREPARING, 0)
    text = text_of(deck.get(page))
    assert "freezing:" in text
    assert "No live worker." in text
    assert worked_off(page).awaits_go
    make.worker()
    assert "No live worker" not in text_of(deck.get(page))


@pytest.mark.parametrize(
    ("action", "form", "field"),
    [
        ("resurrect", {"rate": "fast"}, "rate"),
        ("resurrect", {"rate": "0,5"}, "rate"),
        ("resurrect", {"rate": "nan"}, "rate"),
        ("resurrect", {"rate": "-1"}, "rate"),
        ("resurrect", {"rate": "99999999"}, "rate"),
        ("resurrect", {"rate": "1e-320"}, "rate"),
        ("resurrect", {"canary": "1.5"}, "canary"),
        ("resurrect", {"canary": "0"}, "canary"),
        ("resurrect", {"stop_at": "101"}, "stop_at"),
        ("resurrect", {"canary_failures": "nan"}, "canary_failures"),
        ("resurrect", {"new_priority": "1" * 39}, "priority"),
        ("edit", {}, "patch"),
        ("edit", {"new_queue": "no such/name ?"}, "queue"),
        ("edit", {"new_queue": "<b>"}, "queue"),
        ("explode", {}, "action"),
    ],
)
def test_bad_options_are_refused_by_their_field(deck: Client, action: str, form: dict[str, str], field: str) -> None:
    make.dead()
    response = begin(deck, {"action": action, "status": "dead"}, **form, why=XSS)
    assert response.status_code == 400
    text = response.content.decode()
    assert f"<strong>{field}</strong>" in text
    assert "<img src=x" not in text
    if action == "resurrect":
        for name, value in form.items():
            assert f'value="{value}"' in text, f"{name} is to be mended, not typed anew"
    assert not BulkOperation.objects.exists()


# -- selections --------------------------------------------------------------------------------------------------------


def test_a_selection_is_posted_by_a_list(deck: Client) -> None:
    ids = corpses(30)
    active, gone = make.hot().pk, new_id()
    posted = {"act": "look", "action": "resurrect", "ids": [*ids, active, gone, "garbage<b>"]}
    text = text_of(deck.post(NEW, posted))
    assert 'data-total="30"' in text
    assert "1 are active." in text
    assert "1 are gone." in text
    assert "garbage&lt;b&gt;" in text
    assert f'value="{" ".join(ids)}' in text
    page, view = begun(deck, {"action": "resurrect"}, ids=" ".join([*ids, active]))
    assert (view.where, view.total, view.awaits_go) == (None, 31, True)
    act(deck, page, "go", confirm="31")
    assert worked_off(page).applied == 30
    assert "The job is active." in text_of(deck.get(f"{page}?items=refused"))


def test_a_selection_is_bounded(deck: Client) -> None:
    many = " ".join(new_id() for _ in range(1_001))
    assert deck.post(NEW, {"act": "look", "action": "purge", "ids": many}).status_code == 400
    assert begin(deck, {"action": "purge"}, ids=many).status_code == 400
    assert not BulkOperation.objects.exists()


def test_restore_takes_a_selection(deck: Client) -> None:
    rows = [make.purged() for _ in range(3)]
    posted = {"act": "look", "action": "restore", "ids": [row.pk for row in rows]}
    assert 'data-total="3"' in text_of(deck.post(NEW, posted))
    page, _ = begun(deck, {"action": "restore"}, ids=[row.pk for row in rows])
    assert worked_off(page).applied == 3 == JobDLQ.objects.count()


# -- how it goes -------------------------------------------------------------------------------------------------------


def test_pause_resume_at_another_rate_and_cancel(deck: Client) -> None:
    corpses(20)
    page, _ = begun(deck, DEAD, rate="0.5")
    assert "Paused: no further job" in act(deck, page, "pause", reason="wait")
    assert seen(page).state is BulkState.PAUSED
    assert "The rate must be a number." in act(deck, page, "resume", rate="x")
    assert "must be at most" in act(deck, page, "resume", rate="1e7")
    assert "It goes on." in act(deck, page, "resume", rate="700")
    assert (seen(page).state, seen(page).rate) == (BulkState.RUNNING, 700.0)
    assert "Cancelled: no further job" in act(deck, page, "cancel")
    assert "The operation is cancelled." in act(deck, page, "pause")
    assert "The operation is cancelled." in act(deck, page, "resume")
    acts = AuditEntry.objects.order_by("at", "id").values_list("action", "by")
    assert list(acts) == [(name, "grace") for name in (
        "bulk_resurrect", "bulk_resume", "bulk_pause", "bulk_resume", "bulk_abort")]  # fmt: skip


def test_a_form_takes_every_drip_that_there_can_be(deck: Client) -> None:
    corpses(1)
    page, _ = begun(deck, DEAD, rate=str(LEAST_PER_SECOND))
    limits = f'min="{LEAST_PER_SECOND:.5f}" max="{MOST_PER_SECOND:.0f}"'
    new = f"{NEW}?{urlencode(DEAD)}"
    for address in (new, page):
        assert limits in " ".join(deck.get(address).content.decode().split()), address


def test_what_stopped_by_itself_says_why_and_goes_on_when_told(deck: Client) -> None:
    corpses(20)
    page, _ = begun(deck, DEAD, canary="5")
    BulkOperation.objects.update(
        state="stopped", message=f"4 of 5 died {XSS}", canary_decision="failed", succeeded=1, died=4, done=5, applied=5,
        history=json.dumps([[1, 2, 1], [4, 5, 4]]), recent=json.dumps([[0, 0], [5, 4]]),
    )  # fmt: skip
    text = text_of(deck.get(page))
    assert "Stopped by itself." in text
    assert "4 of 5 died &lt;script&gt;" in text
    assert "<polyline" in text
    assert "Go on without the canary" in text
    assert "It goes on." in act(deck, page, "resume")
    assert seen(page).canary_decision == "overruled"
    assert worked_off(page).state is BulkState.DONE


def test_it_says_which_circuits_are_open(deck: Client) -> None:
    corpses(3, type="partner.sync")
    page, _ = begun(deck, DEAD, rate="1")
    assert "Circuits are open." not in text_of(deck.get(page))
    make.circuit("partner.sync", state=Circuit.OPEN)
    text = text_of(deck.get(page))
    assert "Circuits are open." in text
    assert "partner.sync" in text
    act(deck, page, "cancel")
    assert "Circuits are open." not in text_of(deck.get(page))


def test_its_jobs_page_by_page_and_by_what_became_of_them(deck: Client) -> None:
    ids = corpses(30)
    JobDLQ.objects.filter(pk=ids[0]).delete()
    make.hot(id=ids[0])
    page, _ = begun(deck, {"action": "resurrect"}, ids=ids)
    act(deck, page, "go", confirm="30")
    worked_off(page)
    first = text_of(deck.get(page))
    assert sum(job_id in first for job_id in ids) == 25
    response = deck.get(page)
    second = text_of(deck.get(f"{page}?{response.context['more_items']}"))
    assert sum(job_id in second for job_id in ids) >= 5
    refused = deck.get(f"{page}?items=refused")
    assert [item["id"] for item in refused.context["items"]] == [ids[0]]
    assert deck.get(f"{page}?items=nonsense&after=%00%27").status_code == 200
    assert reverse("admin:chokaq_deck_job", args=[ids[1]]) in first


def test_an_undo_from_the_page(deck: Client) -> None:
    ids = corpses(30)
    before = list(JobDLQ.objects.order_by("pk").values())
    page, _ = begun(deck, {"action": "purge", "status": "dead"})
    assert "Undo this operation" not in text_of(deck.get(page)), "nothing was done yet"
    act(deck, page, "go", confirm="30")
    worked_off(page)
    assert JobTrash.objects.count() == 30
    text = text_of(deck.get(page))
    assert "30 jobs: Every job that it purged goes back to where it was" in text
    assert "Type 30 to confirm" in text
    assert "Nothing was done: type the number" in act(deck, page, "undo", confirm="3")
    response = deck.post(page, {"act": "undo", "confirm": "30", "reason": "a slip"})
    assert response.status_code == 302
    undoing = response.headers["Location"]
    assert worked_off(undoing).applied == 30
    assert list(JobDLQ.objects.order_by("pk").values()) == before, "identical in every column"
    assert seen(page).id in text_of(deck.get(undoing))
    assert undoing in text_of(deck.get(page)), "taken back by"
    assert len(ids) == 30


def test_an_edit_and_its_undo(deck: Client) -> None:
    row = make.hot(priority=10, queue="mail")
    page, _ = begun(deck, {"action": "edit", "status": "active"}, new_priority="-5", new_queue="slow")
    worked_off(page)
    row.refresh_from_db()
    assert (row.priority, row.queue) == (-5, "slow")
    text = text_of(deck.get(page))
    assert "New priority" in text
    undoing = deck.post(page, {"act": "undo"}).headers["Location"]
    worked_off(undoing)
    row.refresh_from_db()
    assert (row.priority, row.queue) == (10, "mail")


def test_a_resurrection_has_no_undo(deck: Client) -> None:
    make.dead()
    page, _ = begun(deck, DEAD)
    worked_off(page)
    assert "Undo this operation" not in text_of(deck.get(page))
    assert "cannot be undone" in act(deck, page, "undo")


def test_the_list(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chokaq_django.deck.pages.bulk.PAGE", 3)
    assert "Nothing is under way." in text_of(deck.get(LIST))
    corpses(2)
    done = [
        control.bulk_run(control.bulk_edit(where=JobFilter(status="dead"), priority=n, by="bob").id) for n in range(5)
    ]
    paused = control.bulk_pause(control.bulk_purge(where=JobFilter(status="dead", queue=XSS), by=XSS).id, by="bob")
    response = deck.get(LIST)
    assert [row["view"].id for row in response.context["open"]] == [paused.id]
    assert [row["view"].id for row in response.context["past"]] == [view.id for view in done[:1:-1]]
    assert "<img src=x" not in text_of(response)
    older = deck.get(f"{LIST}?{response.context['more']}")
    assert [row["view"].id for row in older.context["past"]] == [view.id for view in done[1::-1]]
    assert older.context["open"] == []
    for query, shown in (
        ("state=paused", [paused]), ("state=done&by=ada", []), ("action=edit&state=running", []),
        ("action=purge", [paused]), ("state=x&action=y", []), ("by=%00", []), ("before=%00", [paused]),
    ):  # fmt: skip
        response = deck.get(f"{LIST}?{query}")
        assert response.status_code == 200, query
        found = [row["view"].id for row in (*response.context["open"], *response.context["past"])]
        assert found == [view.id for view in shown] or query == "before=%00", query


# -- who may, and what is shown ----------------------------------------------------------------------------------------

NEEDED: list[tuple[str, tuple[str, ...], dict[str, str]]] = [
    ("resurrect", ("resurrect",), {"status": "dead"}),
    ("purge", ("purge",), {"status": "dead"}),
    ("cancel", ("cancel",), {"status": "active"}),
    ("remove", ("cancel", "purge"), {"status": "active"}),
    ("edit", ("edit_payload",), {"status": "active"}),
]


@pytest.mark.parametrize(("action", "permissions", "query"), NEEDED)
def test_each_action_needs_its_permissions(action: str, permissions: tuple[str, ...], query: dict[str, str]) -> None:
    everything = {"operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload"}
    make.dead(), make.hot()
    poor, able = Client(), Client()
    poor.force_login(make.operator("view_deck", *(everything - {permissions[-1]}), username="poor"))
    able.force_login(make.operator("view_deck", *permissions, username="able"))
    where = {"action": action, **query}
    assert "Freeze the set" not in (text := text_of(poor.get(address(where))))
    assert "data-bulk-options" not in text
    assert "a permission is missing" in text
    assert begin(poor, where, new_priority="1").status_code == 403
    assert not BulkOperation.objects.exists()
    page, view = begun(able, where, new_priority="1")
    open_to_all = {"paused": ("resume", "cancel"), "running": ("pause", "cancel"), "stopped": ("resume", "cancel")}
    for state, verbs in open_to_all.items():
        BulkOperation.objects.update(state=state, held=False)
        for name in verbs:
            before = seen(page)
            assert poor.post(page, {"act": name}).status_code == 403, (state, name)
            assert seen(page) == before
    BulkOperation.objects.update(state="paused", held=True)
    assert poor.post(page, {"act": "go", "confirm": str(view.total)}).status_code == 403
    control.bulk_run(control.bulk_resume(view.id, by="root").id)
    if action in ("purge", "remove", "edit"):
        assert poor.post(page, {"act": "undo", "confirm": "1"}).status_code == 403
    assert BulkOperation.objects.count() == 1
    assert 'name="act" value' not in text_of(poor.get(page))


def test_a_viewer_sees_the_pages_without_buttons(deck: Client, viewer: Client) -> None:
    corpses(30)
    page, _ = begun(deck, DEAD)
    for place in (LIST, NEW, address(DEAD), page, f"{page}?items=waiting"):
        text = text_of(viewer.get(place))
        assert 'name="act"' not in text, place
        assert inline_code(text) == [], place
    for name in ("go", "pause", "resume", "cancel", "undo", "look", "begin", "__class__", ""):
        before = seen(page)
        viewer.post(page, {"act": name, "confirm": "30"})
        viewer.post(address(DEAD), {"act": name})
        assert seen(page) == before, name
    assert BulkOperation.objects.count() == 1


@pytest.mark.parametrize("place", [LIST, NEW, address(DEAD), f"{LIST}{new_id()}/"])
def test_strangers_see_nothing(place: str) -> None:
    stranger = Client()
    stranger.force_login(make.operator(username="stranger"))
    assert stranger.get(place).status_code == 403
    assert stranger.post(place, {"act": "begin"}).status_code == 403
    assert Client().get(place).status_code == 302


def test_nothing_happens_without_a_token_or_by_get() -> None:
    corpses(30)
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(make.operator("view_deck", "resurrect", "purge"))
    assert begin(forged, DEAD).status_code == 403
    view = control.bulk_freeze(control.bulk_purge(where=JobFilter(status="dead"), by="ada", hold=True).id)
    page = f"{LIST}{view.id}/"
    for name in ("go", "cancel", "undo"):
        assert forged.post(page, {"act": name, "confirm": "30"}).status_code == 403
        assert forged.get(page, {"act": name, "confirm": "30"}).status_code == 200
    assert seen(page) == view


def test_there_is_no_such_operation(deck: Client) -> None:
    for operation_id in (new_id(), "x", "%00", "..%2f", XSS):
        assert deck.get(f"{LIST}{operation_id}/").status_code == 404
        assert deck.post(f"{LIST}{operation_id}/", {"act": "go"}).status_code == 404


@pytest.mark.parametrize("name", [XSS, "a/b/../c", "100%25 ?#&", "🎉 ", "'; DROP TABLE x; --", "a\tb"])
def test_any_name_in_every_place(deck: Client, name: str) -> None:
    corpses(30, queue=name.strip(), type=name.strip(), error_type=name)
    text = text_of(deck.get(address({**DEAD, "queue": name, "type": name})))
    assert 'data-total="30"' in text
    page, view = begun(deck, {**DEAD, "queue": name, "type": name}, why=name, rate="10")
    assert view.where is not None
    assert view.where["queue"] == name.strip()
    BulkOperation.objects.update(requested_by=name[:100], message=name)
    for place in (page, LIST, address({**DEAD, "queue": name, "tag": name, "fingerprint": name[:20]})):
        text = deck.get(place).content.decode()
        assert "<img src=x" not in text
        assert inline_code(text) == []
    assert seen(page).total == 30


@pytest.mark.parametrize("make_row", [make.dead, make.archived, make.hot])
def test_every_action_shows_its_page(deck: Client, make_row: Callable[..., Any]) -> None:
    make_row()
    for action in ("resurrect", "purge", "cancel", "remove", "edit", "restore", "revert", "nonsense"):
        assert deck.get(f"{NEW}?action={action}").status_code == 200


# -- a large set -------------------------------------------------------------------------------------------------------


def ended(count: int, **numbers: int) -> tuple[BulkOperation, list[str]]:
    """A resurrection that is over, with as many jobs in its set, the last of them refused."""
    now, ids = timezone.now(), [new_id() for _ in range(count)]
    row = BulkOperation.objects.create(
        id=new_id(), action="resurrect", state="done", place="dlq", total=count, done=count, created_at=now,
        updated_at=now, started_at=now, ended_at=now, **{"applied": count - 1, "refused": 1, **numbers},
    )  # fmt: skip
    BulkItem.objects.bulk_create(
        BulkItem(operation_id=row.id, job_id=job_id, generation=0, state=BulkItemState.APPLIED) for job_id in ids
    )
    BulkItem.objects.filter(job_id=ids[-1]).update(state=BulkItemState.REFUSED, note="The job is active already.")
    return row, ids


def test_a_look_at_the_page_follows_so_many_jobs_and_no_more(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_one, "FOLLOWED", 10)
    monkeypatch.setattr(reading, "MOST_LOOKED_AT", 10)
    row, ids = ended(30)
    JobArchive.objects.bulk_create(JobArchive(**{**columns_of(make.archived()), "id": job_id}) for job_id in ids[5:25])
    page = f"{LIST}{row.id}/"
    with CaptureQueriesContext(connection) as captured:
        part = deck.get(page)
    assert (part.context["outcomes"].succeeded, part.context["outcomes"].gone) == (5, 5)
    assert "the first 10 jobs of the set" in text_of(part)
    asked = [query["sql"] for query in captured if "chokaq_bulk_item" in query["sql"]]
    counting = [sql for sql in asked if "COUNT(" in sql or "COUNT_BIG(" in sql]
    assert counting
    assert all(ids[9] in sql for sql in counting), counting
    assert "?outcomes=all" in text_of(part)
    whole = deck.get(f"{page}?outcomes=all")
    assert (whole.context["outcomes"].succeeded, whole.context["outcomes"].gone) == (20, 9)
    assert "the first 10 jobs" not in text_of(whole)
    BulkOperation.objects.update(applied=50_001)
    for query in ("", "?outcomes=all"):
        assert "?outcomes=all" not in text_of(answer := deck.get(page + query))
        assert answer.context["outcomes"].succeeded == 5


def test_jobs_of_one_state_are_looked_for_step_by_step(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_LOOKED_AT", 10)
    row, ids = ended(30)
    page, query, found, pages = f"{LIST}{row.id}/", "items=refused", [], 0
    while query:
        answer = deck.get(f"{page}?{query}")
        found += [item["id"] for item in answer.context["items"]]
        query, pages = answer.context["more_items"], pages + 1
        assert found or "there are others behind them" in text_of(answer)
    assert (found, pages) == ([ids[-1]], 3)
    assert "None of the other jobs" in text_of(deck.get(f"{page}?items=succeeded&after={ids[25]}"))
    assert not deck.get(page).context["reasons"]


def columns_of(row: Any) -> dict[str, Any]:
    """Its columns; the row itself is deleted."""
    type(row).objects.filter(pk=row.pk).delete()
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.mark.parametrize(("permissions", "shown"), [((), False), (("view_payload",), False), (("cancel",), True)])
def test_who_may_begin_no_operation_is_not_offered_one(permissions: tuple[str, ...], shown: bool) -> None:
    client = Client()
    client.force_login(make.operator("view_deck", *permissions))
    html = client.get(reverse("admin:chokaq_deck_bulk")).content.decode()
    assert (reverse("admin:chokaq_deck_bulk_new") in html) is shown
