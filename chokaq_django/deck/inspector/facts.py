"""What is known of a job beside its payload: its columns in groups, its headers, its row as it is stored."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...control import JobView
from ...models import FailureReason, JobBase
from ...reading.job import known
from ...reading.masks import MASK, mask_members, mask_text
from ...reading.seen import JOB
from ...sentence import number
from ...storage.contract import AGAIN_HEADER
from ..columns import HIDDEN
from ..text import EMPTY, duration, moment, page_text, shortened
from .links import Links

__all__ = ["Fact", "Headers", "error_line", "facts_of", "headers_of", "raw_row", "reason_text"]

JSON_COLUMNS = ("payload", "result", "headers")
"""Columns in which values are masked by name."""
LONGEST = 4_000
SAID = 1_000
"""Characters of what an exception said."""
_OURS = ("traceparent", "tracestate", AGAIN_HEADER)
"""Headers that hold nothing of whoever enqueued the job."""
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

Shown = SafeString | str


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what is known; ``value`` may be HTML."""

    label: str
    value: Shown


def reason_text(job: JobView) -> str:
    """Why it is in the DLQ."""
    if job.failure_reason is None:
        return ""
    reason = known(FailureReason, int(job.failure_reason))
    return reason.label if isinstance(reason, FailureReason) else _("Unknown (%(number)d)") % {"number": reason}


def error_line(job: JobView) -> str:
    """What the exception said, which a traceback has at its end; empty where the error's text is nothing else."""
    text = (job.error_details or "").rstrip()
    if not job.error_type or not text.startswith("Traceback "):
        return ""
    place = text.rfind(f"\n{job.error_type}")
    said = text[place + 1 :] if place >= 0 else text.rpartition("\n")[2]
    return page_text(said[:SAID].removeprefix(f"{job.error_type}: "))


def _key(value: str | None) -> Shown:
    return format_html('<code class="chokaq-key">{}</code>', value) if value else EMPTY


def _link(address: str, text: Shown) -> Shown:
    return format_html('<a href="{}">{}</a>', address, text) if address else text


def facts_of(job: JobView, links: Links) -> list[tuple[str, list[Fact]]]:
    """Groups of facts; what a job does not have is left out where that says nothing."""
    return [
        (_("Place"), _drop_empty(_place(job, links))),
        (_("Times"), _drop_empty(_times(job))),
        (_("Work"), _drop_empty(_work(job, links))),
        (_("Keys and people"), _drop_empty(_people(job))),
    ]


def _drop_empty(facts: list[tuple[str, Shown]]) -> list[Fact]:
    return [Fact(label, value) for label, value in facts if value not in ("", EMPTY)]


def _place(job: JobView, links: Links) -> list[tuple[str, Shown]]:
    names = {"hot": _("active jobs"), "archive": _("the Archive"), "dlq": _("the DLQ")}
    tags = format_html_join(" ", '<span class="chokaq-tag">{}</span>', ((page_text(tag),) for tag in job.tags))
    return [
        (_("queue"), _link(links.queue(job.queue), _key(job.queue))),
        (_("priority"), number(job.priority)),
        (_("type"), _key(job.type)),
        (_("failure"), _link(links.group(job.fingerprint), reason_text(job))),
        (_("error type"), _key(job.error_type)),
        (_("tags"), tags),
        (_("came from"), names.get(job.came_from or "", job.came_from or "")),
        (_("note"), job.note or ""),
        (_("assignee"), job.assignee or ""),
    ]


def _times(job: JobView) -> list[tuple[str, Shown]]:
    return [
        (_("created"), moment(job.created_at)),
        (_("asked to run"), moment(job.due_at)),
        (_("claimable from"), moment(job.run_at) if job.run_at != job.due_at else EMPTY),
        (_("deadline"), moment(job.deadline_at)),
        (_("started"), moment(job.started_at)),
        (_("heartbeat"), moment(job.heartbeat_at)),
        (_("finished"), moment(job.finished_at)),
        (_("ran for"), duration(job.duration_ms)),
        (_("waited"), duration(job.wait_ms)),
        (_("died"), moment(job.failed_at)),
        (_("acknowledged"), moment(job.acknowledged_at)),
        (_("purged"), moment(job.purged_at)),
        (_("expires"), moment(job.expires_at)),
        (_("last change"), moment(job.updated_at)),
    ]


def _work(job: JobView, links: Links) -> list[tuple[str, Shown]]:
    asked: Shown = EMPTY
    if job.cancel_requested_at is not None:
        who = job.cancel_requested_by or _("somebody")
        asked = format_html("{} {}", moment(job.cancel_requested_at), _("by %(who)s") % {"who": who})
    return [
        (_("attempts"), _("%(used)d of %(most)d") % {"used": job.attempt, "most": job.max_attempts}),
        (_("worker"), _link(links.page("fleet") if job.worker_id else "", _key(job.worker_id))),
        (_("asked to stop"), asked),
        (_("crashes"), number(job.crash_count) if job.crash_count else ""),
        (_("snoozes"), number(job.snooze_count) if job.snooze_count else ""),
        (_("resurrected"), _times_over(job.generation)),
        (_("edited"), _times_over(job.revision)),
        (_("claims"), number(job.claim_number)),
        (_("schema version"), str(job.schema_version)),
    ]


def _times_over(count: int) -> str:
    return ngettext("once", "%(count)s times", count) % {"count": number(count)} if count else ""


def _people(job: JobView) -> list[tuple[str, Shown]]:
    return [
        (_("created by"), job.created_by or ""),
        (_("changed by"), job.modified_by or ""),
        (_("purged by"), job.purged_by or ""),
        (_("idempotency key"), _key(job.idempotency_key)),
        (_("concurrency key"), _key(job.concurrency_key)),
    ]


# -- headers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Headers:
    """``trace_id``: of a W3C traceparent among them, empty without. ``hidden``: how many are masked."""

    values: list[tuple[str, str]]
    trace_id: str
    hidden: int


def headers_of(job: JobView, *, may_see: bool, revealed: bool) -> Headers:
    plain = {page_text(name): page_text(value) for name, value in job.headers.items()}
    values, hidden = (plain, 0) if revealed else mask_members(plain)
    if not may_see:
        values, hidden = {name: value if name in _OURS else MASK for name, value in plain.items()}, 0
    match = _TRACE.fullmatch(plain.get("traceparent", ""))
    return Headers(sorted(values.items()), match[1] if match else "", hidden)


# -- the row -----------------------------------------------------------------------------------------------------------


def raw_row(row: JobBase, *, may_see: bool, revealed: bool) -> list[tuple[str, Shown]]:
    """Every column of the job's table by name, as it is stored."""
    names = [str(each.column) for each in row._meta.concrete_fields]  # each is called as its column is
    return [(name, _raw(name, getattr(row, name), may_see, revealed)) for name in names]


def _raw(column: str, value: Any, may_see: bool, revealed: bool) -> Shown:
    if value is None:
        return format_html('<span class="chokaq-quiet">{}</span>', "NULL")
    if column not in JOB and not may_see:
        return format_html('<span class="chokaq-quiet">{}</span>', HIDDEN)
    text = value.isoformat() if isinstance(value, dt.datetime) else str(value)
    if column in JSON_COLUMNS and not revealed:
        text = mask_text(text).text
    return shortened(text, LONGEST)
