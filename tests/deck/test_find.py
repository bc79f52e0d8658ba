"""A job is found by its id alone, wherever it is."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chokaq_django.job.ids import new_id
from tests import factories as make

pytestmark = pytest.mark.django_db

FIND = "/admin/chokaq/deck/find/"


@pytest.mark.parametrize("kind", [make.hot, make.archived, make.dead, make.purged])
def test_an_id_leads_to_its_job(deck: Client, kind: Any) -> None:
    job = kind()
    answer = deck.get(FIND, {"q": f" {job.pk.lower()} "}, follow=True)
    assert answer.redirect_chain == [(reverse("admin:chokaq_deck_job", args=[job.pk]), 302)]
    assert answer.context["job"].id == job.pk


def test_an_id_that_there_is_not_is_said(deck: Client) -> None:
    answer = deck.get(FIND, {"q": new_id()}, follow=True)
    assert answer.status_code == 404
    assert "No such job" in answer.content.decode()


def test_all_else_is_looked_for_among_the_active(deck: Client) -> None:
    assert deck.get(FIND, {"q": "mail & more"}).headers["Location"].endswith("/jobhot/?q=mail+%26+more")
    assert deck.get(FIND).headers["Location"].endswith("/jobhot/")


def test_a_list_says_where_a_job_is_that_it_has_not(deck: Client) -> None:
    job = make.hot(queue="mail")
    archive = "/admin/chokaq/jobarchive/"
    text = deck.get(archive, {"q": job.pk}).content.decode()
    assert "Nothing matches the filter." in text
    assert "There is such a job among the active jobs:" in text
    assert reverse("admin:chokaq_deck_job", args=[job.pk]) in text
    assert "among the active jobs" in deck.get("/admin/chokaq/jobhot/", {"q": job.pk, "queue": "x"}).content.decode()
    assert "There is such a job" not in deck.get(archive, {"q": new_id()}).content.decode()
    assert "There is such a job" not in deck.get(archive, {"q": job.pk[:20]}).content.decode()


def test_every_page_can_find_one(deck: Client) -> None:
    for path in ("deck/", "deck/bulk/", "deck/settings/", "jobhot/", "auditentry/", "queue/"):
        text = deck.get(f"/admin/chokaq/{path}").content.decode()
        assert f'action="{FIND}"' in text, path
        assert 'data-snapshot="/admin/chokaq/deck/data/snapshot/"' in text, path


def test_who_may_not_see_the_deck_is_not_led_to_it() -> None:
    client = Client()
    client.force_login(make.operator("view_jobdlq"))
    text = client.get("/admin/chokaq/jobdlq/").content.decode()
    assert FIND not in text
    assert "data-snapshot" not in text
    assert client.get(FIND, {"q": new_id()}).status_code == 403
