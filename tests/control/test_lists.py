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
from chokaq_django.control import JobSummary, Location, listing
from chokaq_django.job.ids import new_id
from chokaq_django.models import FailureReason, JobArchive, JobStatus, JobTrash
from tests import factories as make

pytestmark = pytest.mark.django_db

NOW = timezone.now()
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


def pages(place: Location | str, **named: Any) -> Iterator[list[JobSummary]]:
    after = None
    for _ in range(1_000):
        page = control.list_jobs(place, after=after, **named)
        yield page.jobs
        after = page.next
        if after is None:
            return
    raise AssertionError("the list has no end")


def ids(place: Location | str, **named: Any) -> list[str]:
    """Everything that matches, page by page."""
    return [job.id for page in pages(place, **named) for job in page]


# -- order and pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 50])
@pytest.mark.parametrize("place", ["hot", "archive", "dlq", "trash"])
def test_pages_hold_every_job_once_newest_first(place: str, limit: int) -> None:
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
    found = list(pages(place, limit=limit))
    assert [job.id for page in found for job in page] == expected
    assert all(len(page) == limit for page in found[:-1])
    assert 1 <= len(found[-1]) <= limit, "the last page is not empty"


def test_what_comes_meanwhile_moves_no_page() -> None:
    made = [make.hot().pk for _ in range(6)][::-1]
    first = control.list_jobs(limit=3)
    make.hot()
    second = control.list_jobs(limit=3, after=first.next)
    assert [job.id for job in first.jobs + second.jobs] == made


def test_a_summary_says_what_a_list_shows_and_reads_nothing_heavy() -> None:
    row = make.dead(failure_reason=FailureReason.ZOMBIE, tags='["a","b"]', revision=2, created_by="ada", priority=5)
    with CaptureQueriesContext(connection) as queries:
        [job] = control.list_jobs("dlq").jobs
    assert len(queries) == 1
    for heavy in ("payload", "error_details", "attempt_log", "headers"):
        assert heavy not in queries[0]["sql"]
    assert (job.location, job.status, job.failure_reason) == (Location.DLQ, JobStatus.ZOMBIE, FailureReason.ZOMBIE)
    assert (job.tags, job.revision, job.created_by, job.priority) == (("a", "b"), 2, "ada", 5)
    assert (job.at, job.fingerprint, job.error_type) == (row.failed_at, row.fingerprint, row.error_type)
    assert control.list_jobs("archive").jobs == []


# -- filters -----------------------------------------------------------------------------------------------------------


def test_active_jobs() -> None:
    waiting = make.hot(queue="a", type="x.v1", idempotency_key="k")
    at_work = make.running(queue="b", type="x.v1", created_by="ada", tags='["vip","a\\"b"]')
    assert ids("hot", status=JobStatus.PROCESSING) == [at_work.pk]
    assert ids("hot", queue="a") == [waiting.pk]
    assert ids("hot", type="x.v1") == [at_work.pk, waiting.pk]
    assert ids("hot", type="x.v1", queue="b", status=2) == [at_work.pk]
    assert ids("hot", worker=make.WORKER_ID) == [at_work.pk]
    assert ids("hot", created_by="ada") == [at_work.pk]
    assert ids("hot", key="k") == [waiting.pk]
    assert ids("hot", tag="vip") == ids("hot", tag='a"b') == [at_work.pk]
    assert ids("hot", tag="VIP") == ids("hot", tag="vi") == ids("hot", queue="A") == []


def test_dead_jobs() -> None:
    one = make.dead(failure_reason=FailureReason.MAX_RETRIES_EXCEEDED, fingerprint="a" * 32, queue="q", type="x.v1")
    two = make.dead(failure_reason=FailureReason.POISON, fingerprint="b" * 32, queue="q", type="y.v1", tags='["t"]')
    assert ids("dlq", reason=FailureReason.MAX_RETRIES_EXCEEDED) == [one.pk], "its number is 0"
    assert ids("dlq", reason=FailureReason.POISON, queue="q") == [two.pk]
    assert ids("dlq", fingerprint="a" * 32) == [one.pk]
    assert ids("dlq", fingerprint="a" * 32, reason=FailureReason.POISON) == []
    assert ids("dlq", queue="q", tag="t") == [two.pk]
    assert ids("dlq", queue="q", type="x.v1") == [one.pk]


def test_the_beginning_of_an_id() -> None:
    made = [make.hot().pk for _ in range(3)]
    other = make.hot(id="0" + new_id()[1:9] + "ZZZZZZZZZZZZZZZZZ")
    assert ids("hot", id_prefix=other.pk[:14].lower()) == [other.pk]
    assert ids("hot", id_prefix=made[1]) == [made[1]]
    assert len(ids("hot", id_prefix="0")) == 4


@pytest.mark.parametrize("place", ["archive", "hot"])
def test_a_range_of_time(place: str) -> None:
    if place == "archive":
        made = [make.archived(finished_at=NOW - HOUR * hours).pk for hours in range(5)]
    else:
        made = [
            make.hot(id=listing.first_id(NOW - HOUR * hours)[:10] + new_id()[10:], created_at=NOW - HOUR * hours).pk
            for hours in range(5)
        ]
    # An id knows its milliseconds only.
    since, until = NOW - 3 * HOUR - dt.timedelta(milliseconds=1), NOW - HOUR - dt.timedelta(milliseconds=1)
    assert ids(place, since=since, until=until) == made[2:4]
    assert ids(place, since=since) == made[:4]
    assert ids(place, until=until, limit=1) == made[2:]


def test_what_has_no_index_needs_company_in_the_past() -> None:
    row = make.archived(tags='["t"]', created_by="ada", queue="q")
    for filters in ({"tag": "t"}, {"created_by": "ada"}, {"worker": "w"}, {"key": "k"}):
        with pytest.raises(EnvelopeError, match="since must be at most seven days"):
            control.list_jobs("archive", **filters)  # type: ignore[arg-type]
    with pytest.raises(EnvelopeError, match="seven days"):
        control.list_jobs("archive", tag="t", since=NOW - 8 * DAY)
    assert ids("archive", tag="t", since=NOW - 6 * DAY) == [row.pk]
    assert ids("archive", tag="t", since=NOW - 36 * DAY, until=NOW - 30 * DAY) == []
    assert ids("archive", created_by="ada", queue="q") == [row.pk]


def test_a_page_reads_so_far_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "STEP", 5)
    monkeypatch.setattr(listing, "MOST_READ", 20)
    rare = [make.archived(queue="q", tags='["rare"]').pk]
    for _ in range(47):
        make.archived(queue="q")
    rare.append(make.archived(queue="q", tags='["rare"]').pk)
    JobArchive.objects.update(finished_at=NOW)  # ids tell them apart
    with CaptureQueriesContext(connection) as queries:
        page = control.list_jobs("archive", queue="q", tag="rare")
    assert len(queries) == 4
    assert [job.id for job in page.jobs] == rare[1:]
    assert page.next is not None, "there is more to look at"
    found = list(pages("archive", queue="q", tag="rare"))
    assert [job.id for part in found for job in part] == rare[::-1]
    assert len(found) == 3


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"place": "attic"}, "place must be one of hot, archive, dlq, trash"),
        ({"limit": 0}, "limit must be from 1 to 1,000"),
        ({"limit": 1_001}, "limit must be"),
        ({"limit": True}, "limit must be"),
        ({"status": "pending"}, "status must be an integer"),
        ({"place": "dlq", "status": 0}, "status is of hot jobs only"),
        ({"reason": 1}, "reason is of dlq jobs only"),
        ({"place": "archive", "fingerprint": "a"}, "fingerprint is of dlq jobs only"),
        ({"id_prefix": "x%"}, "id_prefix must be the beginning of a job id"),
        ({"id_prefix": "0" * 27}, "id_prefix must be"),
        ({"since": dt.datetime(2026, 1, 1)}, "since must be an aware datetime"),  # noqa: DTZ001 - that is the point
        ({"queue": 5}, "queue must be a string"),
        ({"queue": "a\x00"}, "queue must not contain NUL"),
        ({"tag": "t" * 300}, "tag must be at most"),
        ({"after": "nonsense"}, "after must be the 'next' of a page"),
        ({"after": f"2026-01-01~{new_id()}"}, "after must be"),
        ({"place": "dlq", "after": new_id()}, "after must be"),
        ({"place": "dlq", "after": f"2026-01-01T00:00:00~{new_id()}"}, "after must be"),
    ],
)
def test_bad_filters_are_refused_by_name(named: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        control.list_jobs(**named)
    assert words in str(caught.value)
