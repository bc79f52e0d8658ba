"""Lists of history: their filters, their pages while rows come, what they cost, and the files that hold all of them."""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import AsyncRequestFactory, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from chokaq_django import control
from chokaq_django.deck import base, export
from chokaq_django.deck.filters import job_parameters
from chokaq_django.job.ids import new_id
from chokaq_django.models import FailureReason, JobArchive, JobBase, JobDLQ, JobHot, JobStatus, JobTrash
from chokaq_django.reading import search
from tests import factories as make

from .pages import inline_code, job_page, list_of

pytestmark = pytest.mark.django_db

LISTS = {"jobhot": make.hot, "jobarchive": make.archived, "jobdlq": make.dead, "jobtrash": make.purged}
NOW = timezone.now()
"""One moment, and no more than that: a test may run hours after it."""
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


def page(client: Client, model: str, **query: Any) -> Any:
    response = client.get(f"{list_of(model)}?{urlencode(query)}")
    assert response.status_code == 200, response
    assert inline_code(response.content.decode()) == []
    return response


def shown(client: Client, model: str, **query: Any) -> list[str]:
    """Keys of the rows that the list shows, in its order."""
    return [row.pk for row in page(client, model, **query).context["cl"].result_list]


def error_of(client: Client, model: str, **query: Any) -> str:
    """What the list says of a filter that cannot be; it shows no row then."""
    response = page(client, model, **query)
    cl = response.context["cl"]
    assert cl.result_list == []
    assert "export/?" not in response.content.decode()
    return str(cl.error)


# -- filters -----------------------------------------------------------------------------------------------------------


def test_active_jobs(deck: Client) -> None:
    future = timezone.now() + HOUR
    due, later = make.hot(type="a.b").pk, make.hot(run_at=future, queue="reports").pk
    fetched, running = make.hot(status=JobStatus.FETCHED).pk, make.running(queue="reports", created_by="bob").pk
    retrying = make.hot(attempt=1, tags='["vip"]', idempotency_key="k", concurrency_key="c").pk
    everything = [retrying, running, fetched, later, due]
    assert shown(deck, "jobhot") == shown(deck, "jobhot", status="active") == everything
    for status, expected in {
        "pending": [retrying, later, due], "due": [retrying, due], "scheduled": [later], "retrying": [retrying],
        "fetched": [fetched], "processing": [running], "awaiting": [],
    }.items():  # fmt: skip
        assert shown(deck, "jobhot", status=status) == expected, status
    assert shown(deck, "jobhot", queue="reports") == [running, later]
    assert shown(deck, "jobhot", queue="reports", status="processing") == [running]
    assert shown(deck, "jobhot", type="a.b") == [due]
    assert shown(deck, "jobhot", tag="vip") == [retrying]
    assert shown(deck, "jobhot", created_by="bob") == [running]
    assert shown(deck, "jobhot", worker=make.WORKER_ID) == [running]
    assert shown(deck, "jobhot", idempotency_key="k") == shown(deck, "jobhot", concurrency_key="c") == [retrying]


def test_dead_jobs(deck: Client) -> None:
    now = timezone.now()
    zombie = make.dead(failure_reason=FailureReason.ZOMBIE, fingerprint="a" * 32, tags='["vip"]', failed_at=now).pk
    other = make.dead(queue="reports", type="x.y", failed_at=now - 2 * HOUR).pk
    old = make.dead(failed_at=now - 9 * DAY, tags='["vip"]').pk
    assert shown(deck, "jobdlq") == [zombie, other, old]
    assert shown(deck, "jobdlq", status="zombie") == shown(deck, "jobdlq", reason="zombie") == [zombie]
    assert shown(deck, "jobdlq", status="failed") == [other, old]
    assert shown(deck, "jobdlq", reason="MaxRetriesExceeded", queue="reports") == [other]
    assert shown(deck, "jobdlq", fingerprint="a" * 32) == shown(deck, "jobdlq", fingerprint="aa") == [zombie]
    assert shown(deck, "jobdlq", type="x.y") == [other]
    assert shown(deck, "jobdlq", since="1h") == [zombie]
    assert shown(deck, "jobdlq", until="1h", since="1d") == [other]
    assert shown(deck, "jobdlq", since=(now - 3 * HOUR).isoformat(), until=now.isoformat()) == [other]
    assert shown(deck, "jobdlq", tag="vip", since="6d") == [zombie]
    assert shown(deck, "jobdlq", tag="vip", queue="mail") == [zombie, old]


@pytest.mark.parametrize("model", ["jobarchive", "jobdlq", "jobtrash"])
@pytest.mark.parametrize("name", ["tag", "created_by", "worker", "idempotency_key", "concurrency_key"])
def test_what_has_no_index_needs_company(deck: Client, model: str, name: str) -> None:
    said = error_of(deck, model, **{name: "x"})
    assert said.startswith("since must be at most seven days before the end of the range")
    assert error_of(deck, model, **{name: "x", "since": "8d"}) == said
    assert shown(deck, model, **{name: "x", "since": "6d"}) == []
    html = page(deck, model, **{name: "x"}).content.decode()
    assert 'aria-describedby="filter-since-error"' in " ".join(html.split())
    assert "must be at most seven days" in html


@pytest.mark.parametrize(
    ("model", "query", "words"),
    [
        ("jobhot", {"status": "nonsense"}, "status must be one of"),
        ("jobhot", {"status": "dead"}, "status must be one of active, pending"),
        ("jobarchive", {"status": "active"}, "status must be one of succeeded here"),
        ("jobhot", {"reason": "zombie"}, "reason is of dead jobs only"),
        ("jobdlq", {"reason": "bad luck"}, "reason must be a failure reason"),
        ("jobdlq", {"since": "yesterday"}, "since must be a time"),
        ("jobdlq", {"until": "2026-02-30"}, "until must be a time"),
        ("jobdlq", {"id_prefix": "<b>"}, "id_prefix must be the beginning of a job id"),
        ("jobdlq", {"queue": "a\0b"}, "queue must not contain NUL"),
        ("jobdlq", {"queue": "x" * 256}, "queue must be at most 255 characters"),
        ("jobdlq", {"after": "nonsense"}, "after must be the 'next' of a page"),
        ("jobdlq", {"after": "2026-01-01~" + "0" * 26}, "after must be the 'next' of a page"),
        ("jobhot", {"before": "2026-01-01T00:00:00+00:00~" + "0" * 26}, "after must be the 'next' of a page"),
        ("auditentry", {"by": "ada"}, "since must be at most seven days"),
        ("auditentry", {"action": "cancel", "since": "9d"}, "since must be at most seven days"),
        ("auditentry", {"after": "x~y"}, "after must be the 'next' of a page"),
        ("auditentry", {"target": "x" * 300}, "target must be at most 255 characters"),
    ],
)
def test_what_cannot_be_looked_for_is_said(deck: Client, model: str, query: dict[str, str], words: str) -> None:
    make.dead()
    make.audit_entry()
    assert error_of(deck, model, **query).startswith(words)


@pytest.mark.parametrize("model", [*LISTS, "auditentry"])
@pytest.mark.parametrize("name", ["payload", "payload__contains", "pk__in", "headers", "error_details__regex", "<b>"])
def test_no_other_column_can_be_asked(deck: Client, model: str, name: str) -> None:
    assert deck.get(f"{list_of(model)}?{urlencode({name: 'a'})}").status_code == 400


@pytest.mark.parametrize("model", LISTS)
def test_one_input_finds_ids_queues_and_types(deck: Client, model: str) -> None:
    own, job = {"queue": "reports"}, None
    for columns in (own, {"type": "test.sleep", "id": "01AAAAAAAAAAAAAAAAAAAAAAAA"}):
        job = LISTS[model](**columns)
    first = type(job).objects.get(queue="reports")
    other = type(job).objects.get(type="test.sleep")
    assert shown(deck, model, q=first.pk) == shown(deck, model, q=f" {first.pk.lower()} ") == [first.pk]
    assert shown(deck, model, q=other.pk[:12]) == shown(deck, model, id_prefix=other.pk[:4]) == [other.pk]
    assert shown(deck, model, q="reports") == [first.pk]
    assert shown(deck, model, q="test.sleep") == [other.pk]
    assert shown(deck, model, q="report") == [first.pk], "a queue that is known here begins so"
    for nothing in ("nobody", "%", "_", "' OR 1=1 --", "test.sleep reports", "🎈"):
        assert shown(deck, model, q=nothing) == []
    assert len(shown(deck, model, q="  ")) == 2


def test_the_audit_is_narrowed(deck: Client) -> None:
    now = timezone.now()
    one = make.audit_entry(target="mail", action="pause_queue", by="ada", at=now).pk
    two = make.audit_entry(at=now - 2 * HOUR, by="bob").pk
    assert shown(deck, "auditentry") == [one, two]
    assert shown(deck, "auditentry", target="mail") == shown(deck, "auditentry", target="mail", by="ada") == [one]
    assert shown(deck, "auditentry", by="bob", since="1d") == [two]
    assert shown(deck, "auditentry", action="pause_queue", since="1d") == [one]
    assert shown(deck, "auditentry", since="1h") == [one]
    assert shown(deck, "auditentry", until="1h") == [two]


def test_what_an_act_tells_is_hidden_unless_it_is_known(deck: Client, viewer: Client) -> None:
    row = make.audit_entry(details='{"queue":"mail","quoted":"SECRET"}')
    for address in (f"{row.pk}/change/", "export/?format=ndjson", "export/?format=csv"):
        seen, hidden = (b"".join(text_of(who, f"/admin/chokaq/auditentry/{address}")) for who in (deck, viewer))
        assert (b"SECRET" in seen, b"SECRET" in hidden) == (True, False)
        assert b"mail" in hidden


def text_of(client: Client, address: str) -> Iterator[bytes]:
    response = client.get(address)
    assert response.status_code == 200
    return iter(response.streaming_content if response.streaming else [response.content])  # type: ignore[attr-defined]


def test_targets_of_the_audit_lead_to_their_pages(deck: Client) -> None:
    for action, target, address in (
        ("pause_queue", "a/b?", "/deck/"), ("stop_worker", "w", "/deck/fleet/"),
        ("close_circuit", "t", "/deck/circuits/"),
        ("cancel", (job := new_id()), job_page(job)), ("bulk_purge", new_id(), "/deck/bulk/"),
        ("odd", "<script>alert(1)</script>", "&lt;script&gt;"),
    ):  # fmt: skip
        row = make.audit_entry(action=action, target=target)
        html = deck.get(f"/admin/chokaq/auditentry/{row.pk}/change/").content.decode()
        assert address in html
        assert "<script>alert" not in html


def test_inputs_keep_what_was_asked_and_propose_what_is_known(deck: Client) -> None:
    make.queue("only-a-row")
    make.archived(queue="only-in-history", type="only.in.history")
    html = page(deck, "jobarchive", queue="typed <b>", since="7d").content.decode()
    for text in ('value="typed &lt;b&gt;"', 'value="7d"', 'value="only-a-row"', 'value="test.note"'):
        assert text in html
    assert "only-in-history" not in html  # that would take reading all of history
    html = page(deck, "jobdlq", reason="zombie", status="dead").content.decode()
    assert 'value="zombie" selected' in " ".join(html.split())


# -- pages -------------------------------------------------------------------------------------------------------------


def follow(client: Client, model: str, link: str, **query: Any) -> list[list[str]]:
    """The pages from the first, or wherever the query says, along their own links."""
    found, address = [], f"?{urlencode(query)}"
    while address:
        response = client.get(list_of(model) + address)
        cl = response.context["cl"]
        found.append([row.pk for row in cl.result_list])
        if address != "?" and (link_address := getattr(cl, link)):
            assert escape(link_address) in response.content.decode()
        address = getattr(cl, link)
    return found


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.TableAdmin, "list_per_page", 3)


@pytest.mark.parametrize("model", [*LISTS, "auditentry"])
def test_each_row_once_there_and_back(deck: Client, short: None, model: str) -> None:
    """Several rows of the same instant among them."""
    made = []
    for number in range(8):
        at = NOW - HOUR * (number // 3)
        columns: dict[str, Any] = {
            "jobhot": {}, "jobarchive": {"finished_at": at}, "jobdlq": {"failed_at": at}, "jobtrash": {"purged_at": at},
            "auditentry": {"at": at},
        }[model]  # fmt: skip
        made.append(LISTS.get(model, make.audit_entry)(**columns).pk)
    expected = sorted(made, reverse=True)
    if model != "jobhot":
        expected = sorted(made, key=lambda key: (-(made.index(key) // 3), key), reverse=True)
    there = follow(deck, model, "older")
    assert there == [expected[:3], expected[3:6], expected[6:]]
    last = deck.get(f"{list_of(model)}").context["cl"]
    for _ in range(2):
        last = deck.get(list_of(model) + last.older).context["cl"]
    back = []
    while last.newer:
        last = deck.get(list_of(model) + last.newer).context["cl"]
        back.append([row.pk for row in last.result_list])
    assert back == [expected[3:6], expected[:3]]
    assert last.is_first


@pytest.mark.parametrize("make_row", [make.hot, make.archived, make.dead])
def test_rows_that_come_meanwhile_move_no_page(deck: Client, short: None, make_row: Callable[..., JobBase]) -> None:
    model = {make.hot: "jobhot", make.archived: "jobarchive", make.dead: "jobdlq"}[make_row]  # type: ignore[index]
    made = [make_row().pk for _ in range(7)][::-1]
    seen, address = [], "?"
    while address:
        cl = deck.get(list_of(model) + address).context["cl"]
        seen += [row.pk for row in cl.result_list]
        address = cl.older
        make_row()
        make_row()
    assert seen == made
    JobArchive.objects.filter(pk=made[0]).delete()  # the row at whose place a page begins may go, too
    assert len(follow(deck, model, "older")) >= 2


def test_an_address_says_the_filter_and_the_page(deck: Client, short: None) -> None:
    made = [make.dead(queue="a/b?c=d&e", failed_at=NOW - HOUR * n).pk for n in range(5)]
    make.dead()
    cl = page(deck, "jobdlq", queue="a/b?c=d&e", status="dead").context["cl"]
    assert [row.pk for row in cl.result_list] == made[:3]
    assert shown_at(deck, "jobdlq", cl.older) == made[3:]
    assert shown_at(deck, "jobdlq", cl.url()) == made[:3]
    html = page(deck, "jobdlq", queue="a/b?c=d&e").content.decode()
    assert escape("export/?queue=a%2Fb%3Fc%3Dd%26e&format=csv") in html
    assert "action=resurrect" in html
    assert "queue=a%2Fb%3Fc%3Dd%26e" in html


def shown_at(client: Client, model: str, address: str) -> list[str]:
    return [row.pk for row in client.get(list_of(model) + address).context["cl"].result_list]


def test_what_one_may_do_to_all_that_match(deck: Client, viewer: Client) -> None:
    for model, actions in {
        "jobhot": {"cancel", "remove", "edit"}, "jobarchive": {"purge"}, "jobdlq": {"resurrect", "edit", "purge"},
        "jobtrash": set(),
    }.items():  # fmt: skip
        LISTS[model]()
        offered = page(deck, model, since="1d").context["cl"].on_all
        assert {address.partition("action=")[2].partition("&")[0] for _, address in offered} == actions
        for _, address in offered:
            assert deck.get(address).status_code == 200
        assert page(viewer, model).context["cl"].on_all == []


def test_a_page_that_has_looked_far_enough_goes_on(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEP", 5)
    monkeypatch.setattr(search, "MOST_READ", 10)
    rare = make.archived(queue="q", tags='["rare"]', finished_at=NOW - DAY).pk
    for _ in range(12):
        make.archived(queue="q")
    response = page(deck, "jobarchive", queue="q", tag="rare")
    assert "Nothing so far" in response.content.decode()
    assert follow(deck, "jobarchive", "older", queue="q", tag="rare") == [[], [rare]]


# -- what a page costs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [*LISTS, "auditentry"])
def test_the_number_of_statements_does_not_grow(deck: Client, model: str) -> None:
    row = LISTS.get(model, make.audit_entry)
    row()
    page(deck, model)
    with CaptureQueriesContext(connection) as few:
        page(deck, model)
    for _ in range(60):
        row()
    with CaptureQueriesContext(connection) as many:
        assert len(shown(deck, model)) == 50
    assert len(many) == len(few)


# -- files -------------------------------------------------------------------------------------------------------------


def exported(client: Client, model: str, kind: str, **query: str) -> str:
    response = client.get(f"{list_of(model)}export/?{urlencode({'format': kind, **query})}")
    assert response.status_code == 200, response
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]


def lines(client: Client, model: str, **query: str) -> list[dict[str, Any]]:
    text = exported(client, model, "ndjson", **query)
    return [json.loads(line, parse_float=str) for line in text.split("\n") if line]


def table(client: Client, model: str, **query: str) -> list[dict[str, str]]:
    text = exported(client, model, "csv", **query)
    assert text.startswith("\ufeff"), "spreadsheets know UTF-8 by it"
    assert text.count("\ufeff") == 1
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_a_file_has_all_that_the_filter_finds(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 4)
    monkeypatch.setattr(export, "HEAVY_PAGE", 3)
    made = [make.dead(failed_at=NOW - HOUR * n, queue="q", payload=f'{{"n":{n}}}').pk for n in range(11)]
    make.dead(queue="other")
    assert [line["id"] for line in lines(deck, "jobdlq", queue="q")] == made
    assert [row["id"] for row in table(deck, "jobdlq", queue="q", since=(NOW - 3 * HOUR).isoformat())] == made[:4]
    assert [line["payload"]["n"] for line in lines(deck, "jobdlq", queue="q")] == list(range(11))
    assert exported(deck, "jobdlq", "csv", queue="none") == exported(deck, "jobdlq", "ndjson", queue="none") == ""


@pytest.mark.parametrize("model", LISTS)
def test_what_a_line_says(deck: Client, model: str) -> None:
    payload = '{"big":12345678901234567890123,"price":1.10,\n"text":"ü🎈\\n","apiKey":"S3CRET"}'
    job = LISTS[model](payload=payload, tags='["a","b"]', idempotency_key="k", priority=-5)
    (line,) = lines(deck, model)
    assert (line["id"], line["queue"], line["tags"], line["priority"]) == (job.pk, "mail", ["a", "b"], -5)
    assert line["payload"] == {
        "big": 12345678901234567890123, "price": "1.10", "text": "ü🎈\n", "apiKey": "••••••••",
    }  # fmt: skip
    (row,) = table(deck, model)
    assert '"big":12345678901234567890123,"price":1.10' in row["payload"]
    assert (row["tags"], row["priority"], row["idempotency_key"]) == ('["a", "b"]', "-5", "k")
    assert set(row) == set(line)


def test_who_may_not_see_payloads_gets_files_without_them(viewer: Client) -> None:
    for model, columns in {
        "jobhot": {}, "jobarchive": {"result": '"SECRET"'}, "jobdlq": {"error_details": "SECRET"},
        "jobtrash": {"error_details": "SECRET", "result": '"SECRET"'},
    }.items():  # fmt: skip
        LISTS[model](payload='{"pin":"SECRET"}', **columns)
        for kind in ("ndjson", "csv"):
            text = exported(viewer, model, kind)
            assert "SECRET" not in text
            assert "••••••••" in text


def test_who_may_not_look_gets_no_file() -> None:
    make.dead()
    nobody = Client()
    nobody.force_login(make.operator("purge", username="nobody"))
    address = f"{list_of('jobdlq')}export/"
    assert nobody.get(address).status_code == 403
    assert Client().get(address).status_code == 302
    for method in ("post", "put", "delete"):
        assert getattr(nobody, method)(address).status_code in (403, 405)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "＝1+1"])
def test_no_cell_is_a_formula(deck: Client, text: str) -> None:
    make.dead(queue=text, type=text, created_by=text, error_type=text, error_details=text, payload=text)
    make.audit_entry(action=text[:9], target=text, by=text, reason=text)
    (row,) = table(deck, "jobdlq")
    (entry,) = table(deck, "auditentry")
    for cell in (row["queue"], row["type"], row["created_by"], row["error_details"], row["payload"], entry["reason"]):
        assert cell.startswith("'"), cell
    (line,) = lines(deck, "jobdlq")
    assert line["queue"] == text, "a program gets it as it is"


def test_odd_rows_go_out_too(deck: Client) -> None:
    for payload in ("", "{broken", "[" * 5_000, '"\\ud800"', "\n\r,;\"'"):
        make.dead(payload=payload, tags=payload, error_details=payload or None, queue='a\nb,"c"')
    assert len(lines(deck, "jobdlq")) == len(table(deck, "jobdlq")) == 5
    make.audit_entry(details="{broken", by=None)
    assert len(lines(deck, "auditentry")) == len(table(deck, "auditentry")) == 1


def test_the_name_of_a_file_comes_from_no_input(deck: Client) -> None:
    make.dead(queue='a"; filename=evil.exe')
    query = urlencode({"format": "csv", "queue": 'a"; filename=evil.exe'})
    response = deck.get(f"{list_of('jobdlq')}export/?{query}")
    disposition = response.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="chokaq-dlq-2')
    assert disposition.endswith('.csv"')
    assert "evil" not in disposition
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("query", [{"format": "xlsx"}, {"format": "csv", "tag": "x"}, {"format": "csv", "since": "?"}])
def test_a_file_that_cannot_be_leads_back_to_the_list(deck: Client, query: dict[str, str]) -> None:
    response = deck.get(f"{list_of('jobdlq')}export/?{urlencode(query)}", follow=True)
    assert response.redirect_chain[0][0].startswith("../?")
    assert [str(message) for message in response.context["messages"]]


def test_a_file_is_read_while_it_is_sent(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 2)
    for _ in range(7):
        make.archived()
    response: Any = deck.get(f"{list_of('jobarchive')}export/?format=ndjson")
    parts = iter(response.streaming_content)
    next(parts)
    JobArchive.objects.all().delete()
    assert list(parts) == [], "nothing was read ahead"


def test_an_asgi_server_gets_it_in_parts() -> None:
    records = iter([[{"a": 1}], [], [{"a": 2}, {"a": 3}]])
    response = export.stream(AsyncRequestFactory().get("/"), records, "ndjson", "x")
    assert response.is_async

    async def parts() -> list[bytes]:
        return [part async for part in response]

    assert asyncio.run(parts()) == [b'{"a": 1}\n', b'{"a": 2}\n{"a": 3}\n']


def test_names_of_any_kind_work(deck: Client) -> None:
    for name in ("a/b", "a?b=1", "a#b", "100%", "two words", "ümlaut 🎈", "<script>", "..", "'\"&;:@=+$,\\"):
        job = make.dead(queue=name, type=name)
        assert shown(deck, "jobdlq", queue=name) == shown(deck, "jobdlq", type=name) == [job.pk]
        assert [line["id"] for line in lines(deck, "jobdlq", queue=name)] == [job.pk]
        html = page(deck, "jobdlq", queue=name).content.decode()
        assert "<script>alert" not in html
        assert f'value="{escape(name)}"' in html
        JobDLQ.objects.all().delete()


def test_selected_rows(deck: Client) -> None:
    one, two = make.dead(), make.dead()
    data = {"action": "resurrect", "_selected_action": [one.pk], "index": "0"}
    deck.post(list_of("jobdlq") + "?queue=nothing-there", data)
    assert JobHot.objects.get().pk == one.pk, "what was ticked counts, wherever the list is by now"
    purge = deck.post(list_of("jobdlq"), {**data, "action": "purge", "_selected_action": [two.pk]})
    assert two.pk in purge.content.decode()
    assert not JobTrash.objects.exists(), "a purge is previewed first"
    assert control.get(two.pk) is not None


@pytest.mark.parametrize("model", LISTS)
def test_cells_say_what_their_column_is_called_since_a_phone_shows_no_head(deck: Client, model: str) -> None:
    LISTS[model]()
    html = page(deck, model).content.decode()
    row = html[html.index("<tbody>") : html.index("</tbody>")]
    assert '<td data-label="Queue" class="field-' in row
    assert row.count("<td") - row.count('<td class="action-checkbox"') == row.count("<td data-label=")


# -- what somebody types -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "name", "value"),
    [
        ("test.note", "type", "test.note"),  # by its whole name, though others begin so
        ("test.notebook", "queue", "test.notebook"),  # nothing is called so
        ("TEST.RESU", "type", "test.result"),
        ("resul", "type", "test.result"),
        ("parc", "queue", "parcels-of-acme"),
        ("ACME", "queue", "parcels-of-acme"),
        ("%", "queue", "odd%name"),
        ("01J9Z6T0Q5", "id_prefix", "01J9Z6T0Q5"),
        ("01j9z6t0q5w9", "id_prefix", "01j9z6t0q5w9"),
        ("known-to-none", "queue", "known-to-none"),  # types of other test modules are known here too
    ],
)
def test_a_part_of_a_name_finds_what_it_can_only_mean(term: str, name: str, value: str) -> None:
    for queue in ("parcels-of-acme", "odd%name", "mail"):
        make.queue(queue)
    with CaptureQueriesContext(connection) as captured:
        assert job_parameters({"q": term}) == {name: value}
    assert not [each for each in captured.captured_queries if "_job_" in each["sql"]]


def test_a_part_that_may_mean_several_says_which(deck: Client) -> None:
    make.queue("parcels"), make.queue("parcels-of-acme"), make.hot(queue="parcels")
    response = page(deck, "jobhot", q="parce")
    assert "may mean several: Queue parcels, Queue parcels-of-acme" in response.content.decode()
    assert 'value="parce"' in response.content.decode()
    assert page(deck, "jobhot", q="parcels").context["cl"].result_list, "it is called so"
    assert "may mean several" in page(deck, "jobhot", q="a").content.decode()
