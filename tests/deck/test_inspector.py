"""The page of one job: what it shows, to whom, why the job does not run, and what can be done to it."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import control
from chokaq_django.control import BulkAction
from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    AuditEntry,
    FailureReason,
    JobArchive,
    JobBase,
    JobDLQ,
    JobHot,
    JobStatus,
    JobTrash,
    PayloadVersion,
)
from chokaq_django.storage.contract import AGAIN_HEADER
from tests import factories as make

from .pages import inline_code, job_page, list_of, messages_of

pytestmark = pytest.mark.django_db

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
KINDS = [make.hot, make.running, make.archived, make.dead, make.purged]


def html_of(client: Client, job: JobBase | str, **query: str) -> str:
    response = client.get(job_page(job), query)
    assert response.status_code == 200, response
    html = response.content.decode()
    assert inline_code(html) == []
    return html


def act(client: Client, job: JobBase | str, name: str, **form: str) -> HttpResponse:
    response: Any = client.post(job_page(job), {"act": name, **form}, follow=True)
    return response  # type: ignore[no-any-return]


def version_of(job: JobBase, **columns: Any) -> None:
    """An earlier payload of the job."""
    said = {"revision": 0, "type": "test.note", "schema_version": 1, "payload": "{}", "replaced_at": timezone.now()}
    PayloadVersion.objects.create(job_id=job.pk, **{**said, **columns})


def text_of(html: str) -> str:
    """The words of a page, without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


# -- what it shows -----------------------------------------------------------------------------------------------------


TRACE = "Traceback (most recent call last):\n  File x\n"


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (
            f"{TRACE}ValueError: first\n\nIt led to\n\n{TRACE}shop.PartnerError: <b>no</b>\nmore",
            "&lt;b&gt;no&lt;/b&gt;\nmore",
        ),
        (f"{TRACE}Other: words", "Other: words"),
        ("words alone", None),
    ],
)
def test_what_the_exception_said_stands_above_its_traceback(deck: Client, details: str, said: str | None) -> None:
    html = html_of(deck, make.dead(error_type="shop.PartnerError", error_details=details))
    if said is None:
        assert "chokaq-job-said" not in html
    else:
        assert f'<p class="chokaq-job-said">{said}</p>' in html


def test_a_job_that_was_brought_back_and_died_again_says_so(deck: Client) -> None:
    html = html_of(deck, make.dead(error_type="E", error_details="no", generation=1, revision=2))
    assert "It was brought back, and died again." in html
    assert "resurrected once" in text_of(html)
    assert "edited 2 times" in text_of(html)


def test_an_active_job(deck: Client) -> None:
    job = make.running(
        payload='{"to":"ada","number":12345678901234567890123,"price":1.10}',
        tags='["signup","vip"]',
        headers='{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tenant":"acme"}',
        progress=40,
        progress_message="4 of 10",
        attempt_log=LOG,
        idempotency_key="order-7",
        deadline_at=timezone.now() + dt.timedelta(hours=1, minutes=1),
    )
    html = html_of(deck, job)
    assert "&quot;number&quot;: 12345678901234567890123" in html  # digits survive
    assert "&quot;price&quot;: 1.10" in html
    assert '<progress max="100"' in html
    for word in ("signup", "vip", "acme", "4 of 10", "order-7", make.WORKER_ID, "in 1 h", "1 of 3", "40%"):
        assert word in html
    assert "trace id 4bf92f3577b34da6a3ce929d0e0e4736" in text_of(html)
    for word in (
        "Attempt 1",
        "ran for 1.53 s",
        "Traceback of the first attempt",
        'datetime="2026-01-02T03:04:05.678901',
    ):
        assert word in html
    assert "line one\nline two" in html
    assert html.index("Attempt 2") < html.index("Attempt 1")


def test_an_archived_job(deck: Client) -> None:
    html = html_of(deck, make.archived(result='{"sent":[1,2]}'))
    assert "&quot;sent&quot;: [\n" in html
    assert "1.53 s" in html
    assert "12 ms" in html


def test_a_dead_job(deck: Client) -> None:
    job = make.dead(attempt_log=LOG)
    make.audit_entry(target=job.pk, by="ada", reason="wrong address", action="cancel")
    html = html_of(deck, job)
    for word in ("MaxRetriesExceeded", "shop.partner.PartnerError", "the secret of the error", "wrong address"):
        assert word in html
    assert "f" * 32 in html  # the jobs that died alike


def test_a_purged_job(deck: Client) -> None:
    html = text_of(html_of(deck, make.purged(expires_at=timezone.now() + dt.timedelta(days=2, minutes=1))))
    for words in ("Trash", "came from the DLQ", "purged by ada", "in 2 d"):
        assert words in html


@pytest.mark.parametrize("make_row", KINDS)
def test_the_raw_row_has_every_column(deck: Client, make_row: Any) -> None:
    job = make_row()
    html = html_of(deck, job)
    for field in job._meta.concrete_fields:
        assert f'<code class="chokaq-key">{field.column}</code>' in html


def test_fields_have_the_types_of_the_code(deck: Client) -> None:
    payload = {
        "number": 2**63 - 1,
        "price": "19.90",
        "lines": [{"sku": "a", "count": 1}, {"count": 2}],
        "colour": "red",
        "who": None,
        "gone": 5,
    }
    html = html_of(deck, make.hot(type="test.every", payload=json.dumps(payload)))
    rows = {
        name: (kind, value)
        for name, kind, value in re.findall(
            r'<th scope="row" class="chokaq-job-depth-\d+">([^<]*)</th>\s*<td class="chokaq-muted">([^<]*)</td>\s*'
            r'<td>\s*<span class="chokaq-job-value">([^<]*)</span>', html,
        )
    }  # fmt: skip
    assert rows["number"] == ("int", "9223372036854775807")
    assert rows["price"] == ("Decimal", "19.90")
    assert rows["lines"][0].startswith("list[")
    assert rows["[0]"][0] == "Line"
    assert rows["sku"] == ("str", "")
    assert rows["colour"] == ("Colour", "red")
    assert rows["who"][1] == "null"
    text = text_of(html)
    assert "It does not fit its type. $.lines[1]" in text
    assert "5 the type has no such field" in text
    assert "not given: the type's default" in text.replace("&#x27;", "'")


def test_a_type_that_nobody_knows_says_so(deck: Client) -> None:
    html = text_of(html_of(deck, make.hot(type="no.such.type", payload='{"a":[true,1.50]}')))
    assert "The code here does not know the type no.such.type" in html
    assert "a array" in html
    assert "[1] number 1.50" in html


def test_an_old_payload_is_shown_lifted_and_as_it_is_stored(deck: Client) -> None:
    html = html_of(deck, make.hot(type="test.lifted", schema_version=1, payload='{"name":"Ada Lovelace"}'))
    assert "lifted to version 2" in html
    assert "first str Ada" in text_of(html)
    assert "{\n  &quot;name&quot;: &quot;Ada Lovelace&quot;\n}" in html


def test_copies_name_each_other(deck: Client) -> None:
    job = make.archived()
    copy = control.run_again(job.pk, by="ada").new_ids[job.pk]
    assert job_page(copy) in html_of(deck, job)
    assert job_page(job) in html_of(deck, copy)
    odd = html_of(deck, make.hot(headers=json.dumps({AGAIN_HEADER: "../../x"})))
    assert "copy of" not in odd


def test_bulk_operations_that_it_was_in(deck: Client) -> None:
    job = make.dead(idempotency_key="k")
    make.hot(idempotency_key="k")
    control.bulk_run(control.bulk_resurrect([job.pk], by="ada").id)
    text = text_of(html_of(deck, job))
    assert f"{BulkAction.RESURRECT.label} Refused" in text
    assert "Its idempotency key is held by the active job" in text


def test_earlier_payloads_beside_what_replaced_them(deck: Client) -> None:
    job = make.hot(payload='{"name":"alpha"}')
    control.edit(job.pk, by="ada", payload={"name": "beta"})
    control.edit(job.pk, by="bob", payload={"name": "gamma"})
    html = html_of(deck, job)
    assert "?version=0#versions" in html
    assert "?version=1#versions" in html
    assert "alpha" not in html
    for version, before, after in (("0", "alpha", "beta"), ("1", "beta", "gamma")):
        text = text_of(html_of(deck, job, version=version))
        assert f"removed: &quot;name&quot;: &quot;{before}&quot;" in text
        assert f"added: &quot;name&quot;: &quot;{after}&quot;" in text
    for odd in ("9", "-1", "x", "9" * 400, "²"):
        assert "removed:" not in html_of(deck, job, version=odd)


# -- why it is not running ---------------------------------------------------------------------------------------------


def holds_of(client: Client, job: JobBase) -> dict[str, str]:
    """Code of each reason to its sentence, on the page."""
    html = html_of(client, job)
    return {code: text_of(rest) for code, rest in re.findall(r'<li data-hold="(\w+)">(.*?)</li>', html, re.DOTALL)}


def test_everything_that_holds_a_job_back_is_said_with_its_number(deck: Client) -> None:
    later = timezone.now() + dt.timedelta(hours=3)
    night = {"window_start": later.time(), "window_end": (later + dt.timedelta(hours=1)).time(), "window_zone": "UTC"}
    make.queue("mail", is_paused=True, is_active=False, max_workers=1, **night)
    make.circuit(state=1, open_until=later)
    make.running()
    job = make.hot(run_at=later, due_at=later, deadline_at=timezone.now() - dt.timedelta(seconds=30))
    holds = holds_of(deck, job)
    assert set(holds) == {"due", "deadline", "hidden", "paused", "window", "cap", "circuit", "no_worker"}
    assert re.match(r"It is due in (3 h|2 h 59 min)\.", holds["due"])
    assert "passed 3" in holds["deadline"]
    assert "runs 1 jobs, and its cap is 1" in holds["cap"]
    assert " UTC only" in holds["window"]
    assert re.search(r"is open for (3 h|2 h 59 min) more", holds["circuit"])
    assert "(0 alive)" in holds["no_worker"]


def test_reasons_lead_to_where_one_can_change_them(deck: Client) -> None:
    make.queue("mail", is_paused=True)
    html = html_of(deck, make.hot())
    assert '/deck/queues/queue/?name=mail">' in html or "name=mail" in html


@pytest.mark.parametrize(
    ("columns", "worker", "code"),
    [
        ({"attempt": 1, "run_at": timezone.now() + dt.timedelta(days=1)}, {}, "retry"),
        ({"run_at": timezone.now() + dt.timedelta(days=1)}, {}, "put_off"),
        ({"attempt": 3, "crash_count": 3}, {}, "crashes"),
        ({"attempt": 2, "crash_count": 2}, {}, "turn"),
        ({}, {}, "turn"),
        ({"status": JobStatus.AWAITING}, {}, "parent"),
        ({}, {"queues": '["other"]'}, "no_worker"),
        ({}, {"state": "draining"}, "no_worker"),
        ({}, {"last_seen": timezone.now() - dt.timedelta(days=1)}, "no_worker"),
        ({}, {"types": '["test.note"]'}, "turn"),
        ({}, {"types": '["test.*"]'}, "turn"),
        ({}, {"types": '["other"]'}, "unknown_type"),
        ({}, {"types": "[]"}, "unknown_type"),
        ({"type": "only.workers.know"}, {"types": '["only.workers.know"]'}, "turn"),
        ({"type": "no.such.type"}, {}, "unknown_type"),
    ],
)
def test_each_reason_alone(deck: Client, columns: dict[str, Any], worker: dict[str, Any], code: str) -> None:
    make.worker(**worker)
    assert list(holds_of(deck, make.hot(**columns))) == [code]


@pytest.mark.parametrize("make_row", [make.running, make.archived, make.dead, make.purged])
def test_only_what_waits_is_asked_why(deck: Client, make_row: Any) -> None:
    assert "Why is it not running?" not in html_of(deck, make_row())


# -- what is hidden ----------------------------------------------------------------------------------------------------


def test_payloads_results_and_errors_are_hidden_without_the_permission(deck: Client, viewer: Client) -> None:
    secret = {
        "payload": '{"pin":"SECRET-1"}',
        "headers": '{"customer":"SECRET-7","traceparent":"00-1"}',
        "attempt_log": LOG.replace("short", "SECRET-2").replace("line", "SECRET-3"),
    }
    rows = [
        make.running(**secret, progress=1, progress_message="SECRET-6"),
        make.archived(**secret, result='"SECRET-4"'),
        make.dead(**secret, error_details="Traceback SECRET-5"),
        make.purged(**secret, error_details="Traceback SECRET-5", result='"SECRET-4"', progress_message="SECRET-6"),
    ]
    control.edit(rows[2].pk, by="ada", payload={"name": "x"}, type="test.note")
    for row in rows:
        assert "SECRET" in html_of(deck, row)
        for query in ({}, {"version": "0"}):
            html = html_of(viewer, row, **query)
            assert "SECRET" not in html
            assert "Traceback" not in html
            assert "Hidden: seeing it needs the permission" in html
            assert "00-1" in html
        assert "SECRET" not in viewer.get(list_of(str(row._meta.model_name))).content.decode()
    assert viewer.post(job_page(rows[0]), {"act": "reveal"}).status_code == 403
    assert not AuditEntry.objects.filter(action="reveal").exists()


SECRETS = {
    "payload": json.dumps({
        "name": "ada", "apiKey": "S3CRET-1", "nested": [{"Password": {"a": "S3CRET-2"}, "access_token": ["S3CRET-3"]}],
        "secret": None, "token": "",
    }),
    "headers": '{"Authorization":"S3CRET-4","tenant":"acme"}',
}  # fmt: skip


def test_values_are_masked_by_the_names_of_their_fields(deck: Client) -> None:
    job = make.archived(**SECRETS, result='{"new-password":"S3CRET-5","sent":1}')
    html = html_of(deck, job)
    assert "S3CRET" not in html
    assert "Show 5 masked values" in html
    for plain in ("ada", "acme", "&quot;sent&quot;: 1", "&quot;secret&quot;: null"):
        assert plain in html
    control.edit(make.dead(id=new_id()).pk, by="ada", payload={"name": "x"})  # somebody else's
    assert not AuditEntry.objects.filter(target=job.pk).exists()


def test_showing_masked_values_is_an_act_with_an_audit_entry(deck: Client) -> None:
    job = make.hot(**SECRETS)
    response = deck.post(job_page(job), {"act": "reveal", "reason": "a call from the customer"})
    html = response.content.decode()
    assert response.status_code == 200
    assert inline_code(html) == []
    for number in range(1, 5):
        assert f"S3CRET-{number}" in html
    assert "no-store" in response.headers["Cache-Control"]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.by, entry.reason) == (
        "reveal", job.pk, "grace", "a call from the customer",
    )  # fmt: skip
    assert "S3CRET" not in html_of(deck, job)  # the address alone never shows them
    assert "reveal by grace" in text_of(html_of(deck, job))


def test_masked_values_stay_so_in_earlier_payloads_and_in_messages(deck: Client) -> None:
    job = make.hot(payload=json.dumps({"name": "a"}))
    PayloadVersion.objects.create(
        job_id=job.pk,
        revision=0,
        type="t",
        schema_version=1,
        payload='{"password":"S3CRET"}',
        replaced_at=timezone.now(),
    )
    assert "S3CRET" not in html_of(deck, job, version="0")
    odd = make.hot(type="test.secretive", payload='{"token":"S3CRET"}')
    assert "$.token: the value does not fit" in html_of(deck, odd)
    assert "S3CRET" not in html_of(deck, odd)
    assert "S3CRET" not in html_of(deck, make.hot(payload='{"password":"S3CRET"'))  # no JSON


def test_names_that_are_masked_are_an_option(deck: Client, settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"MASK_FIELDS": ["iban", "*pin"]}}
    html = html_of(deck, make.hot(payload='{"I-B.A_N":"S3CRET-1","cardPIN":"S3CRET-2","password":"shown"}'))
    assert "S3CRET" not in html
    assert "shown" in html
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"MASK_FIELDS": []}}
    assert "S3CRET-1" in html_of(deck, make.hot(payload='{"password":"S3CRET-1"}'))


# -- what can be done --------------------------------------------------------------------------------------------------

APPLY: dict[str, tuple[Any, set[str]]] = {
    "pending": (make.hot, {"cancel", "remove", "edit"}),
    "fetched": (lambda: make.hot(status=JobStatus.FETCHED), {"cancel", "remove"}),
    "awaiting": (lambda: make.hot(status=JobStatus.AWAITING), {"cancel", "remove"}),
    "processing": (make.running, {"cancel"}),
    "cancelling": (lambda: make.running(cancel_requested_at=timezone.now(), cancel_requested_by="bob"), set()),
    "succeeded": (make.archived, {"run_again", "purge"}),
    "dead": (make.dead, {"resurrect", "edit", "purge"}),
    "purged": (make.purged, {"restore"}),
}
VERBS = {"cancel", "remove", "edit", "resurrect", "run_again", "purge", "restore"}


@pytest.mark.parametrize("state", APPLY)
def test_what_applies_has_a_button_and_the_rest_a_reason(deck: Client, state: str) -> None:
    make_row, expected = APPLY[state]
    job = make_row()
    response = deck.get(job_page(job))
    assert {offer.verb.name for offer in response.context["offers"]} == expected
    refused = {offer.verb.name: offer.why_not for offer in response.context["refused"]}
    assert set(refused) == VERBS - expected
    assert all(why.endswith(".") for why in refused.values())
    html = response.content.decode()
    for name in VERBS - {"edit"}:
        assert (f'value="{name}"' in html) is (name in expected), name


def test_an_act_that_lacks_its_permission_says_which(viewer: Client) -> None:
    response = viewer.get(job_page(make.dead()))
    assert response.context["offers"] == []
    refused = {offer.verb.name: offer.why_not for offer in response.context["refused"]}
    assert refused["resurrect"] == "You need the permission chokaq.resurrect."
    assert refused["edit"] == "You need the permission chokaq.edit_payload."
    assert "Only active jobs are cancelled" in refused["cancel"]


def test_cancel(deck: Client) -> None:
    job = make.hot()
    asked = act(deck, job, "cancel", reason="wrong address")
    assert "Cancel this job?" in asked.content.decode()
    assert 'value="wrong address"' in asked.content.decode()
    assert JobHot.objects.filter(pk=job.pk).exists(), "only asked"
    response = act(deck, job, "cancel", reason="wrong address", sure="1")
    assert response.redirect_chain == [(job_page(job), 302)]  # type: ignore[attr-defined]
    html = response.content.decode()
    assert messages_of(response) == ["Cancelled: 1."]
    assert "wrong address" in html
    assert JobDLQ.objects.get(pk=job.pk).failure_reason == FailureReason.CANCELLED
    assert AuditEntry.objects.get().reason == "wrong address"


def test_a_running_job_is_asked_once(deck: Client) -> None:
    job = make.running()
    html = act(deck, job, "cancel", sure="1").content.decode()
    assert "asked to stop" in html
    assert "It was asked to stop already, by grace." in html
    assert 'value="cancel"' not in html
    again = act(deck, job, "cancel")  # from a page that is older than that
    assert messages_of(again) == ["It was asked to stop already, by grace."]


@pytest.mark.parametrize(("name", "row"), [("remove", make.hot), ("purge", make.dead), ("purge", make.archived)])
def test_what_goes_to_the_trash_is_asked_for_and_comes_back(deck: Client, name: str, row: Any) -> None:
    job = row()
    assert "this job?" in act(deck, job, name).content.decode()
    assert not JobTrash.objects.exists()
    act(deck, job, name, sure="1", reason="noise")
    assert JobTrash.objects.get().pk == job.pk
    assert "noise" in html_of(deck, job)
    assert messages_of(act(deck, job, "restore")) == ["Restored: 1. They are where they were, as they were."]
    assert type(job).objects.filter(pk=job.pk).exists()


def test_resurrect_with_or_without_its_key(deck: Client) -> None:
    job = make.dead(idempotency_key="k")
    make.hot(idempotency_key="k")
    assert 'name="drop_key"' in html_of(deck, job)
    assert "is held by the active job" in act(deck, job, "resurrect").content.decode()
    act(deck, job, "resurrect", drop_key="1", reason="needed")
    assert JobHot.objects.get(pk=job.pk).idempotency_key is None
    assert 'name="drop_key"' not in html_of(deck, make.dead())


def test_run_again_leads_to_the_new_job(deck: Client) -> None:
    job = make.archived()
    response = act(deck, job, "run_again")
    copy = JobHot.objects.get()
    assert response.redirect_chain == [(job_page(copy), 302)]  # type: ignore[attr-defined]
    assert copy.payload == job.payload
    assert JobArchive.objects.filter(pk=job.pk).exists()


def test_a_job_that_moved_meanwhile(deck: Client) -> None:
    job = make.archived()
    assert "already succeeded" in act(deck, job, "cancel", sure="1").content.decode()
    assert "this one has succeeded" in act(deck, job, "remove").content.decode()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("name", ["edit", "nonsense", "", "context", "shared", "__init__"])
def test_no_other_act_is_known(deck: Client, name: str) -> None:
    job = make.dead()
    assert messages_of(act(deck, job, name)) == ["This page knows no such act."]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("name", "row", "permission"),
    [
        ("cancel", make.hot, "cancel"),
        ("remove", make.hot, "purge"),
        ("remove", make.hot, "cancel"),
        ("resurrect", make.dead, "resurrect"),
        ("purge", make.dead, "purge"),
        ("purge", make.archived, "purge"),
        ("run_again", make.archived, "resurrect"),
        ("restore", make.purged, "purge"),
    ],
)
def test_all_permissions_but_one_are_not_enough(name: str, row: Any, permission: str) -> None:
    every = {"view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload"}
    client = Client()
    client.force_login(make.operator(*(every - {permission})))
    job = row()
    assert client.post(job_page(job), {"act": name, "sure": "1"}).status_code == 403
    assert type(job).objects.filter(pk=job.pk).exists()
    assert not AuditEntry.objects.exists()


# -- any id, any text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "job_id", ["nonsense", "01AAAAAAAAAAAAAAAAAAAAAAAA", "%00", "..", "a b", "<b>", "🎈", "x" * 300]
)
def test_there_is_no_such_job(deck: Client, job_id: str) -> None:
    for response in (deck.get(job_page(job_id)), deck.post(job_page(job_id), {"act": "reveal"})):
        assert response.status_code == 404
        assert inline_code(response.content.decode()) == []
    assert deck.post(job_page(job_id), {"act": "cancel", "sure": "1"}).status_code == 302


def test_an_id_in_any_case(deck: Client) -> None:
    job = make.dead()
    assert job.pk in html_of(deck, job.pk.lower())


def test_old_addresses_lead_there(deck: Client) -> None:
    job = make.archived()
    for model in ("jobhot", "jobarchive", "jobdlq", "jobtrash"):
        response = deck.get(f"/admin/chokaq/{model}/{job.pk}/change/")
        assert (response.status_code, response.headers["Location"]) == (302, job_page(job))
    assert job_page(job) in deck.get(list_of("jobarchive")).content.decode()
    assert deck.get("/admin/chokaq/jobhot/a/b/change/").status_code == 404


XSS = """<script>alert(1)</script>'"><img src=x onerror=alert(2)>{{ 7|add:7 }}</textarea></pre>"""


@pytest.mark.parametrize("make_row", KINDS)
def test_scripts_in_data_are_text(deck: Client, make_row: Any) -> None:
    texts = dict.fromkeys(("attempt", "outcome", "worker", "error_type", "traceback"), XSS)
    common = {
        "queue": XSS, "type": XSS, "payload": json.dumps({XSS: [XSS, {XSS: 1}]}), "tags": json.dumps([XSS]),
        "headers": json.dumps({XSS: XSS, "traceparent": XSS}), "created_by": XSS, "modified_by": XSS, "worker_id": XSS,
        "idempotency_key": XSS, "concurrency_key": XSS, "attempt_log": json.dumps([{**texts, "log": [XSS]}]),
    }  # fmt: skip
    asked = {"cancel_requested_at": timezone.now(), "cancel_requested_by": XSS}
    own = {
        make.running: {"progress_message": XSS, "progress": 1, **asked},
        make.archived: {"result": json.dumps({XSS: XSS})},
        make.dead: {"error_type": XSS, "error_details": XSS, "fingerprint": XSS[:32], "note": XSS, "assignee": XSS},
        make.purged: {"came_from": XSS[:10], "purged_by": XSS, "error_type": XSS, "error_details": XSS, "result": XSS},
    }.get(make_row, {})  # fmt: skip
    job = make_row(**common, **own)
    make.audit_entry(target=job.pk, action=XSS[:50], by=XSS, reason=XSS, details=XSS)
    make.audit_entry(target=job.pk, action="run_again", details=XSS)
    version_of(job, type=XSS, payload=XSS, replaced_by=XSS)
    make.queue(XSS, is_paused=True, window_zone="UTC", window_start=dt.time(1), window_end=dt.time(2))
    pages = [html_of(deck, job), html_of(deck, job, version="0"), act(deck, job, "reveal", reason=XSS).content.decode()]
    pages += [act(deck, job, name, reason=XSS).content.decode() for name in ("cancel", "purge", "remove")]
    for html in pages:
        assert inline_code(html) == []
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "{{ 7|add:7 }}" not in html or "&lt;script&gt;" in html
    assert "&lt;script&gt;alert(1)" in pages[0]


def test_what_is_no_json_is_shown_as_it_is(deck: Client) -> None:
    assert "{broken &lt;json" in html_of(deck, make.hot(payload="{broken <json"))
    assert "[[[[" in html_of(deck, make.hot(payload="[" * 50_000))


def test_a_large_payload_is_cut(deck: Client) -> None:
    html = html_of(deck, make.hot(payload=json.dumps({"text": "x" * 300_000, "many": list(range(5_000))})))
    assert "The first 20,000 of" in html
    assert "There are more fields" in html
    assert len(html) < 300_000


def test_a_job_in_a_far_future(deck: Client) -> None:
    last = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
    with timezone.override("Asia/Tokyo"):
        assert "9999-12-31" in html_of(deck, make.hot(run_at=last, due_at=last))


def test_times_without_use_tz(deck: Client, settings: Any) -> None:
    settings.USE_TZ = False
    assert "UTC" in html_of(deck, make.running())


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_row", KINDS)
def test_a_page_costs_the_same_whatever_is_there(deck: Client, make_row: Any) -> None:
    job = make_row()
    html_of(deck, job)
    with CaptureQueriesContext(connection) as few:
        html_of(deck, job)
    for number in range(30):
        make_row(queue=f"q{number % 3}")
        make.audit_entry(target=job.pk, action="run_again", details=json.dumps({"new": new_id()}))
        version_of(job, revision=number)
    control.bulk_purge([job.pk], by="ada")
    with CaptureQueriesContext(connection) as many:
        html_of(deck, job)
    assert len(many) <= len(few) + 1  # the operations that it is in are read where there are any
    assert len([query for query in many.captured_queries if "chokaq_" in query["sql"]]) <= 20


def test_a_dead_job_without_attempts_is_not_said_to_have_one_to_come(deck: Client) -> None:
    waiting, expired = make.hot(), make.dead(attempt=0, failure_reason=FailureReason.EXPIRED)
    assert "No attempt has ended yet." in deck.get(job_page(waiting.pk)).content.decode()
    said = deck.get(job_page(expired.pk)).content.decode()
    assert "No attempt was made, or none is recorded." in said
    assert "ended yet" not in said
