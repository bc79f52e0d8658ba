"""What only a look at all workers together tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.utils.translation import gettext_noop

from .. import __version__
from ..reading.fleet import WorkerView
from ..sentence import Sentence
from .finding import Diagnosis, Severity

__all__ = ["findings"]


_AHEAD = gettext_noop(
    "%(off)s of %(alive)s workers run on machines whose clock is off; %(host)s:%(pid)s by most: %(offset)s s ahead of "
    "the database's. Jobs, leases and heartbeats run by the database's; what a handler computes from its machine's "
    "clock is off by that much."
)
_BEHIND = gettext_noop(
    "%(off)s of %(alive)s workers run on machines whose clock is off; %(host)s:%(pid)s by most: %(offset)s s behind "
    "the database's. Jobs, leases and heartbeats run by the database's; what a handler computes from its machine's "
    "clock is off by that much."
)


def findings(workers: Sequence[WorkerView]) -> Iterator[Diagnosis]:
    """Versions and clocks that differ, and workers that do not take jobs."""
    alive = [worker for worker in workers if worker.is_alive]
    other = [worker for worker in alive if worker.row.version != __version__]
    if other:
        versions = ", ".join(sorted({worker.row.version for worker in other}))
        yield Diagnosis(
            "version_differs", Severity.WARNING,
            Sentence(
                "%(other)s of %(alive)s workers run chokaq-django %(versions)s; the code here is "
                "%(version)s.",
                other=len(other), alive=len(alive), versions=versions, version=__version__,
            ),
            Sentence(
                "During a deployment that is as it should be; otherwise restart them: `chokaq workers -v "
                "2` names them.",
            ),
        )  # fmt: skip
    off = [worker for worker in alive if worker.clock_is_off]
    if off:
        worst = max(off, key=lambda worker: abs(worker.row.clock_offset or 0.0)).row
        offset = worst.clock_offset or 0.0
        yield Diagnosis(
            "worker_clock_skew", Severity.WARNING,
            Sentence(
                _AHEAD if offset > 0 else _BEHIND, off=len(off), alive=len(alive), host=worst.host,
                pid=str(worst.pid), offset=f"{abs(offset):.1f}",
            ),
            Sentence(
                "Let these machines and the database follow the same time service (NTP); `chokaq workers "
                "-v 2` names them.",
            ),
        )  # fmt: skip
    draining = [worker for worker in alive if worker.row.state != "running"]
    if alive and len(draining) == len(alive):
        yield Diagnosis(
            "all_draining", Severity.ERROR, Sentence("Every live worker is stopping: nothing takes new jobs."),
            Sentence("Start workers: `manage.py runworker`."),
        )  # fmt: skip
