"""Bulk operations: freezing a set of jobs, and acting on it chunk by chunk.

A step is one transaction: it locks the operation's row, acts on a chunk of jobs, writes into each of its items what was
done, and moves the operation on. Whoever dies in a step has done nothing; whoever takes the next one goes on there.
Jobs are acted on in the order of their ids, which is that of their creation.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import fields
from typing import Any

from ..models import BulkAction, BulkItemState, BulkState, FailureReason
from ..sentence import Sentence
from . import bulk_rules as rules
from .bulk_rules import Operation
from .bulk_verbs import TABLES, BulkVerbs, Notes
from .columns import ARCHIVE, BULK_ITEM, BULK_OPERATION, DLQ, HOT, names
from .contract import BulkResult, BulkStep, Conflict
from .engine import CHUNK, Row, chunks
from .fleet import BULK_AWAKE

SAMPLES = 20
"""Refusals that are shown with the operation itself; the items have all of them."""
ALIKE = 5
"""Of one reason at most."""
LONG = 1.0
"""Seconds after which a step begins with no further jobs."""
FIRST_PAYLOADS = 4
"""Jobs that a step begins with where payloads are changed: a megabyte of JSON takes a third of a second."""
WATCHED = 2_000
"""Items of one look at what became of the jobs."""
_COLUMNS = tuple(field.name for field in fields(Operation))
_INSTANTS = {"created_at", "started_at", "ended_at", "canary_at", "freeze_at", "paid_at"}
_WAKING = {BulkAction.RESURRECT, BulkAction.RESTORE, BulkAction.EDIT, BulkAction.REVERT}

Item = tuple[str, int | None, str | None]


class BulkStatements(BulkVerbs):
    """Working bulk operations off."""

    def bulk_open(self) -> list[str]:
        sql = f"SELECT id FROM {BULK_OPERATION} WHERE {BULK_AWAKE} ORDER BY id"
        return [row[0] for row in self._single(lambda: self._query(sql))]

    def bulk_step(self, operation_id: str, limit: int = CHUNK) -> BulkStep:
        return self._unit(lambda: self._bulk_step(operation_id, limit))

    def _bulk_step(self, operation_id: str, limit: int) -> BulkStep:
        row = self._query(
            f"SELECT {names(_COLUMNS)}, {self.NOW} FROM {self._by_key(BULK_OPERATION)} {self.HINT} "
            f"WHERE id = %s {self.LOCK}",
            [operation_id],
        )
        if not row:
            return BulkStep("gone", 0, 0, None)
        op, now = self._operation(row[0])
        before = copy(op)
        pause: float | None = None
        if op.state == BulkState.PREPARING:
            pause = self._freeze(op, now)
        elif op.state == BulkState.RUNNING:
            pause = self._act(op, now, limit)
        self._save(op, before)
        wakes = op.applied > before.applied and op.action in _WAKING
        return BulkStep(op.state, op.done, op.total, pause, wakes)

    def bulk_fail(self, operation_id: str, message: str) -> None:
        sql = (
            f"UPDATE {self._by_key(BULK_OPERATION)} SET state = '{BulkState.FAILED.value}', message = %s, "
            f"ended_at = {self.NOW}, updated_at = {self.NOW} WHERE id = %s AND {BULK_AWAKE}"
        )
        self._unit(lambda: self._execute(sql, [message, operation_id]))

    def _operation(self, row: Row) -> tuple[Operation, dt.datetime]:
        values: dict[str, Any] = {name: self._read_instant(value) if name in _INSTANTS else value
                  for name, value in zip(_COLUMNS, row, strict=False)}  # fmt: skip
        values["held"] = bool(values["held"])
        now = self._read_instant(row[-1])
        assert now is not None  # noqa: S101 - the server's clock
        return Operation(**values), now

    def _save(self, op: Operation, before: Operation) -> None:
        changed = [name for name in _COLUMNS if getattr(op, name) != getattr(before, name)]
        if not changed:
            return
        values = [self._instant(getattr(op, n)) if n in _INSTANTS else getattr(op, n) for n in changed]
        assignments = ", ".join(f"{name} = %s" for name in changed)
        self._execute(
            f"UPDATE {self._by_key(BULK_OPERATION)} SET {assignments}, updated_at = {self.NOW} WHERE id = %s",
            [*values, op.id],
        )

    # -- acting -------------------------------------------------------------------------------------------------------

    def _act(self, op: Operation, now: dt.datetime, limit: int) -> float | None:
        """The next chunk, as far as it may be acted on now; seconds until the next, None when it is over."""
        if op.watches:
            self._watch(op, now)
        rules.judge(op, now)
        if op.state != BulkState.RUNNING:
            return None
        count, pause = rules.budget(op, now, limit)
        if count:
            items = self._next_items(op, count)
            done = self._apply_for_a_while(op, items)
            op.done += done
            op.last_id = items[done - 1][0] if items else op.last_id
            if done < len(items):
                rules.give_back(op, count - done)
            elif len(items) < count:  # somebody deleted items
                op.done = op.total
        if op.done < op.total:
            return pause
        op.end(BulkState.DONE, now)
        return None

    def _next_items(self, op: Operation, count: int) -> list[Item]:
        return self._query(
            f"SELECT job_id, generation, note FROM {BULK_ITEM} WHERE operation_id = %s AND job_id > %s "
            f"ORDER BY job_id {self.LIMIT}",
            [op.id, op.last_id, count],
        )

    def _apply_for_a_while(self, op: Operation, items: Sequence[Item]) -> int:
        """Act on these jobs, or the first of them when they take long: whoever else needs their rows, or writes to
        SQLite, waits for this transaction. How many."""
        began, done = time.monotonic(), 0
        size = FIRST_PAYLOADS if _writes_payloads(op) else CHUNK
        if len(items) > size:  # the next part is in the first table again, and the last one goes on by the ids
            self._lock_all([job_id for job_id, _, _ in items], TABLES.get(BulkAction(op.action), ())[:-1])
        while done < len(items) and (not done or time.monotonic() - began < LONG):
            at = time.monotonic()
            part = items[done : done + size]
            self._apply(op, part)
            done += len(part)
            size = min(CHUNK, 2 * size) if time.monotonic() - at < LONG / 4 else size
        return done

    def _apply(self, op: Operation, items: Sequence[Item]) -> None:
        renewed = self._renewed(op, items)
        ids = [job_id for job_id, _, _ in items if job_id not in renewed]
        answer, notes = self._verb(op, ids, {job_id: note for job_id, _, note in items if note}) if ids else _NOTHING
        refused = [
            *answer.refused,
            *(Conflict(i, Sentence("The job was resurrected since it was selected.")) for i in renewed),
        ]
        for note in sorted({notes.get(job_id, "") for job_id in answer.applied}):
            alike = [job_id for job_id in answer.applied if notes.get(job_id, "") == note]
            self._mark(op.id, alike, BulkItemState.APPLIED, note or None)
        self._mark(op.id, answer.requested, BulkItemState.REQUESTED)
        left_alone = [conflict for conflict in refused if conflict.left_alone]
        refused = [conflict for conflict in refused if not conflict.left_alone]
        for state, some in ((BulkItemState.LEFT_ALONE, left_alone), (BulkItemState.REFUSED, refused)):
            for why in sorted({conflict.reason for conflict in some}):
                self._mark(op.id, [conflict.id for conflict in some if conflict.reason == why], state, why)
        op.applied += len(answer.applied)
        op.requested += len(answer.requested)
        op.left_alone += len(left_alone)
        op.refused += len(refused)
        if refused:
            op.samples = json.dumps(_sampled(json.loads(op.samples), refused), ensure_ascii=False)

    def _renewed(self, op: Operation, items: Sequence[Item]) -> list[str]:
        """Jobs that began a new life since the filter found them: what is wrong with them now is something else."""
        seen = {job_id: generation for job_id, generation, _ in items if generation is not None}
        tables = TABLES.get(BulkAction(op.action), ())
        if not seen or not tables:
            return []
        among, params = self._among("id", sorted(seen))
        looks = [f"SELECT id, generation FROM {table} WHERE {among}" for table in tables]
        found = self._query(" UNION ALL ".join(looks), params * len(looks))
        return sorted(job_id for job_id, generation in found if generation != seen[job_id])

    def _mark(self, operation_id: str, ids: Sequence[str], state: BulkItemState, note: str | None = None) -> None:
        if not ids:
            return
        among, params = self._among("job_id", ids)
        told, note_params = (", note = %s", [note]) if note is not None else ("", [])
        self._execute(
            f"UPDATE {self._by_key(BULK_ITEM)} SET state = {int(state)}{told} WHERE operation_id = %s AND {among}",
            [*note_params, operation_id, *params],
        )

    # -- watching -----------------------------------------------------------------------------------------------------

    def _watch(self, op: Operation, now: dt.datetime) -> None:
        """See what became of some of the jobs that were acted on; look after look comes round to all of them."""
        rows = self._query(
            f"SELECT job_id, state FROM {BULK_ITEM} WHERE operation_id = %s AND job_id > %s AND job_id <= %s "
            f"ORDER BY job_id {self.LIMIT}",
            [op.id, op.watch_id, op.last_id, WATCHED],
        )
        op.watch_id = rows[-1][0] if len(rows) == WATCHED else ""
        became: dict[BulkItemState, list[str]] = {}
        for part in chunks([job_id for job_id, state in rows if state == BulkItemState.APPLIED]):
            for job_id, state in self._fates(part).items():
                if state is not BulkItemState.APPLIED:
                    became.setdefault(state, []).append(job_id)
        for state, ids in became.items():
            for part in chunks(ids):
                self._mark(op.id, part, state)
        if became:
            count = Counter({state: len(ids) for state, ids in became.items()})
            fates = (BulkItemState.SUCCEEDED, BulkItemState.DIED, BulkItemState.GONE)
            rules.ended(op, now, *(count[fate] for fate in fates))

    def _fates(self, ids: Sequence[str]) -> dict[str, BulkItemState]:
        """What became of these jobs; APPLIED while they are active."""
        among, params = self._among("id", ids)
        # One statement: a job that moves from one table to the next meanwhile is seen in one of them.
        looks = [
            f"SELECT id, {reason} FROM {table} WHERE {among}"
            for table, reason in ((HOT, "-1"), (ARCHIVE, "-2"), (DLQ, "failure_reason"))
        ]
        known = {-1: BulkItemState.APPLIED, -2: BulkItemState.SUCCEEDED, int(FailureReason.CANCELLED): _GONE}
        found: dict[str, int] = dict(self._query(" UNION ALL ".join(looks), params * len(looks)))
        return {i: known.get(found[i], BulkItemState.DIED) if i in found else _GONE for i in ids}


def _writes_payloads(op: Operation) -> bool:
    return op.action == BulkAction.REVERT or "patch" in json.loads(op.arguments)


_GONE = BulkItemState.GONE
_NOTHING: tuple[BulkResult, Notes] = (BulkResult(), {})


def _sampled(samples: list[list[str]], refused: Sequence[Conflict]) -> list[list[str]]:
    """With these refusals, as far as there is room: the many of one reason leave some for others."""
    alike = Counter(reason for _, reason in samples)
    for conflict in refused:
        if len(samples) < SAMPLES and alike[conflict.reason] < ALIKE:
            samples.append([conflict.id, conflict.reason])
            alike[conflict.reason] += 1
    return samples
