"""Jobs by filter: what lists show, and what sets of bulk operations are made of."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..job.envelope import EnvelopeError, clean_key, clean_time
from ..models import FailureReason, JobStatus
from ..sentence import Sentence, shown

__all__ = [
    "FINGERPRINT",
    "HEAVY",
    "PLACES",
    "STATUSES",
    "Condition",
    "JobFilter",
    "clean_prefix",
    "clean_where",
    "tags_of",
]

HEAVY = ("payload", "headers", "attempt_log", "result", "error_details", "progress_message")
"""Columns that may hold a megabyte each and that no list shows."""
FINGERPRINT = 32
"""Digits of a whole fingerprint."""
PLACES = {"hot": "created_at", "archive": "finished_at", "dlq": "failed_at", "trash": "purged_at"}
"""Where jobs are, and the time that a filter and a list of them is about."""

_ALPHABET = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
_OF_THEIR_OWN = (FailureReason.CANCELLED, FailureReason.ZOMBIE, FailureReason.EXPIRED)

Condition = tuple[str, str, Any]
"""A column (``at`` is the time of the place), a comparison and a value. Comparisons: ``=``, ``in``, ``<``, ``<=``,
``>``, ``>=``, ``from`` (begins with) and ``has`` (of a list)."""

_PENDING: Condition = ("status", "=", JobStatus.PENDING)
_NOW = object()
_STATUSES: dict[str, tuple[str, Sequence[Condition]]] = {
    "active": ("hot", ()),
    "pending": ("hot", (_PENDING,)),
    "due": ("hot", (_PENDING, ("run_at", "<=", _NOW))),
    "scheduled": ("hot", (_PENDING, ("run_at", ">", _NOW))),
    "retrying": ("hot", (_PENDING, ("attempt", ">", 0))),
    "fetched": ("hot", (("status", "=", JobStatus.FETCHED),)),
    "processing": ("hot", (("status", "=", JobStatus.PROCESSING),)),
    "awaiting": ("hot", (("status", "=", JobStatus.AWAITING),)),
    "succeeded": ("archive", ()),
    "dead": ("dlq", ()),
    "failed": ("dlq", (("failure_reason", "in", [r for r in FailureReason if r not in _OF_THEIR_OWN]),)),
    "cancelled": ("dlq", (("failure_reason", "=", FailureReason.CANCELLED),)),
    "zombie": ("dlq", (("failure_reason", "=", FailureReason.ZOMBIE),)),
    "expired": ("dlq", (("failure_reason", "=", FailureReason.EXPIRED),)),
    "purged": ("trash", ()),
}
STATUSES = {status: place for status, (place, _) in _STATUSES.items()}
"""Status as one asks for it to the place where such jobs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs; all that is given must hold.

    ``status``: one of :data:`STATUSES`, which says where they are too. ``reason`` and ``fingerprint`` are of dead jobs;
    the first digits of a fingerprint will do. ``since`` and ``until`` (aware; ``until`` itself is left out): when they
    were created, finished, died or were purged, by where they are. ``id_prefix``: how their ids begin.

    What an index finds: the beginning of an id; ``queue`` everywhere but in the Trash; the time everywhere but of
    active jobs; ``status`` and ``idempotency_key`` of active jobs; ``type`` of succeeded and dead ones; ``reason`` and
    ``fingerprint``. The rest is looked for among what these leave. Times are the database's.
    """

    status: str = "active"
    queue: str | None = None
    type: str | None = None
    reason: FailureReason | int | None = None
    fingerprint: str | None = None
    tag: str | None = None
    created_by: str | None = None
    worker: str | None = None
    idempotency_key: str | None = None
    concurrency_key: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    id_prefix: str = ""

    @property
    def place(self) -> str:
        """Where such jobs are; ``EnvelopeError`` for a status that there is not."""
        if not isinstance(self.status, str) or self.status not in STATUSES:
            raise EnvelopeError(
                "status",
                Sentence(
                    "must be one of %(statuses)s, got %(status)s",
                    statuses=", ".join(STATUSES),
                    status=shown(self.status),
                ),
            )
        return STATUSES[self.status]

    @property
    def is_everything(self) -> bool:
        """Whether nothing but the status narrows it."""
        return not self.given()

    def given(self) -> dict[str, Any]:
        """What narrows it beside the status, for people and programs: name to text."""
        values = {name: getattr(self, name) for name in _NARROWING}
        if self.reason is not None:
            values["reason"] = getattr(self.reason, "name", str(self.reason))
        for name in ("since", "until"):
            if values[name] is not None:
                values[name] = values[name].isoformat()
        return {name: value for name, value in values.items() if value not in (None, "")}

    def sentence(self) -> str:
        """The filter in words."""
        words = {"status": self.status, **self.given()}
        if "reason" in words:
            words["reason"] = getattr(self.reason, "label", words["reason"])
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in words.items())

    def conditions(self, now: dt.datetime) -> list[Condition]:
        """What must hold of a row, checked and in the form that the tables keep; ``EnvelopeError`` for a bad value.

        ``now``: the database's clock, which tells due from scheduled.
        """
        place = self.place
        found = [(name, how, now if value is _NOW else value) for name, how, value in _STATUSES[self.status][1]]
        if self.reason is not None:
            if isinstance(self.reason, bool | float) or self.reason not in list(FailureReason):
                raise EnvelopeError(
                    "reason", Sentence("must be a FailureReason, got %(reason)s", reason=shown(self.reason))
                )
            found.append(("failure_reason", "=", int(self.reason)))
        named = {"queue": self.queue, "type": self.type, "created_by": self.created_by, "worker_id": self.worker,
                 "idempotency_key": self.idempotency_key, "concurrency_key": self.concurrency_key}  # fmt: skip
        for column, value in named.items():
            text = clean_key(value, column.removesuffix("_id"))
            if text is not None:
                found.append((column, "=", text))
        fingerprint = clean_key(self.fingerprint, "fingerprint")
        if fingerprint is not None:
            whole = len(fingerprint) == FINGERPRINT
            found.append(("fingerprint", "=" if whole else "from", fingerprint.lower()))
        if place != "dlq" and (self.reason is not None or fingerprint is not None):
            field = "fingerprint" if self.reason is None else "reason"
            raise EnvelopeError(field, Sentence("is of dead jobs only, not of %(status)s ones", status=self.status))
        tag = clean_key(self.tag, "tag")
        if tag is not None:
            found.append(("tags", "has", tag))
        if prefix := clean_prefix(self.id_prefix):
            found.append(("id", "from", prefix))
        for name, how in (("since", ">="), ("until", "<")):
            instant = clean_time(getattr(self, name), name)
            if instant is not None:
                found.append(("at", how, instant))
        return found


_NARROWING = (
    "queue", "type", "reason", "fingerprint", "tag", "created_by", "worker", "idempotency_key", "concurrency_key",
    "since", "until", "id_prefix",
)  # fmt: skip


def clean_prefix(text: object) -> str:
    """The beginning of a job id as ids are stored."""
    prefix = text.strip().upper() if isinstance(text, str) else "?"
    if len(prefix) > 26 or not _ALPHABET.issuperset(prefix):
        raise EnvelopeError(
            "id_prefix", Sentence("must be the beginning of a job id, got %(text)s", text=shown(text, 64))
        )
    return prefix


def tags_of(text: str) -> list[str]:
    """The tags in a row's column; none in what is no list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [str(tag) for tag in value] if isinstance(value, list) else []


def clean_where(value: object) -> JobFilter:
    """The filter that a call was given."""
    if not isinstance(value, JobFilter):
        raise EnvelopeError("where", Sentence("must be a JobFilter, got %(value)s", value=shown(value)))
    return value
