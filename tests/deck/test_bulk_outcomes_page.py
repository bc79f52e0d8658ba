"""What became of the jobs of an operation: its figures, its list of jobs and the list of operations say the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from chokaq_django import control
from chokaq_django.control import BulkState
from chokaq_django.models import (
    BulkItem,
    BulkItemState,
    BulkOperation,
    Circuit,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobHot,
)
from tests import factories as make

pytestmark = pytest.mark.django_db

LIST = "/admin/chokaq/deck/bulk/"
DIED, SUCCEEDED, CANCELLED, DELETED = 5, 3, 2, 1


def brought_back(**columns: Any) -> tuple[str, list[str]]:
    """An operation that has ended, and its jobs, of which some have ended since."""
    ids = sorted(make.dead().pk for _ in range(20))
    view = control.bulk_run(control.bulk_resurrect(ids=ids, by="ada").id)
    assert view.state is BulkState.DONE
    BulkOperation.objects.filter(pk=view.id).update(**columns)
    ended = iter(ids)
    for count, become in (
        (DIED, make.dead), (SUCCEEDED, make.archived),
        (CANCELLED, lambda **row: make.dead(failure_reason=FailureReason.CANCELLED, **row)), (DELETED, None),
    ):  # fmt: skip
        for _ in range(count):
            JobHot.objects.filter(pk=(job_id := next(ended))).delete()
            if become is not None:
                become(id=job_id)
    return view.id, ids


def words(answer: Any) -> str:
    return " ".join(strip_tags(answer.content.decode()).split())


def listed(deck: Client, page: str, state: str) -> list[str]:
    return [item["id"] for item in deck.get(f"{page}?items={state}").context["items"]]


@pytest.mark.parametrize("watched", [False, True])
def test_figures_and_jobs_of_the_set_agree(deck: Client, watched: bool) -> None:
    operation, ids = brought_back(**({"canary": 4, "canary_decision": "passed", "died": 1} if watched else {}))
    if watched:  # one had died while it looked; of the others it never heard
        BulkItem.objects.filter(operation_id=operation, job_id=ids[0]).update(state=BulkItemState.DIED)
    page = f"{LIST}{operation}/"
    answer = deck.get(page)
    outcomes = answer.context["outcomes"]
    assert (outcomes.died, outcomes.succeeded, outcomes.active, outcomes.gone) == (5, 3, 9, 3)
    shown = Counter(str(item["state"]) for item in answer.context["items"])
    assert shown == {"Died": 5, "Succeeded": 3, "Gone": 3, "Applied": 9}
    assert listed(deck, page, "died") == ids[:5]
    assert listed(deck, page, "succeeded") == ids[5:8]
    assert listed(deck, page, "gone") == ids[8:11]
    assert listed(deck, page, "applied") == ids[11:]
    assert ("watched no more: 0 succeeded, 1 died" in words(answer)) is watched


def test_items_of_other_verbs_stay_applied(deck: Client) -> None:
    ids = [make.dead().pk for _ in range(3)]
    view = control.bulk_run(control.bulk_purge(ids=ids, by="ada").id)
    assert [item.state for item in control.bulk_items(view.id).items] == [BulkItemState.APPLIED] * 3


def test_the_list_says_nothing_of_what_nobody_watched(deck: Client) -> None:
    brought_back()
    assert "Not watched: its page looks up" in deck.get(LIST).content.decode()
    BulkOperation.objects.update(canary=4, died=1)
    text = deck.get(LIST).content.decode()
    assert "Not watched" not in text
    assert 'data-live="died">1' in text


def test_only_circuits_of_the_set_are_named(deck: Client) -> None:
    ids = [make.dead(type="shop.charge.v1").pk, make.dead(type="shop.mail.v1").pk]
    view = control.bulk_resurrect(ids=ids, rate=0.01, by="ada")
    page = f"{LIST}{view.id}/"
    make.circuit("partner.sync", state=Circuit.OPEN)
    make.circuit("shop.mail.v1", state=Circuit.CLOSED)
    assert "Circuits are open." not in words(deck.get(page))
    make.circuit("shop.charge.v1", state=Circuit.OPEN)
    assert deck.get(page).context["circuits"] == ["shop.charge.v1"]
    JobDLQ.objects.filter(pk=ids[0]).delete()
    make.hot(id=ids[0], type="shop.charge.v1")
    assert deck.get(page).context["circuits"] == ["shop.charge.v1"], "of jobs that are back too"


def test_archived_jobs_are_out_of_reach_of_a_circuit(deck: Client) -> None:
    job = make.dead(type="shop.charge.v1").pk
    view = control.bulk_resurrect(ids=[job], rate=0.01, by="ada")
    JobDLQ.objects.all().delete()
    make.archived(id=job, type="shop.charge.v1")
    assert JobArchive.objects.count() == 1
    make.circuit("shop.charge.v1", state=Circuit.OPEN)
    assert deck.get(f"{LIST}{view.id}/").context["circuits"] == []
