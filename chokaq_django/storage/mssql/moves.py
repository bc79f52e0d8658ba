"""The operator's verbs and the sweeps, where T-SQL needs a form of its own."""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..columns import DLQ, HOT, HOT_COLUMNS, names, select
from ..contract import LiveRow
from ..fleet import FOR_ALL
from ..moves import LIVE_COLUMNS
from .session import MSSQLSession
from .tsql import FOUND, ID, INSERTED, LIST, PASSING, PLACE, UNLOCKED, as_json, batch, lines

_RESURRECTED = {
    "payload": "COALESCE(@payload, d.payload)", "tags": "COALESCE(@tags, d.tags)",
    "priority": "COALESCE(@priority, d.priority)", "schema_version": "COALESCE(@schema_version, d.schema_version)",
    "revision": "d.revision + @edited", "attempt": "0", "crash_count": "0", "snooze_count": "0",
    "generation": "d.generation + 1", "worker_id": "NULL", "modified_by": "@by", "started_at": "NULL",
    "run_at": "@now", "due_at": "@now", "deadline_at": "CASE WHEN d.deadline_at > @now THEN d.deadline_at END",
    "status": "0", "heartbeat_at": "NULL", "updated_at": "@now", "cancel_requested_at": "NULL",
    "cancel_requested_by": "NULL", "progress": "NULL", "progress_message": "NULL",
}  # fmt: skip
_WITHOUT_KEY = {**_RESURRECTED, "idempotency_key": "NULL"}


def _insert(changed: dict[str, str], source: str) -> str:
    values = (changed.get(column) or f"d.{column}" for column in HOT_COLUMNS)
    return f"""
INSERT INTO {HOT} {INSERTED} (
    {lines(HOT_COLUMNS)})
SELECT
    {lines(values)}
FROM @id AS i INNER LOOP JOIN {DLQ} AS d {FOUND} ON d.id = i.id
{source}
OPTION (LOOP JOIN);
"""


# Of several rows with one key the first comes back; a key that an active job holds, or is just getting, keeps its row.
_KEY_FREE = f"""WHERE d.idempotency_key IS NULL OR (
    NOT EXISTS (
        SELECT 1 FROM @id AS e INNER LOOP JOIN {DLQ} AS c {FOUND} ON c.id = e.id
        WHERE c.idempotency_key = d.idempotency_key AND c.id < d.id)
    AND NOT EXISTS (
        SELECT 1 FROM {HOT} AS h {PLACE}
        WHERE h.idempotency_key = d.idempotency_key AND h.idempotency_key IS NOT NULL))"""

RESURRECT = {
    keep_key: batch(
        _insert(_RESURRECTED if keep_key else _WITHOUT_KEY, _KEY_FREE if keep_key else "").replace("\n\n", "\n"),
        prepare=f"""
DECLARE @id TABLE (id {ID} NOT NULL PRIMARY KEY);
INSERT INTO @id (id) SELECT j.id FROM OPENJSON(@ids) WITH (id nvarchar(26) '$') AS j;
""",
        after=f"SELECT h.id FROM @id AS i INNER LOOP JOIN {HOT} AS h {FOUND} ON h.id = i.id;",
        ids=LIST,
        by="nvarchar(100)",
        payload="nvarchar(max)",
        tags="nvarchar(max)",
        priority="int",
        schema_version="int",
        edited="int",
    )
    for keep_key in (True, False)
}

# A row that is being written now is alive: a rescuer need not see it, and must not wait for it. "@first" is there so
# that the statement has a variable: in one without any, a database with PARAMETERIZATION FORCED makes parameters of the
# literals, which the filter of the index does not match (error 8622).
LIVE_ROWS = batch(
    f"""
SELECT {lines((f"h.{column}" for column in LIVE_COLUMNS), 7)}
FROM {HOT} AS h {PASSING}
WHERE h.status IN (1, 2) AND h.queue > @first;
""",
    prepare="DECLARE @first nvarchar(510) = N'';",
    single=True,
)


class MSSQLMoves(MSSQLSession):
    """Resurrection, sweeps, and the small tables."""

    def _insert_resurrected(
        self, ids: Sequence[str], by: str | None, edits: dict[str, object], *, keep_key: bool
    ) -> set[str]:
        if not ids:
            return set()
        given = {name: edits.get(name) for name in ("payload", "tags", "priority", "schema_version")}
        rows = self._inside(RESURRECT[keep_key], ids=as_json(list(ids)), by=by, edited=int(bool(edits)), **given)[-1]
        return {job_id for (job_id,) in rows}

    def _into_hot(
        self, source: str, ids: Sequence[str], changed: Mapping[str, str], given: Mapping[str, object], *,
        keep_key: bool,
    ) -> None:  # fmt: skip
        params = [given[column] for column in HOT_COLUMNS if column in given]
        among, id_params = self._among("d.id", list(ids))
        free, key_params = "", list[object]()
        if keep_key:
            others, key_params = self._among("c.id", list(ids))
            # "+ N''": sought are the few ids, and not all that come before one.
            free = f"""
AND (d.idempotency_key IS NULL OR (
    NOT EXISTS (
        SELECT 1 FROM {source} AS c {FOUND}
        WHERE {others} AND c.idempotency_key = d.idempotency_key AND c.id + N'' < d.id)
    AND NOT EXISTS (
        SELECT 1 FROM {HOT} AS h {PLACE}
        WHERE h.idempotency_key = d.idempotency_key AND h.idempotency_key IS NOT NULL)))"""
        else:
            changed = {**changed, "idempotency_key": "NULL"}
        self._execute(
            f"INSERT INTO {HOT} {INSERTED} ({names(HOT_COLUMNS)})\nSELECT {select(HOT_COLUMNS, changed, 'd')}\n"
            f"FROM {source} AS d {FOUND}\nWHERE {among}{free}\nOPTION (LOOP JOIN)",
            [*params, *id_params, *key_params],
        )

    def live_rows(self) -> list[LiveRow]:
        return [self._live_row(row) for row in self._alone(LIVE_ROWS)[0]]

    def _overdue(self) -> str:
        # "IS NOT NULL" is what the index of deadlines is filtered by. "+ 0" as on the other engines: without it a plan
        # made while the table was empty reads every Pending row.
        return (
            f"SELECT id, queue, type FROM {HOT} {UNLOCKED} WHERE status + 0 = 0 AND deadline_at IS NOT NULL "
            f"AND deadline_at < @now ORDER BY deadline_at {self.LIMIT}"
        )

    def _orders(self) -> str:
        return "desired_concurrency, stop_requested"  # OUTPUT has no subqueries

    def _wanted_of_all(self, found: Sequence[object]) -> Sequence[object]:
        return self._query(f"SELECT {FOR_ALL}, {self.NOW}")[0]

    def _insert_unless_there(self, table: str, columns: Sequence[str], values: str, params: Sequence[object]) -> bool:
        # The key is the first column of these tables. Whoever inserts the same one now is waited for.
        inserted = self._execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} WHERE NOT EXISTS ("
            f"SELECT 1 FROM {table} {PLACE} WHERE {columns[0]} = %s)",
            [*params, params[0]],
        )
        return inserted > 0
