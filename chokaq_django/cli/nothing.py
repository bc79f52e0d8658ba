"""What is said where a filter finds no job: which of its names nothing knows, and which of its options to leave out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .. import control
from ..control import JobFilter
from ..job.envelope import EnvelopeError
from ..reading.selection import PLACES, STATUSES
from .names import unknown
from .program import typed
from .subcommand import Call
from .text import at_least, one_line

__all__ = ["nothing_matches"]

COUNTED = 100
"""Jobs that are counted of what another filter would find."""
OPTIONS = {"reason": "failure", "idempotency_key": "key"}
"""Fields of a filter whose options are not called like them."""
EVERY: dict[str, str] = {}
"""Place to the status of all jobs there."""
for _status, _place in STATUSES.items():
    EVERY.setdefault(_place, _status)


def nothing_matches(call: Call, wanted: JobFilter, places: tuple[str, ...] = ()) -> None:
    """Say so, and what would match instead. ``places``: where the subcommand could look, by another --status."""
    if call.console.json:
        return
    names = unknown(wanted.queue, wanted.type)
    call.console.paragraph(f"No job matches ({one_line(wanted.sentence(), 200)}).{names}", "warn")
    tried = [(words, _count(other)) for words, other in _others(wanted, places)]
    found = [(words, count) for words, count in tried if count is not None]
    for words, count in found:
        call.console.line(f"  {words}: {count}")
    if tried and not found:
        call.console.paragraph(f"Nor with one option less. What there is: `{typed('status')}`.", indent="  ")


def _others(wanted: JobFilter, places: tuple[str, ...]) -> Iterator[tuple[str, JobFilter]]:
    """Filters that are one step wider, with what to change for each."""
    for name in wanted.given():
        wider: dict[str, Any] = {name: "" if name == "id_prefix" else None}
        yield f"without --{OPTIONS.get(name, name).replace('_', '-')}", replace(wanted, **wider)
    for place in PLACES:
        every = EVERY[place]
        if (place == wanted.place or place in places) and every != wanted.status and _may_be(wanted, place):
            yield f"with --status {every}", replace(wanted, status=every)


def _may_be(wanted: JobFilter, place: str) -> bool:
    return place == "dlq" or (wanted.reason is None and wanted.fingerprint is None)


def _count(wanted: JobFilter) -> str | None:
    """How many jobs a filter finds, where a short look finds some."""
    try:
        page = control.list_jobs(wanted, limit=COUNTED)
    except EnvelopeError:  # it would have to look for too long
        return None
    return at_least(len(page.jobs), page.next is not None) if page.jobs else None
