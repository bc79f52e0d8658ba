"""The lists: what they show, how they are narrowed, and what they cost."""

from __future__ import annotations

import datetime as dt
import re
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import enqueue_many
from chokaq_django.deck import base, listing
from chokaq_django.models import FailureReason, JobStatus
from tests import factories as make
from tests.jobs import NoteJob

from .pages import MODELS, inline_code, list_of


def shown(client: Client, model: str, **query: str) -> list[str]:
    """Keys of the rows that the list shows, in its order."""
    response = client.get(f"{list_of(model)}?{urlencode(query)}")
    assert response.status_code == 200, response
    return [row.pk for row in response.context["cl"].result_list]


def fill() -> None:
    """A row of everything."""
    make.hot()
    make.archived()
    make.dead()
    make.purged()
    make.queue()
    make.worker()
    make.circuit(state=1, failures=5, opened_at=timezone.now(), open_until=timezone.now())
    make.audit_entry(reason="because")


@pytest.mark.parametrize("model", MODELS)
def test_every_list_opens(deck: Client, viewer: Client, model: str) -> None:
    for client in (deck, viewer):
        response = client.get(list_of(model))  # nothing there
        assert response.status_code == 200
    fill()
    for client in (deck, viewer):
        response = client.get(list_of(model))
        assert response.status_code == 200
        assert len(response.context["cl"].result_list) == 1
        assert inline_code(response.content.decode()) == []
        assert "/add/" not in response.content.decode()


def test_the_index_names_them(viewer: Client) -> None:
    html = viewer.get("/admin/").content.decode()
    for name in (
        "Active jobs",
        "Archived jobs",
        "Dead jobs",
        "Purged jobs",
        "Queues",
        "Workers",
        "Circuits",
        "Audit entries",
    ):
        assert name in html


def test_the_state_is_said_in_words(deck: Client) -> None:
    later = timezone.now() + dt.timedelta(hours=5, minutes=1)
    make.hot(run_at=later, due_at=later)
    make.hot(attempt=1)
    make.running(progress=40)
    make.running(cancel_requested_at=timezone.now())
    make.hot(status=JobStatus.FETCHED)
    html = deck.get(list_of("jobhot")).content.decode()
    for word in ("Scheduled", "Retrying", "Processing 40%", "asked to stop", "Fetched"):
        assert f">{word}</span>" in html
    make.dead(failure_reason=FailureReason.ZOMBIE)
    html = deck.get(list_of("jobdlq")).content.decode()
    assert ">Zombie</span>" in html
    assert "PartnerError" in html


def test_ages_carry_the_absolute_time(deck: Client) -> None:
    at = timezone.now() - dt.timedelta(hours=3, minutes=1)
    make.archived(finished_at=at)
    with timezone.override("Europe/Berlin"):
        html = deck.get(list_of("jobarchive")).content.decode()
        local = timezone.localtime(at)
    found = re.search(r'<time datetime="([^"]+)" title="([^"]+)" data-age>([^<]+)</time>', html)
    assert found is not None
    assert dt.datetime.fromisoformat(found[1]) == at
    assert found[2].startswith(f"{local:%Y-%m-%d %H:%M:%S}.")
    assert found[2].endswith(f" {local.tzname()} (Europe/Berlin)")
    assert found[3] == "3 h ago"


# -- narrowing ---------------------------------------------------------------------------------------------------------


def test_search_of_small_tables(deck: Client) -> None:
    make.queue("mail")
    make.queue("mailing_1")
    make.queue("mailing-2")
    make.circuit("a.b")
    assert shown(deck, "queue", q="mailing_") == ["mailing_1"]
    assert shown(deck, "circuit", q="a.") == ["a.b"]


@pytest.mark.parametrize("lookup", ["payload", "payload__contains", "error_details", "pk__in", "queue__startswith"])
def test_no_other_column_can_be_asked(deck: Client, lookup: str) -> None:
    """Django allows any column in the address: reading all rows, and telling a hidden payload letter by letter."""
    make.hot()
    assert deck.get(f"{list_of('jobhot')}?{lookup}=a").status_code == 400


# -- cost --------------------------------------------------------------------------------------------------------------

BOUNDED = r"\bTOP \d|\bFETCH (FIRST|NEXT) \d" if connection.vendor == "microsoft" else r"\bLIMIT \d"


@pytest.mark.parametrize("model", ["jobhot", "jobarchive", "jobdlq", "auditentry"])
def test_a_list_takes_a_few_bounded_statements(deck: Client, model: str) -> None:
    fill()
    with CaptureQueriesContext(connection) as few:
        deck.get(list_of(model))
    for _ in range(30):
        fill_more(model)
    with CaptureQueriesContext(connection) as many:
        deck.get(list_of(model))
    assert len(many) == len(few)
    statements = [query["sql"] for query in many.captured_queries if "chokaq_" in query["sql"]]
    assert len(statements) <= 4, statements
    for statement in statements:
        assert "DISTINCT" not in statement
        assert re.search(BOUNDED, statement), statement
        for column in ("payload", "attempt_log", "error_details", "result"):
            assert connection.ops.quote_name(column) not in statement


def fill_more(model: str) -> None:
    {"jobhot": make.hot, "jobarchive": make.archived, "jobdlq": make.dead, "auditentry": make.audit_entry}[model]()


def test_counting_stops(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_COUNTED", 3)
    monkeypatch.setattr(base.TableAdmin, "list_per_page", 2)
    for number in range(3):
        make.queue(f"q{number}")
    note = "There are more: the list stops at the first 3"
    assert note not in deck.get(list_of("queue")).content.decode()
    make.queue("q4")
    make.queue("q5")
    response = deck.get(list_of("queue"))
    assert note in response.content.decode()
    assert response.context["cl"].result_count == 3
    assert len(deck.get(list_of("queue") + "?p=2").context["cl"].result_list) == 1
    assert deck.get(list_of("queue") + "?p=3").status_code == 302


def test_waiting_and_running_are_counted_to_a_thousand(deck: Client) -> None:
    make.queue("mail")
    make.queue("empty")
    make.running()
    enqueue_many([NoteJob()] * 1_001, queue="mail")
    html = deck.get(list_of("queue")).content.decode()
    assert re.findall(r'field-waiting">([^<]+)<.*?field-running">([^<]+)<', html) == [("0", "0"), ("1,000+", "1")]
