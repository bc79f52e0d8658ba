"""Settings: every option, where its value comes from, and a form for those that may change while everything runs."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from django.utils.translation import gettext_lazy

from ... import control
from ..options import OptionsPage, option_row

__all__ = ["SettingsPage"]

_SECTIONS = {
    "": gettext_lazy("What holds for all of it."),
    "WORKER": gettext_lazy("How a worker process takes and runs jobs."),
    "EXECUTION": gettext_lazy("How long a job may run, and how it shows that it lives."),
    "RETRY": gettext_lazy("When a failed job is tried again, unless its type says otherwise."),
    "RECOVERY": gettext_lazy("When a worker counts as dead, and what becomes of its jobs."),
    "CIRCUIT": gettext_lazy("When a type that keeps failing is held back, unless it says otherwise."),
    "RETENTION": gettext_lazy("How long what is over is kept."),
    "HEALTH": gettext_lazy("When health turns from healthy to degraded and unhealthy."),
    "DECK": gettext_lazy("What these pages show and ask."),
    "QUEUES": gettext_lazy("The limits of queues, unless somebody has set others on the queue's page."),
}


class SettingsPage(OptionsPage):
    name = "settings"
    route = "settings/"
    title = gettext_lazy("Settings")
    template_name = "chokaq/deck/settings.html"

    def look(self, name: str, **said: Any) -> dict[str, Any]:
        rows = [option_row(view) for view in control.list_settings()]
        by_name = {row.name: row for row in rows}
        sections = []
        for section, part in groupby(rows, key=lambda row: row.name.partition(".")[0] if "." in row.name else ""):
            listed = list(part)
            fixed = Counter(row.view.fixed for row in listed if row.view.fixed)
            sections.append(
                {
                    "name": section or "CHOKAQ",
                    "meaning": _SECTIONS.get(section, ""),
                    "rows": listed,
                    "fixed": fixed.most_common(1)[0][0] if fixed else "",
                    "is_mixed": any(not row.view.fixed for row in listed),
                }
            )
        return {
            "form": self.form(name, by_name, **said),
            "own": [row for row in rows if row.is_set],
            "sections": sections,
            "may_operate": self.request.user.has_perm("chokaq.operate"),
        }
