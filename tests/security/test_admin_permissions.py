"""Every act of the admin, tried by those who must not: refused by the server, whatever the page showed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chokaq_django.models import AuditEntry, Circuit, JobArchive, JobBase, JobDLQ, JobHot, JobTrash, Queue, Worker
from tests import factories as make
from tests.deck.pages import MODELS, list_of, page_of

pytestmark = [pytest.mark.django_db, pytest.mark.any_engine]

ALL = {"view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload"}
VERBS: list[tuple[str, Callable[[], Model], str]] = [
    ("cancel", make.hot, "cancel"),
    ("resurrect", make.dead, "resurrect"),
    ("pause", make.queue, "operate"),
    ("resume", lambda: make.queue(is_paused=True), "operate"),
    ("stop", make.worker, "operate"),
    ("drain", make.worker, "operate"),
    ("hide", make.queue, "operate"),
    ("show", lambda: make.queue(is_active=False), "operate"),
    ("open", make.circuit, "operate"),
    ("close", lambda: make.circuit(state=Circuit.OPEN), "operate"),
    ("reset", lambda: make.circuit(failures=3), "operate"),
    ("run_again", make.archived, "resurrect"),
    ("purge", make.archived, "purge"),
    ("purge", make.dead, "purge"),
    ("restore", make.purged, "purge"),
]


def client_of(user: User | None, *, csrf: bool = False) -> Client:
    client = Client(enforce_csrf_checks=csrf)
    if user is not None:
        client.force_login(user)
    return client


def state() -> list[Any]:
    """All that an act could have changed."""
    return [
        *JobHot.objects.order_by("id").values_list("id", "status", "cancel_requested_at", "revision"),
        *JobArchive.objects.order_by("id").values_list("id"),
        *JobDLQ.objects.order_by("id").values_list("id", "failure_reason"),
        *Queue.objects.order_by("name").values_list("name", "is_paused", "is_active", "max_workers"),
        *JobTrash.objects.order_by("id").values_list("id"),
        *Worker.objects.order_by("id").values_list("id", "stop_requested", "desired_concurrency"),
        *Circuit.objects.order_by("type").values_list("type", "state", "failures", "forced"),
        *AuditEntry.objects.order_by("id").values_list("id"),
    ]


def press(client: Client, row: Model, verb: str) -> HttpResponse:
    form = {"reason": "because"}
    if isinstance(row, JobBase):
        form |= {"act": verb, "sure": "1"}
    return client.post(page_of(row, verb), form)  # type: ignore[return-value]


def button(row: Model, verb: str) -> str:
    """What the page of the row has for this verb where it is offered."""
    return f'name="act" value="{verb}"' if isinstance(row, JobBase) else f'action="{page_of(row, verb)}"'


def offered(client: Client, row: Model, verb: str) -> bool:
    return button(row, verb) in " ".join(client.get(page_of(row)).content.decode().split())


def choose(client: Client, row: Model, verb: str) -> HttpResponse:
    data = {"action": verb, "_selected_action": [row.pk], "index": "0"}
    return client.post(list_of(str(row._meta.model_name)), data)  # type: ignore[return-value]


@pytest.mark.parametrize(("verb", "row", "permission"), VERBS)
def test_all_permissions_but_the_one_are_not_enough(verb: str, row: Callable[[], Model], permission: str) -> None:
    target, client = row(), client_of(make.operator(*(ALL - {permission})))
    before = state()
    assert press(client, target, verb).status_code == 403
    choose(client, target, verb)  # admin does not know the action for this user
    assert state() == before
    assert not offered(client, target, verb)
    assert f'value="{verb}"' not in client.get(list_of(str(target._meta.model_name))).content.decode()


@pytest.mark.parametrize(("verb", "row", "permission"), VERBS)
def test_the_one_permission_is_enough(verb: str, row: Callable[[], Model], permission: str) -> None:
    target, client = row(), client_of(make.operator("view_deck", permission))
    assert offered(client, target, verb)
    assert f'value="{verb}"' in client.get(list_of(str(target._meta.model_name))).content.decode()
    before = state()
    assert press(client, target, verb).status_code == 302
    assert state() != before


@pytest.mark.parametrize(("verb", "row", "permission"), VERBS)
def test_strangers_are_sent_to_the_login(verb: str, row: Callable[[], Model], permission: str) -> None:
    target = row()
    before = state()
    outsider = make.operator(*ALL, username="outsider", is_staff=False)
    for client in (client_of(None), client_of(outsider)):
        for response in (press(client, target, verb), choose(client, target, verb), client.get(page_of(target))):
            assert response.status_code == 302
            assert "/login/" in response.headers["Location"]
    assert state() == before


@pytest.mark.parametrize(("verb", "row", "permission"), VERBS)
def test_the_right_is_asked_for_at_each_act(verb: str, row: Callable[[], Model], permission: str) -> None:
    user = make.operator("view_deck", permission)
    target, client = row(), client_of(user)
    assert client.get(page_of(target)).status_code == 200
    user.user_permissions.clear()
    before = state()
    assert press(client, target, verb).status_code == 403
    user.is_active = False
    user.save()
    assert press(client, target, verb).status_code == 302  # logged out
    assert state() == before


@pytest.mark.parametrize(("verb", "row", "permission"), VERBS)
def test_nothing_happens_without_a_token_or_by_get(verb: str, row: Callable[[], Model], permission: str) -> None:
    user = make.operator(*ALL)
    target = row()
    before = state()
    forged = client_of(user, csrf=True)
    assert press(forged, target, verb).status_code == 403
    assert choose(forged, target, verb).status_code == 403
    assert forged.post(page_of(target, verb), {"csrfmiddlewaretoken": "x" * 64, "act": verb}).status_code == 403
    client = client_of(user)
    query = {"act": verb, "sure": "1", "reason": "because"}
    for method, allowed in ((client.get, 200), (client.head, 200), (client.put, 405), (client.delete, 405)):
        status = method(page_of(target, verb), query).status_code
        assert status == (allowed if isinstance(target, JobBase) else 405)
    client.get(list_of(str(target._meta.model_name)), {"action": verb, "_selected_action": target.pk})
    assert state() == before


def test_the_form_on_the_page_carries_a_token_that_works() -> None:
    client = client_of(make.operator(*ALL), csrf=True)
    job = make.hot()
    response = client.get(page_of(job))
    token = response.context["csrf_token"]
    form = {"csrfmiddlewaretoken": str(token), "act": "cancel", "sure": "1"}
    assert client.post(page_of(job), form).status_code == 302
    assert JobDLQ.objects.filter(pk=job.pk).exists()


def test_limits_need_operate() -> None:
    queue = make.queue()
    viewer, operator = (
        client_of(make.operator(*(ALL - {"operate"}))),
        client_of(make.operator("operate", username="op")),
    )
    before = state()
    assert 'name="max_workers"' not in viewer.get(page_of(queue)).content.decode()
    assert 'name="max_workers"' in operator.get(page_of(queue)).content.decode()
    assert viewer.post(page_of(queue), {"max_workers": "1"}).status_code == 403
    assert state() == before
    assert operator.post(page_of(queue), {"max_workers": "1"}).status_code == 302
    assert state() != before


@pytest.mark.parametrize("model", MODELS)
def test_looking_needs_a_permission_too(model: str) -> None:
    assert client_of(make.operator(username="nobody")).get(list_of(model)).status_code == 403
    assert client_of(make.operator("view_deck")).get(list_of(model)).status_code == 200
    own = make.operator(f"view_{model}", username="own")  # Django's own, of this one table
    assert client_of(own).get(list_of(model)).status_code == 200
    assert client_of(own).get(list_of("jobhot" if model != "jobhot" else "queue")).status_code == 403


def test_a_hidden_payload_cannot_be_guessed_by_filters() -> None:
    make.hot(payload='{"pin":"1234"}')
    viewer = client_of(make.operator("view_deck"))
    for query in ("payload__contains=12", "payload__startswith=%7B", "headers__regex=.", "_to_field=payload"):
        response = viewer.get(f"{list_of('jobhot')}?{query}")
        assert response.status_code == 400, query
    assert "1 active job" not in viewer.get(f"{list_of('jobhot')}?q=1234").content.decode()


def test_django_permissions_of_the_tables_allow_no_edit() -> None:
    """Add, change and delete of tables, which a project may have made by itself, give nothing."""
    made = [
        Permission.objects.create(
            codename=f"{verb}_{model}", content_type=ContentType.objects.get(app_label="chokaq", model=model), name=verb
        ).codename
        for verb in ("add", "change", "delete")
        for model in MODELS
    ]
    user = make.operator(*made, "view_deck")
    client = client_of(user)
    rows: list[Model] = [make.hot(), make.archived(), make.dead(), make.queue(), make.worker(), make.circuit()]
    before = state()
    for row in rows:
        name = row._meta.model_name
        assert client.get(f"/admin/chokaq/{name}/add/").status_code == 403
        client.post(f"/admin/chokaq/{name}/{row.pk}/change/", {"queue": "x", "max_workers": "1"})
        assert client.post(f"/admin/chokaq/{name}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
        choose(client, row, "delete_selected")
    assert state() == before


def test_there_is_no_permission_that_does_nothing() -> None:
    """Whoever gives permissions reads all of them: those of Django that nobody asks for are not there."""
    lists = {
        f"view_{model._meta.model_name}" for model in admin.site._registry if model._meta.app_label == "chokaq"
    } - {"view_deck"}
    found = Permission.objects.filter(content_type__app_label="chokaq").values_list("codename", flat=True)
    assert set(found) == ALL | lists


def test_one_list_can_be_shown_without_the_deck(client: Client) -> None:
    client.force_login(make.operator("view_queue"))
    assert client.get(reverse("admin:chokaq_queue_changelist")).status_code == 200
    assert client.get(reverse("admin:chokaq_worker_changelist")).status_code == 403
    assert client.get(reverse("admin:chokaq_deck_changelist")).status_code == 403
