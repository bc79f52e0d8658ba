"""Lists of jobs, page by page, at a cost that does not grow with the tables: see ``search.py`` for how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .job import Location
from .job_summary import JobSummary, summary_of
from .limits import clean_limit
from .search import RowPage, Search
from .selection import JobFilter, clean_where

__all__ = ["JobPage", "RowPage", "iter_jobs", "iter_pages", "list_jobs", "list_rows"]

MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class JobPage:
    """``next``: what to give as ``after`` for the page that follows; None when there is none."""

    jobs: list[JobSummary]
    next: str | None


def list_jobs(
    where: JobFilter | None = None, *, limit: int = 50, after: str | None = None, oldest_first: bool = False
) -> JobPage:
    """Jobs that a filter finds (all active ones without it), newest first: by creation, end, death or purge.

    ``after``: ``next`` of the page before, of the same list. What has no index (``tag``, ``created_by``, ``worker``,
    the keys) needs, in the past, a filter that has one (queue, type, reason, fingerprint), ten characters of an id or a
    range of at most seven days. ``EnvelopeError`` for a bad filter.
    """
    where = JobFilter() if where is None else clean_where(where)
    page = list_rows(where, limit=limit, after=after, oldest_first=oldest_first)
    return JobPage([summary_of(row, Location(where.place)) for row in page.rows], page.next)


def list_rows(where: JobFilter, *, limit: int = 50, after: str | None = None, oldest_first: bool = False) -> RowPage:
    """The page of :func:`list_jobs` as rows of the tables, without the columns that no list shows."""
    return Search(where, oldest_first, after).page(clean_limit(limit, MOST_LISTED))


def iter_jobs(where: JobFilter | None = None, *, oldest_first: bool = False) -> Iterator[JobSummary]:
    """All jobs that a filter finds, read page by page."""
    for page in iter_pages(JobFilter() if where is None else where, limit=MOST_LISTED, oldest_first=oldest_first):
        yield from page.jobs


def iter_pages(where: JobFilter, *, limit: int, oldest_first: bool = False) -> Iterator[JobPage]:
    """The pages of :func:`list_jobs`, to the last."""
    after: str | None = None
    while True:
        page = list_jobs(where, limit=limit, after=after, oldest_first=oldest_first)
        yield page
        after = page.next
        if after is None:
            return
