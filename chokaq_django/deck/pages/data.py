"""What browsers ask for beside pages: the feed's newest state where there is no socket, and the charts."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.translation import override
from django.views.decorators.cache import never_cache

from ...conf import get_options
from ...reading.series import REACHES, read_series
from ...storage import StorageError, get_storage
from ..feed.access import SIGNED_OUT, Access, of_user
from ..feed.board import Stale, as_frame, encode, get_board
from ..feed.protocol import Refusal, clean_name, clean_topics, hello
from ..page import DeckPage

__all__ = ["SeriesData", "SnapshotData", "forget"]

PATIENCE = 3.0
"""Seconds that a request waits for a look that another one takes."""
KEPT = 10.0
"""Seconds for which a chart is good; those whose points are of minutes and more for a tenth of a point, a minute at
most."""
MOST_SECONDS = 60.0
MOST_KEPT = 200


class _Data(DeckPage):
    """An answer in JSON, refusals too: a redirect to the login would be of no use to a script."""

    http_method_names = ["get", "head", "options"]

    @classmethod
    def pattern(cls, site: AdminSite) -> URLPattern:
        return path(cls.route, cls.as_view(admin_site=site), name=f"chokaq_deck_{cls.name}")

    @method_decorator(never_cache)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            access = of_user(request.user)
        except DatabaseError:  # sessions and users are in a database too, most often in the one that is away
            return _stale(None)
        if access.code is not None:
            signed_out = access.code == SIGNED_OUT
            return _error(401, "signed_out") if signed_out else _error(403, "forbidden")
        if request.method not in ("GET", "HEAD"):
            return self.http_method_not_allowed(request)
        try:
            return self.data(request, access)
        except Refusal as refusal:
            return _error(400, refusal.code, str(refusal))

    def data(self, request: HttpRequest, access: Access) -> HttpResponse:
        raise NotImplementedError


def _json(text: str, status: int = 200) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="application/json")


def _error(status: int, code: str, message: str = "") -> HttpResponse:
    return _json(encode({"type": "error", "code": code, "message": message}), status)


def _stale(stale: Stale | None) -> HttpResponse:
    return _json(encode((stale or Stale(None, "database")).message()), 503)


class SnapshotData(_Data):
    """The newest state of the topics asked for, read once per tick however many ask."""

    name = "data_snapshot"
    route = "data/snapshot/"

    def data(self, request: HttpRequest, access: Access) -> HttpResponse:
        topics = clean_topics(request.GET.getlist("topic"))
        board = get_board()
        with override(settings.LANGUAGE_CODE):  # what is read is for everybody, as when the hub's thread reads it
            board.refresh(topics, get_options().deck.tick, PATIENCE)
        texts = [text for topic in topics for text in board.news(topic, access.is_masked, None)[0]]
        stale = board.stale()
        if topics and (stale is not None or not texts):
            return _stale(stale)
        return _json(as_frame([encode(hello(access, "poll", board.at())), *texts]))


class SeriesData(_Data):
    """The charts: outcomes and durations over time."""

    name = "data_series"
    route = "data/series/"

    def data(self, request: HttpRequest, access: Access) -> HttpResponse:
        reach = request.GET.get("range", "15m")
        if reach not in REACHES:
            raise Refusal("bad_range", f"range is one of {', '.join(REACHES)}")
        queue, type_key = (clean_name(request.GET.get(name, "")) for name in ("queue", "type"))
        try:
            return _json(_charts.get((reach, queue, type_key)))
        except (DatabaseError, StorageError):
            return _stale(None)


class _Charts:
    """Answers, for as long as they are good; one is read at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], tuple[float, str]] = OrderedDict()

    def get(self, key: tuple[str, str, str]) -> str:
        with self._lock:
            until, text = self._kept.get(key, (0.0, ""))
            if time.monotonic() >= until:
                text = _chart(*key)
                good = max(KEPT, min(MOST_SECONDS, REACHES[key[0]].slot / 10))
                self._kept[key] = (time.monotonic() + good, text)
                self._kept.move_to_end(key)
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            return text


def _chart(reach: str, queue: str, type_key: str) -> str:
    options = get_options()
    alias = options.deck.read_database or options.database
    series = asdict(read_series(alias, get_storage(alias).now(), reach, queue=queue or None, type_key=type_key or None))
    return encode({"range": series.pop("reach"), **series})


_charts = _Charts()


def forget() -> None:
    """The next charts are read anew: after a fork, and between tests."""
    global _charts
    _charts = _Charts()


os.register_at_fork(after_in_child=forget)
