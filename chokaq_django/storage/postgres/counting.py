"""The counts of a settle, in the statement that moves the rows: metric buckets and failure groups.

What a statement needs of each outcome comes as one JSON map from id to a list. The names of its positions are here, and
who fills them.
"""

# ruff: noqa: S608 - statements are composed of constants and column names of ours; every value is a parameter

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...job.envelope import PERSON_LIMIT
from ...job.error_info import TYPE_LIMIT
from ...models import HISTOGRAM_BINS
from ..buckets import BUCKET_COLUMNS, BUCKETS, NEVER_RAN, Tally, bin_of, reason_of
from ..columns import BUCKET, names, select
from ..contract import Outcome
from ..groups import GROUPS, GroupTally, fingerprint_of, last_line
from ..outcomes import DEAD
from ..text import storable
from .session import PostgresSession, as_json, on_conflict, summed_json, upsert

__all__ = [
    "DURATION", "ERROR_DETAILS", "ERROR_TYPE", "FINGERPRINT", "LOG", "MODIFIED_BY", "OWN", "REASON", "Value", "at",
    "buried", "counted", "filled",
]  # fmt: skip

Value = str | int | float | None


def at(place: int, sql_type: str = "text", data: str = "x") -> str:
    """SQL of one position of an outcome's list."""
    return f"({data} ->> {place})" if sql_type == "text" else f"({data} ->> {place})::{sql_type}"


# Positions that all kinds have. _SERIES is the place of the outcome's bucket in %(series)s, 0 for none.
LOG, _SERIES, DURATION, _RUN_BIN, _WAIT_BIN, MODIFIED_BY = range(6)
OWN = 6
# Positions of what has died. The last two are there where a statement has several outcomes; _GROUP is the place of its
# failure group in %(groups)s.
REASON, ERROR_TYPE, ERROR_DETAILS, FINGERPRINT, _GROUP, _MESSAGE = range(OWN, OWN + 6)


def buried(outcome: Outcome) -> list[Value]:
    """The positions from REASON to FINGERPRINT."""
    reason = int(reason_of(outcome))
    return [reason, storable(outcome.error_type, TYPE_LIMIT), storable(outcome.error_details),
            fingerprint_of(outcome, reason)]  # fmt: skip


def filled(worker_id: str, outcomes: Sequence[Outcome], own: Callable[[Outcome], list[Value]]) -> dict[str, Any]:
    """The parameters of a counted statement for these outcomes: their lists, in which ``own`` gives the positions of
    their kind, and what they count in."""
    params: dict[str, Any] = {}
    places: dict[str, int] = {}
    tally = Tally(worker_id)
    if len(outcomes) == 1:
        params["buckets"] = summed_json(BUCKETS, [row.values() for row in tally.settled(outcomes).rows()])
    else:
        series = []
        for row in tally.settled(outcomes).rows():
            series.append({"series": row.series, "queue": row.queue, "type": row.type, "outcome": row.outcome,
                           "reason": row.reason})  # fmt: skip
            places[row.series] = len(series)
        params["series"], params["shard"] = as_json(series), worker_id
    grouped = _grouped(params, worker_id, outcomes) if outcomes[0].kind in DEAD else {}
    params["data"] = as_json(
        {
            outcome.id: [
                storable(outcome.attempt_log), places.get(tally.series(outcome) or "", 0), outcome.duration_ms,
                *_bins(outcome), storable(outcome.modified_by, PERSON_LIMIT), *own(outcome),
                *grouped.get(outcome.id, ()),
            ]
            for outcome in outcomes
        }
    )  # fmt: skip
    return params


def _grouped(params: dict[str, Any], worker_id: str, outcomes: Sequence[Outcome]) -> dict[str, list[Value]]:
    """Put the failure groups of dead outcomes into the parameters; of several, the last positions of each."""
    tally = GroupTally(worker_id)
    series = {outcome.id: tally.died(outcome, reason_of(outcome)) for outcome in outcomes}
    rows = tally.rows()
    if len(outcomes) == 1:
        params["groups"] = summed_json(GROUPS, [row.values(lambda now: now) for row in rows])
        return {}
    params["groups"] = as_json(
        [{"series": row.series, "fingerprint": row.fingerprint, "queue": row.queue, "type": row.type,
          "reason": row.reason, "error_type": storable(row.error_type, TYPE_LIMIT)} for row in rows]
    )  # fmt: skip
    places = {row.series: place for place, row in enumerate(rows, 1)}
    return {outcome.id: [places[series[outcome.id]], last_line(outcome.error_details)] for outcome in outcomes}


def _bins(outcome: Outcome) -> tuple[int | None, int | None]:
    if outcome.kind in NEVER_RAN:
        return None, None
    return bin_of(outcome.duration_ms), bin_of(outcome.wait_ms)


def _counting() -> str:
    """Adds the rows of ``d`` to their buckets."""
    bins = [(f"{name}_{i}", i, name) for name in ("run", "wait") for i in range(HISTOGRAM_BINS)]
    sums = ", ".join(f"count(*) FILTER (WHERE {name} = {i}) AS {column}" for column, i, name in bins)
    found = (
        f"SELECT g, count(*) AS count, sum(ms) AS total_ms, max(ms) AS max_ms, {sums} FROM ("
        f"SELECT {at(_SERIES, 'int')} AS g, {at(DURATION, 'bigint')} AS ms, {at(_RUN_BIN, 'int')} AS run, "
        f"{at(_WAIT_BIN, 'int')} AS wait FROM d OFFSET 0) y WHERE g > 0 GROUP BY g"
    )
    named = "series, queue, type, outcome, reason"
    series = "json_to_recordset(%(series)s) AS (series text, queue text, type text, outcome int, reason int)"
    own = [column for column in BUCKET_COLUMNS if column not in (*named.split(", "), "shard")]
    return (
        f"INSERT INTO {BUCKET} AS t (at, {named}, shard, {names(own)}) "
        f"SELECT {PostgresSession.BUCKET}, {names(named.split(', '), 's')}, %(shard)s, {names(own, 'k')} "
        f"FROM ({found}) k JOIN ROWS FROM ({series}) WITH ORDINALITY AS s({named}, g) ON s.g = k.g "
        f"ORDER BY s.series {on_conflict(BUCKETS)}"
    )


# For one outcome the bucket is ready made, and is written if the outcome applied: cheaper than the aggregate.
_COUNT_ONE = upsert(BUCKETS, "%(buckets)s", "EXISTS (SELECT 1 FROM d)")


def _grouping() -> str:
    """Adds the rows of ``d``, which have died, to their groups. The last of each group stands for it."""
    named = "series, fingerprint, queue, type, reason, error_type"
    groups = (
        "json_to_recordset(%(groups)s) AS "
        "(series text, fingerprint text, queue text, type text, reason int, error_type text)"
    )
    # The message is collected with the count: a join back to ``d``, of which the planner expects one row, would compare
    # each of many groups with each job.
    found = (
        f"SELECT g, count(*) AS count, max(id) AS id, (array_agg(message ORDER BY id DESC))[1] AS message FROM "
        f"(SELECT id, {at(_GROUP, 'int')} AS g, {at(_MESSAGE)} AS message FROM d OFFSET 0) y GROUP BY g"
    )
    values = {"shard": "%(shard)s", "sample_id": "k.id", "message": "k.message", "count": "k.count",
              "total": "k.count", **dict.fromkeys(GROUPS.moments, PostgresSession.NOW)}  # fmt: skip
    return (
        f"INSERT INTO {GROUPS.table} AS t ({names(GROUPS.columns)}) SELECT {select(GROUPS.columns, values, 's')} "
        f"FROM ({found}) k JOIN ROWS FROM ({groups}) WITH ORDINALITY AS s({named}, g) ON s.g = k.g ORDER BY s.series "
        f"{on_conflict(GROUPS)}"
    )


_GROUP_ONE = upsert(GROUPS, "%(groups)s", "EXISTS (SELECT 1 FROM d)")


def counted(statement: str, *, dead: bool = False) -> dict[bool, str]:
    """``statement`` with its %COUNT% for one outcome (True) and for several; what is ``dead`` counts in its group
    too."""
    counts = {True: (_COUNT_ONE, _GROUP_ONE), False: (_counting(), _grouping())}
    return {
        one: statement.replace("%COUNT%", f"{count}), c AS ({group}" if dead else count)
        for one, (count, group) in counts.items()
    }
