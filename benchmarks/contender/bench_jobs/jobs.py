"""The three jobs of the harness; with BENCH_ASYNC=1 as ``async def``."""

import os

import jobs as bodies

from chokaq_django import Job, JobContext

if os.environ.get("BENCH_ASYNC"):

    class Noop(Job, type="bench.noop"):
        to: str
        n: int

        async def run(self, ctx: JobContext) -> None:
            bodies.noop({"to": self.to, "n": self.n})

    class Io(Job, type="bench.io"):
        to: str
        n: int

        async def run(self, ctx: JobContext) -> None:
            await bodies.aio({"to": self.to, "n": self.n})

else:

    class Noop(Job, type="bench.noop"):
        to: str
        n: int

        def run(self, ctx: JobContext) -> None:
            bodies.noop({"to": self.to, "n": self.n})

    class Io(Job, type="bench.io"):
        to: str
        n: int

        def run(self, ctx: JobContext) -> None:
            bodies.io({"to": self.to, "n": self.n})


class Lat(Job, type="bench.lat"):
    to: str
    n: int
    t: int

    def run(self, ctx: JobContext) -> None:
        bodies.lat({"t": self.t})


jobs_of = {"noop": Noop, "io": Io, "lat": Lat}
