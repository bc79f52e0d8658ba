"""Lists of jobs: filters, pages, and what a page may cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import EnvelopeError, control
from chokaq_django.control import JobFilter, JobSummary, Location
from chokaq_django.job.ids import new_id
from chokaq_django.models import FailureReason, JobArchive, JobStatus, JobTrash
from chokaq_django.reading import search
from tests import factories as make

pytestmark = pytest.mark.django_db

NOW = timezone.now()
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
STATUS_OF = {"hot": "active", "archive": "succeeded", "dlq": "dead", "trash": "purged"}


def pages(status: str, *, limit: int = 50, oldest_first: bool = False, **filters: Any) -> Iterator[list[JobSummary]]:
    after = None
    for _ in range(1_000):
        where = JobFilter(status=status, **filters)
        page = control.list_jobs(where, limit=limit, after=after, oldest_first=oldest_first)
        yield page.jobs
        after = page.next
        if after is None:
            return
    raise AssertionError("the list has no end")


def ids(status: str, **named: Any) -> list[str]:
    """Everything that matches, page by page."""
    return [job.id for page in pages(status, **named) for job in page]


# -- order and pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["hot", "archive", "dlq", "trash"])
def test_pages_hold_every_job_once_in_order(place: str) -> None:
    made = []
    for number in range(7):
        at = NOW - HOUR * (number // 3)  # several at the same instant
        if place == "hot":
            made.append(make.hot().pk)
        elif place == "archive":
            made.append(make.archived(finished_at=at).pk)
        else:
            made.append(make.dead(failed_at=at).pk)
    if place == "trash":
        control.purge(made, by="ada")
        for number, job_id in enumerate(made):
            JobTrash.objects.filter(pk=job_id).update(purged_at=NOW - HOUR * (number // 3))
    expected = sorted(made, reverse=True)
    if place != "hot":
        expected = sorted(made, key=lambda job_id: (-(made.index(job_id) // 3), job_id), reverse=True)
    for limit in (1, 2, 3, 7, 8):
        for oldest_first in (False, True):
            found = list(pages(STATUS_OF[place], limit=limit, oldest_first=oldest_first))
            assert [job.id for page in found for job in page] == expected[:: -1 if oldest_first else 1]
            assert all(len(page) == limit for page in found[:-1])
            assert 1 <= len(found[-1]) <= limit, "the last page is not empty"
    assert [job.id for job in control.iter_jobs(JobFilter(status=STATUS_OF[place]))] == expected


@pytest.mark.parametrize("filters", [{}, {"queue": "mail"}, {"id_prefix": "0"}])
def test_what_comes_meanwhile_moves_no_page(filters: dict[str, Any]) -> None:
    made = [make.hot().pk for _ in range(6)][::-1]
    where = JobFilter(**filters)
    first = control.list_jobs(where, limit=3)
    make.hot()
    second = control.list_jobs(where, limit=3, after=first.next)
    assert [job.id for job in first.jobs + second.jobs] == made


def test_a_summary_says_what_a_list_shows_and_reads_nothing_heavy() -> None:
    row = make.dead(failure_reason=FailureReason.ZOMBIE, tags='["a","b"]', revision=2, created_by="ada", priority=5)
    with CaptureQueriesContext(connection) as queries:
        [job] = control.list_jobs(JobFilter(status="dead")).jobs
    assert len(queries) == 1
    for heavy in ("payload", "error_details", "attempt_log", "headers"):
        assert heavy not in queries[0]["sql"]
    assert (job.location, job.status, job.failure_reason) == (Location.DLQ, JobStatus.ZOMBIE, FailureReason.ZOMBIE)
    assert (job.tags, job.revision, job.created_by, job.priority) == (("a", "b"), 2, "ada", 5)
    assert (job.at, job.fingerprint, job.error_type) == (row.failed_at, row.fingerprint, row.error_type)
    assert control.list_jobs(JobFilter(status="succeeded")).jobs == []


# -- filters -----------------------------------------------------------------------------------------------------------


def test_active_jobs() -> None:
    waiting = make.hot(queue="a", type="x.v1", idempotency_key="k", concurrency_key="customer-1")
    at_work = make.running(queue="b", type="x.v1", created_by="ada", tags='["vip","a\\"b"]')
    parent = make.hot(queue="b", status=JobStatus.AWAITING)
    assert ids("processing") == [at_work.pk]
    assert ids("active", queue="a") == [waiting.pk]
    assert ids("active", queue="b") == [parent.pk, at_work.pk]
    assert ids("awaiting", queue="b") == ids("awaiting") == [parent.pk]
    assert ids("active", type="x.v1") == [at_work.pk, waiting.pk]
    assert ids("processing", type="x.v1", queue="b") == [at_work.pk]
    assert ids("processing", queue="a") == []
    assert ids("active", worker=make.WORKER_ID) == [at_work.pk]
    assert ids("active", created_by="ada") == [at_work.pk]
    assert ids("active", created_by="ADA") == []
    assert ids("active", idempotency_key="k") == ids("active", concurrency_key="customer-1") == [waiting.pk]
    assert ids("active", idempotency_key="k", queue="b") == []
    assert ids("active", tag="vip") == ids("active", tag='a"b') == [at_work.pk]
    assert ids("active", tag="VIP") == ids("active", tag="vi") == ids("active", queue="A") == []


def test_dead_jobs() -> None:
    one = make.dead(failure_reason=FailureReason.MAX_RETRIES_EXCEEDED, fingerprint="a" * 32, queue="q", type="x.v1")
    two = make.dead(failure_reason=FailureReason.POISON, fingerprint="b" * 32, queue="q", type="y.v1", tags='["t"]')
    gone = make.dead(failure_reason=FailureReason.CANCELLED, fingerprint=None)
    assert ids("dead", reason=FailureReason.MAX_RETRIES_EXCEEDED) == [one.pk], "its number is 0"
    assert ids("dead", reason=FailureReason.POISON, queue="q") == [two.pk]
    assert ids("failed") == [two.pk, one.pk]
    assert ids("cancelled") == [gone.pk]
    assert ids("failed", reason=FailureReason.CANCELLED) == []
    assert ids("dead", fingerprint="a" * 32) == [one.pk]
    assert ids("dead", fingerprint="a" * 32, reason=FailureReason.POISON) == []
    assert ids("dead", queue="q", tag="t") == [two.pk]
    assert ids("dead", queue="q", type="x.v1") == [one.pk]


def test_the_beginning_of_a_fingerprint() -> None:
    one, two = make.dead(fingerprint="ab" + "1" * 30), make.dead(fingerprint="ab" + "2" * 30)
    make.dead(fingerprint="ac" + "0" * 30)
    assert ids("dead", fingerprint="AB1") == [one.pk]
    assert ids("dead", fingerprint="ab") == [two.pk, one.pk]
    assert ids("dead", fingerprint="b") == []


def test_the_beginning_of_an_id() -> None:
    made = [make.hot().pk for _ in range(3)]
    other = make.hot(id="0" + new_id()[1:9] + "ZZZZZZZZZZZZZZZZZ")
    assert ids("active", id_prefix=other.pk[:14].lower()) == [other.pk]
    assert ids("active", id_prefix=made[1]) == [made[1]]
    assert len(ids("active", id_prefix="0")) == 4
    late = make.dead()
    early = make.dead(id=late.pk[:10] + new_id()[10:], failed_at=NOW - DAY)  # of the same millisecond
    assert ids("dead", id_prefix=late.pk[:9], oldest_first=True) == [early.pk, late.pk]
    assert ids("dead", id_prefix=early.pk, created_by="ada") == []


@pytest.mark.parametrize("place", ["archive", "hot"])
def test_a_range_of_time(place: str) -> None:
    if place == "archive":
        made = [make.archived(finished_at=NOW - HOUR * hours).pk for hours in range(5)]
    else:
        made = [make.hot(created_at=NOW - HOUR * hours).pk for hours in reversed(range(5))][::-1]
    since, until = NOW - 3 * HOUR, NOW - HOUR
    status = STATUS_OF[place]
    assert ids(status, since=since, until=until) == ids(status, since=since, until=until, queue="mail") == made[2:4]
    assert ids(status, since=since) == made[:4]
    assert ids(status, until=until, limit=1) == made[2:]


def test_the_clock_of_who_enqueued_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids carry it, and give the order; a range of time is one of the database's, as for a bulk operation."""
    monkeypatch.setattr(search, "MOST_READ", 20)
    slow, right, fast = ("0" * 10 + "A" * 16, new_id(), "7" + "Z" * 25)
    for job_id in (slow, right, fast):
        make.hot(id=job_id, created_at=NOW)
    for _ in range(25):  # more than one page looks at
        make.hot(created_at=NOW - 2 * HOUR)
    for named in ({}, {"queue": "mail"}, {"status": "pending"}):
        found: dict[str, Any] = {"status": "active", **named}
        recent = JobFilter(**found, since=NOW - HOUR)
        for oldest_first in (False, True):
            ordered = [slow, right, fast][:: 1 if oldest_first else -1]
            assert ids(**found, since=NOW - HOUR, oldest_first=oldest_first) == ordered
            assert len(ids(**found, until=NOW - HOUR, oldest_first=oldest_first)) == 25
            assert [job.id for job in control.iter_jobs(recent, oldest_first=oldest_first)] == ordered
        assert control.bulk_preview(recent).total == 3
        assert ids(**found, since=NOW - HOUR, until=NOW) == []


def test_a_recent_page_of_active_jobs_reads_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_READ", 40)
    for hours in reversed(range(60)):
        make.hot(created_at=NOW - HOUR * hours)
    where = JobFilter(since=NOW - 30 * HOUR)
    with CaptureQueriesContext(connection) as queries:
        page = control.list_jobs(where, limit=5)
    assert len(page.jobs) == 5
    assert len(queries) == 2, "the rows that are looked at, no more than those of the page, and the page"
    with CaptureQueriesContext(connection) as queries:
        page = control.list_jobs(JobFilter(until=NOW - 50 * HOUR), limit=5)
    assert (page.jobs, len(queries)) == ([], 3), "it looks so far and no further: 6, 12 and the rest of 40"
    assert page.next is not None


def test_what_has_no_index_needs_company_in_the_past() -> None:
    row = make.archived(tags='["t"]', created_by="ada", queue="q")
    keys = ({"idempotency_key": "k"}, {"concurrency_key": "k"})
    for filters in ({"tag": "t"}, {"created_by": "ada"}, {"worker": "w"}, *keys):
        with pytest.raises(EnvelopeError, match="since must be at most seven days"):
            control.list_jobs(JobFilter(status="succeeded", **filters))  # type: ignore[arg-type]
    with pytest.raises(EnvelopeError, match="seven days"):
        control.list_jobs(JobFilter(status="succeeded", tag="t", since=NOW - 8 * DAY))
    assert ids("succeeded", tag="t", since=NOW - 6 * DAY) == [row.pk]
    assert ids("succeeded", tag="t", since=NOW - 36 * DAY, until=NOW - 30 * DAY) == []
    assert ids("succeeded", created_by="ada", queue="q") == [row.pk]
    assert ids("succeeded", tag="t", id_prefix=row.pk[:10]) == [row.pk]


# -- what a page may cost ----------------------------------------------------------------------------------------------


def test_a_page_reads_so_far_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEP", 5)
    monkeypatch.setattr(search, "MOST_READ", 20)
    rare = [make.archived(queue="q", tags='["rare"]').pk]
    for _ in range(47):
        make.archived(queue="q")
    rare.append(make.archived(queue="q", tags='["rare"]').pk)
    JobArchive.objects.update(finished_at=NOW)  # ids tell them apart
    with CaptureQueriesContext(connection) as queries:
        page = control.list_jobs(JobFilter(status="succeeded", queue="q", tag="rare"))
    assert len(queries) == 4, "three steps and the rows"
    assert [job.id for job in page.jobs] == rare[1:]
    assert page.next is not None, "there is more to look at"
    found = list(pages("succeeded", queue="q", tag="rare"))
    assert [job.id for part in found for job in part] == rare[::-1]
    assert len(found) == 3


def test_few_active_jobs_are_found_behind_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_READ", 20)
    rare = make.hot(queue="reports").pk
    many = [make.hot().pk for _ in range(30)][::-1]
    found = list(pages("active", queue="reports"))
    assert [[job.id for job in page] for page in found] == [[rare]], "one page, though 30 newer ones are in the way"
    assert ids("pending", queue="mail", limit=7) == many


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"limit": 0}, "limit must be from 1 to 1,000"),
        ({"limit": 1_001}, "limit must be"),
        ({"limit": True}, "limit must be"),
        ({"status": "attic"}, "status must be one of active, pending"),
        ({"status": 0}, "status must be one of"),
        ({"reason": 1}, "reason is of dead jobs only, not of active ones"),
        ({"status": "dead", "reason": "Poison"}, "reason must be a FailureReason"),
        ({"status": "succeeded", "fingerprint": "a"}, "fingerprint is of dead jobs only"),
        ({"id_prefix": "x%"}, "id_prefix must be the beginning of a job id"),
        ({"id_prefix": "0" * 27}, "id_prefix must be"),
        ({"id_prefix": None}, "id_prefix must be"),
        ({"since": dt.datetime(2026, 1, 1)}, "since must be an aware datetime"),  # noqa: DTZ001 - that is the point
        ({"queue": 5}, "queue must be a string"),
        ({"queue": "a\x00"}, "queue must not contain NUL"),
        ({"tag": "t" * 300}, "tag must be at most"),
        ({"worker": b"w"}, "worker must be a string"),
        ({"after": "nonsense"}, "after must be the 'next' of a page"),
        ({"after": f"2026-01-01~{new_id()}"}, "after must be"),
        ({"status": "dead", "after": new_id()}, "after must be"),
        ({"status": "dead", "after": f"2026-01-01T00:00:00~{new_id()}"}, "after must be"),
    ],
)
def test_bad_filters_are_refused_by_name(named: dict[str, Any], words: str) -> None:
    how = {name: named.pop(name) for name in ("limit", "after") if name in named}
    with pytest.raises(EnvelopeError) as caught:
        control.list_jobs(JobFilter(**named), **how)
    assert words in str(caught.value)
