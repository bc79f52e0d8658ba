"""The JSON API asked by those who must not: strangers, viewers, demoted users, forged pages, stale tokens."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.test import Client, override_settings

from chokaq_django import control
from chokaq_django.api import tokens
from chokaq_django.api.routes import ENDPOINTS
from chokaq_django.models import AuditEntry, BulkOperation, Circuit, FailureTriage, JobDLQ, Setting
from tests import factories as make
from tests.api.client import API, Program

from .test_admin_permissions import ALL, state

pytestmark = pytest.mark.django_db
SOME_ID = "01J9Z6T0Q5W9X3V8R2K7M4N1PB"


def stage() -> dict[str, Any]:
    """Something for every verb to act on: path to a body that works."""
    waiting, corpse, archived, purged = make.hot(), make.dead(), make.archived(), make.purged()
    make.queue("q", updated_by="ada")
    make.queue("paused", is_paused=True, updated_by="ada")
    make.queue("hidden", is_active=False, updated_by="ada")
    make.worker("w", desired_concurrency=None)
    make.circuit("open.one", state=Circuit.OPEN)
    make.circuit("bad.one", failures=3)
    control.set_setting("DECK.LAG_CRITICAL", 60, by="root")
    held = control.bulk_freeze(control.bulk_purge([corpse.pk], by="root", hold=True).id)
    running = control.bulk_resurrect([corpse.pk], by="root", rate=0.001, canary=1)
    ended = control.bulk_run(control.bulk_purge([make.dead().pk], by="root").id)
    return {
        f"jobs/{corpse.pk}/reveal": ({}, ("view_payload",)),
        "jobs/cancel": ({"ids": [waiting.pk]}, ("cancel",)),
        "jobs/remove": ({"ids": [waiting.pk]}, ("cancel", "purge")),
        "jobs/resurrect": ({"ids": [corpse.pk]}, ("resurrect",)),
        "jobs/run-again": ({"ids": [archived.pk]}, ("resurrect",)),
        "jobs/edit": ({"ids": [corpse.pk], "priority": 3}, ("edit_payload",)),
        "jobs/purge": ({"ids": [archived.pk]}, ("purge",)),
        "jobs/restore": ({"ids": [purged.pk]}, ("purge",)),
        "bulk": ({"action": "purge", "where": {"status": "dead"}}, ("purge",)),
        "bulk/try-patch": ({"ids": [corpse.pk], "patch": [{"op": "add", "path": "/x", "value": 1}]}, ("edit_payload",)),
        f"bulk/{held.id}/resume": ({}, ("purge",)),
        f"bulk/{running.id}/pause": ({}, ("resurrect",)),
        f"bulk/{running.id}/cancel": ({}, ("resurrect",)),
        f"bulk/{running.id}/rate": ({"rate": 2}, ("resurrect",)),
        f"bulk/{running.id}/skip-canary": ({}, ("resurrect",)),
        f"bulk/{ended.id}/undo": ({}, ("purge",)),
        "jobs/annotate": ({"ids": [corpse.pk], "note": "seen"}, ("operate",)),
        f"failures/{corpse.fingerprint}/triage": ({"acknowledged": True}, ("operate",)),
        "settings/set": ({"name": "DECK.LAG_WARNING", "value": 7}, ("operate",)),
        "settings/reset": ({"name": "DECK.LAG_CRITICAL"}, ("operate",)),
        "queues/pause": ({"queue": "q"}, ("operate",)),
        "queues/resume": ({"queue": "paused"}, ("operate",)),
        "queues/hide": ({"queue": "q"}, ("operate",)),
        "queues/show": ({"queue": "hidden"}, ("operate",)),
        "queues/set": ({"queue": "q", "max_workers": 3}, ("operate",)),
        "queues/reset": ({"queue": "q"}, ("operate",)),
        "workers/stop": ({"worker": "w"}, ("operate",)),
        "workers/drain": ({"worker": "w"}, ("operate",)),
        "workers/concurrency": ({"worker": "w", "concurrency": 3}, ("operate",)),
        "circuits/open": ({"type": "new.one", "new": True}, ("operate",)),
        "circuits/close": ({"type": "open.one"}, ("operate",)),
        "circuits/reset": ({"type": "bad.one"}, ("operate",)),
    }


def everything() -> list[Any]:
    more: Any = (
        (BulkOperation, "id", "state", "done"), (Setting, "name", "value"), (JobDLQ, "id", "note"),
        (FailureTriage, "note"),
    )  # fmt: skip
    rows = [row for model, *columns in more for row in model.objects.order_by("pk").values_list(*columns)]
    return [*state(), *rows]


def test_the_stage_has_every_endpoint_that_acts() -> None:
    posts = {re.sub(r"<str:\w+>", "*", endpoint.path)
             for endpoint in ENDPOINTS if endpoint.method == "POST"}  # fmt: skip
    staged = {"/".join("*" if len(part) in (26, 32) else part for part in path.split("/")) for path in stage()}
    assert staged == posts


def test_each_verb_needs_its_permission_and_no_other() -> None:
    bodies = stage()
    names: dict[tuple[str, ...], Program] = {}
    for needed in {needed for _, needed in bodies.values()}:
        poor = make.operator("view_deck", *(ALL - {needed[-1]}), username="without-" + needed[-1] + str(len(needed)))
        names[needed] = Program(poor)
    before = everything()
    for path, (body, needed) in bodies.items():
        answer = names[needed].post(path, body)
        assert (answer.status_code, answer.document["error"]["code"]) == (403, "forbidden"), path
        assert everything() == before, path
    for number, (path, (body, needed)) in enumerate(bodies.items()):
        one = Program(make.operator("view_deck", *needed, username=f"one-{number}"))
        before = everything()
        with transaction.atomic():  # what one does is taken back for the next
            answer = one.post(path, body)
            assert answer.status_code in (200, 202), (path, answer.content)
            assert not answer.document.get("refused"), (path, answer.content)
            assert (everything() == before) is (path == "bulk/try-patch"), path
            transaction.set_rollback(True)


def who_must_not() -> dict[str, Program]:
    """Everybody but an operator, by what is wrong with them."""
    fired = make.operator(*ALL, username="fired")
    demoted = make.operator(*ALL, username="demoted")
    outsider = make.operator(*ALL, username="outsider", is_staff=False)
    late = make.operator(*ALL, username="late")
    found = {
        "nobody": Program(),
        "garbage": Program(token="garbage"),
        "empty": Program(token=""),
        "fired": Program(fired),
        "demoted": Program(demoted),
        "not staff": Program(outsider),
        "viewer": Program(make.operator("view_deck", username="viewer")),
        "may nothing": Program(make.operator(username="nothing")),
        "new password": Program(late),
    }
    fired.is_active = False
    fired.save()
    demoted.user_permissions.clear()
    late.set_password("another")
    late.save()
    for name, user in (("session of a stranger", outsider), ("session of the demoted", demoted)):
        client = Client()
        client.force_login(user)
        found[name] = Program(client=client)
    return found


def test_all_others_change_nothing() -> None:
    bodies, others = stage(), who_must_not()
    before = everything()
    for who, program in others.items():
        for path, (body, _) in bodies.items():
            answer = program.post(path, body)
            assert answer.status_code in (401, 403), (who, path, answer.status_code)
            assert (answer.status_code == 401) is ("WWW-Authenticate" in answer.headers)
    assert everything() == before


def test_who_may_not_look_sees_nothing() -> None:
    job = make.dead(payload='{"name":"SECRET-NAME"}', queue="SECRET-QUEUE")
    paths = ["jobs?status=dead", f"jobs/{job.pk}", "queues", "workers", "circuits", "bulk", "bulk/preview?status=dead",
             "audit", "health", "openapi.json", "failures", f"failures/{job.fingerprint}", "settings", f"bulk/{job.pk}",
             f"bulk/{job.pk}/items"]  # fmt: skip
    for who, program in who_must_not().items():
        for path in paths:
            headers = {"Authorization": f"Bearer {program.token}"} if program.token is not None else {}
            answer: Any = program.client.get(API + path, headers=headers)
            if who == "viewer":
                assert answer.status_code in (200, 404)
            else:
                assert answer.status_code in (401, 403), (who, path)
                assert b"SECRET" not in answer.content
                assert set(answer.json()) == {"error"}


def test_a_session_needs_the_csrf_token_whatever_the_middleware_does() -> None:
    user = make.operator(*ALL)
    bodies = stage()
    before = everything()
    for middleware in (True, False):
        with override_settings(MIDDLEWARE=_middleware(csrf=middleware)):
            client = Client(enforce_csrf_checks=True)
            client.force_login(user)
            forged = Program(client=client)
            assert forged.get("queues").status_code == 200
            for path, (body, _) in bodies.items():
                answer = forged.post(path, body)
                assert (answer.status_code, answer.document["error"]["code"]) == (403, "csrf"), path
            client.cookies["csrftoken"] = "a" * 32
            wrong = client.post(
                API + "queues/pause", {"queue": "q"}, content_type="application/json", headers={"X-CSRFToken": "b" * 32}
            )
            assert wrong.status_code == 403
            assert everything() == before
    client.cookies["csrftoken"] = "a" * 32
    right = client.post(
        API + "queues/pause", {"queue": "q"}, content_type="application/json", headers={"X-CSRFToken": "a" * 32}
    )
    assert right.json()["applied"] == ["q"]


def _middleware(*, csrf: bool) -> list[str]:
    return [path for path in settings.MIDDLEWARE if csrf or "Csrf" not in path]


def test_another_origin_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make.operator(*ALL))
    client.cookies["csrftoken"] = "a" * 32
    make.queue("q", updated_by="ada")
    answer = client.post(
        API + "queues/pause", {"queue": "q"}, content_type="application/json",
        headers={"X-CSRFToken": "a" * 32, "Origin": "https://evil.example"},
    )  # fmt: skip
    assert answer.status_code == 403
    assert not AuditEntry.objects.exists()


def test_a_form_of_another_page_cannot_be_sent_with_a_session() -> None:
    client = Client()
    client.force_login(make.operator(*ALL))
    make.queue("q", updated_by="ada")
    assert client.post(API + "queues/pause", {"queue": "q"}).status_code == 415
    assert client.post(API + "queues/pause", '{"queue":"q"}', content_type="text/plain").status_code == 415
    assert not AuditEntry.objects.exists()


def test_nothing_changes_by_get_and_other_methods_are_refused() -> None:
    program = Program(make.operator(*ALL))
    bodies = stage()
    before = everything()
    for path in bodies:
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
            if method == "GET" and path == "bulk":
                continue
            answer = program.ask(method, path)
            assert answer.status_code == 405, (method, path)
            assert "POST" in answer.headers["Allow"]
    for path in ("jobs", "queues", "workers", "circuits", "audit", "health", "openapi.json", f"jobs/{SOME_ID}"):
        answer = program.post(path, {})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD"), path
    assert everything() == before
    assert program.ask("GET", "no/such/address").status_code == 404
    head: Any = program.client.head(API + "queues", headers={"Authorization": f"Bearer {program.token}"})
    assert (head.status_code, head.content) == (200, b"")


# -- tokens ------------------------------------------------------------------------------------------------------------


def token_of(user: User, **span: float) -> str:
    return tokens.issue(user, dt.timedelta(**(span or {"days": 1})), by="root")


def test_a_token_is_its_users_until_its_time_is_over() -> None:
    user = make.operator(*ALL)
    token = token_of(user, hours=1)
    assert tokens.user_of(token) == user
    assert tokens.user_of(f" {token} ".strip()) == user
    with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(minutes=61)):
        assert tokens.user_of(token) is None
    assert user.get_session_auth_hash() not in token
    entry = AuditEntry.objects.get(action="issue_token")
    assert (entry.target, entry.by) == (user.username, "root")
    assert token not in entry.details


def test_a_token_ends_with_its_users_password_and_user() -> None:
    user = make.operator(*ALL)
    token = token_of(user)
    user.set_unusable_password()
    user.save()
    assert tokens.user_of(token) is None
    renewed = token_of(user)
    assert tokens.user_of(renewed) == user
    user.set_unusable_password()
    user.save()
    assert tokens.user_of(renewed) is None, "each unusable password is another one"
    last = token_of(user)
    user.delete()
    assert tokens.user_of(last) is None


def test_a_rotated_key_is_honoured_as_long_as_it_is_named() -> None:
    user = make.operator(*ALL)
    with override_settings(SECRET_KEY="old"):
        token = token_of(User.objects.get(pk=user.pk))
    assert tokens.user_of(token) is None
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"]):
        assert tokens.user_of(token) == user


def test_forged_tokens() -> None:
    user, other = make.operator(*ALL, username="one"), make.operator(*ALL, username="two")
    token = token_of(user)
    head, _, tail = token.rpartition(".")
    said = json.loads(signing.b64_decode(head.removeprefix(tokens.PREFIX).encode()))
    forged = [
        "", ".", "chokaq_", head, tail, token[:-1], token + "x", token.removeprefix(tokens.PREFIX), token.upper(),
        f"{tokens.PREFIX}{signing.b64_encode(json.dumps({**said, 'user': str(other.pk)}).encode()).decode()}.{tail}",
        tokens.PREFIX + signing.Signer(salt="another", sep=".").sign_object(said),
        tokens.PREFIX + signing.Signer(key="another", salt=tokens.SALT, sep=".").sign_object(said),
        tokens.PREFIX + tokens._signer().sign_object({**said, "user": "x"}),
        tokens.PREFIX + tokens._signer().sign_object({**said, "user": str(other.pk)}),
        tokens.PREFIX + tokens._signer().sign_object({**said, "seal": ""}),
        tokens.PREFIX + tokens._signer().sign_object([1]),
        tokens.PREFIX + tokens._signer().sign_object({}),
        "é" * 40, "a\x00b", "x" * 100_000,
    ]  # fmt: skip
    for each in forged:
        assert tokens.user_of(each) is None, each[:80]
    assert tokens.user_of(token) == user


@pytest.mark.parametrize("days", [0, -1, 367])
def test_no_token_is_for_ever(days: int) -> None:
    with pytest.raises(ValueError, match="at most 366 days"):
        tokens.issue(make.operator(*ALL), dt.timedelta(days=days), by="root")


def test_the_names_of_the_api_say_who_acted() -> None:
    program = Program(make.operator(*ALL, username="deploy"))
    program.post("queues/pause", queue="q", new=True, reason="release")
    entry = AuditEntry.objects.get(action="pause_queue")
    assert (entry.by, entry.reason) == ("deploy", "release")
