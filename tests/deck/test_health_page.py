"""The health page: findings with what to do and where, and the doctor when somebody asks for it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from chokaq_django import health
from chokaq_django.deck.pages import health as page
from chokaq_django.models import Circuit
from tests import factories as make

from .pages import inline_code

pytestmark = pytest.mark.django_db

HEALTH = "/admin/chokaq/deck/health/"
XSS = "<script>alert('🎉')</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    health._cache.clear()
    page.doctor.forget()
    yield
    health._cache.clear()
    page.doctor.forget()


def text_of(client: Client) -> str:
    response = client.get(HEALTH)
    assert response.status_code == 200
    return str(response.content.decode())


def test_all_is_well(viewer: Client) -> None:
    make.worker()
    text = text_of(viewer)
    assert "Nothing is stuck, late or failing." in text
    assert 'data-signature="healthy"' in text
    assert inline_code(text) == []


def test_each_finding_says_what_to_do_and_leads_to_what_it_is_about(viewer: Client) -> None:
    name = "reports/eu #1 🎉"
    make.hot(queue=name, run_at=timezone.now() - dt.timedelta(hours=1))
    text = text_of(viewer)
    assert "Unhealthy" in text
    assert "Start one: <code>manage.py runworker</code>." in text
    assert reverse("admin:chokaq_deck_fleet") in text
    assert f"{reverse('admin:chokaq_deck_queue')}?{urlencode({'name': name})}" in text
    health._cache.clear()
    make.worker()
    make.worker("w2", last_seen=timezone.now() - dt.timedelta(hours=1))
    make.circuit("partner.sync", state=Circuit.OPEN)
    make.hot(type="partner.sync", queue=name)
    text = text_of(viewer)
    assert "worker_silent" in text
    assert "circuit_open" in text
    assert reverse("admin:chokaq_deck_circuits") in text


def test_names_are_text(viewer: Client) -> None:
    make.hot(queue=XSS, run_at=timezone.now() - dt.timedelta(hours=1))
    make.worker(XSS[:90], host=XSS, last_seen=timezone.now() - dt.timedelta(hours=1))
    make.circuit(XSS, state=Circuit.OPEN)
    make.hot(type=XSS)
    text = text_of(viewer)
    assert "<img src=x" not in text
    assert "<script>alert" not in text
    assert inline_code(text) == []


def test_the_doctor_comes_when_called_and_not_again_at_once(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make.hot(type="nobody.knows.this", queue=XSS)
    assert "unknown_type" not in text_of(viewer)
    assert page.doctor.last is None, "looking is no examination"
    answer = viewer.post(HEALTH, {"act": "examine"}).content.decode()
    assert "nobody.knows.this (1)" in answer
    assert "register an alias for a renamed type" in answer
    assert "<img src=x" not in answer
    visit = page.doctor.last
    assert visit is not None
    viewer.post(HEALTH, {"act": "examine"})
    assert page.doctor.last is visit
    assert "nobody.knows.this (1)" in text_of(viewer), "what it found stays, with its age"
    monkeypatch.setattr(page, "FRESH", -1.0)
    viewer.post(HEALTH, {"act": "examine"})
    assert page.doctor.last is not visit


def test_who_may_not_look_calls_no_doctor() -> None:
    stranger, forged = Client(), Client(enforce_csrf_checks=True)
    stranger.force_login(make.operator(username="stranger"))
    forged.force_login(make.operator("view_deck"))
    for client in (stranger, forged, Client()):
        assert client.post(HEALTH, {"act": "examine"}).status_code in (302, 403)
    assert page.doctor.last is None
