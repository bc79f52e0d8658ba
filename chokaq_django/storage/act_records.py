"""What operators' verbs give to the storage and get from it; conventions as in :mod:`.records`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Conflict:
    """An id that an operator's verb could not apply to, and why (a full sentence). ``left_alone``: it is to stay as it
    is, being what was asked for already, or because a condition says that it was not meant; nobody has to look."""

    id: str
    reason: str
    left_alone: bool = False


@dataclass(slots=True)
class BulkResult:
    """Answer of an operator's verb: what applied, was only requested (a running job's cancel), or was refused."""

    applied: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    refused: list[Conflict] = field(default_factory=list)

    def add(self, part: BulkResult) -> None:
        """Take in the answer to another part of the same act."""
        self.applied += part.applied
        self.requested += part.requested
        self.refused += part.refused


@dataclass(slots=True)
class Copies(BulkResult):
    """Answer of :meth:`Storage.run_again`. ``new_ids``: archived job -> the new job."""

    new_ids: dict[str, str] = field(default_factory=dict)


AGAIN_HEADER = "chokaq-run-again-of"
"""Header of a job that was run again: the id of the job it is a copy of."""


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A payload as a row has it: ``type`` is the key that it is of after the edit."""

    id: str
    revision: int
    type: str
    text: str
    schema_version: int


class NotRenewedError(Exception):
    """Why a job gets no new payload, for people; ``left_alone`` as of :class:`Conflict`."""

    def __init__(self, reason: str, *, left_alone: bool = False) -> None:
        super().__init__(reason)
        self.left_alone = left_alone


Renew = Callable[[StoredPayload], tuple[str, int]]
"""A stored payload to the new one and its schema version; ``NotRenewedError`` for a job that is to stay as it is."""


@dataclass(slots=True)
class JobEdit:
    """What an edit changes; None keeps. ``tags`` is the JSON text of a list. ``schema_version`` belongs to the
    payload. ``renew``: makes the new payload of each job out of what it has, instead of one payload for all."""

    payload: str | None = None
    schema_version: int | None = None
    tags: str | None = None
    priority: int | None = None
    queue: str | None = None
    type: str | None = None
    renew: Renew | None = None


@dataclass(slots=True)
class EditResult(BulkResult):
    """Answer of :meth:`Storage.edit`. ``before``: id -> revision, queue, type, priority, tags and schema_version before
    the edit, of what applied. ``outdated``: id -> revision, of what was refused for its revision."""

    before: dict[str, dict[str, object]] = field(default_factory=dict)
    outdated: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BulkStep:
    """Where a bulk operation is after a step. ``pause``: seconds until the next; None: nothing goes on by itself.
    ``wakes``: jobs may have become due."""

    state: str
    done: int
    total: int
    pause: float | None
    wakes: bool = False


@dataclass(frozen=True, slots=True)
class BulkCount:
    """How many jobs of a set are of one queue and type. ``ages``: "hour", "day", "week", "older" -> how many were
    created, finished or dead within so long, and not within less."""

    queue: str
    type: str
    count: int
    oldest: dt.datetime | None
    newest: dt.datetime | None
    ages: dict[str, int]


@dataclass(frozen=True, slots=True)
class GroupDrift:
    """What failure groups do not count as the DLQ holds it: ``dead`` jobs whose ``column`` (fingerprint, queue or type)
    has this value, of which ``missing`` are not counted (negative: so many are counted that are not there). A
    fingerprint of None: jobs that have none."""

    column: str
    value: str | None
    dead: int
    missing: int


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody notes on dead jobs or on a failure group; None keeps. An empty ``assignee`` is nobody."""

    text: str | None = None
    assignee: str | None = None
    acknowledged: bool | None = None

    def changes(self, text: str, assignee: str | None, acknowledged: bool) -> bool:
        """Whether it says anything else than what is there."""
        return (
            self.text not in (None, text)
            or self.assignee not in (None, assignee or "")
            or self.acknowledged not in (None, acknowledged)
        )
