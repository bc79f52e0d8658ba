"""``chokaq cancel``, ``resurrect``, ``remove``, ``purge``, ``restore``, ``run-again`` and ``edit``: on ids, or on
everything that a filter finds."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from .. import control
from ..control.payloads import fitting
from ..job.envelope import clean_priority, clean_queue
from ..job.failures import PayloadError
from ..models import JobStatus
from ..reading.job import Location
from .acting import EXITS, FROZEN, Act, act, act_on_jobs_arguments
from .background import is_wanted
from .chosen import Chosen
from .console import usage
from .patches import patch_arguments, patch_of
from .subcommand import Call, Subcommand
from .text import one_line

__all__ = ["CANCEL", "EDIT", "PURGE", "REMOVE", "RESTORE", "RESURRECT", "RUN_AGAIN"]


def _cancel(call: Call) -> int:
    return act(call, Act("cancel", "cancelled", "active", ("hot",), control.cancel, control.bulk_cancel))


# -- the Trash ---------------------------------------------------------------------------------------------------------


def _remove(call: Call) -> int:
    return act(call, Act("remove", "removed", "active", ("hot",), control.remove, control.bulk_remove))


def _purge(call: Call) -> int:
    return act(call, Act("purge", "purged", "dead", ("dlq", "archive"), control.purge, control.bulk_purge))


def _restore(call: Call) -> int:
    return act(call, Act("restore", "restored", "purged", ("trash",), control.restore, named=_key_conflict(call)))


def _key_conflict(call: Call) -> dict[str, Any]:
    return {"on_key_conflict": "drop" if call.options["drop_key"] else "skip"}


# -- back to work ------------------------------------------------------------------------------------------------------


def _resurrect(call: Call) -> int:
    edits = _edits(call)
    if is_wanted(call.options):
        if edits.keys() - {"priority"}:
            usage("In the background, jobs are brought back as they are: without --payload and --set-tags.")
        what = Act("resurrect", "resurrected", "dead", ("dlq",), control.resurrect, control.bulk_resurrect,
                   named=edits | _key_conflict(call))  # fmt: skip
        return act(call, what)
    what = Act("resurrect", "resurrected", "dead", ("dlq",), control.resurrect, named=edits | _key_conflict(call))
    return act(call, what, partial(_check_payload, call, edits.get("payload"), None, (Location.DLQ,)))


def _run_again(call: Call) -> int:
    what = Act("run again", "enqueued again", "succeeded", ("archive",), control.run_again, named=_key_conflict(call))
    return act(call, what)


# -- edits -------------------------------------------------------------------------------------------------------------


def _edit(call: Call) -> int:
    options = call.options
    edits = _edits(call)
    for option, name in (("set_queue", "queue"), ("set_type", "type")):
        if options[option] is not None:
            edits[name] = options[option]
    patch = patch_of(options)
    if patch is not None:
        if "payload" in edits:
            usage("--payload is the whole payload: say it, or what changes in the payload.")
        edits["patch"] = patch
    if not edits:
        usage(
            "What is to change? Say --set, --remove, --patch, --payload, --priority, --set-tags, --set-queue or "
            "--set-type."
        )
    places = ("hot", "dlq")
    if is_wanted(options):
        if edits.keys() - {"priority", "queue", "patch"} or options["revision"] is not None:
            usage("In the background, only fields of the payload, --priority and --set-queue can be changed.")
        what = Act("edit", "edited", "pending", places, control.edit, control.bulk_edit, edits, patch)
        return act(call, what)
    if options["revision"] is not None:
        edits["revision"] = options["revision"]
    if "queue" in edits:
        clean_queue(edits["queue"])
    where = (Location.DLQ, Location.HOT)
    what = Act("edit", "edited", "pending", places, control.edit, named=edits, patch=patch)
    return act(call, what, partial(_check_payload, call, edits.get("payload"), edits.get("type"), where))


def _edits(call: Call) -> dict[str, Any]:
    """What is to change in jobs, as the verbs take it."""
    options = call.options
    edits: dict[str, Any] = {}
    if options["payload"] is not None:
        edits["payload"] = _payload(options["payload"])
    if options["priority"] is not None:
        edits["priority"] = clean_priority(options["priority"])
    if options["set_tags"] is not None:
        edits["tags"] = [tag for tag in options["set_tags"].split(",") if tag.strip()]
    return edits


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


def _check_payload(
    call: Call, payload: str | None, new_type: str | None, places: tuple[Location, ...], found: Chosen
) -> None:  # fmt: skip
    """A payload or a revision is of one job; a dry run says what the verb would say of the payload."""
    one = "--payload" if payload is not None else "--revision" if call.options.get("revision") is not None else ""
    if one and (len(found.ids) != 1 or not call.options["ids"]):
        usage(f"{one} is of one job: name its id.")
    if payload is None or not call.options["dry_run"]:
        return
    job = control.get(found.ids[0])
    if job is None or job.location not in places or job.status in (JobStatus.FETCHED, JobStatus.PROCESSING):
        return  # the preview says so
    key = new_type or job.type
    try:
        fitting(key, payload)
    except PayloadError as error:
        usage(f"The payload does not fit {one_line(key)}: {error}")


# -- arguments ---------------------------------------------------------------------------------------------------------


def _edit_group(parser: argparse.ArgumentParser, description: str) -> Any:
    group = parser.add_argument_group("edits", description)
    group.add_argument(
        "--payload", metavar="JSON", help="New payload of one job: JSON, @file, or - for standard input."
    )
    group.add_argument("--priority", type=int, metavar="N", help="New priority.")
    group.add_argument("--set-tags", metavar="A,B", help="New tags; empty takes all off.")
    return group


def _drop_key_argument(parser: Any) -> None:
    parser.add_argument(
        "--drop-key", action="store_true", help="Give up the idempotency key where another active job holds it."
    )


def _resurrect_arguments(parser: argparse.ArgumentParser) -> None:
    act_on_jobs_arguments(parser, places=("dlq",), background=True, careful=True)
    _drop_key_argument(_edit_group(parser, "What to change on the way."))


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    act_on_jobs_arguments(parser, places=("trash",))
    _drop_key_argument(parser)


def _run_again_arguments(parser: argparse.ArgumentParser) -> None:
    act_on_jobs_arguments(parser, places=("archive",))
    _drop_key_argument(parser)


def _edit_arguments(parser: argparse.ArgumentParser) -> None:
    act_on_jobs_arguments(parser, places=("hot", "dlq"), background=True)
    group = _edit_group(parser, "What to change; the rest stays.")
    group.add_argument("--set-queue", metavar="NAME", help="Another queue.")
    group.add_argument("--set-type", metavar="KEY", help="Another type, which the payload must fit.")
    group.add_argument("--revision", type=int, metavar="N", help="Refuse if it was edited since this revision.")
    patch_arguments(parser)


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
        ("cancel --queue imports --background", "a hundred thousand, by the workers"),
    ],
    adds=partial(act_on_jobs_arguments, places=("hot",), background=True),
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
        (
            "resurrect --queue partner --rate 50 --canary 100 --stop-share 20%",
            "a hundred first, then 50 a second, no further when one in five dies",
        ),
    ],
    adds=_resurrect_arguments,
    exits=EXITS,
)
REMOVE = Subcommand(
    "remove",
    "Put waiting jobs into the Trash, by id or by filter.",
    _remove,
    description="As if they had never been enqueued: no trace in the DLQ. They can be restored for as long as "
    f"RETENTION.TRASH says (7 days). Running ones are refused. {FROZEN}",
    examples=[
        (f"remove {ID}", "one job"),
        ("remove --queue mail --tag test --dry-run", "which ones would it be?"),
    ],
    adds=partial(act_on_jobs_arguments, places=("hot",), background=True),
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
        ("purge --status succeeded --queue imports --background --yes", "history of a queue, by the workers"),
    ],
    adds=partial(act_on_jobs_arguments, places=("dlq", "archive"), background=True),
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
RUN_AGAIN = Subcommand(
    "run-again",
    "Enqueue succeeded jobs once more, by id or by filter.",
    _run_again,
    description=f"Each as a new job with an id of its own, due at once; the old one stays in the Archive. {FROZEN}",
    examples=[
        (f"run-again {ID}", "one job"),
        ("run-again --type report.build.v1 --since 1d --dry-run", "yesterday's reports: which ones would it be?"),
    ],
    adds=_run_again_arguments,
    exits=EXITS,
)
EDIT = Subcommand(
    "edit",
    "Change payload, priority, tags, queue or type of waiting and dead jobs.",
    _edit,
    description="A new payload is checked by the job's type, and the one it replaces is kept. Running jobs are "
    f"refused. Pending jobs, unless --status says otherwise. {FROZEN}",
    examples=[
        (f'edit {ID} --payload \'{{"to": "ada@example.com"}}\'', "repair one job"),
        (f"edit {ID} --revision 2 --payload @fixed.json", "unless somebody edited it since `job` showed revision 2"),
        ("edit --queue mail --type digest.v1 --priority 1 --yes", "digests last"),
        ("edit --status dead --queue old --set-queue new --background", "many, by the workers; `bulk undo` reverts it"),
        (
            "edit --status dead --type pay.v1 --where-value 'currency=\"EURO\"' --set 'currency=\"EUR\"' --dry-run",
            "one field of many payloads: what would become of them?",
        ),
    ],
    adds=_edit_arguments,
    exits=EXITS,
)
