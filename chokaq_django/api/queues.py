"""Queues, workers and circuits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from .. import control
from ..models import Circuit
from ..reading.documents import (
    CircuitDocument,
    QueueDocument,
    WorkerDocument,
    circuit_document,
    instant,
    queue_document,
    worker_document,
)
from ..reading.fleet import read_workers, serves
from ..reading.names import UnknownNameError, named_queue, named_type
from ..reading.queues import read_queues
from .endpoint import Call, Endpoint
from .errors import ApiError
from .shapes import Name, Reason, VerbAnswer, told

__all__ = ["ENDPOINTS"]

MOST_CIRCUITS = 500
New = Annotated[bool, Meta(description="Accept a name that nothing knows yet; without it, one is refused as a slip.")]


class QueuesQuery(Struct, forbid_unknown_fields=True):
    """`name`: only this queue."""

    name: Name | None = None


class QueueList(TypedDict):
    as_of: str
    queues: list[QueueDocument]


class WorkerList(TypedDict):
    as_of: str
    workers: list[WorkerDocument]


class CircuitsQuery(Struct, forbid_unknown_fields=True):
    """`all`: closed circuits too."""

    all: bool = False


class CircuitList(TypedDict):
    as_of: str
    circuits: list[CircuitDocument]


class QueueBody(Struct, forbid_unknown_fields=True, kw_only=True):
    queue: Name
    new: New = False
    reason: Reason = ""


class LimitsBody(QueueBody, forbid_unknown_fields=True, kw_only=True):
    """What is left out stays, null takes a limit off. Time-outs are seconds; `window` is text such as
    `22:00-06:00 Europe/Berlin`."""

    max_workers: int | UnsetType | None = UNSET
    zombie_timeout: float | UnsetType | None = UNSET
    execution_timeout: float | UnsetType | None = UNSET
    window: Annotated[str, Meta(max_length=100)] | UnsetType | None = UNSET


class WorkerBody(Struct, forbid_unknown_fields=True, kw_only=True):
    worker: Name
    reason: Reason = ""


class ConcurrencyBody(WorkerBody, forbid_unknown_fields=True, kw_only=True):
    concurrency: int


class TypeBody(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Name
    new: New = False
    reason: Reason = ""


def _known(find: Callable[..., str], name: str, path: str, *, new: bool | None = None) -> str:
    """``name``, where ``find`` knows it. ``new``: whether the caller accepts any; None where there is no saying so."""
    try:
        return find(name, new=bool(new))
    except UnknownNameError as error:
        hint = "" if new is None else ' "new": true accepts it all the same.'
        raise ApiError(400, "unknown_name", error.message + hint, path) from None


def _queues(call: Call) -> QueueList:
    name = call.query.name
    if name is not None:
        name = _known(named_queue, name, "name")
    workers = read_workers(call.alias, call.now)
    found = read_queues(call.alias, call.now, only=name)
    documents: list[QueueDocument] = [
        {**queue_document(figures, call.now), "has_live_worker": serves(workers, figures.name)} for figures in found
    ]
    return {"as_of": instant(call.now) or "", "queues": documents}


def _workers(call: Call) -> WorkerList:
    workers = [worker_document(worker) for worker in read_workers(call.alias, call.now)]
    return {"as_of": instant(call.now) or "", "workers": workers}


def _circuits(call: Call) -> CircuitList:
    rows = Circuit.objects.using(call.alias).order_by("type")
    if not call.query.all:
        rows = rows.exclude(state=Circuit.CLOSED)
    circuits = [circuit_document(row, call.now) for row in rows[:MOST_CIRCUITS]]
    return {"as_of": instant(call.now) or "", "circuits": circuits}


def _on_known(verb: Callable[..., Any], find: Callable[..., str], path: str, call: Call) -> VerbAnswer:
    name = _known(find, getattr(call.body, path), path, new=call.body.new)
    return told(verb(name, by=call.user, reason=call.body.reason))


def _worker_verb(verb: Callable[..., Any], call: Call) -> VerbAnswer:
    return told(verb(call.body.worker, by=call.user, reason=call.body.reason))


def _set_queue(call: Call) -> VerbAnswer:
    body = call.body
    names = ("max_workers", "zombie_timeout", "execution_timeout", "window")
    limits = {name: getattr(body, name) for name in names if getattr(body, name) is not UNSET}
    if not limits:
        raise ApiError(400, "invalid", f"A limit to set is needed: {', '.join(names)}.")
    queue = _known(named_queue, body.queue, "queue", new=body.new)
    return told(control.set_queue(queue, by=call.user, reason=body.reason, **limits))


def _concurrency(call: Call) -> VerbAnswer:
    body = call.body
    return told(control.set_concurrency(body.worker, body.concurrency, by=call.user, reason=body.reason))


def _on_queue(name: str, path: str, summary: str, verb: Callable[..., Any]) -> Endpoint:
    act = partial(_on_known, verb, named_queue, "queue")
    return Endpoint(name, "POST", f"queues/{path}", summary, act, VerbAnswer, body=QueueBody, needs="chokaq.operate")


def _on_worker(name: str, path: str, summary: str, verb: Callable[..., Any]) -> Endpoint:
    act = partial(_worker_verb, verb)
    return Endpoint(name, "POST", f"workers/{path}", summary, act, VerbAnswer, body=WorkerBody, needs="chokaq.operate")


def _on_circuit(name: str, path: str, summary: str, verb: Callable[..., Any]) -> Endpoint:
    act = partial(_on_known, verb, named_type, "type")
    return Endpoint(name, "POST", f"circuits/{path}", summary, act, VerbAnswer, body=TypeBody, needs="chokaq.operate")


ENDPOINTS = (
    Endpoint("listQueues", "GET", "queues", "Queues: what waits, since when, what runs, and limits.", _queues,
             QueueList, query=QueuesQuery),
    _on_queue("pauseQueue", "pause", "Claim nothing more from a queue.", control.pause_queue),
    _on_queue("resumeQueue", "resume", "Claim from a queue again.", control.resume_queue),
    _on_queue("hideQueue", "hide", "Take a queue out of use.", control.hide_queue),
    _on_queue("showQueue", "show", "Take a hidden queue into use again.", control.show_queue),
    Endpoint("setQueue", "POST", "queues/set", "Set limits of a queue, or take them off.", _set_queue, VerbAnswer,
             body=LimitsBody, needs="chokaq.operate"),
    _on_queue("resetQueue", "reset", "Give a queue the limits that the settings say, which it follows again.",
              control.reset_queue),
    Endpoint("listWorkers", "GET", "workers", "Worker processes.", _workers, WorkerList),
    _on_worker("stopWorker", "stop", "Ask a worker to finish and exit.", control.stop_worker),
    _on_worker("drainWorker", "drain", "Ask a worker to claim nothing more.", control.drain_worker),
    Endpoint("setConcurrency", "POST", "workers/concurrency", "Ask a worker to run so many jobs at once.",
             _concurrency, VerbAnswer, body=ConcurrencyBody, needs="chokaq.operate"),
    Endpoint("listCircuits", "GET", "circuits", "Circuits that hold jobs back.", _circuits, CircuitList,
             query=CircuitsQuery),
    _on_circuit("openCircuit", "open", "Start no job of a type until an operator closes it.", control.open_circuit),
    _on_circuit("closeCircuit", "close", "Let jobs of a type start again.", control.close_circuit),
    _on_circuit("resetCircuit", "reset", "Close it and forget its failures.", control.reset_circuit),
)  # fmt: skip
