"""The fleet: its workers, who leads, the queues, the circuits."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..fleet_records import CircuitAct, CircuitReport, CircuitRow, QueueRow, WorkerOrders, WorkerRow

__all__ = ["Fleet"]


class Fleet(ABC):
    """What workers know of each other, and what operators want of them."""

    @abstractmethod
    def register(self, row: WorkerRow) -> WorkerOrders:
        """Insert or update the worker's row with last_seen now; read what operators want of it. Of a new row that is
        what the worker says of it."""

    @abstractmethod
    def unregister(self, worker_id: str) -> None:
        """Remove the worker's row."""

    @abstractmethod
    def workers_seen(self) -> dict[str, dt.datetime]:
        """Worker id -> last_seen, of all rows."""

    @abstractmethod
    def sweep_workers(self, ids: Sequence[str]) -> None:
        """Remove rows of dead workers."""

    @abstractmethod
    def lead(self, name: str, holder: str, ttl: float) -> bool:
        """Take or extend the fleet-wide lease ``name`` for ``ttl`` seconds; False when another holder has it."""

    @abstractmethod
    def resign(self, name: str, holder: str) -> None:
        """Give the lease up, if still held."""

    @abstractmethod
    def queues(self) -> list[QueueRow]:
        """All control rows."""

    @abstractmethod
    def seed_queue(self, row: QueueRow) -> bool:
        """Insert the row unless the queue has one; whether it was inserted."""

    @abstractmethod
    def renew_queue(self, row: QueueRow) -> bool:
        """Give the queue's row these limits unless it is one whose limits an operator has set; whether it got them."""

    @abstractmethod
    def settings(self) -> list[tuple[str, str]]:
        """Options that operators have set: name and JSON value."""

    @abstractmethod
    def circuits(self) -> list[CircuitRow]:
        """Circuits that are not closed, or that have failures counted."""

    @abstractmethod
    def report_circuits(self, reports: Sequence[CircuitReport]) -> list[CircuitRow]:
        """Count failures, open, close after enough successful probes, reopen after a failed one; the rows after it."""

    @abstractmethod
    def set_circuit(self, type_key: str, act: CircuitAct, by: str | None) -> bool:
        """Open, close or reset the circuit of a type; whether that changed anything. See :class:`CircuitAct`."""
