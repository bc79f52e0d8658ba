"""The jobs of ``worker.py``: each appends one byte to the file that BENCH_OUT names."""

import asyncio
import os
import time

from chokaq_django import Job, JobContext

WAIT = 0.05
"""Seconds that the I/O jobs wait for nothing."""


class Tally:
    """The file, opened when the first job of a process runs."""

    descriptor: int | None = None

    def add(self) -> None:
        if self.descriptor is None:
            self.descriptor = os.open(os.environ["BENCH_OUT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self.descriptor, b".")


tally = Tally()


class Noop(Job, type="bench.worker.noop"):
    to: str = "a@example.com"
    n: int = 17

    def run(self, ctx: JobContext) -> None:
        tally.add()


class Waits(Job, type="bench.worker.waits"):
    to: str = "a@example.com"

    def run(self, ctx: JobContext) -> None:
        time.sleep(WAIT)
        tally.add()


class WaitsAsync(Job, type="bench.worker.waits_async"):
    to: str = "a@example.com"

    async def run(self, ctx: JobContext) -> None:
        await asyncio.sleep(WAIT)
        tally.add()
