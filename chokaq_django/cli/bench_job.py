"""The job that a benchmark runs. Only the benchmark and its worker import this: no other worker knows the type."""

from __future__ import annotations

from ..job.context import JobContext
from ..job.definition import Job

__all__ = ["BenchJob"]


class BenchJob(Job, type="chokaq.bench.v1", max_attempts=1, circuit=False):
    """Does nothing, with a payload as large as asked for."""

    filling: str = ""

    def run(self, ctx: JobContext) -> None:
        return None
