"""Admin pages of the audit: who did what, when and why."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy

from ..control.acts import clean_id
from ..reading.acts import acts_from
from ..reading.documents import audit_document
from . import export
from .base import PagedAdmin
from .columns import Shown, age_column, json_field, key_column, moment_field, text_column
from .inspector.links import Links
from .listing import ActChangeList
from .text import whole_at

__all__ = ["AuditEntryAdmin"]


class AuditEntryAdmin(PagedAdmin):
    changelist_class = ActChangeList
    list_display = ("what", "target_column", "by_column", "age", "why")
    fieldsets = ((None, {"fields": (("action", "at_text"), ("by", "target_link"), "reason", "details_text")}),)

    what = text_column("action", gettext_lazy("act"))
    target_column = key_column("target", gettext_lazy("target"))
    by_column = text_column("by", gettext_lazy("by"))
    age = age_column("at", gettext_lazy("when"))
    at_text = moment_field("at", gettext_lazy("when"))
    details_text = json_field("details", gettext_lazy("details"))

    @admin.display(description=gettext_lazy("reason"))
    def why(self, obj: Any) -> str:
        return Truncator(obj.reason).chars(80)

    @admin.display(description=gettext_lazy("target"))
    def target_link(self, obj: Any) -> Shown:
        address = _address(obj.action, obj.target, Links(self.admin_site.name))
        if not address:
            return format_html('<span class="chokaq-key">{}</span>', obj.target)
        return format_html('<a href="{}" class="chokaq-key">{}</a>', address, obj.target)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        entry = super().get_object(request, object_id, from_field)
        if entry is not None and not request.user.has_perm("chokaq.view_payload"):
            entry.details = json.dumps(audit_document(entry, may_see=False)["details"], ensure_ascii=False)
        if entry is not None:
            entry.all_at = whole_at(request, "details")
        return entry

    def exported(self, request: HttpRequest, kind: str) -> HttpResponseBase:
        now = dt.datetime.now(dt.UTC)
        named = {name: request.GET[name] for name in ActChangeList.parameters if name in request.GET}
        records = export.acts(acts_from(named, now), may_see=request.user.has_perm("chokaq.view_payload"))
        return export.stream(request, records, kind, f"chokaq-audit-{now:%Y%m%d-%H%M%S}")


def _address(action: str, target: str, links: Links) -> str:
    """Where one sees what an act was done to; empty for what has no page."""
    if action.endswith("_queue"):
        return links.queue(target)
    if action.endswith(("_worker", "_concurrency")):
        return links.page("fleet")
    if action.endswith("_circuit"):
        return links.page("circuits")
    job_id = clean_id(target)
    if job_id is None:
        return ""
    return links.page("bulk_one", job_id) if action.startswith("bulk_") else links.job(job_id)
