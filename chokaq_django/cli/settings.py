"""``chokaq settings``, and setting and resetting options while everything runs."""

from __future__ import annotations

import argparse
import re
from typing import Any

from .. import control
from ..conf.overridable import Place, locate
from ..conf.text import NONE, read_value, show_value
from ..control import SettingView
from ..job.envelope import EnvelopeError
from ..reading.retention import would_delete
from .arguments import act_arguments, actor
from .changes import tell
from .console import OK, meant, usage
from .program import typed
from .subcommand import Call, Subcommand
from .table import Column
from .text import at_least, brief_age, instant, one_line

__all__ = ["SETTINGS"]

COLUMNS = (
    Column("OPTION", flexible=True, least=24), Column("VALUE", flexible=True, least=10), Column("FROM"),
    Column("PROJECT", flexible=True), Column("SET BY", flexible=True), Column("AGO", right=True),
)  # fmt: skip
_HERE = {"set_concurrency": "workers concurrency", "set_queue": "queue set"}
"""What verbs that a refusal names are called here."""
_VERB = re.compile(r"\b(?:set_concurrency|set_queue)\b")


def _settings(call: Call) -> int:
    now = call.now()
    section = call.options["section"]
    views = control.list_settings()
    sections = sorted({view.name.partition(".")[0] for view in views if "." in view.name})
    if section is not None and section.strip().upper() not in sections:
        usage(
            f"--section {one_line(section, 60)}: there is no such section.{meant(section.upper(), sections)} "
            f"There are {', '.join(sections)}."
        )
    if section is not None:
        views = [view for view in views if view.name.partition(".")[0] == section.strip().upper()]
    if not call.options["all"]:
        views = [view for view in views if not view.fixed or view.source == "operator"]
    call.console.document({"as_of": instant(now), "settings": [_document(view) for view in views]})
    rows, tones = [], []
    for view in views:
        is_set = view.source == "operator"
        rows.append(
            (
                view.name,
                _text(view, view.value),
                view.source,
                _text(view, view.project) if is_set and not view.is_new else "-",
                view.by or "-",
                brief_age(view.at, now),
            )
        )
        tones.append("bad" if view.problem else "head" if is_set else "")
    call.console.table(COLUMNS, rows, tones)
    for view in views:
        if view.problem:
            call.console.paragraph(f"{view.name} is not followed: {view.problem}", "bad")
        elif view.source == "operator" and view.name.startswith("QUEUES."):
            queue = view.name.partition(".")[2].rpartition(".")[0]
            call.console.paragraph(
                f"{view.name} is not followed: {view.by} has set limits of the queue, and it keeps its own. "
                f"Change them with `{typed('queue set')} {queue}`, or give them back to the settings with "
                f"`{typed('queue reset')} {queue}`.",
                "warn",
            )
    return OK


def _document(view: SettingView) -> dict[str, Any]:
    return {
        "name": view.name,
        "value": view.value,
        "source": view.source,
        "project": view.project,
        "set_by": view.by,
        "set_at": instant(view.at),
        "problem": view.problem or None,
        "fixed": view.fixed or None,
    }


def _text(view: SettingView, value: Any) -> str:
    if value is None or value == []:
        return NONE
    if isinstance(value, list):
        return ", ".join(show_value("number", item) for item in value)
    return show_value("count" if view.kind == "fixed" else view.kind, value)


def _set(call: Call) -> int:
    place = _place(call)
    try:
        value = read_value(place.kind, call.options["value"])
    except ValueError as error:
        raise EnvelopeError(place.name, str(error)) from None
    if call.options["dry_run"]:
        return _dry_run(call, place.name, {place.name: value})
    _ask(call, place.name, {place.name: value})
    by = actor(call.options)
    answer = control.set_setting(place.name, value, by=by, reason=call.options["reason"])
    said = f"is {show_value(place.kind, value)} from now on, in every process within seconds"
    return tell(call, by, [answer], thing="name", done=said)


def _reset(call: Call) -> int:
    name = call.options["name"].strip()
    if name not in {view.name for view in control.list_settings()}:  # one of an earlier version may still be set
        name = _place(call).name
    if call.options["dry_run"]:
        return _dry_run(call, name, {})
    _ask(call, name, {})
    by = actor(call.options)
    answer = control.reset_setting(name, by=by, reason=call.options["reason"])
    return tell(call, by, [answer], thing="name", done="is what the project's settings say again")


def _place(call: Call) -> Place:
    """The option that is named; a usage error for one that there is not, or that cannot be changed."""
    name = call.options["name"].strip()
    try:
        return locate(name)
    except ValueError as error:
        why = _VERB.sub(lambda verb: f"`{typed(_HERE[verb[0]])}`", str(error))
        end = "" if why.endswith((".", "?")) else "."
        usage(f"{one_line(name, 100)} {why}{end} What can be set: `{typed('settings')}`.")


def _deletes(call: Call, name: str, changed: dict[str, Any]) -> tuple[int, bool]:
    return would_delete(call.alias, name, changed) if name.startswith("RETENTION.") else (0, False)


def _said(count: int, more: bool) -> str:
    return f"The next pass, within a minute, would delete {at_least(count, more)} jobs by this."


def _dry_run(call: Call, name: str, changed: dict[str, Any]) -> int:
    count, more = _deletes(call, name, changed)
    call.console.document({"dry_run": True, "would_delete": count, "more": more})
    call.console.paragraph(_said(count, more))
    call.console.line("Nothing was changed: this was a dry run.", "good")
    return OK


def _ask(call: Call, name: str, changed: dict[str, Any]) -> None:
    """Say what would be deleted, and go on only if that is meant."""
    count, more = (0, False) if call.options["yes"] else _deletes(call, name, changed)
    if not count:
        return
    text = f"{_said(count, more)} They do not go to the Trash."
    if not call.console.is_interactive:
        usage(f"{text} Say --yes if that is meant.")
    call.console.paragraph(text, "warn")
    if not call.console.confirm("Go on?"):
        usage("Nothing was changed.")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--section", metavar="NAME", help="Only options of this section, such as RETENTION.")
    parser.add_argument("--all", action="store_true", help="Those too that only the project's settings can change.")


def _change_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="OPTION", help="With dots, such as RETENTION.DLQ_BY_QUEUE.mail.")
    act_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="Only say what it would delete.")
    parser.add_argument("--yes", action="store_true", help="Do not ask before something is deleted by it.")


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    _change_arguments(parser)
    parser.add_argument("value", metavar="VALUE", help="Such as 30d, 12h, 90s, 5, or none.")


EXITS = "0 it was changed   2 a bad name or value, a contradiction, or not agreed to   4 it was that already"
SETTINGS = Subcommand(
    "settings",
    "Options: what holds, who says so, and setting them while everything runs.",
    _settings,
    description="FROM: default, preset, project (the CHOKAQ setting) or operator, who wins over it until the option is "
    "reset; PROJECT is then what would hold. Every process follows within seconds.",
    examples=[
        ("settings", "what can be changed while everything runs"),
        ("settings --section RETENTION", "how long what is over is kept"),
        ("settings set RETENTION.DLQ_BY_QUEUE.mail 30d", "dead jobs of one queue go after 30 days"),
        ("settings reset RETENTION.DLQ_BY_QUEUE.mail", "as the project's settings say, again"),
    ],
    adds=_list_arguments,
    exits="0 they could be looked at   2 unknown section",
    children=[
        Subcommand(
            "set",
            "Set an option over the project's settings, in every process.",
            _set,
            description="What a shorter retention would delete is said and asked about first.",
            examples=[
                ("settings set DECK.LAG_CRITICAL 30s", "queues turn red later"),
                ("settings set RETENTION.ARCHIVE 7d --dry-run", "what that would delete"),
                ("settings set RETENTION.DLQ_BY_REASON.Expired none", "keep those for ever"),
            ],
            adds=_set_arguments,
            exits=EXITS,
        ),
        Subcommand(
            "reset",
            "Have an option be what the project's settings say again.",
            _reset,
            examples=[("settings reset DECK.LAG_CRITICAL", "nothing of one's own any more")],
            adds=_change_arguments,
            exits=EXITS,
        ),
    ],
)
