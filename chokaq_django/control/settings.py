"""Verbs on options: set over the project's settings while everything runs, and reset."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from django.conf import settings
from django.db import transaction
from django.db.models import F

from ..conf import Options, QueueOptions, Window, fitting, get_options, project_options, what_is_wrong
from ..conf.overridable import OVERRIDABLE, Kind, Place, locate, why_fixed
from ..conf.rules import NEXJOB, SECTIONS, TOP
from ..job.envelope import EnvelopeError
from ..job.failures import FailureReason
from ..job.text import safe_text
from ..models import LeaderLease, Setting
from ..reading.queue_limits import other_limits
from ..reading.settings import follow_settings, take_overrides
from ..sentence import Sentence
from ..storage import BulkResult, Conflict, get_storage
from .acts import NAME_LIMIT, Operator, act_transaction, audit, authorised, log_act

__all__ = ["SettingView", "list_settings", "reset_setting", "set_setting"]

LONGEST_NAME = 255
TURN = "settings"

Source = Literal["default", "preset", "project", "operator"]


@dataclass(frozen=True, slots=True)
class SettingView:
    """An option, what it is and who says so.

    ``name``: with dots, ``DECK.LAG_WARNING``; each rule of retention is one, ``RETENTION.DLQ_BY_QUEUE.mail``, and each
    limit of a queue, ``QUEUES.mail.MAX_WORKERS``, which is an operator's where one has set another.
    ``value``, and ``project``, which holds without an operator: plain data, times in seconds. ``is_new``: a rule that
    only an operator has. ``by``, ``at``: who set it, and when. ``problem``: why what an operator has set is not
    followed. ``fixed``: why it cannot be set while everything runs; empty when it can.
    """

    name: str
    kind: Kind
    value: Any
    source: Source
    project: Any = None
    is_new: bool = False
    by: str | None = None
    at: dt.datetime | None = None
    problem: str = ""
    fixed: str = ""


def set_setting(name: str, value: object, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Set an option over the project's settings, in every process within seconds. Needs ``chokaq.operate``.

    ``name``: with dots, ``DECK.LAG_WARNING``, ``RETENTION.ARCHIVE``, ``RETENTION.DLQ_BY_REASON.Expired``. ``value``: as
    the settings take it; ``EnvelopeError`` for one that they would not take, for one that contradicts another option,
    and for an option that cannot be changed while everything runs.
    """
    actor = authorised(by, "operate")
    place = _place(name)
    clean = _clean(place, value)
    alias = get_options().database
    answer = BulkResult()
    with act_transaction(alias):
        _one_at_a_time(alias)
        stored = _stored(alias)
        before = stored[place.name][0] if place.name in stored else _plain(_value_of(project_options(), place))
        if place.name in stored and before == clean:
            answer.refused.append(Conflict(place.name, Sentence("It is set to this already.")))
        else:
            followed, _ = fitting({known: held for known, (held, _) in stored.items()})
            _demand(place.name, what_is_wrong({**followed, place.name: clean}))
            Setting.objects.using(alias).update_or_create(
                name=place.name,
                defaults={"value": json.dumps(clean), "updated_at": get_storage(alias).now(), "updated_by": actor},
            )
            audit(alias, "set_setting", {place.name: {"from": before, "to": clean}}, actor, reason)
            transaction.on_commit(partial(follow_settings, 0), using=alias, robust=True)
            answer.applied.append(place.name)
    log_act("set_setting", actor, answer)
    return answer


def reset_setting(name: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Have an option be what the project's settings say again. Needs ``chokaq.operate``.

    ``EnvelopeError`` where that would contradict what is set of another option.
    """
    actor = authorised(by, "operate")
    alias = get_options().database
    name, answer = _clean_name(name), BulkResult()
    with act_transaction(alias):
        _one_at_a_time(alias)
        stored = _stored(alias)
        key = name if name in stored else _place(name).name
        if key not in stored:
            answer.refused.append(Conflict(key, Sentence("Nobody has set it: it is what the project's settings say.")))
        else:
            followed, _ = fitting({known: held for known, (held, _) in stored.items()})
            followed.pop(key, None)
            _demand(key, what_is_wrong(followed))
            Setting.objects.using(alias).filter(pk=key).delete()
            audit(alias, "reset_setting", {key: {"from": stored[key][0], "to": _said(key)}}, actor, reason)
            transaction.on_commit(partial(follow_settings, 0), using=alias, robust=True)
            answer.applied.append(key)
    log_act("reset_setting", actor, answer)
    return answer


def list_settings() -> list[SettingView]:
    """Every option, with what operators have set; looked up now, and followed by this process from now on."""
    stored = _stored(get_options().database)
    refused = take_overrides((name, row.value) for name, (_, row) in stored.items())
    views = {view.name: view for view in _views()}
    for name, (value, row) in stored.items():
        view = views.get(name) or SettingView(name, _kind(name), None, "default", is_new=True)
        said = {"by": row.updated_by, "at": row.updated_at, "problem": refused.get(name, "")}
        views[name] = SettingView(
            name, view.kind, value, "operator", view.project, view.is_new, fixed=view.fixed, **said
        )  # fmt: skip
    for other in other_limits(get_options().database, project_options()):
        for option in other.options() if other.by else ():
            name = f"QUEUES.{other.queue}.{option.upper()}"
            held = _plain(getattr(other.held, option))
            views[name] = replace(views[name], value=held, source="operator", by=other.by, at=other.at)
    sections = list(dict.fromkeys(name.partition(".")[0] for name in views))
    return sorted(views.values(), key=lambda view: sections.index(view.name.partition(".")[0]))


# -- checking ----------------------------------------------------------------------------------------------------------


def _one_at_a_time(alias: str) -> None:
    """Holds, until the transaction ends, what every act on settings holds: two operators whose values fit one by one,
    and contradict each other, must not both find theirs fitting. The first statement: what is read after it is no
    older."""
    turns = LeaderLease.objects.using(alias).filter(pk=TURN)
    if not turns.update(term=F("term") + 1):
        LeaderLease.objects.using(alias).get_or_create(
            name=TURN, defaults={"holder": "", "expires_at": get_storage(alias).now()}
        )
        turns.update(term=F("term") + 1)


def _clean_name(name: object) -> str:
    if not isinstance(name, str):
        raise EnvelopeError("name", Sentence("must be a string, got %(name)s", name=type(name).__name__))
    return name.strip()


def _place(name: str) -> Place:
    name = _clean_name(name)
    shown = safe_text(name, NAME_LIMIT)
    try:
        place = locate(name)
    except ValueError as error:
        raise EnvelopeError(shown, str(error)) from None
    if len(place.name) > LONGEST_NAME:
        raise EnvelopeError(
            shown,
            Sentence(
                "is longer than %(longest_name)s characters: a rule for so long a name can only stand in the settings",
                longest_name=LONGEST_NAME,
            ),
        )
    return place


def _said(name: str) -> Any:
    """What the project's settings say of an option; None where they say nothing, or the option is one of an earlier
    version."""
    try:
        return _plain(_value_of(project_options(), locate(name)))
    except ValueError:
        return None


def _clean(place: Place, value: object) -> Any:
    """``value`` as the settings would take it, as plain data."""
    check = SECTIONS[place.section][1][place.option]
    try:
        if place.entry is None:
            return _plain(check(value))
        (kept,) = (kept for key, kept in check({place.entry: value}).items() if _label(key) == place.entry)
        return kept
    except (TypeError, ValueError) as error:
        message = str(error).replace(f"[{place.entry!r}] ", "")
        raise EnvelopeError(place.name, message.rpartition("CircuitPolicy: ")[2]) from None


def _demand(name: str, problems: Sequence[str]) -> None:
    if not problems:
        return
    text = "; ".join(problems)
    own = text.startswith(f"{name} ")
    raise EnvelopeError(name, text.removeprefix(f"{name} ") if own else f"contradicts the rest: {text}")


def _stored(alias: str) -> dict[str, tuple[Any, Setting]]:
    """What is set: name -> value and row; None for a value that is no JSON."""
    found = {}
    for row in Setting.objects.using(alias).order_by("name"):
        try:
            value = json.loads(row.value)
        except (ValueError, RecursionError):
            value = None
        found[row.name] = (value, row)
    return found


# -- showing -----------------------------------------------------------------------------------------------------------


def _views() -> Iterator[SettingView]:
    """What holds without operators."""
    options = project_options()
    raw = getattr(settings, "CHOKAQ", None) or {}
    for name in TOP:
        source: Source = "project" if name in raw else "default"
        yield _view(name, _plain(getattr(options, name.lower())), source)
    for section, (_, checks) in SECTIONS.items():
        said = raw.get(section) or {}
        for option in checks:
            place = Place(section, option, None, OVERRIDABLE.get(section, {}).get(option, "fixed"))
            value = _value_of(options, place)
            if place.kind == "rules":
                given = {_label(key) for key in said.get(option) or {}}
                for key, kept in value.items():
                    label = _label(key)
                    yield _view(f"{place.name}.{label}", kept, "project" if label in given else "default", "rules")
            else:
                yield _view(place.name, _plain(value), _source(options, said, place), place.kind)
    for queue, limits in options.queues.items():
        for each in fields(QueueOptions):
            kept = getattr(limits, each.name)
            if kept is not None:
                yield _view(f"QUEUES.{queue}.{each.name.upper()}", _plain(kept), "project")


def _kind(name: str) -> Kind:
    try:
        return locate(name).kind
    except ValueError:
        return "fixed"


def _view(name: str, value: Any, source: Source, kind: Kind = "fixed") -> SettingView:
    fixed = why_fixed(name) if kind == "fixed" else ""
    if kind == "fixed" and isinstance(value, float):
        kind = "seconds"
    return SettingView(name, kind, value, source, project=value, fixed=fixed)


def _source(options: Options, said: Mapping[str, Any], place: Place) -> Source:
    if place.option in said:
        return "project"
    preset = NEXJOB.get(place.section, {}) if options.preset == "nexjob" else {}
    return "preset" if place.option.lower() in preset else "default"


def _value_of(options: Options, place: Place) -> Any:
    section = getattr(options, place.section.lower())
    value = getattr(section, "break_" if place.option == "BREAK" else place.option.lower())
    if place.entry is None:
        return value
    return {_label(key): kept for key, kept in value.items()}.get(place.entry)


def _label(key: object) -> str:
    """A key of rules as their names have it."""
    try:
        return FailureReason.parse(key).label if isinstance(key, int) else str(key)
    except ValueError:
        return str(key)


def _plain(value: Any) -> Any:
    if isinstance(value, Window):
        return f"{value.start:%H:%M}-{value.end:%H:%M} {value.zone}"
    return list(value) if isinstance(value, tuple) else value
