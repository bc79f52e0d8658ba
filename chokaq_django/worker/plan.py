"""What one worker process is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["WorkerPlan"]


@dataclass(slots=True)
class WorkerPlan:
    """What one worker process is asked to do, from the command line; None means the option."""

    queues: list[str] = field(default_factory=list)
    concurrency: int | None = None
    strict: bool = False
    burst: bool = False
    max_jobs: int | None = None
    renews: bool = True
    """Queues whose limits no operator has set take over those of the settings."""
