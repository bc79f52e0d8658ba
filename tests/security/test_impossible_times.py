"""Times that no program can count, written by hand: pages, lists, the feed, the API and the commands show the rows."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chokaq_django import control
from chokaq_django.deck.feed import board
from chokaq_django.deck.pages import data
from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    BulkItem,
    BulkOperation,
    BulkState,
    FailureGroup,
    FailureTotal,
    FailureTriage,
    JobArchive,
    JobBase,
    JobDLQ,
    JobHot,
    RetentionMark,
    Setting,
)
from chokaq_django.models.fields import FIRST, LAST, UTCDateTimeField
from chokaq_django.reading import listing
from chokaq_django.reading.acts import ActFilter, list_acts
from chokaq_django.storage import bulk_sets, get_storage
from tests import factories as make
from tests.api.client import Program
from tests.deck.pages import MODELS, edit_page, list_of, page_of

pytestmark = pytest.mark.django_db

TIMES = {
    "postgresql": ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"],
    "mysql": ["0000-00-00 00:00:00", "2026-00-00 00:00:00"],
    "sqlite": ["zzz", "", "2026-02-31 00:00:00.000000", "0001-01-01 00:00:00+05:00"],
}.get(connection.vendor, [])
if not TIMES:
    pytest.skip("this engine holds no such times", allow_module_level=True)
ENDS = [value for value in TIMES if not value.startswith("2026")]
"""Those that stand before or behind all others."""
OPERATION = new_id()
PERMISSIONS = ("view_deck", "view_payload", "edit_payload", "operate", "cancel", "resurrect", "purge")


@pytest.fixture(autouse=True)
def anything_goes(db: None) -> Iterator[None]:
    """A connection of somebody who has turned the server's checks off. Nothing that an earlier test saw is known."""
    board.clear()
    data.forget()
    if connection.vendor != "mysql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.sql_mode")
        (mode,) = cursor.fetchone()
        cursor.execute("SET SESSION sql_mode = ''")
        yield
        cursor.execute("SET SESSION sql_mode = %s", [mode])


def spoil(row: Model, value: str, *columns: str) -> Any:
    """Writes the time into these columns of the row, or into all that hold instants."""
    fields = [each.column for each in row._meta.concrete_fields if isinstance(each, UTCDateTimeField)]
    names = columns or fields
    assert set(names) <= set(fields)
    key = row._meta.pk.column
    changes = ", ".join(f"{name} = %s" for name in names)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {row._meta.db_table} SET {changes} WHERE {key} = %s",  # noqa: S608 - names of ours
            [*[value] * len(names), row.pk],
        )
    return row


def everything() -> Iterator[Any]:
    now = timezone.now()
    seen = {"first_seen": now, "last_seen": now, "count": 1, "total": 1}
    Setting.objects.create(name="DECK.LAG_CRITICAL", value="20", updated_at=now)
    others = [
        FailureGroup.objects.create(series="1" * 32, fingerprint="f" * 32, queue="mail", type="test.note", shard="a",
                                    reason=3, sample_id=new_id(), **seen),
        FailureTotal.objects.create(fingerprint="f" * 32, **seen),
        FailureTriage.objects.create(fingerprint="f" * 32, acknowledged_at=now, updated_at=now),
        BulkOperation.objects.create(id=OPERATION, action="purge", state="done", place="dlq", created_at=now,
                                     updated_at=now, ended_at=now, canary_at=now, canary_decision="waiting"),
        RetentionMark.objects.create(name="archive", at=now, again_at=now, passed_at=now),
        *Setting.objects.all(),
    ]  # fmt: skip
    yield from others
    yield from [
        make.hot(), make.running(), make.hot(attempt=1, priority=5), make.archived(), make.dead(),
        make.dead(fingerprint="e" * 32, acknowledged_at=timezone.now()), make.purged(), make.queue(), make.worker(),
        make.circuit(state=1), make.audit_entry(target="mail"),
    ]  # fmt: skip


@pytest.mark.parametrize("value", TIMES)
def test_everything_shows_them(value: str) -> None:
    user = make.operator(*PERMISSIONS)
    browser, program = Client(), Program(user)
    browser.force_login(user)
    rows = [spoil(row, value) for row in everything()]
    jobs = [row for row in rows if isinstance(row, JobBase)]
    topics = ["overview", "bulk", "failures", "queue:mail", *(f"job:{job.pk}" for job in jobs)]
    pages = [
        *(reverse(f"admin:chokaq_deck_{name}") for name in ("changelist", "queues", "failures", "fleet", "circuits",
                                                            "bulk", "retention", "health", "settings")),
        f"{reverse('admin:chokaq_deck_queue')}?name=mail",
        reverse("admin:chokaq_deck_failure", args=["f" * 32]),
        reverse("admin:chokaq_deck_bulk_one", args=[OPERATION]),
        *(list_of(row._meta.model_name) for row in rows if row._meta.model_name in MODELS),
        *(page_of(row) for row in rows if row._meta.model_name in MODELS),
        *(edit_page(job) for job in jobs),
        *(f"{list_of(job._meta.model_name)}export/?format={kind}" for job in jobs for kind in ("csv", "ndjson")),
        f"{list_of('auditentry')}export/?format=csv",
    ]  # fmt: skip
    for address in pages:
        answer = browser.get(address, follow=True)
        assert answer.status_code == 200, address
        if answer.streaming:
            assert b"".join(answer.streaming_content), address  # type: ignore[arg-type]
    feed = browser.get(reverse("admin:chokaq_deck_data_snapshot"), {"topic": topics})
    assert [one["type"] for one in feed.json()["messages"]] == ["hello", *["snapshot"] * len(topics)]
    for job in jobs:
        page = browser.get(page_of(job)).content.decode()
        assert ("before the year 1" in page) is not ("after the year 9999" in page)
        assert program.get(f"jobs/{job.pk}").status_code == 200
    for path in ("jobs", "failures", "queues", "circuits", "workers", "audit", "bulk"):
        assert program.get(path).status_code == 200, path
    for status in ("active", "succeeded", "dead", "purged"):
        assert program.get("jobs", status=status).document["jobs"], status


@pytest.mark.parametrize("value", TIMES)
def test_commands_show_them(value: str) -> None:
    jobs = [spoil(row, value) for row in everything() if isinstance(row, JobBase)]
    overviews = "status", "jobs", "queues", "workers", "circuits", "audit", "failures", "doctor"
    for command in (*(["job", job.pk] for job in jobs), *([name] for name in overviews), ["dlq", "list"]):
        with contextlib.suppress(SystemExit):  # the doctor has something to say
            call_command("chokaq", *command, "--no-color", stdout=io.StringIO())


def mixed() -> list[str]:
    """Dead jobs with all of these times, several of each, among ordinary ones that are older and younger; their ids do
    not say which is which."""
    made = []
    for turn in range(2):
        made += [spoil(make.dead(), value, "failed_at").pk for value in (TIMES if turn else reversed(TIMES))]
        made += [make.dead(failed_at=dt.datetime(year, 7, 1, tzinfo=dt.UTC)).pk for year in (2025, 2026, 2027)]
    be_strict()
    return sorted(made)


def be_strict() -> None:
    """Whoever looks at them is as strict as MySQL is by itself."""
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = @@GLOBAL.sql_mode")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_lists_come_to_every_row_once(limit: int, oldest_first: bool, zone: str, settings: Any) -> None:
    """Also where a server gives local times, as PostgreSQL does without USE_TZ."""
    settings.USE_TZ, settings.TIME_ZONE = zone == "UTC", zone
    made = mixed()
    found: list[str] = []
    pages = listing.iter_pages(control.JobFilter(status="dead"), limit=limit, oldest_first=oldest_first)
    for page in islice(pages, 2 * len(made)):
        found += [job.id for job in page.jobs]
    assert sorted(found) == made
    where = control.JobFilter(status="dead", tag="x", since=dt.datetime(2026, 6, 28, tzinfo=dt.UTC),
                              until=dt.datetime(2026, 7, 2, tzinfo=dt.UTC))  # fmt: skip
    assert list(control.iter_jobs(where, oldest_first=oldest_first)) == [], "looked for among the rows, to the end"


@pytest.mark.parametrize("oldest_first", [False, True])
def test_lists_go_on_where_the_row_is_gone(oldest_first: bool) -> None:
    odd = {spoil(make.dead(), ENDS[0], "failed_at").pk for _ in range(3)}
    even = {make.dead().pk for _ in range(3)}
    found: list[str] = []
    for page in islice(listing.iter_pages(control.JobFilter(status="dead"), limit=1, oldest_first=oldest_first), 10):
        found += [job.id for job in page.jobs]
        JobDLQ.objects.filter(pk__in=odd & set(found)).delete()
    assert sorted(found) == sorted(odd | even)


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("chunk", [1, 3])
def test_a_frozen_set_has_every_row_once(chunk: int, hold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", chunk)
    made = mixed()
    assert control.bulk_preview(control.JobFilter(status="dead")).total == len(made)
    operation = control.bulk_resurrect(where=control.JobFilter(status="dead"), by="ada", hold=hold)
    make.dead()  # later
    view = control.bulk_freeze(operation.id, seconds=60) if hold else control.bulk_run(operation.id)
    assert (view.total, sum(count.count for count in control.bulk_counts(view.id)) if hold else view.applied) == (
        len(made), len(made))  # fmt: skip
    assert sorted(item.job_id for item in control.bulk_items(view.id).items) == made


def test_a_set_is_frozen_to_its_end_where_the_last_row_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where to go on is not known any more: no row is frozen twice, which its key would refuse, and none is missed."""
    monkeypatch.setattr(bulk_sets, "FREEZE_CHUNK", 1)
    made = mixed()
    operation = BulkOperation.objects.get(pk=control.bulk_purge(where=control.JobFilter(status="dead"), by="ada").id)
    while operation.state == BulkState.PREPARING:
        get_storage().bulk_step(operation.pk)
        operation.refresh_from_db()
        if operation.freeze_at in (FIRST, LAST):
            JobDLQ.objects.filter(pk=operation.freeze_id).delete()
    assert sorted(BulkItem.objects.values_list("job_id", flat=True)) == made


@pytest.mark.parametrize("oldest_first", [False, True])
def test_the_audit_comes_to_every_entry_once(oldest_first: bool) -> None:
    made = [spoil(make.audit_entry(), value).pk for value in (*TIMES, *reversed(TIMES))] + [make.audit_entry().pk]
    found: list[str] = []
    after = None
    while len(found) < 2 * len(made):
        page = list_acts(ActFilter(), limit=1, after=after, oldest_first=oldest_first)
        found += [entry.pk for entry in page.rows]
        if (after := page.next) is None:
            break
    assert sorted(found) == sorted(made)


@pytest.mark.parametrize("value", TIMES)
def test_rows_as_the_models_read_them(value: str) -> None:
    jobs = [spoil(job, value) for job in (make.hot(), make.archived(), make.dead())]
    for model, job in zip((JobHot, JobArchive, JobDLQ), jobs, strict=True):
        row = model._default_manager.get(pk=job.pk)
        assert row.created_at in (FIRST, LAST)
        assert row.deadline_at in (None, FIRST, LAST)
        assert model._default_manager.values_list("due_at", flat=True).get() == row.created_at
    assert JobHot.objects.create(
        id="0" * 26, queue="q", type="t", payload="{}", **dict.fromkeys(("created_at", "run_at", "due_at"), LAST),
        updated_at=FIRST,
    ).deadline_at is None  # fmt: skip
    row = JobHot.objects.get(pk="0" * 26)
    assert (row.created_at, row.updated_at, row.started_at) == (LAST, FIRST, None)
