"""Acts in the background: started as a bulk operation, which workers work off, and followed in ``following``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from .. import control
from ..control import BulkState, BulkView, JobFilter
from ..control.acts import CHUNK
from ..job.patch import PayloadPatch
from ..reading.documents import bulk_document, patch_preview_document
from ..storage import BulkCount
from .chosen import Chosen, asked_for, choose, named, show_chosen
from .console import EMPTY, OK, usage
from .following import follow, nobody_works, who_could_work
from .nothing import nothing_matches
from .patches import MOST_TRIED, tell_trial, trial_code
from .program import typed
from .subcommand import Call
from .text import instant

__all__ = ["background_arguments", "in_background", "is_wanted", "number_of", "share"]

OPTIONS = ("rate", "canary", "canary_failures", "stop_share")
"""Options that make an act a bulk operation, beside --background and --detach."""
Begin = Callable[..., BulkView]


def is_wanted(options: Mapping[str, Any]) -> bool:
    return bool(options["background"] or options["detach"]) or any(options.get(name) is not None for name in OPTIONS)


def in_background(
    call: Call, word: str, status: str, places: tuple[str, ...], begin: Begin, named_: dict[str, Any],
    patch: PayloadPatch | None = None,
) -> int:  # fmt: skip
    """Freeze the set, ask, and leave it to the workers. ``patch``: what a dry run tries."""
    options = call.options
    which, wanted = _which(call, status, places)
    careful = {"stop_at": options.get("stop_share"), "canary": options.get("canary")}
    if options.get("canary_failures") is not None:
        careful["canary_failures"] = options["canary_failures"]
    how = {"rate": options["rate"], **{name: value for name, value in careful.items() if value is not None}, **named_}
    if which.get("ids") == []:
        call.console.document({"operation": None, "followed": False})
        return _nothing(call, wanted, places)
    if options["dry_run"]:
        code = _dry_run(call, word, which, how, patch)
        return _nothing(call, wanted, places) if code is None else code
    if not options["yes"] and not call.console.is_interactive:
        usage(f"This would {word} many jobs in the background: say --yes to do it, or --dry-run to see which.")
    view = begin(**which, **how, hold=not options["yes"])
    if not options["yes"]:
        view = _asked(call, word, view, how["by"])
        if not view.total:
            return _nothing(call, wanted, places)
    if options["detach"]:
        call.console.document({"operation": bulk_document(view)})
        call.console.line(f"{view.id} is under way.", "good")
        call.console.line(f"  {typed(f'bulk show {view.id} --follow')}")
        if nobody_works(call, view):
            for line in who_could_work(view):
                call.console.line(line)
        return OK
    view, code = follow(call, view)
    return code if view.total or code != EMPTY else _nothing(call, wanted, places)


def _nothing(call: Call, wanted: JobFilter | None, places: tuple[str, ...]) -> int:
    if wanted is not None:
        nothing_matches(call, wanted, places)
    return EMPTY


def _which(call: Call, status: str, places: tuple[str, ...]) -> tuple[dict[str, Any], JobFilter | None]:
    """The selection as the verbs of control take it, where or ids; and the filter it came from."""
    if call.options["limit"]:
        found, wanted = choose(call, status, places)
        return {"ids": found.ids[: call.options["limit"]]}, wanted
    wanted = asked_for(call, status, places)
    return ({"ids": named(call.options["ids"])} if wanted is None else {"where": wanted}), wanted


def _dry_run(
    call: Call, word: str, which: Mapping[str, Any], how: Mapping[str, Any], patch: PayloadPatch | None
) -> int | None:
    """The exit code; None where there is nothing."""
    console = call.console
    document: dict[str, Any] = {"by": how["by"], "dry_run": True, "rate": how["rate"]}
    if "where" in which:
        preview = control.bulk_preview(which["where"])
        found = _chosen(preview.counts)
        total = preview.total
        more = "" if preview.complete else " or more"
        document |= {"filter": which["where"].sentence(), "selected": total, "complete": preview.complete}
        if total:
            console.line(f"{total:,}{more} jobs to {word}.", "head")
    else:
        found = Chosen(ids=which["ids"])
        total = len(found.ids)
        document |= {"filter": None, "selected": total, "complete": True, "ids": found.ids[:CHUNK]}
    kinds = [{"queue": queue, "type": key, "count": count} for (queue, key), count in found.kinds.most_common()]
    seen = None
    if patch is not None and total:
        seen = control.preview_patch(patch, **which, by=how["by"], sample=MOST_TRIED)
        document["patch"] = patch_preview_document(seen)
    console.document({**document, "kinds": kinds, "oldest": instant(found.oldest)})
    if not total:
        return None
    show_chosen(call, found, word, headed="where" not in which)
    if seen is not None:
        tell_trial(call, seen)
    if how["rate"]:
        console.line(f"At {how['rate']:g} a second it takes {_span(total / how['rate'])}.")
    console.line("Nothing was changed: this was a dry run.", "good")
    return OK if seen is None else trial_code(seen)


def _asked(call: Call, word: str, view: BulkView, by: str) -> BulkView:
    """Show what is in the frozen set, and go on if one says yes; an empty one is cancelled."""
    console = call.console
    while view.state is BulkState.PREPARING:
        view = control.bulk_freeze(view.id, seconds=5)
    if not view.total:
        return control.bulk_abort(view.id, by=by)
    counts = _chosen(control.bulk_counts(view.id))
    console.line(f"{view.total:,} jobs to {word}.", "head")
    show_chosen(call, counts, word, headed=False)
    if not console.confirm(f"{word.capitalize()} them?"):
        control.bulk_abort(view.id, by=by)
        usage("Nothing was changed.")
    return control.bulk_resume(view.id, by=by)


def _chosen(counts: Any) -> Chosen:
    each: list[BulkCount] = list(counts)
    found = Chosen(kinds=Counter({(one.queue, one.type): one.count for one in each}))
    found.oldest = min((one.oldest for one in each if one.oldest is not None), default=None)
    return found


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {max(1, round(seconds))} seconds"


# -- arguments ---------------------------------------------------------------------------------------------------------


def number_of(text: str) -> float:
    """An argparse type: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def share(text: str) -> float:
    """An argparse type: a share, as ``0.2`` or ``20%``."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a share such as 0.2 or 20%, not {text!r}")
    return value


def background_arguments(parser: argparse.ArgumentParser, *, careful: bool) -> None:
    group = parser.add_argument_group(
        "in the background", "Each of these makes it a bulk operation, which workers work off and `bulk` shows."
    )
    group.add_argument(
        "--background", action="store_true", help="Leave it to the workers; Ctrl-C ends only the following."
    )
    group.add_argument("--detach", action="store_true", help="The same, without following it.")
    group.add_argument("--rate", type=number_of, metavar="N", help="Jobs a second (default: as fast as it goes).")
    if careful:
        group.add_argument(
            "--canary", type=int, metavar="N", help="N jobs first; the rest when these have ended well."
        )  # fmt: skip
        group.add_argument(
            "--canary-failures", type=share, metavar="SHARE", help="Share of the canary that may die (default: 10%%)."
        )
        group.add_argument(
            "--stop-share", type=share, metavar="SHARE", help="Stop when more than this share of the last jobs died."
        )
