"""The page of one row: what it shows, to whom, and that nothing on it does anything by itself."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from django.db.models import Model
from django.test import Client
from django.utils.html import escape

from chokaq_django.models import Circuit, Queue
from tests import factories as make

from .pages import MODELS, inline_code, list_of, page_of


def html_of(client: Client, row: Model) -> str:
    response = client.get(page_of(row))
    assert response.status_code == 200, response
    html = response.content.decode()
    assert inline_code(html) == []
    return html


XSS = """<script>alert(1)</script>'"><img src=x onerror=alert(2)>{{ 7|add:7 }}</textarea></pre>"""


def hostile() -> list[Model]:
    """Rows with a script in every text that a job, a host or an operator may have written."""
    return [
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


def test_nothing_can_be_added_changed_or_deleted(deck: Client) -> None:
    for row in (make.hot(), make.archived(), make.dead(), make.worker(), make.circuit(), make.audit_entry()):
        name = row._meta.model_name
        assert deck.get(f"/admin/chokaq/{name}/add/").status_code == 403
        assert deck.get(f"/admin/chokaq/{name}/{row.pk}/delete/").status_code == 403
        assert deck.post(f"/admin/chokaq/{name}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
        deck.post(f"/admin/chokaq/{name}/{row.pk}/change/", {"queue": "other", "payload": "{}", "host": "x"})
        before = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
        row.refresh_from_db()
        assert {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields} == before
    assert deck.get("/admin/chokaq/queue/add/").status_code == 403
    queue = make.queue()
    assert deck.post(page_of(queue, "delete"), {"post": "yes"}).status_code == 403
    assert Queue.objects.exists()
    assert Circuit.objects.exists()


@pytest.mark.parametrize("model", MODELS)
def test_nul_is_in_no_name(deck: Client, model: str) -> None:
    assert deck.get(f"/admin/chokaq/{model}/a%00b/change/").status_code == 302
    assert deck.get(f"{list_of(model)}?q=a%00b").status_code in (200, 400)
    assert deck.get(f"{list_of(model)}?queue=a%00b").status_code in (200, 400, 302)
    for verb in ("pause", "resume", "cancel", "resurrect", "stop"):
        assert deck.post(f"/admin/chokaq/{model}/a%00b/{verb}/", follow=True).status_code in (200, 404)
