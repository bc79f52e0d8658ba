"""What can be done to one job, and why something else cannot: a sentence for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import control
from ...control import BulkResult, JobView, Location, Operator
from ...models import JobStatus

__all__ = [
    "CANCEL",
    "EDIT",
    "JOB_VERBS",
    "PURGE",
    "REMOVE",
    "RESTORE",
    "RESURRECT",
    "RUN_AGAIN",
    "Act",
    "JobVerb",
    "Offer",
    "offers",
]

Label = Any
"""Text, translated when it is shown."""
Act = Callable[[list[str], Operator, str, Mapping[str, str]], BulkResult]


@dataclass(frozen=True, slots=True)
class JobVerb:
    """An act on jobs. ``permissions`` (of app ``chokaq``) decide who is offered it; ``control`` checks them again.

    ``hint``: what it does, for a person. ``why_not``: why it does not apply to a job now, empty when it does.
    ``act`` gets ids, the user, the reason and the form; None: it has a page of its own, on which it is said
    what it is to do.
    """

    name: str
    label: Label
    many: Label
    done: Label
    hint: Label
    permissions: tuple[str, ...]
    why_not: Callable[[JobView], str]
    act: Act | None
    asks: bool = False
    """Only once somebody has confirmed it."""
    takes_key: bool = False
    """A job may get its idempotency key back by it, which another job may hold by now."""

    @property
    def permission(self) -> str:
        """What admin asks of a list action: ``has_<permission>_permission``."""
        return self.permissions[0] if len(self.permissions) == 1 else self.name

    @property
    def is_direct(self) -> bool:
        """Whether a button on the page does it."""
        return self.act is not None


@dataclass(frozen=True, slots=True)
class Offer:
    """A verb on the page of a job. ``why_not`` is empty where the button works."""

    verb: JobVerb
    why_not: str


def offers(job: JobView, user: Any) -> list[Offer]:
    """Every verb, with why it cannot be used on this job by this user now."""
    return [Offer(verb, verb.why_not(job) or _lacking(verb, user)) for verb in JOB_VERBS]


def _lacking(verb: JobVerb, user: Any) -> str:
    missing = [name for name in verb.permissions if not user.has_perm(f"chokaq.{name}")]
    return _("You need the permission chokaq.%(name)s.") % {"name": missing[0]} if missing else ""


# -- why not -----------------------------------------------------------------------------------------------------------


def _where(job: JobView) -> str:
    return {
        Location.HOT: _("this one is active"),
        Location.ARCHIVE: _("this one has succeeded"),
        Location.DLQ: _("this one is dead"),
        Location.TRASH: _("this one is in the Trash"),
    }[job.location]


def _not_cancelled(job: JobView) -> str:
    if job.location is not Location.HOT:
        return _("Only active jobs are cancelled: %(where)s.") % {"where": _where(job)}
    if job.cancel_requested_at is not None:
        who = job.cancel_requested_by or _("somebody")
        return _("It was asked to stop already, by %(who)s.") % {"who": who}
    return ""


def _not_removed(job: JobView) -> str:
    if job.location is not Location.HOT:
        return _("Only active jobs are removed: %(where)s.") % {"where": _where(job)}
    return _("It is running: cancel it.") if job.status is JobStatus.PROCESSING else ""


def _not_edited(job: JobView) -> str:
    if job.location is Location.HOT and job.status is not JobStatus.PENDING:
        return _("Of active jobs only waiting ones are edited: this one is leased, running, or waits for another job.")
    if job.location not in (Location.HOT, Location.DLQ):
        return _("Only waiting and dead jobs are edited: %(where)s.") % {"where": _where(job)}
    return ""


def _not_resurrected(job: JobView) -> str:
    if job.location is not Location.DLQ:
        return _("Only dead jobs are resurrected: %(where)s.") % {"where": _where(job)}
    return ""


def _not_run_again(job: JobView) -> str:
    if job.location is not Location.ARCHIVE:
        return _("Only jobs that succeeded are run again: %(where)s.") % {"where": _where(job)}
    return ""


def _not_purged(job: JobView) -> str:
    if job.location not in (Location.ARCHIVE, Location.DLQ):
        return _("Only jobs that ended are purged: %(where)s.") % {"where": _where(job)}
    return ""


def _not_restored(job: JobView) -> str:
    if job.location is not Location.TRASH:
        return _("Only jobs in the Trash are restored: %(where)s.") % {"where": _where(job)}
    return ""


# -- the verbs ---------------------------------------------------------------------------------------------------------


def _on_conflict(form: Mapping[str, str]) -> Literal["skip", "drop"]:
    return "drop" if form.get("drop_key") else "skip"


RESURRECT = JobVerb(
    "resurrect",
    gettext_lazy("Resurrect"),
    gettext_lazy("Resurrect selected %(verbose_name_plural)s"),
    gettext_lazy("Resurrected: %(count)s. Pending again, attempts counted afresh."),
    gettext_lazy("Back to work: pending, due now, its attempts counted afresh."),
    ("resurrect",),
    _not_resurrected,
    lambda ids, user, reason, form: control.resurrect(
        ids, by=user, reason=reason, on_key_conflict=_on_conflict(form)
    ),
    takes_key=True,
)  # fmt: skip
EDIT = JobVerb(
    "edit",
    gettext_lazy("Edit"),
    gettext_lazy("Edit or repair selected %(verbose_name_plural)s…"),
    gettext_lazy("Edited: %(count)s."),
    gettext_lazy("Change its payload, tags, priority, queue or type. What it replaces is kept."),
    ("edit_payload",),
    _not_edited,
    None,
)
RUN_AGAIN = JobVerb(
    "run_again",
    gettext_lazy("Run again"),
    gettext_lazy("Run selected %(verbose_name_plural)s again"),
    gettext_lazy("Run again, as new jobs: %(count)s."),
    gettext_lazy("A new job with the same payload, due now. This one stays as it is."),
    ("resurrect",),
    _not_run_again,
    lambda ids, user, reason, form: control.run_again(
        ids, by=user, reason=reason, on_key_conflict=_on_conflict(form)
    ),
    takes_key=True,
)  # fmt: skip
RESTORE = JobVerb(
    "restore",
    gettext_lazy("Restore"),
    gettext_lazy("Restore selected %(verbose_name_plural)s"),
    gettext_lazy("Restored: %(count)s. They are where they were, as they were."),
    gettext_lazy("Back to where it was purged from, as it was."),
    ("purge",),
    _not_restored,
    lambda ids, user, reason, form: control.restore(ids, by=user, reason=reason, on_key_conflict=_on_conflict(form)),
    takes_key=True,
)
CANCEL = JobVerb(
    "cancel",
    gettext_lazy("Cancel"),
    gettext_lazy("Cancel selected %(verbose_name_plural)s"),
    gettext_lazy("Cancelled: %(count)s."),
    gettext_lazy("A waiting job goes to the DLQ as Cancelled; a running one is asked to stop."),
    ("cancel",),
    _not_cancelled,
    lambda ids, user, reason, form: control.cancel(ids, by=user, reason=reason),
    asks=True,
)
REMOVE = JobVerb(
    "remove",
    gettext_lazy("Remove"),
    gettext_lazy("Remove selected %(verbose_name_plural)s"),
    gettext_lazy("Removed: %(count)s. They can be restored from the Trash."),
    gettext_lazy("To the Trash, without a trace in the DLQ. It can be restored from there."),
    ("cancel", "purge"),
    _not_removed,
    lambda ids, user, reason, form: control.remove(ids, by=user, reason=reason),
    asks=True,
)
PURGE = JobVerb(
    "purge",
    gettext_lazy("Purge"),
    gettext_lazy("Purge selected %(verbose_name_plural)s"),
    gettext_lazy("Purged: %(count)s. They can be restored from the Trash."),
    gettext_lazy("To the Trash. It can be restored from there until it expires."),
    ("purge",),
    _not_purged,
    lambda ids, user, reason, form: control.purge(ids, by=user, reason=reason),
    asks=True,
)

JOB_VERBS = (RESURRECT, EDIT, RUN_AGAIN, RESTORE, CANCEL, REMOVE, PURGE)
"""In the order of the buttons: what repairs first, what destroys last."""
