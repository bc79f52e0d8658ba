"""``chokaq failures``: dead jobs in groups of one cause, and what people note on them."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import Any

from .. import control
from ..job.envelope import EnvelopeError
from ..reading.documents import group_document, instant, reason_name
from ..reading.groups import (
    LATELY_COUNTED,
    MOST_GROUPS,
    GroupView,
    ReplayRisk,
    count_groups,
    find_groups,
    newest_dead,
    read_group,
    read_groups,
)
from .arguments import act_arguments, actor, failure_of, limit_argument, text_of
from .console import EMPTY, OK, unable, usage
from .names import unknown
from .program import typed
from .subcommand import Call, Subcommand
from .table import Column
from .text import brief_age, moment, one_line

__all__ = ["FAILURES"]

SHORT = 12
"""Digits of a fingerprint that are shown; eight are enough to name it."""
LEAST = 8
NEWEST = 5
RISKS = {
    ReplayRisk.NONE: "safe: they never began",
    ReplayRisk.IF_STARTED: "nothing is done of those that waited; what others did before is",
    ReplayRisk.PARTLY: "what they did before their error is done",
    ReplayRisk.LIKELY: "they may be done: look before you run them again",
}
TONES = {"new": "bad", "rising": "bad"}
KNOWN = {"yes": True, "no": False}
COLUMNS = (
    Column("FINGERPRINT"), Column("JOBS", right=True), Column("1H", right=True), Column("FAILURE", flexible=True),
    Column("ERROR", flexible=True), Column("QUEUES", flexible=True), Column("LAST", right=True),
    Column("KNOWN", flexible=True),
)  # fmt: skip


def _list(call: Call) -> int:
    now, options = call.now(), call.options
    if options["limit"] > MOST_GROUPS:
        usage(f"--limit: at most {MOST_GROUPS}; narrow it by --queue, --type or --failure.")
    wanted: dict[str, Any] = {
        "queue": text_of(options, "queue"), "type": text_of(options, "type"), "reason": failure_of(options["failure"]),
        "acknowledged": KNOWN.get(options["known"] or ""),
    }  # fmt: skip
    order = "last_seen" if options["latest"] else "count"
    views = read_groups(call.alias, now, options["limit"], order=order, **wanted)  # type: ignore[arg-type]
    call.console.document({"as_of": instant(now), "groups": [group_document(view, now) for view in views]})
    if not views:
        narrowed = any(value is not None for value in wanted.values())
        names = unknown(wanted["queue"], wanted["type"])
        call.console.paragraph(
            f"No dead job that fits.{names}" if narrowed else "No dead job: nothing needs you.", "good"
        )
        return EMPTY
    call.console.table(COLUMNS, [_row(view, now) for view in views], [TONES.get(view.trend(now), "") for view in views])
    if len(views) == options["limit"]:
        more = count_groups(call.alias, **wanted) - len(views)
        if more > 0:
            call.console.line(f"{more:,}{'+' if more + len(views) > MOST_GROUPS else ''} more groups: --limit.")
    call.console.line()
    first = views[0].fingerprint[:SHORT]
    call.console.line("See one, or what would come back:")
    call.console.line(f"  {typed(f'failures show {first}')}")
    call.console.line(f"  {typed(f'resurrect --fingerprint {first} --dry-run')}")
    return OK


def _row(view: GroupView, now: dt.datetime) -> tuple[object, ...]:
    more = "+" if view.last_hour == LATELY_COUNTED else ""
    known = "again" if view.came_again else "yes" if view.acknowledged else "-"
    queues = ", ".join(list(view.queues)[:3]) + (", …" if len(view.queues) > 3 else "")
    return (
        view.fingerprint[:SHORT], f"{view.count:,}", f"{view.last_hour:,}{more}", reason_name(view.reason),
        (view.error_type or "-").rpartition(".")[2], queues,
        brief_age(view.last_seen, now), view.assignee or known,
    )  # fmt: skip


def _show(call: Call) -> int:
    now = call.now()
    view = read_group(call.alias, now, _fingerprint(call))
    if view is None:
        call.console.document({"as_of": instant(now), "group": None, "newest": []})
        return _unknown(call)
    jobs = newest_dead(call.alias, view.fingerprint, NEWEST)
    call.console.document(
        {"as_of": instant(now), "group": group_document(view, now), "newest": [j["pk"] for j in jobs]}
    )
    if call.console.json:
        return OK
    console, triage = call.console, view.triage
    console.paragraph(f"{view.error_type or reason_name(view.reason)}  {view.fingerprint}", "head")
    if view.message:
        console.paragraph(view.message, "bad")
    console.line()
    more = "+" if LATELY_COUNTED in (view.last_hour, view.hour_before) else ""
    hours = f"{view.last_hour:,}{more} within an hour, {view.hour_before:,}{more} in the hour before"
    known = None if triage is None or triage.acknowledged_at is None else moment(triage.acknowledged_at, now)
    console.pairs(
        [
            ("dead", f"{view.count:,} now, {view.total:,} ever"),
            ("trend", f"{view.trend(now)}: {hours}"),
            ("reason", reason_name(view.reason)),
            ("to run again", RISKS[view.risk]),
            ("first", moment(view.first_seen, now)),
            ("last", moment(view.last_seen, now)),
            ("queues", _counted(view.queues)),
            ("types", _counted(view.types)),
            ("acknowledged", known and f"{known} by {(triage and triage.acknowledged_by) or '?'}"),
            ("came again", "yes: jobs died of it since" if view.came_again else None),
            ("assignee", view.assignee),
            ("note", triage.note if triage is not None else None),
        ]
    )
    if jobs:
        console.heading("The newest of them")
        for job in jobs:
            console.line(f"{job['pk']}  {brief_age(job['failed_at'], now)}  {one_line(job['queue'])}")
        console.line()
        first = view.fingerprint[:SHORT]
        console.line("See the error of one, or what would come back:")
        console.line(f"  {typed('job ' + jobs[0]['pk'])}")
        console.line(f"  {typed(f'resurrect --fingerprint {first} --dry-run')}")
    return OK


def _counted(names: dict[str, int], most: int = 10) -> str:
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(names.items())[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _triage(call: Call) -> int:
    options = call.options
    given = {"note": options["note"], "assignee": options["assignee"], "acknowledged": options["acknowledged"]}
    if all(value is None for value in given.values()):
        usage("Say what to note: --note, --assignee, --acknowledge or --unacknowledge.")
    fingerprint, by = _fingerprint(call), actor(options)
    try:
        answer = control.triage(fingerprint, by=by, reason=options["reason"], **given)
    except EnvelopeError as error:
        usage(f"--{error}")
    refused = [conflict.reason for conflict in answer.refused]
    call.console.document({"by": by, "fingerprint": fingerprint, "applied": bool(answer.applied), "refused": refused})
    for reason in refused:
        call.console.line(reason, "warn")
    if answer.applied:
        call.console.line(f"Noted on {fingerprint[:SHORT]}.", "good")
    return OK if answer.applied else EMPTY


def _fingerprint(call: Call) -> str:
    """The whole of what was named by its first digits; as it is when no group has it."""
    text = str(call.options["fingerprint"]).strip().lower()
    if not LEAST <= len(text) <= 32 or not set(text) <= set("0123456789abcdef"):
        usage(f"{one_line(text, 60)!r}: give {LEAST} or more hexadecimal digits, as in `{typed('failures')}`.")
    found = find_groups(call.alias, text, 2)
    if len(found) > 1:
        unable(f"There are several groups that begin with {text}: give more digits.")
    return found[0] if found else text.ljust(32, "0")


def _unknown(call: Call) -> int:
    text = one_line(call.options["fingerprint"], 60)
    call.console.paragraph(f"No failure group begins with {text}: nothing has died of it, or it was forgotten.", "warn")
    return EMPTY


def _arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filter", "Options that narrow it; all that are given must hold.")
    group.add_argument("--queue", metavar="NAME", help="What is in this queue.")
    group.add_argument("--type", metavar="KEY", help="What is of this type key, such as email.send.v1.")
    group.add_argument("--failure", metavar="REASON", help="Why it is dead, such as FatalError or Timeout.")
    group.add_argument("--known", choices=list(KNOWN), help="Whether somebody has acknowledged it.")
    parser.add_argument("--latest", action="store_true", help="What came last first, instead of the largest.")
    limit_argument(parser, 20, "groups")


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("fingerprint", metavar="FINGERPRINT", help="Eight or more of its digits.")


def _triage_arguments(parser: argparse.ArgumentParser) -> None:
    _one(parser)
    parser.add_argument("--note", metavar="TEXT", help="What is known of it; '' takes the note away.")
    parser.add_argument("--assignee", metavar="NAME", help="Who looks after it; '' for nobody.")
    known = parser.add_mutually_exclusive_group()
    known.add_argument(
        "--acknowledge", dest="acknowledged", action="store_const", const=True,
        help="Somebody knows of it: what dies of it later shows as having come again.",
    )  # fmt: skip
    known.add_argument(
        "--unacknowledge", dest="acknowledged", action="store_const", const=False, help="Nobody knows of it any more."
    )
    parser.set_defaults(acknowledged=None)
    act_arguments(parser)


FAILURES = Subcommand(
    "failures",
    "Dead jobs in groups of one cause, counted, with notes.",
    _list,
    description="One group is one kind of failure: reason, exception type, message without its numbers, and the line "
    "of your code. Unlike `dlq`, which reads dead jobs and groups them, this reads the counts that every move keeps.",
    examples=[
        ("failures", "what fails most"),
        ("failures --latest --known no", "what came last and nobody has taken note of"),
        ("failures show 3f9a12cc", "one group, with its newest jobs"),
    ],
    adds=_arguments,
    exits="0 there are some   4 no dead job fits",
    children=[
        Subcommand(
            "show",
            "One group: its jobs, its trend, what is noted on it.",
            _show,
            examples=[("failures show 3f9a12cc", "by the first digits of its fingerprint")],
            adds=_one,
            exits="0 it is shown   4 there is no such group",
        ),
        Subcommand(
            "triage",
            "Note something on a group.",
            _triage,
            description="What is noted stays, also when the group is empty for a while.",
            examples=[
                ("failures triage 3f9a12cc --acknowledge --assignee ada", "somebody looks after it"),
                ("failures triage 3f9a12cc --note 'partner is down, ticket 17'", "so that others know"),
            ],
            adds=_triage_arguments,
            exits="0 noted   4 nothing had to be changed, or there is no such group",
        ),
    ],
)
