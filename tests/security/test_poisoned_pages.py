"""Rows that no code of ours wrote: every page of the admin opens, and shows them as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from chokaq_django import control
from tests import factories as make
from tests.deck.pages import edit_page, list_of, page_of

pytestmark = pytest.mark.django_db

XSS = "<script>alert('🎉')</script>\"'><img src=x onerror=alert(1)>"
DEEP = "[" * 100_000
NESTED = "[" * 400 + "]" * 400
SURROGATES = '["\\ud800", "\\udfff<b>"]'
LOGS = [
    "", "garbage", DEEP, NESTED, '{"a": 1}', "[1, null, [], {}]", SURROGATES, "[" * 900 + "]" * 900,
    json.dumps([{"attempt": XSS, "outcome": [XSS], "worker": {"a": XSS}, "started": XSS, "log": [XSS, None, {}],
                 "duration_ms": -5, "error_type": 5, "traceback": [XSS]}]),
    '[{"duration_ms": ' + "9" * 400 + "}]",
    '[{"duration_ms": 1e400, "started": 5, "log": "text"}]',
    '[{"duration_ms": true, "started": "0001-01-01T00:00:00+14:00"}]',
    '[{"started": "9999-12-31T23:59:59-12:00", "duration_ms": ' + "9" * 30 + "}]",
    '[{"outcome": "\\ud800", "message": "\\udc00", "worker": "\\ud800", "log": ["\\ud800"], "attempt": "\\ud800"}]',
]  # fmt: skip


@pytest.fixture
def deck(db: None) -> Client:
    """The browser of an operator who may see everything."""
    client = Client()
    client.force_login(make.operator("view_deck", "view_payload", "edit_payload", "operate", "cancel", "resurrect"))
    return client


def opens(client: Client, row: Model) -> str:
    text = ""
    for address in (page_of(row), list_of(str(row._meta.model_name))):
        answer = client.get(address)
        assert answer.status_code == 200, address
        text += answer.content.decode()
    assert "<img src=x" not in text
    assert "<script>alert" not in text
    return text


def job_opens(client: Client, row: Any) -> str:
    assert control.get(row.pk) is not None
    return opens(client, row)


@pytest.mark.parametrize("text", LOGS)
@pytest.mark.parametrize("kind", [make.hot, make.archived, make.dead])
def test_any_text_in_the_json_columns(deck: Client, kind: Callable[..., Any], text: str) -> None:
    job_opens(deck, kind(attempt_log=text, tags=text, headers=text, payload=text))


@pytest.mark.parametrize("text", LOGS)
@pytest.mark.parametrize("kind", [make.hot, make.dead])
def test_the_editor_of_any_text(deck: Client, kind: Callable[..., Any], text: str) -> None:
    row = kind(type="test.note", tags=text, headers=text, payload=text)
    answer = deck.get(edit_page(row))
    assert answer.status_code == 200
    assert "<img src=x" not in answer.content.decode()
    form = {"view": "json", "json": "{}", "queue": "q", "priority": "1", "tags": "a", "type": "test.note"}
    assert deck.post(edit_page(row), {**form, "revision": str(row.revision), "act": "check"}).status_code == 200


@pytest.mark.parametrize("status", [-1, 0, 3, 7, 8, 9, 99])
def test_any_status(deck: Client, status: int) -> None:
    job_opens(deck, make.hot(status=status, progress=-5, progress_message=XSS, cancel_requested_by=XSS))


@pytest.mark.parametrize("reason", [-1, 3, 15, 99, 2**31 - 1])
def test_any_reason(deck: Client, reason: int) -> None:
    job_opens(deck, make.dead(failure_reason=reason, error_type=XSS, error_details=XSS, note=XSS, fingerprint="<b>"))


def test_any_names(deck: Client) -> None:
    for key in ("", " ", XSS, "a/b/../c", "%2f..%00", "🎉", "a\nb", "."):
        job_opens(deck, make.hot(type=key, queue=key, worker_id=key, created_by=key, idempotency_key=key or None))


def test_any_numbers(deck: Client) -> None:
    job_opens(deck, make.archived(duration_ms=2**63 - 1, wait_ms=-(2**63), priority=-(2**31), attempt=2**31 - 1))
    job_opens(deck, make.archived(duration_ms=-1, wait_ms=0, result="{" * 100_000))


def test_any_control_row(deck: Client) -> None:
    opens(deck, make.circuit(XSS, state=9, probes=SURROGATES, updated_by=XSS))
    opens(deck, make.circuit("b", probes=DEEP))
    # 20 characters fit in the state; the sign outside of the BMP counts as two of them on SQL Server.
    opens(deck, make.worker(XSS[:90], host=XSS, state=XSS[:19], queues=SURROGATES, rss_mb=1e300))
    opens(deck, make.worker("w2", queues=NESTED, concurrency=-5))
    opens(deck, make.queue(XSS, execution_timeout=1e300, zombie_timeout=-5, window_zone=XSS))
    opens(deck, make.audit_entry(by=XSS, action=XSS[:40], target=XSS, reason=XSS, details=SURROGATES))
    opens(deck, make.audit_entry(target="a/../b\n", details=DEEP))
