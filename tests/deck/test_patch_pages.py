"""Payloads of many jobs repaired from the Deck: fields, a try on some of them, the operation, and what comes next."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from chokaq_django import Job, control
from chokaq_django.control import BulkState, BulkView
from chokaq_django.models import BulkOperation, JobDLQ, JobHot, PayloadVersion
from chokaq_django.storage import get_storage
from tests import factories as make

from .pages import inline_code

pytestmark = pytest.mark.django_db

NEW = "/admin/chokaq/deck/bulk/new/?action=edit&status=dead&type=deck.pay"
XSS = "<script>alert(1)</script>\"'>"


class PayJob(Job, type="deck.pay"):
    order: int
    currency: str
    note: str = ""
    token: str = ""

    def __post_init__(self) -> None:
        if len(self.currency) != 3:
            raise ValueError(f"{self.currency!r} is no currency")


def pay(order: object, currency: str = "EURO", **more: object) -> str:
    payload = json.dumps({"order": order, "currency": currency, **more})
    return str(make.dead(type="deck.pay", payload=payload, fingerprint="ab" * 16).pk)


def row(number: int = 0, path: str = "currency", value: str = '"EUR"', **more: str) -> dict[str, str]:
    typed = {"path": path, "do": "set", "value": value, "when": "", "now": "", **more}
    return {f"{name}:{number}": text for name, text in typed.items()}


def post(client: Client, act: str, page: str = NEW, **form: str) -> Any:
    return client.post(page, {"act": act, **form})


def figures(text: str) -> dict[str, str]:
    names = ("changed", "unfit", "tested", "unchanged")
    return {name: text.partition(f'data-trial="{name}">')[2].partition("<")[0] for name in names}


def operation() -> BulkView:
    view = control.bulk_get(BulkOperation.objects.latest("pk").pk)
    assert view is not None
    return view


def test_a_try_counts_shows_and_writes_nothing(deck: Client) -> None:
    ids = [pay(1), pay(2, token="S3CRET", note="x"), pay(3, "USD"), pay("four")]
    response = post(deck, "try", **row(now='"EURO"'))
    text = response.content.decode()
    assert response.status_code == 200
    assert figures(text) == {"changed": "2", "unfit": "1", "tested": "1", "unchanged": "0"}
    assert "$.order: Expected `int`, got `str`" in text.replace("&#x27;", "'")
    assert f"/admin/chokaq/deck/job/{ids[3]}/" in text
    assert "chokaq-diff-del" in text
    assert "S3CRET" not in text
    assert 'value="&quot;EURO&quot;"' in text, "what was typed stays"
    assert '<option value="is"' in text
    assert '<option value="currency">' in text, "fields of the types are offered"
    assert not BulkOperation.objects.exists()
    assert not PayloadVersion.objects.exists()
    assert not inline_code(text)


def test_from_the_form_to_repaired_and_resurrected_jobs(deck: Client) -> None:
    broken = [pay(number) for number in range(3)]
    fine = pay(9, "USD")
    page = deck.get(NEW).content.decode()
    assert 'name="path:0"' in page
    begun = post(deck, "begin", why="EURO is no currency", **row(when="is", now='"EURO"'))
    assert begun.status_code == 302
    view = control.bulk_run(operation().id)
    assert (view.state, view.applied, view.left_alone, view.refused) == (BulkState.DONE, 3, 1, 0)
    assert {json.loads(each.payload)["currency"] for each in JobDLQ.objects.exclude(pk=fine)} == {"EUR"}
    text = deck.get(begun.headers["Location"]).content.decode()
    assert "/currency becomes &quot;EUR&quot;, where it is &quot;EURO&quot;" in text
    assert "Resurrect the 3 repaired jobs" in text
    left = deck.get(f"{begun.headers['Location']}?items=left_alone").content.decode()
    assert "the condition does not hold, or it is so already" in left
    assert "Not for this job: a condition of the patch does not hold." in left
    job = deck.get(f"/admin/chokaq/deck/job/{fine}/").content.decode()
    assert "Not for this job: a condition of the patch does not hold." in job, "the job's page says so too"
    job = deck.get(f"/admin/chokaq/deck/job/{fine}/", headers={"accept-language": "de"}).content.decode()
    assert "Eine Bedingung des Patches trifft nicht zu." in job
    following = deck.get(f"/admin/chokaq/deck/bulk/new/?action=resurrect&of={view.id}")
    assert 'data-total="3"' in following.content.decode()
    post(deck, "begin", f"/admin/chokaq/deck/bulk/new/?action=resurrect&of={view.id}")
    control.bulk_run(operation().id)
    assert set(JobHot.objects.values_list("pk", flat=True)) == set(broken)
    assert "Resurrect the" not in deck.get(begun.headers["Location"]).content.decode()


def test_several_fields_and_lines_are_added_without_a_script(deck: Client) -> None:
    pay(1, "USD", note="old")
    text = post(deck, "row", **row(path="note", do="remove", value="")).content.decode()
    assert 'name="path:1"' in text
    assert 'value="note"' in text
    post(deck, "begin", **row(path="note", do="remove", value=""), **row(1, "$.token", '"t"', when="missing"))
    assert control.bulk_run(operation().id).applied == 1
    assert json.loads(JobDLQ.objects.get().payload) == {"order": 1, "currency": "USD", "token": "t"}


def test_a_selection_by_id(deck: Client) -> None:
    ids = [pay(1), pay(2), pay(3)]
    text = post(
        deck, "try", "/admin/chokaq/deck/bulk/new/?action=edit", ids=" ".join(ids[:2]), **row()
    ).content.decode()
    assert figures(text)["changed"] == "2"
    assert f'name="ids" value="{" ".join(ids[:2])}"' in text.replace("\n", " ").replace("  ", "")


@pytest.mark.parametrize("act", ["try", "begin"])
@pytest.mark.parametrize(
    ("typed", "said", "wrong"),
    [
        ({"value": "EUR"}, "EUR is no JSON; a text is written in quotes: &quot;EUR&quot;", "id_value_0"),
        ({"value": ""}, "currency: a value is needed", "id_value_0"),
        ({"when": "is"}, "currency: a value is needed", "id_now_0"),
        ({"path": "a..b"}, "is no path", "id_path_0"),
        ({"path": "", "value": "1"}, "the field", "id_path_0"),
        ({"path": XSS, "value": XSS, "now": XSS}, "is no path", "id_path_0"),
        ({"value": '"••••••••"'}, "was masked", ""),
    ],
)
def test_what_is_wrong_is_said_at_its_input(
    deck: Client, act: str, typed: dict[str, str], said: str, wrong: str
) -> None:
    pay(1)
    response = post(deck, act, **{**row(), **{f"{name}:0": text for name, text in typed.items()}})
    text = response.content.decode()
    assert response.status_code == 400
    assert said in text
    assert XSS not in text
    if wrong:
        assert 'aria-invalid="true"' in text.partition(f'id="{wrong}"')[2].partition(">")[0]
    assert not BulkOperation.objects.exists()


def test_nothing_to_try(deck: Client) -> None:
    pay(1)
    assert "name a field first" in post(deck, "try").content.decode()
    assert "nothing to change" in post(deck, "begin").content.decode()


def test_who_may_not_see_payloads_sees_none_and_asks_for_none() -> None:
    client = Client()
    client.force_login(make.operator("view_deck", "edit_payload", username="editor"))
    pay(1, "PR1V")
    page = client.get(NEW).content.decode()
    assert "can only set fields at the top" in page
    for asks in ({"now": '"PR1V"'}, {"do": "remove", "value": ""}, {"when": "missing"}, {"path": "a.b"}):
        asked = post(client, "try", **row(**asks))
        assert (asked.status_code, "anything else tells what is there" in asked.content.decode()) == (400, True), asks
    text = post(client, "try", **row()).content.decode()
    assert figures(text)["changed"] == "1"
    assert "PR1V" not in text
    refused = post(client, "try", **row(path="order", value="5")).content.decode()
    assert figures(refused)["unfit"] == "1"
    assert "PR1V" not in refused
    begun = post(client, "begin", **row(value='"CHF"'))
    control.bulk_run(operation().id)
    text = client.get(begun.headers["Location"]).content.decode()
    assert "/currency becomes" in text
    assert "CHF" not in text


def test_the_ways_there(deck: Client) -> None:
    details = "Traceback ...\nPayloadError: $.currency: Expected `str`, got `int`"
    JobDLQ.objects.filter(pk=pay(1)).update(error_type="PayloadError", error_details=details)
    get_storage().recount_groups()
    group = deck.get(f"/admin/chokaq/deck/failure/{'ab' * 16}/").content.decode()
    assert "Repair payloads…" in group
    [repair] = re.findall(r'href="([^"]*action=edit[^"]*)"', group)
    assert 'value="$.currency"' in deck.get(html.unescape(repair)).content.decode(), "the field at fault"
    assert "Edit or repair payloads…" in deck.get("/admin/chokaq/jobdlq/").content.decode()


def test_a_running_operation_gets_another_drip_and_skips_its_canary(deck: Client) -> None:
    view = control.bulk_resurrect([pay(1), pay(2)], by="ada", rate=0.5, canary=1)
    page = f"/admin/chokaq/deck/bulk/{view.id}/"
    text = deck.get(page).content.decode()
    assert "Go on without waiting" in text
    assert 'value="0.5"' in text
    post(deck, "rate", page, rate="200")
    post(deck, "skip_canary", page)
    view = control.bulk_run(view.id)
    assert (view.rate, view.canary_decision, view.applied) == (200.0, "overruled", 2)
    post(deck, "rate", page, rate="soon")
    text = deck.get(page).content.decode()
    assert "The rate must be a number." in text
    assert 'data-outcome="active">2<' in text
    assert "data-outcomes-open" in text
