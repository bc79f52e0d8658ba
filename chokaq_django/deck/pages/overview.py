"""The overview: is anything stuck, late or failing?"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from ..page import LivePage

__all__ = ["OverviewPage"]


class OverviewPage(LivePage):
    name = "changelist"  # the name that admin links to
    section = "overview"
    route = ""
    title = _("Overview")
    script = "chokaq/deck/overview.js"
