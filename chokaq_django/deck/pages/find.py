"""To a job by its id, from every page and wherever the job is by now."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy

from ...job.ids import clean_id
from ..page import DeckPage

__all__ = ["FindPage"]


class FindPage(DeckPage):
    name = "find"
    route = "find/"
    title = gettext_lazy("Find a job")

    def get(self, request: HttpRequest, **kwargs: object) -> HttpResponseBase:
        """An id leads to the page of its job, which says so where there is none; all else is what lists find by."""
        term = request.GET.get("q", "").strip()
        job_id = clean_id(term)
        if job_id is not None:
            return HttpResponseRedirect(self.url("job", job_id))
        query = f"?{urlencode({'q': term})}" if term else ""
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:chokaq_jobhot_changelist") + query)
