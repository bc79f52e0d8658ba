"""Options that an operator may set while everything runs: which they are, and how they are laid over ``CHOKAQ``.

A name is the option's, with dots: ``DECK.LAG_WARNING``; of the rules of retention each entry is an option of its own:
``RETENTION.DLQ_BY_QUEUE.mail``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..job.definition import nearest
from ..job.failures import FailureReason
from ..sentence import Sentence
from .rules import SECTIONS, TOP

__all__ = ["OVERRIDABLE", "Kind", "Place", "laid_over", "locate", "why_fixed"]

Kind = Literal["seconds", "seconds or none", "count", "count or none", "number", "rules", "fixed"]

_SECONDS: Kind = "seconds"
_KEPT: Kind = "seconds or none"
OVERRIDABLE: Mapping[str, Mapping[str, Kind]] = {
    "RETRY": {
        "BASE_DELAY": _SECONDS, "MULTIPLIER": "number", "MAX_DELAY": _SECONDS, "JITTER": _SECONDS, "MAX_AGE": _KEPT,
    },
    "CIRCUIT": {
        "FAILURES": "count", "WINDOW": _SECONDS, "BREAK": _SECONDS, "PROBES": "count", "PROBE_TIMEOUT": _SECONDS,
    },
    "RETENTION": {
        "ARCHIVE": _KEPT, "ARCHIVE_BY_QUEUE": "rules", "ARCHIVE_BY_TYPE": "rules", "DLQ": _KEPT,
        "DLQ_BY_QUEUE": "rules", "DLQ_BY_TYPE": "rules", "DLQ_BY_REASON": "rules", "TRASH": _KEPT, "BUCKETS": _KEPT,
    },
    "HEALTH": {"LAG_DEGRADED": _SECONDS, "LAG_UNHEALTHY": _SECONDS, "DEAD_PER_HOUR": "count or none"},
    "DECK": {"LAG_WARNING": _SECONDS, "LAG_CRITICAL": _SECONDS, "BULK_CHUNK": "count"},
}  # fmt: skip
"""Section -> option -> what it holds. All are read each time they are needed, and none is a matter on which processes
must agree at every moment."""

_RESTART = Sentence("Change CHOKAQ in the settings and restart the processes.")
_AGREED = Sentence(
    "Workers and those who watch them must agree on it at every moment. Change CHOKAQ in the settings and restart the "
    "processes."
)
_WHY_FIXED = {
    "WORKER": Sentence("Workers read it when they start. Change CHOKAQ in the settings and restart them."),
    "WORKER.CONCURRENCY": Sentence(
        "Workers read it when they start. A running one gets another number from set_concurrency."
    ),
    "EXECUTION": _AGREED,
    "RECOVERY": _AGREED,
    "RETRY.MAX_ATTEMPTS": Sentence(
        "It is stored in each job when it is enqueued. Change CHOKAQ in the settings and restart the processes."
    ),
    "QUEUES": Sentence(
        "Workers that start give it to a queue whose limits nobody has set; set_queue changes a queue at once."
    ),
    "DECK": Sentence("It is the project's to decide. Change CHOKAQ in the settings and restart the processes."),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an option is. ``entry``: of a rule, what it is for."""

    section: str
    option: str
    entry: str | None
    kind: Kind

    @property
    def name(self) -> str:
        return ".".join(part for part in (self.section, self.option, self.entry) if part)


def locate(name: str) -> Place:
    """The place of an option that may be set while everything runs; ``ValueError`` says why it may not, or that there
    is none."""
    section, _, rest = name.strip().partition(".")
    option, _, entry = rest.partition(".")
    kind = OVERRIDABLE.get(section, {}).get(option)
    if kind == "rules":
        if not entry:
            raise ValueError(f"is a set of rules: name one of them, such as {section}.{option}.{_example(option)}")
        return Place(section, option, _entry(option, entry), kind)
    if kind is not None and not entry:
        return Place(section, option, None, kind)
    known = section in TOP or (section == "QUEUES" and bool(option)) or option in SECTIONS.get(section, (None, {}))[1]
    if known and kind is None:
        raise ValueError(f"cannot be changed while everything runs. {why_fixed(name)}")
    names = [f"{each}.{one}" for each, options in OVERRIDABLE.items() for one in options]
    raise ValueError(f"is not an option{nearest(name, names)}")


def why_fixed(name: str) -> str:
    """Why an option stays as the settings have it, and what to do instead."""
    section = name.partition(".")[0]
    return _WHY_FIXED.get(name) or _WHY_FIXED.get(section) or _RESTART


def _example(option: str) -> str:
    return {"QUEUE": "mail", "TYPE": "email.send.v1"}.get(option.rpartition("_")[2], FailureReason.EXPIRED.label)


def _entry(option: str, entry: str) -> str:
    """The one way to write it, so that two names never mean the same rule."""
    if not option.endswith("_BY_REASON"):
        return entry
    try:
        return FailureReason.parse(entry).label
    except ValueError:
        labels = [reason.label for reason in FailureReason]
        raise ValueError(f"is for an unknown failure reason{nearest(entry, labels)}") from None


def laid_over(raw: object, values: Mapping[str, Any]) -> object:
    """The setting ``raw`` with these values of options in the place of its own; ``raw`` itself stays as it is."""
    if not values or not isinstance(raw, (Mapping, type(None))):
        return raw
    merged: dict[Any, Any] = dict(raw or {})
    for name, value in values.items():
        place = locate(name)
        section = merged[place.section] = dict(merged.get(place.section) or {})
        if place.entry is None:
            section[place.option] = value
        else:
            rules = dict(section.get(place.option) or {})
            if place.option.endswith("_BY_REASON"):
                rules = {key: kept for key, kept in rules.items() if not _same(key, place.entry)}
            section[place.option] = {**rules, place.entry: value}
    return merged


def _same(key: object, entry: str) -> bool:
    """Whether a key of the project's is the same rule: reasons have several spellings."""
    try:
        return key == entry or FailureReason.parse(key).label == entry
    except ValueError:
        return False
