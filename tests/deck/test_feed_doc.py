"""The reference of the live feed shows what the feed really sends."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest
from django.utils import timezone

from chokaq_django.deck.feed.board import Board
from chokaq_django.job.ids import new_id
from chokaq_django.models import BulkOperation, Circuit
from tests import factories as make
from tests.helpers import ROOT

from .test_feed_board import group, sections_of

PAGE = (ROOT / "docs/reference/deck-feed.md").read_text()


def blocks() -> list[str]:
    """The JSON of the page."""
    return re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


def shape(value: Any) -> Any:
    """The keys of an object, of its rows' first one, of a list's first item of each kind."""
    if isinstance(value, dict):
        rows = value.get("rows")
        if isinstance(rows, dict):
            return {
                **{key: shape(value[key]) for key in value if key not in ("rows", "order")},
                "rows": _first(rows.values()),
            }
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted({(one.get("kind", ""), tuple(sorted(one))) for one in value})
    return "value"


def _first(rows: Any) -> list[str]:
    return sorted(next(iter(rows)))


@pytest.mark.django_db
def test_the_sections_are_those_of_the_reference() -> None:
    make.queue()
    job = make.running()
    make.archived()
    make.dead()
    make.audit_entry()
    make.worker()
    make.circuit(state=Circuit.OPEN, open_until=timezone.now() + dt.timedelta(minutes=1))
    group("f" * 32, 1)
    now = timezone.now()
    operation = BulkOperation.objects.create(id=new_id(), action="purge", created_at=now, updated_at=now)
    overview, one_job = (json.loads(block) for block in blocks()[-2:])
    board = Board()
    assert shape(sections_of(board)) == shape(overview)
    assert set(sections_of(board, f"job:{job.pk}")["job"]) - {"as_of"} == set(one_job)
    assert set(sections_of(board, f"bulk:{operation.pk}")["operation"]) - {"as_of"} == set(
        next(iter(overview["bulk"]["rows"].values()))
    )
    assert set(sections_of(board, "queue:mail")["queue"]) - {"as_of"} == set(overview["queues"]["rows"]["mail"])


def test_every_message_of_the_reference_is_json() -> None:
    for line in blocks()[0].splitlines():
        assert json.loads(line)["type"]
