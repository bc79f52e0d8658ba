"""Texts of a megabyte: pages show the beginning and say how long it is, and all of it where one asks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chokaq_django.deck.diff import LONGEST, MOST_CHARACTERS, MOST_SHOWN, side_by_side
from chokaq_django.models import PayloadVersion
from tests import factories as make

from .pages import edit_page, job_page

pytestmark = pytest.mark.django_db

SIZE = 1_000_000
LARGEST = 250_000
"""Bytes of a page that shows a part of it."""
ENDS = "the very end"
LONG = json.dumps({"name": "x" * SIZE + ENDS})
MANY = json.dumps({"lines": [f"line {number}" for number in range(60_000)] + [ENDS]})


def page(client: Client, address: str, **form: Any) -> str:
    answer = client.post(address, form) if form else client.get(address)
    assert answer.status_code == 200
    return str(answer.content.decode())


def in_part(client: Client, address: str, part: str) -> None:
    """The page is no longer than one reads; the link on it leads to all."""
    text = page(client, address)
    assert ENDS not in text
    assert len(text) < LARGEST
    query = f"{'&amp;' if '?' in address else '?'}whole={part}"
    assert f"{query.replace('?', '')}#{part}" in text, query
    assert ENDS in page(client, f"{address}{'&' if '?' in address else '?'}whole={part}")


@pytest.mark.parametrize("payload", [LONG, MANY])
def test_a_payload(deck: Client, payload: str) -> None:
    in_part(deck, job_page(make.hot(payload=payload)), "payload")
    assert "of 1,00" in page(deck, job_page(make.hot(payload=LONG)))


def test_a_payload_with_its_masked_values(deck: Client) -> None:
    row = make.hot(payload=json.dumps({"name": "x" * SIZE, "password": ENDS}))
    assert ENDS not in page(deck, f"{job_page(row)}?whole=payload")
    assert ENDS in page(deck, job_page(row), act="reveal")


def test_a_result_and_an_error(deck: Client) -> None:
    in_part(deck, job_page(make.archived(result=LONG)), "result")
    in_part(deck, job_page(make.dead(error_details="x" * SIZE + ENDS)), "error")


def test_an_earlier_payload(deck: Client) -> None:
    row = make.hot(payload='{"name":"a"}', revision=1)
    PayloadVersion.objects.create(
        job_id=row.pk, revision=0, type=row.type, schema_version=1, payload=LONG, replaced_at=timezone.now()
    )
    in_part(deck, f"{job_page(row)}?version=0", "versions")


def test_the_details_of_an_act(deck: Client) -> None:
    entry = make.audit_entry(details=LONG)
    in_part(deck, reverse("admin:chokaq_auditentry_change", args=[entry.pk]), "details")


def test_an_edit(deck: Client) -> None:
    row = make.hot(type="test.note")
    typed = json.dumps({"name": "x" * 50_000 + ENDS})
    form = {"view": "json", "json:$": typed, "queue": "mail", "priority": "10", "tags": "", "type": row.type,
            "revision": "0"}  # fmt: skip
    table = "chokaq-diff-table"
    text = page(deck, edit_page(row), act="check", **form).partition(table)[2]
    assert text
    assert ENDS not in text
    assert 'value="check_whole"' in text
    text = page(deck, edit_page(row), act="check_whole", **form).partition(table)[2]
    assert ENDS in text
    assert 'value="check_whole"' not in text


def test_a_trial_of_a_patch(deck: Client) -> None:
    make.hot(type="test.note", payload=json.dumps({"name": "x" * 50_000}))
    address = f"{reverse('admin:chokaq_deck_bulk_new')}?action=edit&status=pending"
    form = {"path:0": "name", "do:0": "set", "when:0": "", "now:0": "", "value:0": json.dumps("x" * 50_000 + ENDS)}
    table = "chokaq-diff-table"
    text = page(deck, address, act="try", **form).partition(table)[2]
    assert ENDS in text, "what differs is shown first"
    assert text.count("x" * 2_000) == 0
    assert 'value="try_whole"' in text
    assert page(deck, address, act="try_whole", **form).partition(table)[2].count("x" * 50_000) == 2


def test_a_difference_is_shown_from_where_it_begins() -> None:
    diff = side_by_side("a" * 500_000 + "old", "a" * 500_000 + "new" + "b" * 500_000)
    (line,) = diff.lines
    assert diff.cut
    assert (line.old, (line.new or "")[100:105]) == ("…" + "a" * 100 + "old", "anewb")
    assert len(line.new or "") <= LONGEST + 2
    (line,) = side_by_side("a" * 500_000 + "old", "a" * 500_000 + "new", whole=True).lines
    assert line.new == "a" * 500_000 + "new"


def test_a_difference_has_so_many_lines_and_characters() -> None:
    many = side_by_side("\n".join(map(str, range(5_000))), "")
    assert (len(many.lines), many.cut, many.removed) == (MOST_SHOWN, True, 5_000)
    long = side_by_side("\n".join("x" * 900 + str(number) for number in range(500)), "")
    assert long.cut
    assert sum(len(line.old or "") for line in long.lines) <= MOST_CHARACTERS
    assert not side_by_side("a\nb", "a\nc").cut
