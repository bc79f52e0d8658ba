"""The pages of options: what they show, each form, who may, and what asks before it deletes."""

from __future__ import annotations

import datetime as dt
import html
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chokaq_django import control
from chokaq_django.conf.text import duration_text, read_value, show_value
from chokaq_django.models import AuditEntry, FailureReason, RetentionMark, Setting
from tests import factories as make

from .pages import inline_code

pytestmark = [pytest.mark.django_db, pytest.mark.any_engine]

SETTINGS = "/admin/chokaq/deck/settings/"
RETENTION = "/admin/chokaq/deck/retention/"
XSS = "<img src=x onerror=alert(1)>"
DAY = dt.timedelta(days=1)


@pytest.fixture(autouse=True)
def plain(settings: Any) -> None:
    settings.CHOKAQ = {}


def text_of(client: Client, address: str, **query: str) -> str:
    response = client.get(address, query)
    assert response.status_code == 200
    text = str(response.content.decode())
    assert inline_code(text) == []
    assert XSS not in text
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def send(client: Client, address: str, act: str, **fields: str) -> Any:
    return client.post(address, {"act": act, **fields})


def messages_of(client: Client, response: Any) -> list[str]:
    assert response.status_code == 302
    followed = client.get(response["Location"])
    return [str(message) for message in followed.context["messages"]]


def stored() -> dict[str, str]:
    return dict(Setting.objects.values_list("name", "value"))


# -- settings ----------------------------------------------------------------------------------------------------------


def test_every_option_is_shown_with_where_it_comes_from(viewer: Client, settings: Any) -> None:
    settings.CHOKAQ = {"WORKER": {"CONCURRENCY": 7}, "MIDDLEWARE": ["shop.middleware.tenant"]}
    control.set_setting("DECK.LAG_WARNING", 8, by="grace")
    text = text_of(viewer, SETTINGS)
    assert re.search(r"CONCURRENCY .*? 7 project ASYNC_CONCURRENCY 100 default", text)
    assert "MIDDLEWARE shop.middleware.tenant project" in text
    assert "MAX_PAYLOAD_BYTES 1,000,000 default" in text
    assert "LAG_WARNING 8 s operator LAG_CRITICAL 10 s default" in text
    assert re.search(r"DECK\.LAG_WARNING 8 s 5 s grace", text), "who, and what it would be"
    assert "ARCHIVE 30 d default" in text
    assert "DLQ for ever default" in text
    assert "Workers read it when they start." in text


def test_a_limit_that_somebody_has_set_leads_to_its_queue(deck: Client, settings: Any) -> None:
    name = "a.b:c"
    settings.CHOKAQ = {"QUEUES": {name: {"MAX_WORKERS": 2}, "paused": {"MAX_WORKERS": 2}}}
    for queue in (name, "paused"):
        make.queue(queue, max_workers=2)
    control.set_queue(name, by="ada", max_workers=9)
    control.pause_queue("paused", by="bob")
    page = deck.get(SETTINGS).content.decode()
    there = f"{reverse('admin:chokaq_deck_queue')}?name=a.b%3Ac"
    assert f'href="{there}"' in page
    assert "?name=paused" not in page
    assert "ada has set limits here" in deck.get(there).content.decode()
    control.reset_queue(name, by="bob")
    assert "?name=a.b" not in deck.get(SETTINGS).content.decode()


def test_the_form_of_an_option(deck: Client) -> None:
    text = text_of(deck, SETTINGS, name="CIRCUIT.BREAK")
    assert "CIRCUIT.BREAK now 30 s" in text
    assert 'value="30 s"' in deck.get(SETTINGS, {"name": "CIRCUIT.BREAK"}).content.decode()
    response = send(deck, SETTINGS, "set", name="CIRCUIT.BREAK", value="2 min", why="partner is slow")
    assert messages_of(deck, response) == ["Set: CIRCUIT.BREAK. Every process follows within seconds."]
    assert stored() == {"CIRCUIT.BREAK": "120.0"}
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.by, entry.reason) == ("set_setting", "grace", "partner is slow")
    response = send(deck, SETTINGS, "reset", name="CIRCUIT.BREAK")
    assert messages_of(deck, response) == ["Reset: CIRCUIT.BREAK. Every process follows within seconds."]
    assert stored() == {}
    assert response["Location"] == SETTINGS, "the form is closed"


@pytest.mark.parametrize(
    "value",
    ["{bad", "true", '"\\ud800"', '["\\udfff"]', "1e999", "NaN", "9" * 400, "[" * 900 + "]" * 900, f'"{XSS}"'],
)  # fmt: skip
def test_a_value_that_nobody_should_have_stored(deck: Client, value: str) -> None:
    names = [
        "DECK.LAG_WARNING",
        "CIRCUIT.FAILURES",
        "RETRY.MULTIPLIER",
        "RETENTION.ARCHIVE",
        "WORKER.CONCURRENCY",
        "NO.NE",
    ]
    for name in names:
        Setting.objects.create(name=name, value=value, updated_at=timezone.now())
    text_of(deck, SETTINGS, name="DECK.LAG_WARNING")
    text_of(deck, RETENTION, name="RETENTION.ARCHIVE")
    for name in names:
        control.reset_setting(name, by="grace")
    assert stored() == {}


@pytest.mark.parametrize(("name", "value", "said"), [
    ("DECK.LAG_WARNING", "soon", "must be a time such as 30 d, 12 h, 90 min or 2.5 s, got 'soon'"),
    ("DECK.LAG_WARNING", "none", "must be a time such as"),
    ("DECK.LAG_WARNING", "0", "must be more than 0"),
    ("DECK.LAG_WARNING", "20 s", "(20 s) must be below DECK.LAG_CRITICAL (10 s)"),
    ("CIRCUIT.FAILURES", "2.5", "must be a whole number of at least 1"),
    ("RETRY.MULTIPLIER", "x", "must be a number"),
    ("HEALTH.DEAD_PER_HOUR", "-1", "must be a whole number of at least 1, or none"),
    ("WORKER.CONCURRENCY", "5", "cannot be changed while everything runs. Workers read it when they start."),
    (XSS, "5", "is not an option"),
])  # fmt: skip
def test_a_wrong_value_comes_back_with_what_is_wrong(deck: Client, name: str, value: str, said: str) -> None:
    response = send(deck, SETTINGS, "set", name=name, value=value, why=XSS)
    assert response.status_code == 422
    text = response.content.decode()
    assert XSS not in text
    shown = html.unescape(text) + " ".join(map(str, response.context["messages"]))
    assert said in shown
    assert stored() == {}
    assert not AuditEntry.objects.exists()


def test_a_reset_that_contradicts_is_refused(deck: Client) -> None:
    control.set_setting("DECK.LAG_CRITICAL", 100, by="ada")
    control.set_setting("DECK.LAG_WARNING", 50, by="ada")
    response = send(deck, SETTINGS, "reset", name="DECK.LAG_CRITICAL")
    (said,) = messages_of(deck, response)
    assert "contradicts the rest: DECK.LAG_WARNING (50 s) must be below DECK.LAG_CRITICAL (10 s)" in said
    assert len(stored()) == 2


def test_what_an_operator_set_and_nobody_follows_is_shown_and_can_be_reset(deck: Client) -> None:
    Setting.objects.create(name=f"OLD.{XSS}", value="1", updated_at=timezone.now(), updated_by=XSS)
    assert "Not followed: is not an option" in text_of(deck, SETTINGS)
    send(deck, SETTINGS, "reset", name=f"OLD.{XSS}")
    assert stored() == {}


def test_an_unknown_option_has_no_form(deck: Client) -> None:
    for name in ("DECK.LAG", "WORKER.CONCURRENCY", XSS, "\x00"):
        response = deck.get(SETTINGS, {"name": name})
        assert response.status_code == 200
        assert response.context["form"] is None
        assert XSS not in response.content.decode()


@pytest.mark.parametrize("address", [SETTINGS, RETENTION])
def test_who_may_not_operate_is_offered_nothing_and_refused(viewer: Client, address: str) -> None:
    control.set_setting("RETENTION.DLQ_BY_QUEUE.mail", 60, by="ada")
    page = viewer.get(address, {"name": "RETENTION.ARCHIVE"}).content.decode()
    assert "Change</a>" not in page
    assert 'value="set"' not in page
    assert 'value="add"' not in page
    before = stored()
    for fields in (
        {"act": "set", "name": "RETENTION.ARCHIVE", "value": "90 d"},
        {"act": "reset", "name": "RETENTION.DLQ_BY_QUEUE.mail"},
        {"act": "add", "kind": "RETENTION.DLQ_BY_QUEUE", "whose": "mail", "value": "1 d"},
    ):
        response = viewer.post(address, fields)
        assert response.status_code == 403 or "knows no such act" in "".join(messages_of(viewer, response))
    assert stored() == before


@pytest.mark.parametrize("address", [SETTINGS, RETENTION])
def test_others_see_nothing(client: Client, address: str) -> None:
    assert client.get(address).status_code == 302
    client.force_login(make.operator("operate", username="no-viewer"))
    assert client.get(address).status_code == 403
    assert client.post(address, {"act": "set", "name": "DECK.LAG_WARNING", "value": "7 s"}).status_code == 403
    assert stored() == {}


def test_a_form_without_its_token_is_refused() -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(make.operator("view_deck", "operate"))
    assert send(strict, SETTINGS, "set", name="DECK.LAG_WARNING", value="7 s").status_code == 403
    assert stored() == {}


def test_looking_changes_nothing(deck: Client) -> None:
    deck.get(SETTINGS, {"act": "set", "name": "DECK.LAG_WARNING", "value": "7 s"})
    deck.get(RETENTION, {"act": "add", "kind": "RETENTION.DLQ_BY_QUEUE", "whose": "mail", "value": "1 d"})
    assert (stored(), RetentionMark.objects.count()) == ({}, 0)


# -- retention ---------------------------------------------------------------------------------------------------------


def test_rules_with_what_the_next_pass_deletes_and_the_last_one_did(viewer: Client, settings: Any) -> None:
    settings.CHOKAQ = {"RETENTION": {"DLQ_BY_QUEUE": {"mail": 86_400.0}}}
    now = timezone.now()
    for _ in range(3):
        make.archived(finished_at=now - 40 * DAY)
        make.dead(queue="mail", failed_at=now - 3 * DAY)
    make.dead(queue="mail", failed_at=now - 3 * DAY, failure_reason=FailureReason.EXPIRED)
    make.archived(finished_at=now)
    make.purged(expires_at=now + DAY)
    RetentionMark.objects.create(name="RETENTION.ARCHIVE", place="archive", passed_at=now, removed=1_234, total=56_789)
    text = text_of(viewer, RETENTION)
    assert "Archive 30 d default 3 1,234 56,789" in text
    assert "Dead · reason Expired 7 d default 0 – –" in text
    assert "Dead · queue mail 1 d project 3 – –" in text
    assert "Dead for ever default – – –" in text
    assert re.search(r"Next pass deletes 6 ", text)
    assert re.search(r"Trash 1 the next goes in (24 h|1 d)", text)
    assert "No pass has ended" not in text


def test_that_no_pass_has_ended_is_said(viewer: Client) -> None:
    assert "No pass has ended yet." in text_of(viewer, RETENTION)
    RetentionMark.objects.create(name="RETENTION.TRASH", place="", passed_at=timezone.now() - DAY)
    assert "No pass has ended for more than two hours." in text_of(viewer, RETENTION)


def test_the_last_pass_is_told_without_use_tz(viewer: Client, settings: Any) -> None:
    RetentionMark.objects.create(name="RETENTION.TRASH", place="", passed_at=dt.datetime.now(dt.UTC) - DAY)
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    assert "No pass has ended for more than two hours." in text_of(viewer, RETENTION)


def test_a_rule_is_added_changed_and_removed(deck: Client) -> None:
    response = send(deck, RETENTION, "add", kind="RETENTION.DLQ_BY_TYPE", whose=" email.send.v1 ", value="12 h", why="")
    assert messages_of(deck, response) == [
        "Set: RETENTION.DLQ_BY_TYPE.email.send.v1. Every process follows within seconds."
    ]
    assert "Dead · type email.send.v1 12 h operator grace" in text_of(deck, RETENTION)
    form = deck.get(RETENTION, {"name": "RETENTION.DLQ_BY_TYPE.email.send.v1"}).content.decode()
    assert 'value="12 h"' in form
    assert "Remove the rule" in form
    send(deck, RETENTION, "set", name="RETENTION.DLQ_BY_TYPE.email.send.v1", value="none")
    assert stored() == {"RETENTION.DLQ_BY_TYPE.email.send.v1": "null"}
    response = send(deck, RETENTION, "reset", name="RETENTION.DLQ_BY_TYPE.email.send.v1")
    assert response["Location"] == RETENTION
    assert stored() == {}


@pytest.mark.parametrize(("kind", "whose", "value", "said"), [
    ("RETENTION.DLQ_BY_QUEUE", "a b", "1 d", "which is no queue name"),
    ("RETENTION.DLQ_BY_QUEUE", "", "1 d", "is a set of rules: name one of them"),
    ("RETENTION.DLQ_BY_REASON", "Expird", "1 d", "unknown failure reason; did you mean 'Expired'?"),
    ("RETENTION.DLQ_BY_TYPE", "a.v1", "for long", "must be a time such as"),
    ("RETENTION.ARCHIVE_BY_TYPE", XSS, "1 d", "which is no type key"),
    ("WORKER.CONCURRENCY", "mail", "1 d", "cannot be changed while everything runs"),
    (XSS, "mail", "1 d", "is not an option"),
])  # fmt: skip
def test_a_rule_that_is_none_is_refused(deck: Client, kind: str, whose: str, value: str, said: str) -> None:
    response = send(deck, RETENTION, "add", kind=kind, whose=whose, value=value, why=XSS)
    assert response.status_code == 422
    text = response.content.decode()
    assert XSS not in text
    assert said in html.unescape(text)
    assert stored() == {}


def confirmation_of(page: str) -> str:
    found = re.search(r'name="confirmed"\s+value="([^"]*)"', page)
    assert found is not None
    return html.unescape(found[1])


def test_what_would_delete_asks_first(deck: Client) -> None:
    """Once, for this very value."""
    for _ in range(3):
        make.archived(finished_at=timezone.now() - 20 * DAY)
    response = send(deck, RETENTION, "set", name="RETENTION.ARCHIVE", value="10 d", why="disk")
    assert response.status_code == 422
    page = response.content.decode()
    assert "would delete 3 jobs by this" in page
    assert 'value="disk"' in page
    confirmed = confirmation_of(page)
    other = send(deck, RETENTION, "set", name="RETENTION.ARCHIVE", value="5 d", confirmed=confirmed)
    assert (other.status_code, stored()) == (422, {})
    send(deck, RETENTION, "set", name="RETENTION.ARCHIVE", value="10 d", confirmed=confirmed)
    assert stored() == {"RETENTION.ARCHIVE": "864000.0"}


def test_who_may_not_operate_is_not_told_what_would_go(viewer: Client) -> None:
    control.set_setting("RETENTION.ARCHIVE_BY_QUEUE.mail", None, by="ada")
    make.archived(queue="mail", finished_at=timezone.now() - 40 * DAY)
    for fields in (
        {"act": "set", "name": "RETENTION.ARCHIVE_BY_QUEUE.mail", "value": "1 d"},
        {"act": "reset", "name": "RETENTION.ARCHIVE_BY_QUEUE.mail"},
    ):
        with CaptureQueriesContext(connection) as seen:
            assert viewer.post(RETENTION, fields).status_code == 403
        assert not any("chokaq_job_archive" in query["sql"] for query in seen)


def test_a_removed_rule_that_kept_jobs_asks_too(deck: Client) -> None:
    control.set_setting("RETENTION.ARCHIVE_BY_QUEUE.mail", None, by="ada")
    make.archived(queue="mail", finished_at=timezone.now() - 40 * DAY)
    for address in (RETENTION, SETTINGS):
        response = send(deck, address, "reset", name="RETENTION.ARCHIVE_BY_QUEUE.mail")
        assert response.status_code == 422
        assert "would delete 1 jobs by this" in response.content.decode()
    confirmed = confirmation_of(response.content.decode())
    send(deck, RETENTION, "reset", name="RETENTION.ARCHIVE_BY_QUEUE.mail", confirmed=confirmed)
    assert stored() == {}


@pytest.mark.parametrize(("name", "value"), [
    ("RETENTION.ARCHIVE", "60 d"), ("RETENTION.ARCHIVE", "none"), ("RETENTION.TRASH", "1 d"),
    ("RETENTION.ARCHIVE_BY_QUEUE.other", "1 d"), ("RETENTION.DLQ", "10 d"),
])  # fmt: skip
def test_what_deletes_nothing_more_does_not_ask(deck: Client, name: str, value: str) -> None:
    make.archived(queue="mail", finished_at=timezone.now() - 20 * DAY)
    make.archived(queue="mail", finished_at=timezone.now() - 40 * DAY)
    make.purged(expires_at=timezone.now() + DAY)
    assert send(deck, RETENTION, "set", name=name, value=value).status_code == 302
    assert name in stored()


def test_names_of_rules_are_text(deck: Client, settings: Any) -> None:
    control.set_setting("RETENTION.ARCHIVE_BY_TYPE.a/b+c:d.v1", 60, by=XSS, reason=XSS)
    text = text_of(deck, RETENTION)
    assert "Archive · type a/b+c:d.v1 1 min operator" in text
    link = f"{RETENTION}?name=RETENTION.ARCHIVE_BY_TYPE.a%2Fb%2Bc%3Ad.v1"
    assert link.removeprefix(RETENTION) in deck.get(RETENTION).content.decode()
    assert "now 1 min" in re.sub(r"\s+", " ", deck.get(link).content.decode())


@pytest.mark.parametrize("address", [SETTINGS, RETENTION])
def test_a_page_is_so_many_statements_whatever_there_is(deck: Client, address: str) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            deck.get(address)
        return len([query for query in queries if "chokaq_" in query["sql"]])

    few = statements()
    for _ in range(20):
        make.archived(finished_at=timezone.now() - 40 * DAY)
        make.dead(failed_at=timezone.now() - 40 * DAY)
        make.purged()
    assert statements() <= few
    assert few <= 20


def test_pages_have_their_addresses() -> None:
    assert reverse("admin:chokaq_deck_settings") == SETTINGS
    assert reverse("admin:chokaq_deck_retention") == RETENTION


# -- values as text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds", [0.25, 1, 5, 59.5, 60, 90, 3_600, 5_400, 86_400, 604_800, 2_592_000, 90_061.5, 1e-3]
)
def test_a_time_is_read_as_it_is_shown(seconds: float) -> None:
    assert read_value("seconds", duration_text(seconds)) == seconds


@pytest.mark.parametrize(("text", "seconds"), [
    ("90", 90), ("90s", 90), ("1.5 h", 5_400), ("2 weeks", 1_209_600), ("1 day 30 min", 88_200), ("500ms", 0.5),
    (" 7D ", 604_800), ("10 m", 600), ("3 hours", 10_800),
])  # fmt: skip
def test_ways_to_write_a_time(text: str, seconds: float) -> None:
    assert read_value("seconds", text) == seconds


@pytest.mark.parametrize("text", ["", "d", "1 x", "1 d 2", "-5 s", "1e3 s", "none", "1 d,", "9" * 400])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="must be a"):
        read_value("seconds", text)


def test_other_kinds() -> None:
    assert [read_value("seconds or none", text) for text in ("none", "5")] == [None, 5]
    assert [read_value("count", text) for text in ("1,000", "7")] == [1_000, 7]
    assert read_value("count or none", "none") is None
    assert read_value("number", "2.5") == 2.5
    assert [show_value("count", 1_000), show_value("number", 2.0), show_value("rules", None)] == ["1,000", "2", "none"]
