"""States that chaos tests wait for, and what must never be in a worker's output."""

from __future__ import annotations

import re

from chokaq_django.models import JobArchive, JobDLQ, JobHot, Worker

from ..helpers import WorkerProcess

ERROR_LINE = re.compile(r"^\S+ \S+ (ERROR|CRITICAL) chokaq\.", re.MULTILINE)
# Deaths that the tests cause themselves: the supervisor is right to report them.
CAUSED = re.compile(r"was killed by signal 9")


def nothing_active() -> bool:
    return not JobHot.objects.exists()


def nothing_leased() -> bool:
    return not JobHot.objects.filter(status__in=[1, 2]).exists()


def settled() -> int:
    return JobArchive.objects.count() + JobDLQ.objects.count()


def workers_there(number: int) -> bool:
    return Worker.objects.count() >= number


def assert_no_errors(workers: list[WorkerProcess]) -> None:
    """No ERROR record of ours in any worker's output, apart from deaths that the test caused."""
    for worker in workers:
        lines = [line for line in worker.output.splitlines() if ERROR_LINE.match(line) and not CAUSED.search(line)]
        assert not lines, "\n".join(lines[:20])
        assert "Traceback" not in worker.output, worker.output[-4000:]
