"""Retention: the rules by which history is deleted, what they are about to delete and what they have, the Trash."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy

from ... import control
from ...conf import get_options
from ...conf.overridable import locate
from ...job.failures import FailureReason
from ...job.registry import registry
from ...reading.queues import known_queues
from ...reading.retention import COUNTED, read_mark, read_rules, read_trash
from ...sentence import in_words
from ..options import OptionsPage, option_row

__all__ = ["RetentionPage"]

SILENT = 2 * 3600
"""Seconds without a pass after which the page says that there is none."""
_PLACES = {"archive": gettext_lazy("Archive"), "dlq": gettext_lazy("Dead")}
_BY = {"queue": gettext_lazy("queue"), "type": gettext_lazy("type"), "failure_reason": gettext_lazy("reason")}
NEW_RULES = {
    "RETENTION.ARCHIVE_BY_QUEUE": gettext_lazy("Archive: jobs of the queue"),
    "RETENTION.ARCHIVE_BY_TYPE": gettext_lazy("Archive: jobs of the type"),
    "RETENTION.DLQ_BY_QUEUE": gettext_lazy("Dead: jobs of the queue"),
    "RETENTION.DLQ_BY_TYPE": gettext_lazy("Dead: jobs of the type"),
    "RETENTION.DLQ_BY_REASON": gettext_lazy("Dead: jobs that died of"),
}
MOST_NAMES = 200
"""Names of queues and types that the form offers."""


class RetentionPage(OptionsPage):
    name = "retention"
    route = "retention/"
    title = gettext_lazy("Retention")
    template_name = "chokaq/deck/retention.html"

    def act_add(self, request: HttpRequest) -> HttpResponseBase:
        """A rule whose name comes in two fields."""
        kind, whose = request.POST.get("kind", ""), request.POST.get("whose", "").strip()
        name = f"{kind}.{whose}" if kind in NEW_RULES else kind
        try:
            locate(name)
        except ValueError as error:
            return self.again(
                "", added={"kind": kind, "whose": whose, "error": in_words(str(error)), **request.POST.dict()}
            )
        return self.set_option(name)

    def look(self, name: str, added: dict[str, str] | None = None, **said: Any) -> dict[str, Any]:
        alias = get_options().database
        options = {row.name: row for row in map(option_row, control.list_settings())}
        rules = read_rules(alias)
        passes = [view.mark for view in rules if view.mark is not None and view.mark.passed_at is not None]
        trash_mark = read_mark(alias, "RETENTION.TRASH")
        marks = [*passes, *([trash_mark] if trash_mark is not None else [])]
        last = max((mark.passed_at for mark in marks if mark.passed_at is not None), default=None)
        return {
            "form": self.form(name, options, **said),
            "added": added or {},
            "rules": [
                {
                    "view": view,
                    "option": options[view.rule.name],
                    "place": _PLACES[view.rule.place],
                    "by": _BY.get(view.rule.column or "", ""),
                }
                for view in rules
                if view.rule.name in options
            ],
            "counted": COUNTED,
            "last_at": last,
            "last_removed": sum(mark.removed for mark in marks),
            "total_removed": sum(mark.total for mark in marks),
            "is_silent": last is None or (dt.datetime.now(dt.UTC) - last).total_seconds() > SILENT,
            "due": sum(view.due or 0 for view in rules),
            "due_more": any(view.more for view in rules),
            "trash": read_trash(alias),
            "trash_mark": trash_mark,
            "trash_option": options["RETENTION.TRASH"],
            "bucket_option": options["RETENTION.BUCKETS"],
            "new_rules": NEW_RULES,
            "names": self._names(),
            "reasons": [reason.label for reason in FailureReason],
            "may_operate": self.request.user.has_perm("chokaq.operate"),
        }

    def _names(self) -> list[str]:
        queues = sorted(known_queues())
        types = sorted(job_type.key for job_type in registry.types() if not job_type.wants_raw)
        return [*queues[:MOST_NAMES], *types[:MOST_NAMES]]
