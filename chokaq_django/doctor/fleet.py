"""What only a look at all workers together tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import __version__
from ..reading.fleet import WorkerView
from .finding import Diagnosis, Severity

__all__ = ["findings"]


def findings(workers: Sequence[WorkerView]) -> Iterator[Diagnosis]:
    """Versions that differ, and workers that do not take jobs."""
    alive = [worker for worker in workers if worker.is_alive]
    other = [worker for worker in alive if worker.row.version != __version__]
    if other:
        versions = ", ".join(sorted({worker.row.version for worker in other}))
        yield Diagnosis(
            "version_differs", Severity.WARNING,
            f"{len(other)} of {len(alive)} workers run chokaq-django {versions}; the code here is {__version__}.",
            "During a deployment that is as it should be; otherwise restart them: `chokaq workers -v 2` names them.",
        )  # fmt: skip
    draining = [worker for worker in alive if worker.row.state != "running"]
    if alive and len(draining) == len(alive):
        yield Diagnosis(
            "all_draining", Severity.ERROR, "Every live worker is stopping: nothing takes new jobs.",
            "Start workers: `manage.py runworker`.",
        )  # fmt: skip
