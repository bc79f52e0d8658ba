"""The browser's side of the live feed, against a socket that says what a test wants."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.helpers import wait_until

from .conftest import Deck

pytestmark = pytest.mark.any_engine

PERMISSIONS = ["view_deck", "operate"]


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "state": "open", "pending": 0, "due": 0, "scheduled": 0, "fetched": 0, "processing": 0,
        "capped": False, "lag_max": 0, "lag_avg": None, "lag_level": "ok", "per_second": 0, "workers": 1,
        "max_workers": None, "execution_timeout": None, "zombie_timeout": None, "window": None, "eta_seconds": None,
        **more,
    }  # fmt: skip


class Server:
    """The other end of the page's socket: what it was sent, and what it says."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.heard: list[dict[str, Any]] = []
        self.opened = 0
        self._frames = 0
        self._socket: WebSocketRoute | None = None
        page.route_web_socket(re.compile("/ws/chokaq/deck/"), self._open)

    def _open(self, socket: WebSocketRoute) -> None:
        self.opened += 1
        self._socket = socket
        socket.on_message(lambda text: self.heard.append(json.loads(text)))

    def said(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.heard if message["type"] == kind]

    def hears(self, kind: str) -> None:
        """Wait until the page has sent such a message. Playwright hands over what it got whenever the page is asked."""
        wait_until(lambda: self._page.evaluate("true") and self.said(kind), what=f"the page sends {kind}")

    def say(self, *messages: dict[str, Any]) -> None:
        self._frames += 1
        frame = {"type": "batch", "messages": list(messages)} if len(messages) > 1 else messages[0]
        assert self._socket is not None
        self._socket.send(json.dumps({**frame, "frame": self._frames}))

    def close(self, code: int) -> None:
        assert self._socket is not None
        self._socket.close(code=code)

    def begin(self, **queues: dict[str, Any]) -> None:
        """What a server says first: state 1."""
        self.say(
            {"type": "hello", "schema": 1, "mode": "live", "tick": 0.5, "at": time.time(), "permissions": PERMISSIONS,
             "masked": False},
            self.state("snapshot", seq=1, queues={"as_of": time.time(), "more": 0, "rows": queues, "order": [*queues]},
                       events={"as_of": time.time(), "rows": []},
                       health={"as_of": time.time(), "state": "healthy", "more": 0, "findings": []}),
        )  # fmt: skip

    @staticmethod
    def state(kind: str, *, seq: int, base: int = 0, **sections: Any) -> dict[str, Any]:
        return {"type": kind, "topic": "overview", "base": base, "seq": seq, "at": time.time(), "sections": sections}


@pytest.fixture
def tab(deck: Deck) -> Page:
    return deck.user().new_page()


@pytest.fixture
def server(tab: Page) -> Server:
    """The server's end, once the page has subscribed."""
    server = Server(tab)
    tab.goto("/admin/chokaq/deck/")
    server.hears("subscribe")
    return server


def names(tab: Page) -> list[str]:
    return [str(row.get_attribute("data-queue")) for row in tab.locator("[data-queue]").all()]


def test_deltas_build_upon_each_other(tab: Page, server: Server) -> None:
    assert server.said("subscribe") == [{"type": "subscribe", "topics": ["overview"]}]
    server.begin(a=queue("a"), b=queue("b", due=7))
    expect(tab.locator('[data-queue="b"]')).to_contain_text("7")
    change = {"as_of": time.time(), "more": 0, "rows": {"c": queue("c"), "b": queue("b", due=8)}, "gone": ["a"]}
    server.say(server.state("delta", base=1, seq=4, queues={**change, "order": ["b", "c"]}))
    expect(tab.locator('[data-queue="b"]')).to_contain_text("8")
    assert names(tab) == ["b", "c"]
    server.say(server.state("delta", base=4, seq=5, queues={"as_of": 1, "more": 3, "rows": {"z": queue("z")},
                                                              "order": ["z"], "whole": True}))  # fmt: skip
    expect(tab.locator('[data-queue="z"]')).to_be_visible()
    assert names(tab) == ["z"]
    expect(tab.locator("#queues")).to_contain_text("3 more queues are not shown.")
    assert server.said("resync") == []
    assert [ack["frame"] for ack in server.said("ack")] == [1, 2, 3]


def test_a_gap_is_noticed(tab: Page, server: Server) -> None:
    server.begin(a=queue("a", due=1))
    expect(tab.locator('[data-queue="a"]')).to_contain_text("1")
    server.say(server.state("delta", base=2, seq=3, queues={"rows": {"lost": queue("lost")}, "order": ["lost"]}))
    server.hears("resync")
    assert server.said("resync") == [{"type": "resync", "topic": "overview"}]
    assert names(tab) == ["a"]  # nothing was taken of what does not fit
    server.say(
        server.state("snapshot", seq=9, queues={"as_of": 1, "more": 0, "rows": {"new": queue("new")}, "order": ["new"]})
    )
    expect(tab.locator('[data-queue="new"]')).to_be_visible()


def test_events_come_once_and_newest_first(tab: Page, server: Server) -> None:
    server.begin()
    acts = [
        {"id": f"operator:{n}", "at": 1000 + n, "kind": "operator", "action": "pause_queue", "target": f"queue-{n}",
         "by": "ada", "reason": ""}
        for n in range(60)
    ]  # fmt: skip
    lines = tab.locator("#events .chokaq-line")
    server.say({"type": "event", "topic": "overview", "base": 1, "seq": 1, "at": time.time(), "events": acts[:2]})
    expect(lines).to_have_count(2)
    server.say({"type": "event", "topic": "overview", "base": 1, "seq": 1, "at": time.time(), "events": acts[1:]})
    expect(lines).to_have_count(50)
    expect(lines.first).to_contain_text("queue-59")
    expect(lines.last).to_contain_text("queue-10")


def test_a_silent_database_is_said(tab: Page, server: Server) -> None:
    server.begin(a=queue("a"))
    badge = tab.locator(".chokaq-live")
    expect(badge).to_have_attribute("data-mode", "live")
    server.say({"type": "stale", "since": time.time() - 42, "reason": "database"})
    expect(badge).to_have_attribute("data-mode", "stale")
    expect(tab.locator('[data-queue="a"]')).to_be_visible()  # what was known stays
    server.say({"type": "stale", "since": None, "reason": ""})
    expect(badge).to_have_attribute("data-mode", "live")


def test_permissions_that_are_taken_away_take_their_buttons(tab: Page, server: Server) -> None:
    server.begin(a=queue("a"))
    button = tab.locator('[data-queue="a"] button')
    expect(button).to_be_visible()
    server.say({"type": "hello", "schema": 1, "mode": "live", "tick": 0.5, "at": time.time(),
                "permissions": ["view_deck"], "masked": True})  # fmt: skip
    expect(button).to_have_count(0)


@pytest.mark.parametrize(("code", "mode", "words"), [(4401, "signed_out", "Logged out"), (4403, "refused", "Refused")])
def test_some_ends_are_final(tab: Page, server: Server, code: int, mode: str, words: str) -> None:
    server.begin(a=queue("a"))
    badge = tab.locator(".chokaq-live")
    expect(badge).to_have_attribute("data-mode", "live")
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.clock.install()
    server.close(code)
    expect(badge).to_have_attribute("data-mode", mode)
    expect(badge).to_contain_text(words)
    tab.clock.run_for(60_000)
    assert server.opened == 1
    assert not [address for address in asked if "snapshot" in address]
