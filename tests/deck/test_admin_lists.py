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
    for word in ("Scheduled", "Retrying", "Processing 40 %", "asked to stop", "Fetched"):
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
    found = re.search(r'<time datetime="([^"]+)" title="([^"]+)">([^<]+)</time>', html)
    assert found is not None
    assert dt.datetime.fromisoformat(found[1]) == at
    assert found[2].startswith(f"{local:%Y-%m-%d %H:%M:%S}.")
    assert found[2].endswith(f" {local.tzname()} (Europe/Berlin)")
    assert found[3] == "3 h ago"


# -- narrowing ---------------------------------------------------------------------------------------------------------


def test_filters_of_active_jobs(deck: Client) -> None:
    future = timezone.now() + dt.timedelta(hours=1)
    due, later = make.hot().pk, make.hot(run_at=future, queue="reports").pk
    fetched, running = make.hot(status=JobStatus.FETCHED).pk, make.running(queue="reports").pk
    assert shown(deck, "jobhot") == [running, fetched, later, due]
    assert shown(deck, "jobhot", status="due") == [due]
    assert shown(deck, "jobhot", status="scheduled") == [later]
    assert shown(deck, "jobhot", status="fetched") == [fetched]
    assert shown(deck, "jobhot", status="processing") == [running]
    assert shown(deck, "jobhot", status="awaiting") == []
    assert shown(deck, "jobhot", queue="reports") == [running, later]
    assert shown(deck, "jobhot", queue="reports", status="processing") == [running]
    assert len(shown(deck, "jobhot", status="nonsense")) == 4


def test_filters_of_history(deck: Client) -> None:
    old = timezone.now() - dt.timedelta(days=3)
    new_one, old_one = make.archived(type="test.sleep").pk, make.archived(finished_at=old, queue="reports").pk
    assert shown(deck, "jobarchive") == [new_one, old_one]
    assert shown(deck, "jobarchive", period="1d") == [new_one]
    assert shown(deck, "jobarchive", period="7d") == [new_one, old_one]
    assert shown(deck, "jobarchive", period="x") == [new_one, old_one]
    assert shown(deck, "jobarchive", queue="reports") == [old_one]
    assert shown(deck, "jobarchive", type="test.sleep") == [new_one]
    zombie = make.dead(failure_reason=FailureReason.ZOMBIE, fingerprint="a" * 32).pk
    other = make.dead().pk
    assert shown(deck, "jobdlq", reason="zombie") == [zombie]
    assert shown(deck, "jobdlq", fingerprint="f" * 32) == [other]
    assert sorted(shown(deck, "jobdlq", reason="nonsense")) == sorted([zombie, other])


def test_choices_come_from_code_settings_and_control_rows(deck: Client) -> None:
    make.queue("only-a-row")
    make.archived(queue="only-in-history", type="only.in.history")
    html = deck.get(list_of("jobarchive") + "?queue=typed").content.decode()
    for choice in ("?queue=only-a-row", "?queue=typed", "type=test.note"):
        assert choice in html
    assert "?queue=only-in-history" not in html  # that would take reading all of history


def test_search(deck: Client) -> None:
    job, other = make.archived(queue="reports"), make.archived(id="01AAAAAAAAAAAAAAAAAAAAAAAA", type="test.sleep")
    assert shown(deck, "jobarchive", q=job.pk) == [job.pk]
    assert shown(deck, "jobarchive", q=f" {job.pk.lower()} ") == [job.pk]
    assert shown(deck, "jobarchive", q=other.pk[:12]) == [other.pk]
    assert shown(deck, "jobarchive", q="reports") == [job.pk]
    assert shown(deck, "jobarchive", q="test.sleep") == [other.pk]
    for nothing in ("report", "%", "_", "01AAAAAAAA\\", "' OR 1=1 --", "x" * 5_000, "test.sleep reports"):
        assert shown(deck, "jobarchive", q=nothing) == []
    assert len(shown(deck, "jobarchive", q="  ")) == 2


def test_search_of_small_tables(deck: Client) -> None:
    make.queue("mail")
    make.queue("mailing_1")
    make.queue("mailing-2")
    make.circuit("a.b")
    entry = make.audit_entry(target="mail")
    make.audit_entry()
    assert shown(deck, "queue", q="mailing_") == ["mailing_1"]
    assert shown(deck, "circuit", q="a.") == ["a.b"]
    assert shown(deck, "auditentry", q="mail") == [entry.pk]
    assert shown(deck, "auditentry", target="mail") == [entry.pk]


@pytest.mark.parametrize("lookup", ["payload", "payload__contains", "idempotency_key", "pk__in", "queue__startswith"])
def test_no_other_column_can_be_asked(deck: Client, lookup: str) -> None:
    """Django allows any column in the address: reading all rows, and telling a hidden payload letter by letter."""
    make.hot()
    assert deck.get(f"{list_of('jobhot')}?{lookup}=a").status_code == 400


def test_only_columns_with_an_index_sort(deck: Client) -> None:
    first, second = make.archived(duration_ms=5).pk, make.archived(duration_ms=1).pk
    for number in range(1, 9):
        assert set(shown(deck, "jobarchive", o=str(number))) == {first, second}
        response = deck.get(f"{list_of('jobarchive')}?o={number}")
        order = set(response.context["cl"].queryset.query.order_by) - {"id", "-id", "pk", "-pk"}
        assert order <= {"finished_at", "-finished_at"}, number


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
    for _ in range(3):
        make.hot()
    note = "There are more: the list stops at the first 3"
    assert note not in deck.get(list_of("jobhot")).content.decode()
    make.hot()
    make.hot()
    response = deck.get(list_of("jobhot"))
    assert note in response.content.decode()
    assert response.context["cl"].result_count == 3
    assert len(deck.get(list_of("jobhot") + "?p=2").context["cl"].result_list) == 1
    assert deck.get(list_of("jobhot") + "?p=3").status_code == 302


def test_waiting_and_running_are_counted_to_a_thousand(deck: Client) -> None:
    make.queue("mail")
    make.queue("empty")
    make.running()
    enqueue_many([NoteJob()] * 1_001, queue="mail")
    html = deck.get(list_of("queue")).content.decode()
    assert re.findall(r'field-waiting">([^<]+)<.*?field-running">([^<]+)<', html) == [("0", "0"), ("1,000+", "1")]
