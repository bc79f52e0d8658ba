"""Addresses of the admin pages, and what is on them."""

from __future__ import annotations

from html.parser import HTMLParser

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse

MODELS = ("jobhot", "jobarchive", "jobdlq", "jobtrash", "queue", "worker", "circuit", "auditentry")


def list_of(model: str) -> str:
    return reverse(f"admin:chokaq_{model}_changelist")


def page_of(row: Model, verb: str = "change") -> str:
    return reverse(f"admin:chokaq_{row._meta.model_name}_{verb}", args=[quote(row.pk)])


class _Inline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.found += [f"<{tag} {name}>" for name in names if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(f"<{tag}>")


def inline_code(html: str) -> list[str]:
    """Inline styles, scripts and event handlers: what a strict content security policy forbids."""
    parser = _Inline()
    parser.feed(html)
    return parser.found
