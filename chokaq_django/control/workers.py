"""Verbs on workers. A worker reads what is wanted of it within seconds, so all of them only request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_key
from ..models import Worker
from ..storage import BulkResult, Conflict
from .acts import Operator, act_transaction, audit, authorised, log_act

__all__ = ["drain_worker", "set_concurrency", "stop_worker"]

MOST_THREADS = 10_000


def stop_worker(worker_id: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Ask a worker process to finish its running jobs and exit; it reads this within seconds (``requested``).

    Needs ``chokaq.operate``.
    """

    def plan(row: Worker) -> dict[str, Any] | str:
        return "The worker was asked to stop already." if row.stop_requested else {"stop_requested": True}

    return _order("stop_worker", worker_id, plan, by, reason)


def drain_worker(worker_id: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Ask a worker process to claim nothing more and stay: what runs there ends in its own time, without the grace
    period of a stop. :func:`set_concurrency` takes it back to work. Needs ``chokaq.operate``."""

    def plan(row: Worker) -> dict[str, Any] | str:
        return "The worker was asked to drain already." if row.desired_concurrency == 0 else {"desired_concurrency": 0}

    return _order("drain_worker", worker_id, plan, by, reason)


def set_concurrency(worker_id: str, concurrency: int, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Ask a worker process to run so many ``def run`` jobs at once, until it ends; a drained one works again.

    Needs ``chokaq.operate``. ``EnvelopeError`` for a bad number.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise EnvelopeError("concurrency", f"must be an integer, got {concurrency!r}")
    if not 1 <= concurrency <= MOST_THREADS:
        raise EnvelopeError(
            "concurrency", f"must be from 1 to {MOST_THREADS:,}, got {concurrency:,}; to claim nothing, drain it"
        )

    def plan(row: Worker) -> dict[str, Any] | str:
        wanted = row.concurrency if row.desired_concurrency is None else row.desired_concurrency
        return "The worker has this concurrency already." if wanted == concurrency else {
            "desired_concurrency": concurrency
        }  # fmt: skip

    return _order("set_concurrency", worker_id, plan, by, reason)


def _order(
    action: str, worker_id: str, plan: Callable[[Worker], dict[str, Any] | str], by: str | Operator, reason: str
) -> BulkResult:
    """Write into the worker's row what ``plan`` wants, or refuse for the reason that it gives."""
    actor = authorised(by, "operate")
    worker_id = clean_key(worker_id, "worker_id") or ""
    alias = get_options().database
    answer = BulkResult()
    with act_transaction(alias):
        row = Worker.objects.using(alias).select_for_update().filter(pk=worker_id).first()
        orders = "There is no worker with this id." if row is None else plan(row)
        if row is None or isinstance(orders, str):
            answer.refused.append(Conflict(worker_id, str(orders)))
        else:
            changes = {name: {"from": getattr(row, name), "to": value} for name, value in orders.items()}
            Worker.objects.using(alias).filter(pk=worker_id).update(**orders)
            told = {} if action == "stop_worker" else changes
            audit(alias, action, {worker_id: {"host": row.host, "pid": row.pid, **told}}, actor, reason)
            answer.requested.append(worker_id)
    log_act(action, actor, answer)
    return answer
