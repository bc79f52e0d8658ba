"""What all acts on jobs share: which jobs, the preview, the question, chunk by chunk or in the background."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import control
from ..control import BulkView
from ..control.acts import CHUNK
from ..job.patch import PayloadPatch
from ..reading.documents import patch_preview_document, refusal
from ..storage import BulkResult, Conflict
from .arguments import act_arguments, actor, filter_arguments, positive
from .background import background_arguments, in_background, is_wanted
from .chosen import CONFIRM_FROM, SHOWN, Chosen, choose, elsewhere, show_chosen
from .console import EMPTY, FINDINGS, OK, usage
from .interrupts import patient_interrupts
from .nothing import nothing_matches
from .patches import MOST_TRIED, tell_trial, trial_code
from .subcommand import Call
from .text import instant, one_line

__all__ = ["EXITS", "FROZEN", "Act", "act", "act_on_jobs_arguments"]

EXITS = "0 all that had to be changed   1 some were refused, or it was interrupted   4 none matched, or none had to be"
FROZEN = (
    f"What matches is frozen first: later jobs are not in it. A filter, and {CONFIRM_FROM} ids or more, need a yes."
)


@dataclass(frozen=True, slots=True)
class Act:
    """``word``: what it is called; ``past``: what was done then. ``status``: of the jobs of a filter that names none;
    ``places``: where its jobs may be. ``verb`` acts on ids. ``begin`` starts it as a bulk operation, by ids or where.
    """

    word: str
    past: str
    status: str
    places: tuple[str, ...]
    verb: Callable[..., BulkResult]
    begin: Callable[..., BulkView] | None = None
    named: dict[str, Any] = field(default_factory=dict)
    """What both are called with, beside by and reason."""
    patch: PayloadPatch | None = None
    """Changes of payloads, among ``named``, that a dry run tries."""


def act(call: Call, what: Act, check: Callable[[Chosen], None] = lambda found: None) -> int:
    """Preview, question, then the act. ``check`` refuses a selection that the arguments do not fit."""
    options, console = call.options, call.console
    who = {"by": actor(options), "reason": options["reason"]}
    if what.begin is not None and is_wanted(options):
        return in_background(call, what.word, what.status, what.places, what.begin, who | what.named, what.patch)
    found, wanted = choose(call, what.status, what.places)
    check(found)
    ids = found.ids
    document: dict[str, Any] = {
        "by": who["by"],
        "filter": wanted.sentence() if wanted is not None else None,
        "selected": len(ids),
        "dry_run": options["dry_run"],
    }
    if not ids and wanted is not None:
        chosen: dict[str, Any] = {"kinds": [], "oldest": None, "ids": [], "elsewhere": []}
        done = {"applied": 0, "requested": 0, "refused": 0, "left_alone": 0, "refusals": [], "interrupted": False}
        console.document(document | (chosen if options["dry_run"] else done))
        nothing_matches(call, wanted, what.places)
        return EMPTY
    if options["dry_run"]:
        kinds = [{"queue": queue, "type": key, "count": count} for (queue, key), count in found.kinds.most_common()]
        seen = None
        if what.patch is not None:
            seen = control.preview_patch(what.patch, ids[: MOST_TRIED + 1], by=who["by"], sample=MOST_TRIED)
        tried = {} if seen is None else {"patch": patch_preview_document(seen)}
        lost = {} if wanted is not None else elsewhere(call, ids, what.places)
        told = {"elsewhere": [{"id": job_id, "reason": why} for job_id, why in lost.items()][:CHUNK]}
        document |= {"kinds": kinds, "oldest": instant(found.oldest), "ids": ids[:CHUNK]}
        console.document(document | told | tried)
        show_chosen(call, found, what.word)
        _tell_why(call, f"would not be {what.past}", [Conflict(*each) for each in lost.items()], "warn")
        if seen is not None:
            tell_trial(call, seen)
        console.line("Nothing was changed: this was a dry run.", "good")
        return FINDINGS if lost else OK if seen is None else trial_code(seen)
    if (wanted is not None or len(ids) >= CONFIRM_FROM) and not options["yes"]:
        _ask(call, found, what.word)
    answer, new_ids, stopped = _work(call, ids, what, who)
    left_alone = sum(each.left_alone for each in answer.refused)
    document |= {"applied": len(answer.applied), "requested": len(answer.requested), "refused": len(answer.refused)}
    document["left_alone"] = left_alone
    document |= {"refusals": [refusal(each) for each in answer.refused[:CHUNK]], "interrupted": stopped}
    console.document(document | ({"new_ids": new_ids} if new_ids else {}))
    _tell(call, answer, new_ids, what.past, len(ids), stopped)
    if stopped or len(answer.refused) > left_alone:
        return FINDINGS
    return OK if answer.applied or answer.requested else EMPTY


def _ask(call: Call, found: Chosen, word: str) -> None:
    if not call.console.is_interactive:
        jobs = "1 job" if len(found.ids) == 1 else f"{len(found.ids):,} jobs"
        usage(f"This would {word} {jobs}: say --yes to do it, or --dry-run to see which.")
    show_chosen(call, found, word)
    if not call.console.confirm(f"{word.capitalize()} them?"):
        usage("Nothing was changed.")


def _work(call: Call, ids: Sequence[str], what: Act, who: dict[str, Any]) -> tuple[BulkResult, dict[str, str], bool]:
    """The verb on every chunk; Ctrl-C ends it after the chunk that is written."""
    answer, new_ids = BulkResult(), dict[str, str]()
    progress = call.console.progress(len(ids), what.word)
    try:
        with patient_interrupts() as interrupts:
            for start in range(0, len(ids), CHUNK):
                if interrupts.asked:
                    return answer, new_ids, True
                part = what.verb(ids[start : start + CHUNK], **who, **what.named)
                answer.add(part)
                new_ids |= getattr(part, "new_ids", {})
                progress.show(min(start + CHUNK, len(ids)))
    finally:
        progress.close()
    return answer, new_ids, False


def _tell(
    call: Call, answer: BulkResult, new_ids: dict[str, str], past: str, selected: int, stopped: bool
) -> None:  # fmt: skip
    console = call.console
    if answer.applied:
        console.line(f"{len(answer.applied):,} {past}.", "good")
    for old, new in list(new_ids.items())[:SHOWN]:
        console.line(f"  {old} -> {new}")
    if len(new_ids) > SHOWN:
        console.line(f"  ... and {len(new_ids) - SHOWN:,} more: --json names them.")
    if answer.requested:
        console.line(f"{len(answer.requested):,} running: their workers were asked to stop them.", "good")
    left = [conflict for conflict in answer.refused if conflict.left_alone]
    _tell_why(call, "left alone", left, "")
    _tell_why(call, f"not {past}", [each for each in answer.refused if not each.left_alone], "warn")
    if stopped:
        done = len(answer.applied) + len(answer.requested) + len(answer.refused)
        console.line(f"Interrupted: {selected - done:,} were not touched.", "warn")


def _tell_why(call: Call, what: str, conflicts: Sequence[Conflict], tone: str) -> None:
    if not conflicts:
        return
    call.console.line(f"{len(conflicts):,} {what}:", tone)
    for conflict in conflicts[:SHOWN]:
        call.console.paragraph(conflict.reason, indent="  ", mark=f"{one_line(conflict.id)}  ")
    if len(conflicts) > SHOWN:
        call.console.line(f"  ... and {len(conflicts) - SHOWN:,} more: --json names them.")


def act_on_jobs_arguments(
    parser: argparse.ArgumentParser, *, places: tuple[str, ...], background: bool = False, careful: bool = False
) -> None:
    """Which jobs, how sure, who acts; with ``background``, as a bulk operation; ``careful``: with canary and stop."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="Ids of jobs; - reads them from standard input.")
    filter_arguments(parser, places)
    parser.add_argument("--all", action="store_true", help="Every one; needed where no filter narrows it.")
    parser.add_argument("--limit", type=positive, metavar="N", help="The first N that match, the oldest first.")
    parser.add_argument("--dry-run", action="store_true", help="Show which, change nothing.")
    parser.add_argument("--yes", action="store_true", help="Do not ask.")
    act_arguments(parser)
    if background:
        background_arguments(parser, careful=careful)
