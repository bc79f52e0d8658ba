"""What a bulk operation may do now: drip rate, canary and auto-stop, by its row and the server's clock alone."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

from ..models import BulkState

POLL = 0.25
"""Seconds between two looks at jobs that somebody waits for."""
DRIP = 0.1
"""Seconds between two steps of a drip, unless a single job takes longer."""
BREATH = 0.01
"""Seconds between two chunks at full speed, so that claims and settles of others come between them."""
MOST_SAVED = 1.0
"""Seconds of a drip that are made up for after a gap; more would be a burst."""
WAITING, PASSED, STOPPED = "waiting", "passed", "failed"


@dataclass(slots=True)
class Operation:
    """A row of ``BulkOperation``, as far as working it off needs it; the names are its columns."""

    id: str
    action: str
    state: str
    message: str
    place: str
    conditions: str
    arguments: str
    undo_of: str | None
    requested_by: str | None
    held: bool
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    total: int
    done: int
    applied: int
    requested: int
    refused: int
    samples: str
    succeeded: int
    died: int
    gone: int
    rate: float | None
    canary: int | None
    canary_share: float
    canary_timeout: float
    canary_decision: str
    canary_at: dt.datetime | None
    stop_share: float | None
    stop_sample: int
    stop_window: int
    freeze_at: dt.datetime | None
    freeze_id: str
    last_id: str
    watch_id: str
    paid_at: dt.datetime | None
    recent: str

    @property
    def watches(self) -> bool:
        """Whether it matters what becomes of its jobs."""
        return self.stop_share is not None or (self.canary is not None and self.canary_decision in ("", WAITING))

    @property
    def canary_is_open(self) -> bool:
        return self.canary is not None and self.canary_decision in ("", WAITING)

    def end(self, state: BulkState, now: dt.datetime, message: str = "") -> None:
        self.state, self.message, self.ended_at = state.value, message, now


def freeze_done(op: Operation, now: dt.datetime) -> None:
    """Nothing more belongs to the set."""
    op.started_at = op.paid_at = now
    if not op.total:
        op.end(BulkState.DONE, now)
    else:
        op.state = (BulkState.PAUSED if op.held else BulkState.RUNNING).value


def ended(op: Operation, succeeded: int, died: int, gone: int) -> None:
    """So many more of its jobs have ended."""
    op.succeeded += succeeded
    op.died += died
    op.gone += gone
    before, current = json.loads(op.recent) or [[0, 0], [0, 0]]
    current = [current[0] + succeeded + died, current[1] + died]
    if current[0] >= max(1, op.stop_window // 2):
        before, current = current, [0, 0]
    op.recent = json.dumps([before, current])


def judge(op: Operation, now: dt.datetime) -> None:
    """Stop the operation, or decide about its canary, by what has become of its jobs."""
    before, current = json.loads(op.recent) or [[0, 0], [0, 0]]
    sample, died = before[0] + current[0], before[1] + current[1]
    if op.stop_share is not None and sample >= max(1, op.stop_sample) and died > op.stop_share * sample:
        _stop(op, now, f"{died} of the last {sample} jobs that ended have died; at most {op.stop_share:.1%} may.")
        return
    if op.canary is None or not op.canary_is_open:
        return
    if op.canary_decision == "" and op.applied >= op.canary:
        op.canary_decision, op.canary_at = WAITING, now
    if op.canary_decision == WAITING and op.canary_at is not None:
        _judge_canary(op, now, (now - op.canary_at).total_seconds() >= op.canary_timeout)


def _judge_canary(op: Operation, now: dt.datetime, late: bool) -> None:
    sample = op.succeeded + op.died
    if sample + op.gone < op.applied and not late:
        return
    if not sample:
        why = f"within {op.canary_timeout:g} s" if late else "by itself"
        op.canary_decision = STOPPED
        _stop(op, now, f"None of the first {op.applied} jobs ended {why}.")
    elif op.died > op.canary_share * sample:
        op.canary_decision = STOPPED
        _stop(op, now, f"{op.died} of the first {sample} jobs have died; at most {op.canary_share:.1%} may.")
    else:
        op.canary_decision = PASSED
        op.paid_at = now


def _stop(op: Operation, now: dt.datetime, why: str) -> None:
    op.end(BulkState.STOPPED, now, why)


def budget(op: Operation, now: dt.datetime, limit: int) -> tuple[int, float]:
    """How many jobs may be acted on now, and the seconds until the next look when these are done."""
    most = min(limit, op.total - op.done)
    if op.canary is not None and op.canary_is_open:
        most = min(most, op.canary - op.applied)
        if most <= 0:
            return 0, POLL
    if not op.rate:
        return most, BREATH
    pace = 1 / op.rate
    paid = min(op.paid_at or now, now)  # a clock that was set back must not stop the drip
    paid = max(paid, now - dt.timedelta(seconds=max(MOST_SAVED, pace)))
    due = int((now - paid).total_seconds() * op.rate + 1e-6)
    if due < 1:
        return 0, max(0.001, pace - (now - paid).total_seconds())
    count = min(most, due)
    op.paid_at = paid + dt.timedelta(seconds=count * pace)
    return count, max(DRIP, pace)
