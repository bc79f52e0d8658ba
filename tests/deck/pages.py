"""Addresses of the admin pages, and what is on them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse

from chokaq_django.models import JobBase

MODELS = ("jobhot", "jobarchive", "jobdlq", "jobtrash", "queue", "worker", "circuit", "auditentry")


def list_of(model: str) -> str:
    return reverse(f"admin:chokaq_{model}_changelist")


def job_page(job: Model | str) -> str:
    """The inspector."""
    return reverse("admin:chokaq_deck_job", args=[job if isinstance(job, str) else job.pk])


def edit_page(job: Model | str) -> str:
    """The editor."""
    return reverse("admin:chokaq_deck_job_edit", args=[job if isinstance(job, str) else job.pk])


def page_of(row: Model, verb: str = "change") -> str:
    """The page of one row, or where a button on it is sent."""
    if isinstance(row, JobBase):
        return job_page(row)  # its buttons are one form
    return reverse(f"admin:chokaq_{row._meta.model_name}_{verb}", args=[quote(row.pk)])


class _Inline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.found += [f"<{tag} {name}>" for name in names if name == "style" or name.startswith("on")]
        # A block of JSON is data: browsers run nothing of it.
        is_code = tag == "script" and names.get("type") != "application/json"
        if tag == "style" or (is_code and "src" not in names):
            self.found.append(f"<{tag}>")


def inline_code(html: str) -> list[str]:
    """Inline styles, scripts and event handlers: what a strict content security policy forbids."""
    parser = _Inline()
    parser.feed(html)
    return parser.found


def messages_of(response: Any) -> list[str]:
    """What the page said about the act that led to it."""
    return [str(message) for message in response.context["messages"]]
