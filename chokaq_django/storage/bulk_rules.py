"""What a bulk operation may do now: drip rate, canary and auto-stop, by its row and the server's clock alone."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

from ..models import BulkState
from ..sentence import Sentence, stored

POLL = 0.25
"""Seconds between two looks at jobs that somebody waits for."""
DRIP = 0.1
"""Seconds between two steps of a drip, unless a single job takes longer."""
BREATH = 0.01
"""Seconds between two chunks at full speed, so that claims and settles of others come between them."""
MOST_SAVED = 1.0
"""Seconds of a drip that are made up for after a gap; more would be a burst."""
MOST_POINTS = 60
"""Of how many instants it is remembered what had become of the jobs."""
WAITING, PASSED, STOPPED, OVERRULED = "waiting", "passed", "failed", "overruled"


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
    counts: str | None
    done: int
    applied: int
    requested: int
    refused: int
    left_alone: int
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
    history: str

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


def ended(op: Operation, now: dt.datetime, succeeded: int, died: int, gone: int) -> None:
    """So many more of its jobs have ended."""
    op.succeeded += succeeded
    op.died += died
    op.gone += gone
    before, current = json.loads(op.recent) or [[0, 0], [0, 0]]
    current = [current[0] + succeeded + died, current[1] + died]
    if current[0] >= max(1, op.stop_window // 2):
        before, current = current, [0, 0]
    op.recent = json.dumps([before, current])
    op.history = json.dumps(_remembered(op, now))


def _remembered(op: Operation, now: dt.datetime) -> list[list[int]]:
    """What had ended and died when, at most :data:`MOST_POINTS` times: the longer it goes on, the further apart."""
    points: list[list[int]] = json.loads(op.history)
    at = round((now - (op.started_at or now)).total_seconds())
    apart = max(1, at // MOST_POINTS)
    if points and at - (points[-2][0] if len(points) > 1 else 0) < apart:
        del points[-1]  # the last one is always what is known now
    points.append([at, op.succeeded + op.died, op.died])
    return points if len(points) <= MOST_POINTS else [*points[:-1:2], points[-1]]


_DIED_LATELY = stored("%(died)s of the last %(sample)s jobs that ended have died; at most %(share)s may.")
_FIRST_DIED = stored("%(died)s of the first %(sample)s jobs have died; at most %(share)s may.")
_NONE_IN_TIME = stored("None of the first %(count)s jobs ended within %(time)s.")
_NONE_ENDED = stored("None of the first %(count)s jobs ended by itself.")


def judge(op: Operation, now: dt.datetime) -> None:
    """Stop the operation, or decide about its canary, by what has become of its jobs."""
    before, current = json.loads(op.recent) or [[0, 0], [0, 0]]
    sample, died = before[0] + current[0], before[1] + current[1]
    if op.stop_share is not None and sample >= max(1, op.stop_sample) and died > op.stop_share * sample:
        if op.canary_is_open:
            op.canary_decision = STOPPED  # the same jobs have said it: who resumes overrules both at once
        _stop(op, now, Sentence(_DIED_LATELY, died=died, sample=sample, share=f"{op.stop_share:.1%}"))
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
        op.canary_decision = STOPPED
        late_by = {"time": float(op.canary_timeout)} if late else {}
        _stop(op, now, Sentence(_NONE_IN_TIME if late else _NONE_ENDED, count=op.applied, **late_by))
    elif op.died > op.canary_share * sample:
        op.canary_decision = STOPPED
        _stop(op, now, Sentence(_FIRST_DIED, died=op.died, sample=sample, share=f"{op.canary_share:.1%}"))
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


def give_back(op: Operation, jobs: int) -> None:
    """So many of those that :func:`budget` allowed were not acted on: they are still due."""
    if op.rate and op.paid_at is not None:
        op.paid_at -= dt.timedelta(seconds=jobs / op.rate)
