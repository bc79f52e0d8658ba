"""The watchers themselves: they see what is wrong, and see nothing wrong where jobs merely move."""

from __future__ import annotations

import pytest

from chokaq_django.models import JobArchive, JobHot
from chokaq_django.storage import OutcomeKind, Storage

from .invariants import Sampler, assert_one_place
from .support import BASE_COLUMNS, Jobs, committed, together

pytestmark = committed


def copy_to_archive(job_id: str) -> None:
    hot = JobHot.objects.values(*BASE_COLUMNS).get(pk=job_id)
    JobArchive.objects.create(**hot, finished_at=hot["created_at"], duration_ms=0, wait_ms=0)


def test_a_job_in_two_tables_is_seen(jobs: Jobs) -> None:
    first, _ = jobs.add(2)
    assert_one_place(2)
    copy_to_archive(first)
    with pytest.raises(AssertionError, match=first):
        assert_one_place()
    sampler = Sampler(3)
    sampler.sample()
    sampler.close()
    with pytest.raises(AssertionError, match=first):
        sampler.check()


def test_a_lost_job_is_seen(jobs: Jobs) -> None:
    sampler = Sampler()
    with sampler.accepting(3):
        given = jobs.add(2)
        sampler.sample()  # as many as have come so far
        given += jobs.add(1)
    sampler.sample()
    sampler.check()
    JobHot.objects.filter(pk=given[0]).delete()
    sampler.sample()
    sampler.close()
    with pytest.raises(AssertionError, match="2 jobs, 3 were accepted"):
        sampler.check()
    with pytest.raises(AssertionError, match="2 jobs"):
        assert_one_place(3)


def test_a_job_that_nobody_enqueued_is_seen(jobs: Jobs) -> None:
    sampler = Sampler()
    with sampler.accepting(5, created=lambda: 2):  # three of them were there already
        jobs.add(2)
    sampler.sample()
    sampler.check()
    jobs.add(1)
    sampler.sample()
    sampler.close()
    with pytest.raises(AssertionError, match="3 jobs, 2 were accepted"):
        sampler.check()


def test_a_sampler_that_never_looked_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="not one look"):
        Sampler().check()


def test_jobs_that_move_are_never_seen_twice_or_not_at_all(jobs: Jobs) -> None:
    jobs.add(120)

    def work(number: int, own: Storage) -> None:
        mine, worker = Jobs(own), f"worker-{number}"
        for turn in range(20):
            taken = mine.take(5, worker=worker)
            kind = (OutcomeKind.SUCCEEDED, OutcomeKind.RETRY, OutcomeKind.DEAD)[turn % 3]
            mine.settle(taken, kind, worker=worker)
            if kind is OutcomeKind.DEAD:
                own.resurrect([job.id for job in taken], None)

    with Sampler(120, interval=0.005) as sampler:
        together(4, work)
    sampler.check()
    assert sampler.missed == 0
    assert_one_place(120)
