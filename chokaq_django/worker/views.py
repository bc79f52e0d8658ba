"""What a worker remembers of the control tables: queue switches and circuits, refreshed about once a second.

These are hints that spare queries: the claim itself checks pause and caps in the database.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from ..conf import Options
from ..conf.options import window_open
from ..models import Circuit
from ..storage import Storage
from ..storage.contract import CircuitRow, QueueRow
from ..storage.deferrals import LONGEST_SPREAD

REFRESH = 1.0
CLOCK_REFRESH = 60.0
NEW_ROWS = 50
"""Control rows that one refresh makes, at most."""


class QueueView:
    """Which queues this worker may claim from now, and their limits."""

    def __init__(self, options: Options, named: Sequence[str], *, renews: bool = True) -> None:
        """``renews``: the options are the newest there are, and rows whose limits no operator has set follow them."""
        self._options = options
        self._renews = renews
        self._named = list(named)
        self._rows: dict[str, QueueRow] = {}
        self._found: set[str] = set()
        self._fresh_until = 0.0
        self._offset = dt.timedelta(0)
        self._clock_until = 0.0

    def seed(self, storage: Storage) -> None:
        """Have control rows be as the QUEUES setting says, once; limits that an operator has set stay as they are."""
        said = self._options.queues
        there = {row.name: row for row in storage.queues()}
        for name in [*said, *sorted(there.keys() - said.keys())]:
            wanted, row = QueueRow.new(name, said.get(name)), there.get(name)
            if row is None and storage.seed_queue(wanted):
                continue
            # A row that has just come may be of a worker with older settings.
            if self._renews and (row is None or row.limits != wanted.limits):
                storage.renew_queue(wanted)
        self._renews = False

    def refresh(self, storage: Storage, *, force: bool = False, grace: float = 0.0) -> bool:
        """Read the control rows if they are older than a second (and ``grace``); whether they were read now."""
        now = time.monotonic()
        if now < self._fresh_until + grace and not force:
            return False
        self._rows = {row.name: row for row in storage.queues()}
        if not self._named:
            self._found = set(storage.pending_queues())
        self._give_rows(storage)
        if now >= self._clock_until and any(row.window for row in self._rows.values()):
            self._offset = storage.now() - dt.datetime.now(dt.UTC)
            self._clock_until = now + CLOCK_REFRESH
        self._fresh_until = now + REFRESH
        return True

    def _give_rows(self, storage: Storage) -> None:
        """Queues that are worked on get a row without limits, so that an operator finds them to pause and to limit."""
        for name in sorted(set(self._named or self._found) - set(self._rows))[:NEW_ROWS]:
            storage.seed_queue(QueueRow.new(name, None))

    def found(self, name: str) -> None:
        """A notice named this queue."""
        self._found.add(name)

    def interested(self, name: str) -> bool:
        return not self._named or name in self._named

    def place(self, name: str) -> int:
        """Where the queue stands in the order of the command line."""
        return self._named.index(name) if name in self._named else len(self._named)

    def claimable(self) -> list[str]:
        """Queues to claim from, in the worker's order: named ones, or all that are known."""
        names = self._named or sorted(self._found | set(self._rows))
        now = dt.datetime.now(dt.UTC) + self._offset
        open_ = []
        for name in names:
            row = self._rows.get(name)
            if row is None or (row.is_active and not row.is_paused and window_open(row.window, now)):
                open_.append(name)
        return open_

    def caps(self, names: Sequence[str]) -> dict[str, int]:
        rows = ((name, self._rows.get(name)) for name in names)
        return {name: row.max_workers for name, row in rows if row is not None and row.max_workers is not None}

    def execution_timeout(self, name: str) -> float | None:
        row = self._rows.get(name)
        return row.execution_timeout if row else None

    def zombie_timeout(self, name: str) -> float:
        row = self._rows.get(name)
        return row.zombie_timeout if row and row.zombie_timeout is not None else self._options.recovery.zombie_timeout


LONGEST_UNKNOWN = 30.0
"""Seconds for which jobs of a type that no code here knows are left alone, at most."""


class CircuitView:
    """Types that must not run now, types that may be probed, and types that a circuit has let go.

    Read by the fetch loop; :meth:`replace` is called by the settle loop too.
    """

    def __init__(self) -> None:
        self._rows: dict[str, CircuitRow] = {}
        self._held: dict[str, float] = {}  # type that is not closed -> the longest time it was to stay so, in seconds
        # Type that was let go -> the same, and until when anything of it can still be deferred.
        self._freed: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()  # of the two above
        self._read_at = 0.0
        self._unknown: dict[str, tuple[float, float, float]] = {}  # type -> (first seen, blocked until, pause)

    def refresh(self, storage: Storage, *, grace: float = 0.0) -> None:
        if time.monotonic() - self._read_at >= REFRESH + grace:
            self.replace(storage.circuits())

    def replace(self, rows: Sequence[CircuitRow]) -> None:
        with self._lock:
            open_ = [row for row in rows if row.state != Circuit.CLOSED]
            held = {row.type: max(row.reopens_in, self._held.get(row.type, 0.0)) for row in open_}
            gone = {key: seconds for key, seconds in self._held.items() if key not in held}
            if gone:
                self._free(gone, max(gone.values()) + LONGEST_SPREAD)
            self._held, self._freed = held, {key: entry for key, entry in self._freed.items() if key not in held}
        self._rows = {row.type: row for row in rows}
        self._read_at = time.monotonic()

    def freed(self) -> dict[str, float]:
        """Type keys whose circuit has closed, and whose deferred jobs may still wait to be brought forward, to the
        seconds for which the circuit was to be open at most."""
        now = time.monotonic()
        return {key: seconds for key, (seconds, until) in self._freed.items() if until > now}

    def let_go(self, types: Iterable[str], seconds: float) -> None:
        """Nothing blocks these types here: what others put off, for so long at most, may be brought forward."""
        with self._lock:
            self._free({key: seconds for key in types if key not in self._held}, 2 * seconds)

    def _free(self, types: Mapping[str, float], longest: float) -> None:
        now = time.monotonic()
        kept = {key: entry for key, entry in self._freed.items() if entry[1] > now}
        self._freed = kept | {key: (seconds, now + longest) for key, seconds in types.items()}

    def row(self, type_key: str) -> CircuitRow | None:
        return self._rows.get(type_key)

    def blocked(self) -> dict[str, float]:
        """Type key -> seconds after which to look again."""
        now = time.monotonic()
        passed = now - self._read_at
        blocked = {
            row.type: max(0.1, row.reopens_in - passed)
            for row in self._rows.values()
            if row.state == Circuit.OPEN and (row.forced or row.reopens_in > passed)
        }
        for type_key, (_, until, _) in self._unknown.items():
            if until > now:
                blocked[type_key] = until - now
        return blocked

    def probing(self) -> list[str]:
        """Type keys whose circuits are half open or due to be."""
        passed = time.monotonic() - self._read_at
        return [
            row.type
            for row in self._rows.values()
            if not row.forced
            and (row.state == Circuit.HALF_OPEN or (row.state == Circuit.OPEN and row.reopens_in <= passed))
        ]

    def unknown_type(self, type_key: str) -> tuple[float, float]:
        """Note that no code here knows the type: (seconds it has been unknown, seconds to leave its jobs alone)."""
        now = time.monotonic()
        first, until, pause = self._unknown.get(type_key, (now, now, 1.0))
        if until > now:
            return now - first, until - now  # another job of the same look: the pause grows by the look
        self._unknown[type_key] = (first, now + pause, min(pause * 2, LONGEST_UNKNOWN))
        return now - first, pause
