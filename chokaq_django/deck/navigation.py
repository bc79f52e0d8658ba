"""The Deck's own navigation: its pages in the order in which one looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

__all__ = ["Entry", "Group", "deck_addresses", "navigation"]

_GROUPS = (
    (
        _("Now"),
        (
            ("overview", _("Overview"), "chokaq_deck_changelist", "g o"),
            ("queues", _("Queues"), "chokaq_deck_queues", "g q"),
            ("fleet", _("Fleet"), "chokaq_deck_fleet", "g w"),
            ("circuits", _("Circuits"), "chokaq_deck_circuits", "g c"),
        ),
    ),
    (
        _("Jobs"),
        (
            ("active", _("Active"), "chokaq_jobhot_changelist", "g j"),
            ("archive", _("Archive"), "chokaq_jobarchive_changelist", "g a"),
            ("dlq", _("Dead"), "chokaq_jobdlq_changelist", "g d"),
            ("trash", _("Trash"), "chokaq_jobtrash_changelist", "g t"),
        ),
    ),
    (
        _("Repair"),
        (
            ("failures", _("Failures"), "chokaq_deck_failures", "g f"),
            ("bulk", _("Bulk"), "chokaq_deck_bulk", "g b"),
        ),
    ),
    (
        _("House"),
        (
            ("health", _("Health"), "chokaq_deck_health", "g h"),
            ("audit", _("Audit"), "chokaq_auditentry_changelist", "g u"),
            ("retention", _("Retention"), "chokaq_deck_retention", "g r"),
            ("settings", _("Settings"), "chokaq_deck_settings", "g s"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One page in the navigation. ``name`` is that of its icon too; ``keys`` lead to it from the keyboard."""

    name: str
    label: Any
    url: str
    keys: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Pages that belong together."""

    label: Any
    entries: tuple[Entry, ...]


def navigation(request: HttpRequest, site_name: str, current: str) -> list[Group]:
    """The pages of this admin site; ``current`` names the one that is shown."""
    groups = []
    for label, pages in _GROUPS:
        entries = []
        for name, text, view, keys in pages:
            try:
                url = reverse(f"{site_name}:{view}")
            except NoReverseMatch:  # a site of one's own may leave pages out
                continue
            entries.append(Entry(name, text, url, keys, name == current))
        if entries:
            groups.append(Group(label, tuple(entries)))
    return groups


def deck_addresses(request: HttpRequest, site_name: str) -> dict[str, str]:
    """Where the navigation finds a job (``find``), and the counts beside its pages (``snapshot``); nothing for whom the
    Deck itself is not, who may see a list of admin's all the same."""
    user = getattr(request, "user", None)
    if user is None or not user.has_perm("chokaq.view_deck"):
        return {}
    try:
        names = {"find": "find", "snapshot": "data_snapshot"}
        return {key: reverse(f"{site_name}:chokaq_deck_{name}") for key, name in names.items()}
    except NoReverseMatch:
        return {}
