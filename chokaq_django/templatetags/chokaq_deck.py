"""What templates of the Deck and of admin's lists use: ``{% load chokaq_deck %}``."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import template
from django.contrib.admin.templatetags.admin_list import result_list
from django.template import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

from ..deck.navigation import deck_addresses, navigation
from ..deck.text import EMPTY, exact_moment, short_moment
from ..sentence import in_words, number, percent

__all__ = [
    "deck_age",
    "deck_code",
    "deck_icon",
    "deck_moment",
    "deck_navigation",
    "deck_number",
    "deck_percent",
    "deck_results",
    "deck_words",
]

register = template.Library()

_LISTS = {
    "jobhot": "active",
    "jobarchive": "archive",
    "jobdlq": "dlq",
    "jobtrash": "trash",
    "queue": "queues",
    "worker": "fleet",
    "circuit": "circuits",
    "auditentry": "audit",
}
"""Entries of the navigation that admin's lists and pages of a model belong to."""


@register.inclusion_tag("chokaq/deck/navigation.html", takes_context=True)
def deck_navigation(context: Context, current: str = "") -> dict[str, Any]:
    """The Deck's navigation; ``current`` names the entry of the page that is shown, or the model of one of admin's."""
    request = context["request"]
    site_name = context.get("deck_site") or getattr(request, "current_app", None) or "admin"
    groups = navigation(request, site_name, _LISTS.get(current, current) or str(context.get("deck_section", "")))
    entries = [entry for group in groups for entry in group.entries]
    return {
        "groups": groups,
        "current": next((entry for entry in entries if entry.is_current), None),
        **deck_addresses(request, site_name),
    }


@register.filter
def deck_number(value: float | None) -> str:
    """A figure as the language writes it."""
    return EMPTY if value is None else number(value)


@register.filter
def deck_percent(value: float | None) -> str:
    """Per cent, of 100, as the language writes them."""
    return EMPTY if value is None else percent(value / 100)


@register.filter
def deck_age(value: dt.datetime | None) -> SafeString | str:
    """How long ago, which goes on growing on the page; the time itself is in the title."""
    return short_moment(value)


@register.filter
def deck_moment(value: dt.datetime | None) -> SafeString | str:
    """The time with its zone, which the page turns into the viewer's."""
    return exact_moment(value)


@register.filter
def deck_code(text: str) -> SafeString:
    """A sentence in the language of the page, in which what stands between backticks is code."""
    parts = enumerate(in_words(text).split("`"))
    pieces = (format_html("<code>{}</code>", part) if number % 2 else part for number, part in parts)
    return format_html_join("", "{}", ((piece,) for piece in pieces))


@register.filter
def deck_words(text: str) -> str:
    """A text of a lower layer, such as why something was refused, in the language of the page."""
    return in_words(text)


@register.simple_tag
def deck_icon(name: str) -> SafeString:
    """A drawing out of ``chokaq/deck/icons.html``, which every page of the Deck includes."""
    return format_html('<svg class="chokaq-icon" aria-hidden="true"><use href="#chokaq-icon-{}"></use></svg>', name)


@register.inclusion_tag("admin/change_list_results.html")
def deck_results(cl: Any) -> dict[str, Any]:
    """Admin's own table of a list, whose cells say what their column is called: on a phone there is no head."""
    context: dict[str, Any] = result_list(cl)
    labels = [header["text"] for header in context["result_headers"]]
    for row in context["results"]:
        row[:] = [_labelled(cell, label) for cell, label in zip(row, labels, strict=True)]
    return context


def _labelled(cell: SafeString, label: str) -> SafeString:
    """A cell as admin writes it, with its label; a box to tick and the head of the row need none."""
    if not cell.startswith("<td") or cell.startswith('<td class="action-checkbox"'):
        return cell
    named = format_html('<td data-label="{}"', capfirst(label))
    return named + mark_safe(cell.removeprefix("<td"))  # noqa: S308 - what admin has escaped stays as it is
