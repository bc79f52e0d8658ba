"""The inputs above a list: what narrows it, named as in its address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import get_options
from ..job.envelope import EnvelopeError
from ..job.failures import RESERVED
from ..job.registry import registry
from ..models import FailureReason, Queue
from ..reading.filter_text import FIELDS
from ..reading.selection import STATUSES
from ..sentence import Sentence
from .text import STATUS_WORDS

__all__ = ["ACT_INPUTS", "Input", "act_inputs", "bulk_inputs", "job_inputs", "job_parameters"]

MOST_CHOICES, MOST_NAMES = 100, 1_000
"""Names to choose from, and queues that are looked through for a part of a name."""
MOST_MEANT = 5
"""Names that are told where a term may mean several."""
ACT_INPUTS = ("target", "by", "action", "since", "until")
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{9,25}")

_LABELS: dict[str, Any] = {
    "q": gettext_lazy("Find"), "status": gettext_lazy("Status"), "queue": gettext_lazy("Queue"),
    "type": gettext_lazy("Type"), "reason": gettext_lazy("Failure reason"), "since": gettext_lazy("Since"),
    "until": gettext_lazy("Until"), "fingerprint": gettext_lazy("Fingerprint"), "tag": gettext_lazy("Tag"),
    "created_by": gettext_lazy("Created by"), "worker": gettext_lazy("Worker"),
    "idempotency_key": gettext_lazy("Idempotency key"), "concurrency_key": gettext_lazy("Concurrency key"),
    "id_prefix": gettext_lazy("Id begins with"), "target": gettext_lazy("Target"), "by": gettext_lazy("By"),
    "action": gettext_lazy("Act"), "state": gettext_lazy("State"), "known": gettext_lazy("Known"),
    "order": gettext_lazy("Order"),
}  # fmt: skip
_HINTS: dict[str, Any] = {
    "q": gettext_lazy("the beginning of an id, a part of a queue or type"),
    "since": gettext_lazy("2h, 7d, 2026-01-31"),
    "until": gettext_lazy("2h, 7d, 2026-01-31"),
    "target": gettext_lazy("job, queue, worker or type"),
}
_FIRST = ("status", "queue", "type", "reason", "since")
"""What is always in sight; the rest is behind a fold."""


@dataclass(slots=True)
class Input:
    """One of them. ``choices``: value and label, empty for a text; ``proposed``: names to choose from while typing;
    ``label``: where it is not the usual one of its name."""

    name: str
    value: str
    choices: list[tuple[str, Any]] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    error: str = ""
    label: Any = ""

    def __post_init__(self) -> None:
        self.label = self.label or _LABELS[self.name]

    @property
    def hint(self) -> Any:
        return _HINTS.get(self.name, "")


def job_parameters(named: Mapping[str, str]) -> dict[str, str]:
    """The filter that an address names, with ``q`` taken as what it can only mean: see :func:`_meant`."""
    found = {name: named[name] for name in FIELDS if named.get(name, "").strip()}
    term = named.get("q", "").strip()
    if term:
        name, value = _meant(term)
        found.setdefault(name, value)
    return found


def _meant(term: str) -> tuple[str, str]:
    """The beginning of an id (ten characters or more), or the one queue or type among those that are known which is
    called so, begins so or has this in its name, in this order and whatever the case. Of what nothing is known, a
    queue. ``EnvelopeError`` where several would do: no job is looked at to choose."""
    if _ID.fullmatch(term.upper()):
        return "id_prefix", term
    if registry.get(term) is not None:
        return "type", term
    names = [("type", job_type.key) for job_type in registry.types() if not job_type.wants_raw]
    names += [("queue", queue) for queue in sorted(_queue_names())]
    if ("queue", term) in names:
        return "queue", term
    wanted = term.casefold()
    for fits in (str.__eq__, str.startswith, str.__contains__):
        found = sorted(each for each in names if fits(each[1].casefold(), wanted))
        if len(found) == 1:
            return found[0]
        if found:
            shown = [f"{_LABELS[name]} {value}" for name, value in found[:MOST_MEANT]]
            more = "" if len(found) <= MOST_MEANT else ", …"
            raise EnvelopeError("q", Sentence("may mean several: %(names)s", names=f"{', '.join(shown)}{more}"))
    return "queue", term


def job_inputs(place: str, named: Mapping[str, str]) -> tuple[list[Input], list[Input]]:
    """The inputs of a list of jobs: those always in sight, and the rest."""
    made = [_job_input(name, place, named.get(name, "")) for name in FIELDS if _fits(name, place)]
    shown = {each.name: each for each in made}
    first = [shown.pop(name) for name in _FIRST if name in shown]
    return first, list(shown.values())


def _fits(name: str, place: str) -> bool:
    if name in ("reason", "fingerprint"):
        return place == "dlq"
    return name != "status" or place in ("hot", "dlq")


def _job_input(name: str, place: str, value: str) -> Input:
    made = Input(name, value)
    if name == "status":
        made.choices = [(each, STATUS_WORDS.get(each, each)) for each, where in STATUSES.items() if where == place]
    elif name == "reason":
        reasons = [(reason.name.lower(), reason.label) for reason in FailureReason if reason not in RESERVED]
        made.choices = [("", _("any")), *reasons]
        made.value, label = _reason(value)
        if value and made.value not in dict(reasons):
            made.choices.append((made.value, label))
    elif name == "queue":
        made.proposed = _some(_queue_names())
    elif name == "type":
        made.proposed = _some(job_type.key for job_type in registry.types() if not job_type.wants_raw)
    return made


def _reason(text: str) -> tuple[str, str]:
    """A failure reason, however it is written, as the value of a choice and its label."""
    try:
        reason = FailureReason.parse(text)
    except ValueError:
        return text, text
    return reason.name.lower(), reason.label


def bulk_inputs(statuses: Sequence[str], named: Mapping[str, str]) -> list[Input]:
    """The inputs that say which jobs, of these statuses, a bulk operation is for."""
    names = (
        "status",
        "queue",
        "type",
        *(("reason", "fingerprint") if "dead" in statuses else ()),
        "tag",
        "since",
        "until",
    )
    inputs = [_job_input(name, "dlq", named.get(name, "")) for name in names]
    inputs[0].choices = [(each, STATUS_WORDS.get(each, each)) for each in statuses]
    return inputs


def _some(names: Iterable[str]) -> list[str]:
    return sorted(set(names))[:MOST_CHOICES]


def _queue_names() -> set[str]:
    """Those that settings, code and control rows know: no look into the job tables."""
    options = get_options()
    rows = Queue.objects.using(options.database).order_by("name").values_list("name", flat=True)[:MOST_NAMES]
    return {*rows, *options.queues, *(job_type.queue for job_type in registry.types() if job_type.queue)}


def act_inputs(named: Mapping[str, str]) -> list[Input]:
    """The inputs of the audit."""
    return [Input(name, named.get(name, "")) for name in ACT_INPUTS]
