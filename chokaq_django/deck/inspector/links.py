"""Addresses that the page of a job leads to."""

from __future__ import annotations

import re
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from ...control import JobView, Location
from ...reading.waiting import Hold
from ..page import deck_url

__all__ = ["LISTS", "Links"]

LISTS = {Location.HOT: "jobhot", Location.ARCHIVE: "jobarchive", Location.DLQ: "jobdlq", Location.TRASH: "jobtrash"}
"""Models of the lists of each place."""
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


class Links:
    """Addresses within one admin site; empty for a page that it does not have."""

    def __init__(self, site_name: str) -> None:
        self._site = site_name

    def page(self, page: str, /, *args: Any, **query: Any) -> str:
        try:
            return deck_url(self._site, page, *args, **query)
        except NoReverseMatch:
            return ""

    def job(self, job_id: str) -> str:
        return self.page("job", job_id)

    def list(self, model: str, **query: Any) -> str:
        address = reverse(f"{self._site}:chokaq_{model}_changelist")
        return f"{address}?{urlencode(query)}" if query else address

    def place(self, job: JobView) -> str:
        return self.list(LISTS[job.location])

    def queue(self, name: str) -> str:
        return self.page("queue", name=name)

    def group(self, fingerprint: str | None) -> str:
        """The jobs that died alike."""
        if not fingerprint:
            return ""
        if _FINGERPRINT.fullmatch(fingerprint):
            return self.page("failure", fingerprint) or self.list("jobdlq", fingerprint=fingerprint)
        return self.list("jobdlq", fingerprint=fingerprint)

    def hold(self, hold: Hold, job_id: str) -> str:
        """Where one can change what holds a job back."""
        match hold.page:
            case "queue":
                return self.queue(hold.name)
            case "job_edit":
                return self.page("job_edit", job_id)
            case "":
                return ""
        return self.page(hold.page)
