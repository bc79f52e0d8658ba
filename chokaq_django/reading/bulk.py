"""Bulk operations as people and programs look at them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..conf import get_options
from ..job.envelope import EnvelopeError, bounded, clean_key
from ..job.ids import clean_id
from ..job.patch import PayloadPatch
from ..models import (
    BulkAction,
    BulkItem,
    BulkItemState,
    BulkOperation,
    BulkState,
)
from ..sentence import Sentence, shown
from ..storage import Conflict
from .limits import clean_limit
from .patches import shown_patch

__all__ = [
    "MOST_LISTED",
    "BulkView",
    "bulk_get",
    "bulk_list",
    "bulk_of_job",
    "member_of",
    "page_start",
    "view_of",
]

C = TypeVar("C", BulkState, BulkAction, BulkItemState)

MOST_LISTED = 1_000
OPEN = (BulkState.PREPARING, BulkState.RUNNING, BulkState.PAUSED, BulkState.STOPPED, BulkState.FAILED)
"""States from which an operation may go on."""
FINAL = frozenset({BulkState.DONE, BulkState.CANCELLED})
AT_REST = FINAL | {BulkState.STOPPED, BulkState.FAILED}
"""States in which nothing is done to jobs until somebody says so; and there is nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkView:
    """A bulk operation as it was when it was read. Times are aware, in UTC; counts are of jobs.

    ``where``: the filter as it was given, None for a selection by id. ``arguments``: what the verb was given; a patch
    is JSON text, with its secrets masked. ``total`` grows while the state is "preparing".
    ``done`` of them were acted on: ``applied``, ``requested`` of their workers, ``left_alone`` (a condition does not
    hold, or it is so already) or ``refused``; ``refusals`` has the first of these. ``succeeded``, ``died`` and
    ``gone``: what has become of those applied, known as far as a canary or an auto-stop watches. ``message``: why it
    stopped or failed. ``recent_died`` of the last ``recent_ended`` are what the auto-stop judges. ``history``: seconds
    since the start, how many had ended, how many of them died.
    """

    id: str
    action: BulkAction
    state: BulkState
    message: str
    where: Mapping[str, Any] | None
    arguments: Mapping[str, Any]
    undo_of: str | None
    by: str | None
    reason: str
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    updated_at: dt.datetime
    total: int
    done: int
    applied: int
    requested: int
    refused: int
    left_alone: int
    refusals: tuple[Conflict, ...]
    succeeded: int
    died: int
    gone: int
    rate: float | None
    canary: int | None
    canary_share: float
    canary_timeout: float
    canary_decision: str
    stop_share: float | None
    stop_sample: int
    stop_window: int
    held: bool
    recent_ended: int
    recent_died: int
    history: tuple[tuple[int, int, int], ...]

    @property
    def awaits_go(self) -> bool:
        """Whether its set is frozen and nothing is done to it until :func:`bulk_resume`."""
        return self.held and self.state is BulkState.PAUSED and self.started_at is not None

    @property
    def watches(self) -> bool:
        """Whether it looks at what becomes of its jobs while it goes on: ``succeeded``, ``died`` and ``gone`` say
        something then, up to its end."""
        return self.stop_share is not None or self.canary is not None

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1; 0 while it is being prepared."""
        if self.started_at is None:
            return 0.0
        return self.done / self.total if self.total else 1.0

    @property
    def at_rest(self) -> bool:
        """Whether it has ended, or stopped until somebody says otherwise. A paused one waits, and is not at rest."""
        return self.state in AT_REST


def view_of(row: BulkOperation) -> BulkView:
    recent = json.loads(row.recent)
    return BulkView(
        id=row.id,
        action=BulkAction(row.action),
        state=BulkState(row.state),
        message=row.message,
        where=json.loads(row.selection) if row.place else None,
        arguments=_arguments(row.arguments),
        undo_of=row.undo_of,
        by=row.requested_by,
        reason=row.reason,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        updated_at=row.updated_at,
        total=row.total,
        done=row.done,
        applied=row.applied,
        requested=row.requested,
        refused=row.refused,
        left_alone=row.left_alone,
        refusals=tuple(Conflict(job_id, why) for job_id, why in json.loads(row.samples)),
        succeeded=row.succeeded,
        died=row.died,
        gone=row.gone,
        rate=row.rate,
        canary=row.canary,
        canary_share=row.canary_share,
        canary_timeout=row.canary_timeout,
        canary_decision=row.canary_decision,
        stop_share=row.stop_share,
        stop_sample=row.stop_sample,
        stop_window=row.stop_window,
        held=row.held,
        recent_ended=sum(ended for ended, _ in recent),
        recent_died=sum(died for _, died in recent),
        history=tuple((at, ended, died) for at, ended, died in json.loads(row.history)),
    )


def _arguments(text: str) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(text)
    given.pop("blind", None)
    if "patch" in given:
        given["patch"] = shown_patch(PayloadPatch.stored(given["patch"])).text()
    return given


def bulk_get(operation_id: str) -> BulkView | None:
    """The operation with its progress now; None when there is none with this id."""
    clean = clean_id(operation_id)
    row = BulkOperation.objects.using(get_options().database).filter(pk=clean).first() if clean else None
    return None if row is None else view_of(row)


def bulk_list(
    *, state: BulkState | str | Iterable[BulkState | str] | None = None, action: BulkAction | str | None = None,
    by: str | None = None, limit: int = 50, before: str | None = None,
) -> list[BulkView]:  # fmt: skip
    """Operations, the newest first. ``state``: one or several. ``by``: the name of who gave them. ``before``: the id of
    the last one of the page before."""
    clean_limit(limit, MOST_LISTED)
    rows = BulkOperation.objects.using(get_options().database).order_by("-id")
    if state is not None:
        several = isinstance(state, Iterable) and not isinstance(state, str)
        states = bounded("state", state, len(BulkState)) if several else (state,)
        rows = rows.filter(state__in=[member_of(BulkState, "state", each).value for each in states])
    if action is not None:
        rows = rows.filter(action=member_of(BulkAction, "action", action).value)
    if (who := clean_key(by, "by")) is not None:
        rows = rows.filter(requested_by=who)
    if before is not None:
        rows = rows.filter(id__lt=page_start("before", before))
    return [view_of(row) for row in rows[:limit]]


def member_of(choices: type[C], field: str, given: object) -> C:
    """One of the choices, given as such or by its value."""
    if isinstance(given, str | int) and not isinstance(given, bool) and given in choices.values:
        return choices(given)
    values = ", ".join(str(value) for value in choices.values)
    raise EnvelopeError(field, Sentence("must be one of %(values)s, got %(given)s", values=values, given=shown(given)))


def page_start(field: str, given: object) -> str:
    """The id where a page begins."""
    clean = clean_id(given)
    if clean is None:
        raise EnvelopeError(
            field, Sentence("must be the id that the page before ends with, got %(given)s", given=shown(given))
        )
    return clean


def bulk_of_job(job_id: str) -> Iterator[tuple[BulkView, BulkItem]]:
    """The operations that a job was selected by, the oldest first, each with what became of the job in it."""
    alias = get_options().database
    items = {item.operation_id: item for item in BulkItem.objects.using(alias).filter(job_id=clean_id(job_id))}
    for row in BulkOperation.objects.using(alias).filter(pk__in=list(items)).order_by("id"):
        yield view_of(row), items[row.id]
