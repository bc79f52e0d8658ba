"""Verbs on workers. A worker reads what is wanted of it within seconds, so all of them only request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..conf import get_options
from ..job.envelope import EnvelopeError, clean_key
from ..models import Worker
from ..sentence import Sentence, shown
from ..storage import BulkResult, Conflict
from .acts import Operator, act_transaction, audit, authorised, log_act

__all__ = ["drain_worker", "set_concurrency", "stop_worker"]

MOST_THREADS = 10_000


def stop_worker(worker_id: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Ask a worker process to finish its running jobs and exit; it reads this within seconds (``requested``).

    Needs ``chokaq.operate``.
    """

    def plan(row: Worker) -> dict[str, Any] | str:
        return Sentence("The worker was asked to stop already.") if row.stop_requested else {"stop_requested": True}

    return _order("stop_worker", worker_id, plan, by, reason)


def drain_worker(worker_id: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Ask a worker process to claim nothing more and stay: what runs there ends in its own time, without the grace
    period of a stop. :func:`set_concurrency` takes it back to work. Needs ``chokaq.operate``."""

    def plan(row: Worker) -> dict[str, Any] | str:
        return (
            Sentence("The worker was asked to drain already.")
            if row.desired_concurrency == 0
            else {"desired_concurrency": 0}
        )

    return _order("drain_worker", worker_id, plan, by, reason)


def set_concurrency(worker_id: str, concurrency: int, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Ask a worker process to run so many ``def run`` jobs at once, until it ends; a drained one works again.

    Needs ``chokaq.operate``. ``EnvelopeError`` for a bad number.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise EnvelopeError(
            "concurrency", Sentence("must be an integer, got %(concurrency)s", concurrency=shown(concurrency))
        )
    if not 1 <= concurrency <= MOST_THREADS:
        raise EnvelopeError(
            "concurrency",
            Sentence(
                "must be from 1 to %(most_threads)s, got %(concurrency)s; to claim nothing, drain it",
                most_threads=MOST_THREADS,
                concurrency=shown(concurrency),
            ),
        )

    def plan(row: Worker) -> dict[str, Any] | str:
        wanted = row.concurrency if row.desired_concurrency is None else row.desired_concurrency
        return Sentence("The worker has this concurrency already.") if wanted == concurrency else {
            "desired_concurrency": concurrency
        }  # fmt: skip

    return _order("set_concurrency", worker_id, plan, by, reason)


def _clean_worker_id(worker_id: object) -> str:
    key = clean_key(worker_id, "worker_id")
    if key is None:
        raise EnvelopeError("worker_id", Sentence("must be the id of a worker, got %(given)s", given=shown(worker_id)))
    return key


def _order(
    action: str, worker_id: str, plan: Callable[[Worker], dict[str, Any] | str], by: str | Operator, reason: str
) -> BulkResult:
    """Write into the worker's row what ``plan`` wants, or refuse for the reason that it gives."""
    actor = authorised(by, "operate")
    worker_id = _clean_worker_id(worker_id)
    alias = get_options().database
    answer = BulkResult()
    with act_transaction(alias):
        row = Worker.objects.using(alias).select_for_update().filter(pk=worker_id).first()
        if row is None:
            answer.refused.append(Conflict(worker_id, Sentence("There is no worker with this id.")))
        elif isinstance(orders := plan(row), str):
            answer.refused.append(Conflict(worker_id, orders))
        else:
            changes = {name: {"from": getattr(row, name), "to": value} for name, value in orders.items()}
            Worker.objects.using(alias).filter(pk=worker_id).update(**orders)
            audit(alias, action, {worker_id: {"host": row.host, "pid": row.pid, **changes}}, actor, reason)
            answer.requested.append(worker_id)
    log_act(action, actor, answer)
    return answer
