"""The page of one row: what it shows, to whom, and that nothing on it does anything by itself."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from django.db.models import Model
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from chokaq_django.models import Circuit, JobArchive, JobDLQ, JobHot, Queue
from tests import factories as make

from .pages import MODELS, inline_code, list_of, page_of

LOG = json.dumps(
    [
        {
            "attempt": 1,
            "worker": "w1",
            "started": "2026-01-02T03:04:05.678901+00:00",
            "duration_ms": 1532,
            "outcome": "failed",
            "error_type": "shop.partner.PartnerError",
            "message": "short",
            "traceback": "Traceback of the first attempt",
            "log": ["line one", "line two"],
        },
        {"attempt": 2, "outcome": "Timeout", "message": "Ran too long"},
        {"odd": [1, 2], "started": 5, "duration_ms": "x", "log": "text"},
        "not even an object",
    ]
)


def html_of(client: Client, row: Model) -> str:
    response = client.get(page_of(row))
    assert response.status_code == 200, response
    html = response.content.decode()
    assert inline_code(html) == []
    return html


def test_an_active_job(deck: Client) -> None:
    job = make.running(
        payload='{"to":"ada","number":12345678901234567890123,"price":1.10}',
        tags='["signup","vip"]',
        headers='{"traceparent":"00-1"}',
        progress=40,
        progress_message="4 of 10",
        attempt_log=LOG,
        idempotency_key="order-7",
        deadline_at=timezone.now() + dt.timedelta(hours=1, minutes=1),
    )
    html = html_of(deck, job)
    assert "&quot;number&quot;: 12345678901234567890123" in html  # digits survive
    assert "&quot;price&quot;: 1.10" in html
    for text in ("signup", "vip", "00-1", "4 of 10", "order-7", make.WORKER_ID, "in 1 h", "1 of 3"):
        assert text in html
    for text in ("Attempt 1", "2026-01-02 03:04:05.678 UTC", "ran for 1.53 s", "Traceback of the first attempt"):
        assert text in html
    assert "line one\nline two" in html
    assert html.index("Attempt 2") < html.index("Attempt 1")
    assert page_of(job, "cancel") in html


def test_an_archived_job(deck: Client) -> None:
    html = html_of(deck, make.archived(result='{"sent":[1,2]}'))
    assert "&quot;sent&quot;: [\n" in html
    assert "1.53 s" in html
    assert "12 ms" in html


def test_a_dead_job(deck: Client) -> None:
    job = make.dead(attempt_log=LOG)
    make.audit_entry(target=job.pk, by="ada", reason="wrong address", action="cancel")
    html = html_of(deck, job)
    for text in ("MaxRetriesExceeded", "shop.partner.PartnerError", "the secret of the error", "wrong address"):
        assert text in html
    assert f"{list_of('jobdlq')}?fingerprint={'f' * 32}" in html
    assert page_of(job, "resurrect") in html


def test_payload_results_and_errors_are_hidden_without_the_permission(deck: Client, viewer: Client) -> None:
    secret = {
        "payload": '{"pin":"SECRET-1"}',
        "attempt_log": LOG.replace("short", "SECRET-2").replace("line", "SECRET-3"),
    }
    rows = [
        make.hot(**secret),
        make.archived(**secret, result='"SECRET-4"'),
        make.dead(**secret, error_details="Traceback SECRET-5"),
    ]
    for row in rows:
        assert "SECRET" in html_of(deck, row)
        html = html_of(viewer, row)
        assert "SECRET" not in html
        assert "Traceback" not in html
        assert "Hidden: seeing it needs the permission" in html
        assert "SECRET" not in viewer.get(list_of(str(row._meta.model_name))).content.decode()


XSS = """<script>alert(1)</script>'"><img src=x onerror=alert(2)>{{ 7|add:7 }}</textarea></pre>"""


def hostile() -> list[Model]:
    """Rows with a script in every text that a job, a host or an operator may have written."""
    texts = dict.fromkeys(("attempt", "outcome", "worker", "error_type", "traceback"), XSS)
    common = {
        "queue": XSS,
        "type": XSS,
        "payload": json.dumps({XSS: XSS}),
        "tags": json.dumps([XSS]),
        "headers": json.dumps({XSS: XSS}),
        "created_by": XSS,
        "modified_by": XSS,
        "worker_id": XSS,
        "idempotency_key": XSS,
        "concurrency_key": XSS,
        "attempt_log": json.dumps([{**texts, "log": [XSS]}]),
    }
    asked = {"cancel_requested_at": timezone.now(), "cancel_requested_by": XSS}
    active = make.running(**common, progress=1, progress_message=XSS, **asked)
    return [
        active,
        make.archived(**common, result=json.dumps(XSS)),
        make.dead(**common, error_type=XSS, error_details=XSS, fingerprint=XSS[:32], note=XSS),
        make.queue(XSS, updated_by=XSS, window_zone=XSS[:64], window_start=dt.time(1), window_end=dt.time(2)),
        make.worker(XSS, host=XSS, version=XSS[:50], queues=json.dumps([XSS]), state=XSS[:20]),
        make.circuit(XSS, probes=json.dumps([XSS]), updated_by=XSS),
        make.audit_entry(action=XSS[:50], target=XSS, by=XSS, reason=XSS, details=json.dumps({"x": XSS})),
    ]


def test_scripts_in_data_are_text(deck: Client) -> None:
    for row in hostile():
        for address in (
            page_of(row),
            list_of(str(row._meta.model_name)),
            list_of(str(row._meta.model_name)) + "?q=" + XSS,
        ):
            html = deck.get(address, follow=True).content.decode()
            assert inline_code(html) == []
            assert "<script>alert" not in html
            assert "<img src=x" not in html
        assert "&lt;script&gt;alert(1)" in deck.get(page_of(row)).content.decode()


@pytest.mark.parametrize(
    "name", ["a/b", "a?b=1", "a#b", "100%", "two words", "ümlaut 🎈", "a_2Fb", "a/change", "..x", "<>\"'&;:@=+$,\\"]
)
def test_any_name_works_in_an_address(deck: Client, name: str) -> None:
    queue, circuit, worker = make.queue(name), make.circuit(name), make.worker(name)
    for row in (queue, circuit, worker):
        html = deck.get(list_of(str(row._meta.model_name))).content.decode()
        assert f'href="{escape(page_of(row))}"' in html
        assert html_of(deck, row)
    assert deck.post(page_of(queue, "pause")).headers["Location"] == page_of(queue)
    queue.refresh_from_db()
    assert queue.is_paused
    response = deck.post(page_of(queue), {"max_workers": "3", "execution_timeout": "", "zombie_timeout": ""})
    assert response.status_code == 302
    queue.refresh_from_db()
    assert queue.max_workers == 3
    deck.post(page_of(worker, "stop"))
    worker.refresh_from_db()
    assert worker.stop_requested


def test_an_address_leads_to_where_the_job_is_now(deck: Client) -> None:
    job = make.archived()
    for model in (JobHot, JobDLQ):
        response = deck.get(page_of(model(id=job.pk)), follow=True)
        assert response.redirect_chain == [(page_of(job), 302)]
        assert "this is where it is now" in response.content.decode()
    gone = deck.get(page_of(JobArchive(id="01AAAAAAAAAAAAAAAAAAAAAAAA")), follow=True)
    assert gone.redirect_chain[-1][0] == list_of("jobarchive")
    assert "There is no job with the id 01AAAAAAAAAAAAAAAAAAAAAAAA" in gone.content.decode()
    assert deck.get(page_of(JobHot(id="nonsense"))).status_code == 302


def test_a_job_in_a_far_future(deck: Client) -> None:
    last = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
    with timezone.override("Asia/Tokyo"):
        assert "9999-12-31" in html_of(deck, make.hot(run_at=last, due_at=last))


def test_a_large_payload_is_cut(deck: Client) -> None:
    html = html_of(deck, make.hot(payload=json.dumps({"text": "x" * 300_000})))
    assert "The first 100,000 of 300,0" in html
    assert len(html) < 200_000


def test_a_payload_that_is_not_json_is_shown_as_it_is(deck: Client) -> None:
    assert "{broken &lt;json" in html_of(deck, make.hot(payload="{broken <json"))
    assert "[[[[" in html_of(deck, make.hot(payload="[" * 50_000))


def test_times_without_use_tz(deck: Client, settings: object) -> None:
    settings.USE_TZ = False  # type: ignore[attr-defined]
    assert "UTC" in html_of(deck, make.running())


def test_nothing_can_be_added_changed_or_deleted(deck: Client) -> None:
    for row in (make.hot(), make.archived(), make.dead(), make.worker(), make.circuit(), make.audit_entry()):
        name = row._meta.model_name
        assert deck.get(f"/admin/chokaq/{name}/add/").status_code == 403
        assert deck.get(page_of(row, "delete")).status_code == 403
        assert deck.post(page_of(row, "delete"), {"post": "yes"}).status_code == 403
        assert deck.post(page_of(row), {"queue": "other", "payload": "{}", "host": "x"}).status_code == 403
        row.refresh_from_db()
    assert deck.get("/admin/chokaq/queue/add/").status_code == 403
    queue = make.queue()
    assert deck.post(page_of(queue, "delete"), {"post": "yes"}).status_code == 403
    assert Queue.objects.exists()
    assert Circuit.objects.exists()


@pytest.mark.parametrize("model", MODELS)
def test_nul_is_in_no_name(deck: Client, model: str) -> None:
    assert deck.get(f"/admin/chokaq/{model}/a%00b/change/").status_code == 302
    assert deck.get(f"{list_of(model)}?q=a%00b").status_code == 200
    assert deck.get(f"{list_of(model)}?queue=a%00b").status_code in (400, 302)
    for verb in ("pause", "resume", "cancel", "resurrect", "stop"):
        assert deck.post(f"/admin/chokaq/{model}/a%00b/{verb}/", follow=True).status_code in (200, 404)
