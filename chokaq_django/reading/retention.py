"""Retention as operators see it: the rules, what the next pass would delete, what the last one did, the Trash."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..conf import fitting, get_options, options_with, overrides
from ..models import JobTrash, RetentionMark
from ..storage import get_storage
from ..storage.retention_rules import TrimRule, less_specific, trim_rules
from .plans import by_index
from .settings import follow_settings

__all__ = ["COUNTED", "RuleView", "TrashView", "read_mark", "read_rules", "read_trash", "would_delete"]

COUNTED = 1_000
"""Jobs that are looked at to say what a rule would delete; where there are more, ``more`` says so."""
RULES_COUNTED = 20
"""Rules of which that is said."""
TRASH_COUNTED = 10_000


@dataclass(slots=True)
class RuleView:
    """One rule; of each place ("archive", "dlq") the most specific come first. ``label``: whose jobs, empty for the
    plain one. ``age``: seconds, None for ever. ``due``: jobs that a pass would delete now, None where nobody counted.
    ``mark``: what passes have done."""

    rule: TrimRule
    due: int | None = None
    more: bool = False
    mark: RetentionMark | None = None


@dataclass(slots=True)
class TrashView:
    """``count``: purged and removed jobs, ``more`` than that if so said. ``next_at``: when the next of them goes for
    good, None: never."""

    count: int
    more: bool
    next_at: dt.datetime | None


def read_rules(alias: str) -> list[RuleView]:
    """The rules that hold now."""
    marks = {mark.name: mark for mark in RetentionMark.objects.using(alias)}
    views = [RuleView(rule, mark=marks.get(rule.name)) for rule in trim_rules(get_options().retention)]
    storage = get_storage(alias)
    with by_index(alias):
        for view in [view for view in views if view.rule.age is not None][:RULES_COUNTED]:
            view.due, view.more = storage.trim_due(view.rule, COUNTED)
    return views


def read_mark(alias: str, name: str) -> RetentionMark | None:
    """What passes have done by this option."""
    return RetentionMark.objects.using(alias).filter(pk=name).first()


def would_delete(alias: str, name: str, changed: Mapping[str, Any]) -> tuple[int, bool]:
    """Jobs that the next pass would delete, and would not delete now, if operators had set ``changed`` in the place of
    what they have set of the rule ``name``; whether there are more. Jobs are not counted beyond COUNTED."""
    follow_settings(0)
    values = {known: value for known, value in overrides().items() if known != name}
    rules = trim_rules(options_with(fitting({**values, **changed})[0]).retention)
    now = next((rule for rule in trim_rules(get_options().retention) if rule.name == name), None)
    then = next((rule for rule in rules if rule.name == name), None)
    if then is None and now is not None:
        ages = [rule.age for rule in less_specific(now, rules) if rule.age is not None]
        then = replace(now, age=min(ages, default=None))
    if then is None or then.age is None or (now is not None and now.age is not None and now.age <= then.age):
        return 0, False
    storage = get_storage(alias)
    with by_index(alias):
        count, more = storage.trim_due(then, COUNTED)
        already = 0 if now is None or more else storage.trim_due(now, COUNTED)[0]
    return max(0, count - already), more


def read_trash(alias: str) -> TrashView:
    """How much is in the Trash, and when the next of it goes for good."""
    rows = JobTrash.objects.using(alias)
    with by_index(alias):
        ids = rows.order_by("purged_at", "id").values_list("pk", flat=True)[: TRASH_COUNTED + 1]
        count = len(ids)
        next_at = (
            rows.filter(expires_at__isnull=False).order_by("expires_at").values_list("expires_at", flat=True).first()
        )
    return TrashView(min(count, TRASH_COUNTED), count > TRASH_COUNTED, next_at)
