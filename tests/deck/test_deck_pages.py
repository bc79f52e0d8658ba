"""The frame of the Deck, and its pages of queues, fleet and circuits: who may, each act, odd names."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.test import AsyncClient, Client, override_settings
from django.urls import path, reverse

import chokaq_django
from chokaq_django import control
from chokaq_django.deck.history import MOST_ACTS
from chokaq_django.deck.page import DeckPage
from chokaq_django.deck.pages import PAGES
from chokaq_django.models import AuditEntry, Circuit, Queue, Worker
from tests import factories as make

from .pages import MODELS, inline_code, list_of, page_of

LIVE = ("changelist", "queues", "fleet", "circuits")
XSS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><svg onload=alert(1)>"]
ODD = ["a/b?c#d%41 e", "..", "%2e%2e", "naïve 🎉", " blanks ", "O'Brien;--", "{{ 7 }}${7}", *XSS]
STATIC = Path(chokaq_django.__file__).parent / "static/chokaq"


def address(where: str, **query: str) -> str:
    found = reverse(f"admin:chokaq_deck_{where}")
    return f"{found}?{urlencode(query)}" if query else found


def act(client: Client, where: str, verb: str, query: dict[str, str] | None = None, **fields: str) -> Any:
    """As a script sends a form."""
    return client.post(address(where, **(query or {})), {"act": verb, **fields}, headers={"Accept": "application/json"})


def told(response: Any) -> list[str]:
    return [message["text"] for message in response.json()["messages"]]


def config_of(html: str) -> dict[str, Any]:
    block = html.split('<script id="chokaq-config" type="application/json">')[1].split("</script>")[0]
    found: dict[str, Any] = json.loads(block)
    return found


# -- the frame ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", LIVE)
def test_pages_are_shown_to_those_who_may_look(viewer: Client, where: str) -> None:
    html = viewer.get(address(where)).content.decode()
    assert inline_code(html) == []
    assert "chokaq/deck/theme.js" in html
    config = config_of(html)
    assert config["topics"] == ["overview"]
    assert config["permissions"] == ["view_deck"]
    assert config["lag"] == {"warning": 5.0, "critical": 10.0}
    assert config["urls"]["queue"] == address("queue")
    assert config["urls"]["job"] == reverse("admin:chokaq_deck_job", args=["_id_"])
    assert config["csrf"]


@pytest.mark.parametrize("where", [*LIVE, "queue"])
def test_pages_are_refused_to_everybody_else(db: None, client: Client, where: str) -> None:
    place = address(where, name="mail") if where == "queue" else address(where)
    assert client.get(place).status_code == 302  # to the login
    client.force_login(make.operator(username="clerk"))
    assert client.get(place).status_code == 403
    assert client.post(place, {"act": "pause", "name": "mail"}).status_code == 403
    client.force_login(make.operator("view_deck", username="guest", is_staff=False))
    assert client.get(place).status_code == 302
    assert not Queue.objects.exists()


def test_the_navigation_leads_to_every_page_and_marks_this_one(deck: Client) -> None:
    html = deck.get(address("fleet")).content.decode()
    nav = html.split('<nav class="chokaq-nav"')[1].split("</nav>")[0]
    for page in (*LIVE, "bulk", "health"):
        assert f'href="{address(page)}"' in nav
    for model in ("jobhot", "jobarchive", "jobdlq", "jobtrash", "auditentry"):
        assert f'href="{list_of(model)}"' in nav
    current = nav.split('aria-current="page"')
    assert len(current) == 2
    assert address("fleet") in current[0].rsplit("<a ", 1)[1]


@pytest.mark.parametrize("model", MODELS)
def test_admins_lists_stand_in_the_frame(deck: Client, model: str) -> None:
    html = deck.get(list_of(model)).content.decode()
    assert html.count('<nav class="chokaq-nav"') == 1
    assert html.count('aria-current="page"') == 1
    assert "nav-sidebar" not in html.split("<body")[1]  # admin's own
    assert inline_code(html) == []


def test_pages_of_one_row_stand_in_the_frame(deck: Client) -> None:
    html = deck.get(page_of(make.queue("mail"))).content.decode()
    assert html.count('<nav class="chokaq-nav"') == 1
    assert inline_code(html) == []


def test_an_admin_theme_needs_no_more_than_the_usual_blocks(deck: Client, tmp_path: Path, settings: Any) -> None:
    """A project whose admin/base.html has no side bar, no titles and no breadcrumbs: the Deck stands in its content."""
    (tmp_path / "admin").mkdir()
    (tmp_path / "admin/base.html").write_text(
        "<!DOCTYPE html><html><head>{% block extrastyle %}{% endblock %}{% block extrahead %}{% endblock %}</head>"
        "<body class='{% block bodyclass %}{% endblock %}'>{% block content %}{% endblock %}</body></html>"
    )
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    for place in (address("changelist"), list_of("jobdlq")):
        html = deck.get(place).content.decode()
        assert "<h1>" in html
        assert '<nav class="chokaq-nav"' in html
        assert "chokaq/deck/themes.css" in html


def test_a_site_of_ones_own(viewer: Client, settings: Any) -> None:
    """Everything on its pages leads to its pages, not to those of the usual site."""
    site = AdminSite(name="ops")
    for model, model_admin in admin.site._registry.items():
        site.register(model, type(model_admin))
    urls = ModuleType("urls")
    urls.urlpatterns = [path("ops/", site.urls), path("admin/", admin.site.urls)]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urls
    for place in ("/ops/chokaq/deck/", "/ops/chokaq/deck/queue/?name=mail", "/ops/chokaq/jobdlq/"):
        html = viewer.get(place).content.decode()
        inside = html.split('<div class="chokaq-frame">')[1].split("</main>")[0]
        assert "/ops/chokaq/deck/queues/" in inside
        assert "/admin/" not in inside
        if "deck" in place:
            assert all(found.startswith("/ops/") for found in config_of(html)["urls"].values())


def test_under_wsgi_the_page_knows_that_there_is_no_socket(deck: Client) -> None:
    assert config_of(deck.get(address("changelist")).content.decode())["socket"] == ""


def test_with_sessions_that_are_cookies_the_page_polls(db: None, settings: Any) -> None:
    """And says so, instead of trying sockets that are refused."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    client, browser = AsyncClient(), Client()
    browser.force_login(make.operator("view_deck", username="cookie"))
    client.cookies = browser.cookies
    html = async_to_sync(client.get)(address("changelist")).content.decode()
    assert config_of(html)["socket"] == ""
    snapshot = reverse("admin:chokaq_deck_data_snapshot")
    answer = browser.get(snapshot, {"topic": "overview"})
    assert (answer.status_code, answer.json().get("reason")) == (200, None)
    assert answer.json()["messages"][0]["mode"] == "poll"
    browser.logout()
    assert browser.get(snapshot, {"topic": "overview"}).status_code == 401


def test_under_asgi_it_knows_where_the_socket_is(viewer: Client) -> None:
    client = AsyncClient()
    client.cookies = viewer.cookies
    html = async_to_sync(client.get)(address("changelist")).content.decode()
    assert config_of(html)["socket"] == "/ws/chokaq/deck/"


def test_texts_of_scripts_come_from_djangos_catalogue(viewer: Client) -> None:
    response = viewer.get(reverse("admin:chokaq_deck_jsi18n"))
    assert response["Content-Type"].startswith("text/javascript")
    assert b"gettext" in response.content


def test_vendored_scripts_are_what_the_list_says() -> None:
    lines = (STATIC / "vendor/README.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in lines if line.startswith("| `")]
    assert len(rows) == 3
    for row in rows:
        assert hashlib.sha256((STATIC / "vendor" / row[1]).read_bytes()).hexdigest() == row[5]
    code = {str(p.relative_to(STATIC / "vendor")) for p in STATIC.glob("vendor/*/*") if "LICENSE" not in p.name}
    assert code == {row[1] for row in rows}


def test_no_page_hides_an_act_behind_get(deck: Client) -> None:
    make.queue("mail")
    for page in LIVE:
        deck.get(address(page), {"act": "pause", "name": "mail"})
    assert not AuditEntry.objects.exists()


# -- queues ------------------------------------------------------------------------------------------------------------


def test_switches_of_queues(deck: Client) -> None:
    make.queue("mail")
    assert told(act(deck, "queues", "pause", name="mail", reason="partner is down")) == ["Paused: mail."]
    assert Queue.objects.get().is_paused
    assert AuditEntry.objects.get().reason == "partner is down"
    assert told(act(deck, "queues", "pause", name="mail")) == ["mail: The queue is paused already."]
    assert told(act(deck, "queues", "resume", name="mail")) == ["Resumed: mail."]
    assert told(act(deck, "queues", "hide", name="mail")) == ["Hidden: mail."]
    assert not Queue.objects.get().is_active
    assert told(act(deck, "queues", "show", name="mail")) == ["Shown again: mail."]
    actions = list(AuditEntry.objects.order_by("at", "id").values_list("action", "by"))
    assert actions == [(f"{verb}_queue", "grace") for verb in ("pause", "resume", "hide", "show")]


def test_a_script_gets_the_messages_in_the_place_of_a_redirect(deck: Client) -> None:
    make.queue("mail")
    assert act(deck, "queues", "pause", name="mail").json() == {
        "messages": [{"level": "success", "text": "Paused: mail."}],
        "url": address("queues"),
    }
    again = act(deck, "queues", "pause", name="mail").json()
    assert again["messages"] == [{"level": "warning", "text": "mail: The queue is paused already."}]
    assert "Paused: mail." not in deck.get(address("queues")).content.decode()  # said once


def test_a_plain_form_is_led_back_to_its_page(deck: Client) -> None:
    make.queue("mail")
    response = deck.post(address("queues"), {"act": "pause", "name": "mail"}, follow=True)
    assert response.redirect_chain == [(address("queues"), 302)]
    assert "Paused: mail." in response.content.decode()


@pytest.mark.parametrize("where", LIVE)
def test_unknown_acts_are_refused(deck: Client, where: str) -> None:
    for verb in ("", "destroy", "_turn", "é"):
        assert told(act(deck, where, verb)) == ["This page knows no such act."]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("where", "verb", "fields"),
    [
        ("queues", "pause", {"name": "mail"}),
        ("queues", "resume", {"name": "held"}),
        ("queues", "hide", {"name": "mail"}),
        ("queues", "show", {"name": "old"}),
        ("fleet", "drain", {"worker": "worker-1"}),
        ("fleet", "stop", {"worker": "worker-1"}),
        ("fleet", "concurrency", {"worker": "worker-1", "concurrency": "3"}),
        ("circuits", "open", {"type": "test.note"}),
        ("circuits", "close", {"type": "test.fail"}),
        ("circuits", "reset", {"type": "test.fail"}),
    ],
)
def test_who_may_only_look_may_not_act(viewer: Client, where: str, verb: str, fields: dict[str, str]) -> None:
    make.queue("mail"), make.queue("held", is_paused=True), make.queue("old", is_active=False), make.worker()
    make.circuit("test.fail", state=Circuit.OPEN, failures=5)
    rows = [list(model.objects.values()) for model in (Queue, Worker, Circuit)]
    assert act(viewer, where, verb, **fields).status_code == 403
    assert [list(model.objects.values()) for model in (Queue, Worker, Circuit)] == rows
    assert not AuditEntry.objects.exists()


def test_forms_carry_a_token(deck: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = deck.cookies
    make.queue("mail")
    assert strict.post(address("queues"), {"act": "pause", "name": "mail"}).status_code == 403
    token = config_of(strict.get(address("queues")).content.decode())["csrf"]
    sent = strict.post(address("queues"), {"act": "pause", "name": "mail"}, headers={"X-CSRFToken": token})
    assert sent.status_code == 302
    assert Queue.objects.get().is_paused


@pytest.mark.parametrize("name", ["", "two words", "-x", "a" * 256, "nul\x00", "<b>x</b>"])
def test_a_name_that_no_queue_may_have(deck: Client, name: str) -> None:
    (message,) = told(act(deck, "queues", "pause", name=name))
    assert "queue" in message
    assert not Queue.objects.exists()


# -- one queue ---------------------------------------------------------------------------------------------------------


def test_a_queue_shows_its_limits_and_its_audit(deck: Client) -> None:
    make.queue("mail", max_workers=4, window_start="22:00", window_end="06:00", window_zone="Europe/Berlin")
    act(deck, "queues", "pause", name="mail", reason="partner is down")
    html = deck.get(address("queue", name="mail")).content.decode()
    assert config_of(html)["topics"] == ["queue:mail"]
    assert config_of(html)["queue"] == "mail"
    assert 'value="4"' in html
    assert 'value="22:00-06:00 Europe/Berlin"' in html
    assert "partner is down" in html
    assert "?queue=mail" in html


@pytest.mark.parametrize(("verb", "word"), [("pause", "Paused"), ("hide", "Hidden")])
def test_a_held_queue_says_who_holds_it_and_why(deck: Client, verb: str, word: str) -> None:
    act(deck, "queues", verb, name="mail", reason="month end")
    html = deck.get(address("queue", name="mail")).content.decode()
    held = html[html.index('id="chokaq-queue-held"') : html.index('id="chokaq-panels"')]
    for text in (word, f"by {AuditEntry.objects.get().by}", "month end"):
        assert text in held
    act(deck, "queues", "resume" if verb == "pause" else "show", name="mail")
    html = deck.get(address("queue", name="mail")).content.decode()
    assert "chokaq-notice" not in html[html.index('id="chokaq-queue-held"') : html.index('id="chokaq-panels"')]


def test_who_holds_a_queue_is_found_behind_many_later_acts(deck: Client) -> None:
    act(deck, "queues", "pause", name="mail", reason="month end")
    control.pause_queue("other", by="ada", reason="of another queue")
    paused = AuditEntry.objects.get(target="mail")
    for number in range(2 * MOST_ACTS):
        make.audit_entry(action="set_queue", target="mail", at=paused.at + dt.timedelta(seconds=number + 1))
    html = deck.get(address("queue", name="mail")).content.decode()
    held = html[html.index('id="chokaq-queue-held"') : html.index('id="chokaq-panels"')]
    assert "Paused" in held
    assert f"by {paused.by}" in held
    assert "month end" in held


def test_a_queue_that_is_not_there_yet_begins_with_its_settings(deck: Client) -> None:
    with override_settings(CHOKAQ={"QUEUES": {"reports": {"MAX_WORKERS": 2, "WINDOW": "01:00-05:00 UTC"}}}):
        html = deck.get(address("queue", name="reports")).content.decode()
    assert 'value="2"' in html
    assert 'value="01:00-05:00 UTC"' in html
    assert not Queue.objects.exists()


def test_without_a_name_there_is_no_queue(deck: Client) -> None:
    assert deck.get(address("queue"))["Location"] == address("queues")
    assert deck.get(address("queue", name="x" * 256)).status_code == 404
    assert deck.get(address("queue", name="a\x00b")).status_code == 404


def test_limits_are_set(deck: Client) -> None:
    make.queue("mail", max_workers=4)
    form = {
        "max_workers": "2",
        "execution_timeout": "90.5",
        "zombie_timeout": "",
        "window": "22:00-06:00 Europe/Berlin",
    }
    response = act(deck, "queue", "limits", {"name": "mail"}, reason="night", **form)
    assert response.json()["url"] == address("queue", name="mail")
    assert told(response) == ["The new limits hold; workers take them up within seconds."]
    row = Queue.objects.get()
    assert (row.max_workers, row.execution_timeout, row.zombie_timeout) == (2, 90.5, None)
    assert (str(row.window_start), str(row.window_end), row.window_zone) == ("22:00:00", "06:00:00", "Europe/Berlin")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.reason) == ("set_queue", "night")
    assert json.loads(entry.details)["max_workers"] == {"from": 4, "to": 2}
    nothing = act(deck, "queue", "limits", {"name": "mail"}, **form)
    assert told(nothing) == ["Nothing was changed: these are its limits already."]
    off = act(
        deck, "queue", "limits", {"name": "mail"}, max_workers="", execution_timeout="", zombie_timeout="", window=""
    )
    assert told(off) == ["The new limits hold; workers take them up within seconds."]
    row.refresh_from_db()
    assert (row.max_workers, row.execution_timeout, row.window_start, row.window_zone) == (None, None, None, None)
    assert AuditEntry.objects.count() == 2


def test_limits_are_given_back(deck: Client, viewer: Client, settings: Any) -> None:
    settings.CHOKAQ = {"QUEUES": {"mail": {"MAX_WORKERS": 4, "WINDOW": "22:00-06:00 Europe/Berlin"}}}
    page, mark = address("queue", name="mail"), "chokaq-own-limits"
    assert mark not in deck.get(page).content.decode(), "there is no row"
    row = make.queue("mail", max_workers=4, window_start="22:00", window_end="06:00", window_zone="Europe/Berlin")
    act(deck, "queue", "pause", {"name": "mail"})
    assert mark not in deck.get(page).content.decode(), "it is as the settings say"
    Queue.objects.update(max_workers=3)
    assert "settings say otherwise" in deck.get(page).content.decode()
    act(deck, "queue", "limits", {"name": "mail"}, max_workers="2", execution_timeout="", zombie_timeout="", window="")
    text = deck.get(page).content.decode()
    assert "grace has set limits here" in text
    assert "Jobs at once: <strong>4</strong>;" in " ".join(text.split())
    assert "22:00-06:00 Europe/Berlin</strong>" in text
    assert 'value="reset"' in text
    seen = viewer.get(page).content.decode()
    assert (mark in seen, 'value="reset"' in seen) == (True, False)
    reset = act(deck, "queue", "reset", {"name": "mail"}, reason="over")
    assert told(reset) == ["It follows the settings again: mail."]
    row.refresh_from_db()
    assert (row.max_workers, row.window_zone, row.is_paused, row.updated_by) == (4, "Europe/Berlin", True, None)
    assert AuditEntry.objects.get(action="reset_queue").reason == "over"
    assert mark not in deck.get(page).content.decode()
    assert told(act(deck, "queue", "reset", {"name": "mail"}))[0].startswith("mail: Nobody has set its limits")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("max_workers", "0", "to stop a queue, pause it"),
        ("max_workers", "x", "whole number"),
        ("max_workers", "99999999999999999999", "must be from 1 to 1,000,000"),
        ("execution_timeout", "-1", "must be more than 0"),
        ("execution_timeout", "nan", "Enter a number"),
        ("zombie_timeout", "0.1", "must be longer than the time between heartbeats"),
        ("window", "at night", "22:00-06:00 Europe/Berlin"),
        ("window", "22:00-06:00 Middle/Earth", "must name a time zone"),
        ("window", '"><script>alert(1)</script>', "22:00-06:00 Europe/Berlin"),
    ],
)
def test_bad_limits_are_said_beside_their_field(deck: Client, field: str, value: str, words: str) -> None:
    make.queue("mail", max_workers=4)
    form = {"max_workers": "4", "execution_timeout": "", "zombie_timeout": "", "window": "", field: value}
    response = act(deck, "queue", "limits", {"name": "mail"}, **form)
    assert response.status_code == 422
    assert words in str(response.context["form"].errors[field])
    html = response.content.decode()
    assert 'aria-invalid="true"' in html
    assert "<script>alert" not in html
    row = Queue.objects.get()
    assert (row.max_workers, row.execution_timeout, row.zombie_timeout, row.window_zone) == (4, None, None, None)
    assert not AuditEntry.objects.exists()


def test_limits_are_not_for_those_who_may_only_look(viewer: Client) -> None:
    make.queue("mail")
    html = viewer.get(address("queue", name="mail")).content.decode()
    assert "Set these limits" not in html
    assert html.count("disabled") == 5
    assert act(viewer, "queue", "limits", {"name": "mail"}, max_workers="3").status_code == 403
    assert Queue.objects.get().max_workers is None


def test_the_page_of_a_queue_has_its_switches(deck: Client) -> None:
    make.queue("mail")
    make.queue("other")
    assert told(act(deck, "queue", "pause", {"name": "mail"}, name="other")) == ["Paused: mail."]
    assert Queue.objects.get(pk="mail").is_paused
    assert not Queue.objects.get(pk="other").is_paused


@pytest.mark.parametrize("name", ODD)
def test_odd_names_of_queues(deck: Client, name: str) -> None:
    """Whoever writes rows by other means may give a queue any name: its page opens, its switches work, nothing runs."""
    make.queue(name)
    make.hot(queue=name)
    html = deck.get(address("queue", name=name)).content.decode()
    config = config_of(html)
    assert (config["queue"], config["topics"]) == (name, [f"queue:{name}"])
    assert not any(text in html for text in XSS)
    assert inline_code(html) == []
    said = told(act(deck, "queue", "pause", {"name": name}))
    if name == name.strip():
        assert Queue.objects.get(pk=name).is_paused
        assert said == [f"Paused: {name}."]
    html = deck.get(address("queue", name=name)).content.decode()
    assert not any(text in html for text in XSS)


# -- fleet -------------------------------------------------------------------------------------------------------------


def test_what_may_be_asked_of_a_worker(deck: Client) -> None:
    row = make.worker("w/1 #🎉")
    assert told(act(deck, "fleet", "concurrency", worker=row.pk, concurrency=" 25 "))[0].startswith("Asked to run")
    row.refresh_from_db()
    assert row.desired_concurrency == 25
    assert told(act(deck, "fleet", "drain", worker=row.pk, reason="upgrade"))[0].startswith("Asked to claim nothing")
    row.refresh_from_db()
    assert row.desired_concurrency == 0
    assert told(act(deck, "fleet", "stop", worker=row.pk))[0].startswith("Asked to stop")
    row.refresh_from_db()
    assert row.stop_requested
    assert told(act(deck, "fleet", "stop", worker=row.pk)) == [f"{row.pk}: The worker was asked to stop already."]
    acts = list(AuditEntry.objects.order_by("at", "id").values_list("action", "reason"))
    assert acts == [("set_concurrency", ""), ("drain_worker", "upgrade"), ("stop_worker", "")]


@pytest.mark.parametrize("number", ["", "x", "-1", "0", "1.5", "1e3", "99999999999", "٣", "10001"])
def test_bad_concurrency(deck: Client, number: str) -> None:
    make.worker()
    (message,) = told(act(deck, "fleet", "concurrency", worker="worker-1", concurrency=number))
    assert message.startswith("concurrency must be")
    assert Worker.objects.get().desired_concurrency is None


@pytest.mark.parametrize("worker_id", ["gone", "", "nul\x00", "x" * 300, "<script>alert(1)</script>"])
def test_workers_that_are_not_there(deck: Client, worker_id: str) -> None:
    (message,) = told(act(deck, "fleet", "stop", worker=worker_id))
    assert "no worker" in message or "worker_id" in message
    assert "<script>alert" not in deck.get(address("fleet")).content.decode()


# -- circuits ----------------------------------------------------------------------------------------------------------


def test_the_operators_hand_on_circuits(deck: Client) -> None:
    assert told(act(deck, "circuits", "open", type="crm.push/contact+v2", reason="they asked")) == [
        "Opened, until somebody closes it: crm.push/contact+v2."
    ]
    circuit = Circuit.objects.get()
    assert (circuit.state, circuit.forced) == (Circuit.OPEN, True)
    assert told(act(deck, "circuits", "close", type=circuit.pk)) == ["Closed: crm.push/contact+v2."]
    make.circuit("test.fail", failures=3)
    assert told(act(deck, "circuits", "reset", type="test.fail")) == ["Failures forgotten: test.fail."]
    assert Circuit.objects.get(pk="test.fail").failures == 0
    acts = list(AuditEntry.objects.order_by("at", "id").values_list("action", "reason"))
    assert acts == [("open_circuit", "they asked"), ("close_circuit", ""), ("reset_circuit", "")]


@pytest.mark.parametrize("key", ["", "two words", "nul\x00", "x" * 300, *XSS])
def test_types_that_no_job_may_have(deck: Client, key: str) -> None:
    (message,) = told(act(deck, "circuits", "open", type=key))
    assert message.startswith("type ")
    assert not Circuit.objects.exists()


def test_a_form_for_types_is_there_for_those_who_may(deck: Client, viewer: Client) -> None:
    assert "Open the circuit" in deck.get(address("circuits")).content.decode()
    assert "Open the circuit" not in viewer.get(address("circuits")).content.decode()


def test_every_page_has_a_template_and_a_name_of_its_own() -> None:
    assert all(issubclass(page, DeckPage) for page in PAGES)
    assert len({page.name for page in PAGES}) == len(PAGES)
    assert len({page.route for page in PAGES}) == len(PAGES)
