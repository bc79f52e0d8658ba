"""``chokaq cancel``, ``resurrect``, ``purge`` and ``restore``: on ids, or on everything that a filter finds."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import control
from ..control.acts import CHUNK, clean_id
from ..control.view import Location
from ..job.codec import decode
from ..job.envelope import clean_priority
from ..job.failures import PayloadError
from ..job.registry import registry
from ..reading.selection import JobFilter, Preview, preview
from ..storage import BulkResult
from .arguments import act_arguments, actor, filter_arguments, filter_of, positive
from .console import FINDINGS, OK, usage
from .interrupts import patient_interrupts
from .subcommand import Call, Subcommand
from .table import Column
from .text import age, instant, one_line

__all__ = ["CANCEL", "PURGE", "RESTORE", "RESURRECT"]

CONFIRM_FROM = 25
"""Jobs from which a person is asked, or --yes is wanted."""
SHOWN = 10
Verb = Callable[[Sequence[str]], BulkResult]


# -- which jobs --------------------------------------------------------------------------------------------------------


def _select(call: Call, default: str, places: tuple[str, ...]) -> tuple[Preview, JobFilter | None]:
    """The frozen set of ids, and the filter it came from."""
    options = call.options
    ids = _ids(options["ids"])
    now = call.now()
    wanted = filter_of(options, now, default, places)
    if ids:
        if not wanted.is_everything or options.get("status") or options["all"]:
            usage("Name ids or a filter, not both.")
        bad = [text for text in ids if clean_id(text) is None]
        if bad:
            usage(f"{one_line(bad[0], 60)!r} is no job id: those have 26 letters and digits, as in `chokaq jobs`.")
        return Preview(list(dict.fromkeys(str(clean_id(text)) for text in ids)), Counter()), None
    if wanted.is_everything and not options.get("status") and not options["all"]:
        usage("Which jobs? Name ids, or a filter such as --queue mail; --all for every one. Try it with --dry-run.")
    return preview(wanted, call.alias, now, options["limit"]), wanted


def _ids(given: Sequence[str]) -> list[str]:
    """The ids of the command line; ``-`` stands for those on standard input."""
    ids: list[str] = []
    for text in given:
        ids += sys.stdin.read().split() if text == "-" else [text]
    if given and not ids:
        usage("Standard input holds no id.")
    return ids


def _show_selection(call: Call, found: Preview, word: str) -> None:
    console = call.console
    console.line(f"{len(found.ids):,} {'job' if len(found.ids) == 1 else 'jobs'} to {word}.", "head")
    if found.kinds:
        kinds = found.kinds.most_common(SHOWN)
        columns = (Column("JOBS", right=True), Column("QUEUE", flexible=True), Column("TYPE", flexible=True))
        console.table(columns, [(f"{count:,}", queue, type_key) for (queue, type_key), count in kinds])
        if len(found.kinds) > SHOWN:
            console.line(f"... and {len(found.kinds) - SHOWN:,} more kinds.")
        if found.oldest is not None:
            console.line(f"The oldest is from {age(found.oldest, call.now())}.")
    elif len(found.ids) <= SHOWN:
        for job_id in found.ids:
            job = control.get(job_id)
            what = f"{job.type}, queue {job.queue}" if job is not None else "there is no such job"
            console.line(f"  {job_id}  {one_line(what)}")


# -- the act -----------------------------------------------------------------------------------------------------------


def _act(call: Call, found: Preview, wanted: JobFilter | None, verb: Verb, word: str) -> int:
    """Preview, question, then the verb chunk by chunk."""
    options, console, ids = call.options, call.console, found.ids
    document: dict[str, Any] = {
        "by": actor(options),
        "filter": wanted.sentence() if wanted is not None else None,
        "selected": len(ids),
        "dry_run": options["dry_run"],
    }
    if not ids:
        console.document({**document, "applied": 0, "requested": 0, "refused": 0, "refusals": []})
        console.line(f"No job matches ({one_line(wanted.sentence(), 200) if wanted else 'no ids'}).", "warn")
        return FINDINGS
    if options["dry_run"]:
        kinds = [{"queue": queue, "type": key, "count": count} for (queue, key), count in found.kinds.most_common()]
        console.document({**document, "kinds": kinds, "oldest": instant(found.oldest), "ids": ids[:CHUNK]})
        _show_selection(call, found, word)
        console.line("Nothing was changed: this was a dry run.", "good")
        return OK
    if (wanted is not None or len(ids) >= CONFIRM_FROM) and not options["yes"]:
        _ask(call, found, word)
    answer, stopped = _work(call, ids, verb, word)
    document |= {"applied": len(answer.applied), "requested": len(answer.requested), "refused": len(answer.refused)}
    refusals = [{"id": each.id, "reason": each.reason} for each in answer.refused[:CHUNK]]
    console.document({**document, "refusals": refusals, "interrupted": stopped})
    _tell(call, answer, word, len(ids), stopped)
    return OK if (answer.applied or answer.requested) and not answer.refused and not stopped else FINDINGS


def _ask(call: Call, found: Preview, word: str) -> None:
    if not call.console.is_interactive:
        usage(f"This would {word} {len(found.ids):,} jobs: say --yes to do it, or --dry-run to see which.")
    _show_selection(call, found, word)
    if not call.console.confirm(f"{word.capitalize()} them?"):
        usage("Nothing was changed.")


def _work(call: Call, ids: Sequence[str], verb: Verb, word: str) -> tuple[BulkResult, bool]:
    """The verb on every chunk; Ctrl-C ends it after the chunk that is written."""
    answer = BulkResult()
    progress = call.console.progress(len(ids), word)
    try:
        with patient_interrupts() as interrupts:
            for start in range(0, len(ids), CHUNK):
                if interrupts.asked:
                    return answer, True
                part = verb(ids[start : start + CHUNK])
                answer.applied += part.applied
                answer.requested += part.requested
                answer.refused += part.refused
                progress.show(min(start + CHUNK, len(ids)))
    finally:
        progress.close()
    return answer, False


def _tell(call: Call, answer: BulkResult, word: str, selected: int, stopped: bool) -> None:
    console = call.console
    past = {"cancel": "cancelled"}.get(word, f"{word.removesuffix('e')}ed")
    if answer.applied:
        console.line(f"{len(answer.applied):,} {past}.", "good")
    if answer.requested:
        console.line(f"{len(answer.requested):,} running: their workers were asked to stop them.", "good")
    if answer.refused:
        console.line(f"{len(answer.refused):,} not {past}:", "warn")
        for conflict in answer.refused[:SHOWN]:
            console.paragraph(conflict.reason, indent="  ", mark=f"{one_line(conflict.id)}  ")
        if len(answer.refused) > SHOWN:
            console.line(f"  ... and {len(answer.refused) - SHOWN:,} more: --json names them.")
    if stopped:
        done = len(answer.applied) + len(answer.requested) + len(answer.refused)
        console.line(f"Interrupted: {selected - done:,} were not touched.", "warn")


# -- cancel ------------------------------------------------------------------------------------------------------------


def _cancel(call: Call) -> int:
    found, wanted = _select(call, "active", ("hot",))
    verb = partial(control.cancel, by=actor(call.options), reason=call.options["reason"])
    return _act(call, found, wanted, verb, "cancel")


# -- the Trash ---------------------------------------------------------------------------------------------------------


def _purge(call: Call) -> int:
    found, wanted = _select(call, "dead", ("dlq", "archive"))
    verb = partial(control.purge, by=actor(call.options), reason=call.options["reason"])
    return _act(call, found, wanted, verb, "purge")


def _restore(call: Call) -> int:
    found, wanted = _select(call, "purged", ("trash",))
    verb = partial(
        control.restore,
        by=actor(call.options),
        reason=call.options["reason"],
        on_key_conflict="drop" if call.options["drop_key"] else "skip",
    )
    return _act(call, found, wanted, verb, "restore")


# -- resurrect ---------------------------------------------------------------------------------------------------------


def _resurrect(call: Call) -> int:
    options = call.options
    priority = None if options["priority"] is None else clean_priority(options["priority"])
    found, wanted = _select(call, "dead", ("dlq",))
    payload = None
    if options["payload"] is not None:
        if len(found.ids) != 1 or wanted is not None:
            usage("--payload edits one job: name its id.")
        payload = _payload(options["payload"])
        if options["dry_run"]:
            _check_payload(found.ids[0], payload)
    verb = partial(
        control.resurrect,
        by=actor(options),
        reason=options["reason"],
        payload=payload,
        tags=None if options["set_tags"] is None else [tag for tag in options["set_tags"].split(",") if tag.strip()],
        priority=priority,
        on_key_conflict="drop" if options["drop_key"] else "skip",
    )
    return _act(call, found, wanted, verb, "resurrect")


def _payload(text: str) -> str:
    """The new payload's JSON text: given itself, in a file (``@path``), or on standard input (``-``)."""
    if text == "-":
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        usage(f"--payload {one_line(text, 200)}: {error}")


def _check_payload(job_id: str, payload: str) -> None:
    """What the verb would say of the payload, without the verb."""
    job = control.get(job_id)
    if job is None or job.location is not Location.DLQ:
        return  # the preview says so
    job_type = registry.get(job.type)
    if job_type is None:
        usage(f"No code here knows the type {one_line(job.type)}, so nothing can check a payload for it.")
    try:
        decode(job_type, payload, job_type.schema_version)
    except PayloadError as error:
        usage(f"The payload does not fit {one_line(job.type)}: {error}")


# -- arguments ---------------------------------------------------------------------------------------------------------


def _common_arguments(parser: argparse.ArgumentParser, *, places: tuple[str, ...]) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="Ids of jobs; - reads them from standard input.")
    filter_arguments(parser, places)
    parser.add_argument("--all", action="store_true", help="Every one; needed where no filter narrows it.")
    parser.add_argument("--limit", type=positive, metavar="N", help="The first N that match, the oldest first.")
    parser.add_argument("--dry-run", action="store_true", help="Show which, change nothing.")
    parser.add_argument("--yes", action="store_true", help="Do not ask.")
    act_arguments(parser)


def _resurrect_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser, places=("dlq",))
    group = parser.add_argument_group("edits", "What to change on the way.")
    group.add_argument(
        "--payload", metavar="JSON", help="New payload of one job: JSON, @file, or - for standard input."
    )
    group.add_argument("--priority", type=int, metavar="N", help="New priority.")
    group.add_argument("--set-tags", metavar="A,B", help="New tags; empty takes all off.")
    _drop_key_argument(group)


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser, places=("trash",))
    _drop_key_argument(parser)


def _drop_key_argument(parser: Any) -> None:
    parser.add_argument(
        "--drop-key", action="store_true", help="Give up the idempotency key where another active job holds it."
    )


EXITS = "0 all of them   1 none matched, or some were refused   2 wrong arguments"
FROZEN = f"What matches is frozen first: later jobs are not in it. A filter, and {CONFIRM_FROM} ids or more, need a "
"yes."
ID = "01J9Z6T0Q5W9X3V8R2K7M4N1PB"
CANCEL = Subcommand(
    "cancel",
    "Cancel active jobs, by id or by filter.",
    _cancel,
    description="Waiting jobs go to the DLQ as Cancelled, from where they can be resurrected; running ones are asked "
    f"to stop. {FROZEN}",
    examples=[
        (f"cancel {ID} --reason 'wrong address'", "one job"),
        ("cancel --queue mail --status scheduled --dry-run", "which ones would it be?"),
        ("cancel --type report.build.v1 --yes --by nightly", "all of a type, from a script"),
    ],
    adds=partial(_common_arguments, places=("hot",)),
    exits=EXITS,
)
RESURRECT = Subcommand(
    "resurrect",
    "Bring dead jobs back, by id or by filter; edit one on the way.",
    _resurrect,
    description="They are pending and due at once, with attempts counted afresh. A new payload is checked by the job's "
    f"type. {FROZEN}",
    examples=[
        (f"resurrect {ID}", "one job as it is"),
        (f'resurrect {ID} --payload \'{{"to": "ada@example.com"}}\'', "one job, repaired"),
        ("resurrect --failure Timeout --since 2h --dry-run", "what the outage killed"),
        ("resurrect --fingerprint 3f2a90c4b1d7 --limit 10 --yes", "ten of a group, to see whether they work now"),
    ],
    adds=_resurrect_arguments,
    exits=EXITS,
)
PURGE = Subcommand(
    "purge",
    "Put dead or succeeded jobs into the Trash, by id or by filter.",
    _purge,
    description="They can be restored for as long as RETENTION.TRASH says (7 days), and are deleted then. Dead jobs, "
    f"unless --status says succeeded. {FROZEN}",
    examples=[
        ("purge --failure Cancelled --since 1d --dry-run", "which ones would it be?"),
        ("purge --fingerprint 3f2a90c4b1d7 --yes --reason 'test data'", "one group of failures"),
        ("purge --status succeeded --queue imports --yes", "history of a queue"),
    ],
    adds=partial(_common_arguments, places=("dlq", "archive")),
    exits=EXITS,
)
RESTORE = Subcommand(
    "restore",
    "Take jobs out of the Trash, by id or by filter.",
    _restore,
    description=f"They go back to where they came from, as they were. {FROZEN}",
    examples=[
        ("jobs --status purged", "what is in the Trash"),
        ("restore --since 10m --yes", "undo what was just purged"),
        (f"restore {ID}", "one job"),
    ],
    adds=_restore_arguments,
    exits=EXITS,
)
