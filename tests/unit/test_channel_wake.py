"""Wake-ups through a channel layer, with a layer of the test's own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chokaq_django import channel_listener, channel_wake
from chokaq_django.channel_listener import ChannelListener
from chokaq_django.channel_wake import DECK, GAPS, MESSAGE, NAMED, Sender, group_of, reaches_processes, tell_deck
from chokaq_django.worker.channel_waker import ChannelWaker

from ..helpers import wait_until


class Layer:
    """Keeps what is sent; ``error`` is raised by every call, ``gate`` holds up sending."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.members: set[str] = set()
        self._messages: list[dict[str, Any]] = []

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self._fail()
        while not self.gate.is_set():
            await asyncio.sleep(0.001)
        self.sent.append((group, message))

    async def new_channel(self) -> str:
        self._fail()
        return "mine"

    async def group_add(self, group: str, channel: str) -> None:
        self._fail()
        self.members.add(group)

    async def group_discard(self, group: str, channel: str) -> None:
        self.members.discard(group)
        self._fail()

    async def receive(self, channel: str) -> dict[str, Any]:
        while not self._messages:
            self._fail()
            await asyncio.sleep(0.001)
        return self._messages.pop(0)

    def deliver(self, *queues: str) -> None:
        self._messages.append({"type": MESSAGE, "queues": list(queues)})

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Layer:
    layer = Layer()
    monkeypatch.setattr(channel_wake, "channel_layer", lambda: layer)
    monkeypatch.setattr(channel_listener, "channel_layer", lambda: layer)
    return layer


# -- sending -----------------------------------------------------------------------------------------------------------


def sent(layer: Layer, number: int) -> list[tuple[str, dict[str, Any]]]:
    wait_until(lambda: len(layer.sent) >= number)
    assert len(layer.sent) == number
    return layer.sent


def test_what_is_told_while_a_message_is_under_way_is_sent_together(layer: Layer) -> None:
    sender = Sender()
    layer.gate.clear()
    sender.tell("default", ["first"])
    wait_until(lambda: not sender._pending)
    for number in range(20):
        sender.tell("default", [f"q{number % 3}"])
    layer.gate.set()
    messages = sent(layer, 2)
    assert {group for group, _ in messages} == {group_of("default")}
    assert [message["queues"] for _, message in messages] == [["first"], ["q0", "q1", "q2"]]


@pytest.mark.parametrize("queues", [[], [f"q{number}" for number in range(NAMED + 1)]])
def test_any_queue_stays_any_queue(layer: Layer, queues: list[str]) -> None:
    sender = Sender()
    layer.gate.clear()
    sender.tell("default", ["first"])
    wait_until(lambda: not sender._pending)
    sender.tell("default", ["named"])
    sender.tell("default", queues)
    sender.tell("default", ["named too"])
    layer.gate.set()
    assert sent(layer, 2)[1][1]["queues"] == []


def test_a_layer_that_fails_is_told_once_and_tried_again(layer: Layer, caplog: pytest.LogCaptureFixture) -> None:
    sender = Sender()
    layer.error = OSError("no route")
    for number in range(3):
        sender.tell("default", [f"q{number}"])
        wait_until(lambda: not sender._pending)
    wait_until(lambda: "no route" in caplog.text)
    layer.error = None
    sender.tell("default", ["again"])
    wait_until(lambda: layer.sent)
    assert caplog.text.count("no route") == 1


def test_who_enqueues_does_not_fail_when_no_thread_can_be_started(
    layer: Layer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    sender = Sender()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        sender.tell("default", ["lost"])
    assert "can't start new thread" in caplog.text
    sender.tell("default", ["mail"])
    assert sent(layer, 1)[0][1]["queues"] == ["mail"]


def test_a_child_process_sends_by_a_thread_of_its_own(layer: Layer) -> None:
    channel_wake.tell("default", ["parent"])
    wait_until(lambda: layer.sent)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        layer.sent.clear()
        channel_wake.tell("default", ["child"])
        try:
            wait_until(lambda: layer.sent)
            os.write(write, b"sent")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"sent"
    os.waitpid(child, 0)


def layers(backend: str) -> dict[str, Any]:
    return {"default": {"BACKEND": backend}}


@pytest.mark.parametrize(
    "layers_setting", [{}, layers("channels.layers.InMemoryChannelLayer"), {"other": {"BACKEND": "some.RedisLayer"}}]
)
def test_the_deck_is_not_told_where_no_layer_reaches_it(
    layer: Layer, settings: Any, layers_setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(DECK)
    monkeypatch.setattr(channel_wake, "_deck_sender", sender)
    settings.CHANNEL_LAYERS = layers_setting
    assert not reaches_processes()
    tell_deck("default")
    assert not sender._pending
    assert sender._thread is None, "no cost"


def test_the_deck_is_told_once_of_what_happens_at_once(
    layer: Layer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_wake, "_deck_sender", Sender(DECK))
    settings.CHANNEL_LAYERS = layers("some.RedisLayer")
    layer.gate.clear()
    tell_deck("default")
    wait_until(lambda: not channel_wake._deck_sender._pending)
    for _ in range(50):
        tell_deck("default")
    layer.gate.set()
    assert sent(layer, 2) == [(group_of("default", DECK), {"type": DECK, "queues": []})] * 2
    assert group_of("default", DECK) != group_of("default")
    assert GAPS[DECK] >= 0.05, "a worker that settles all the time sends no more than twenty in a second"


# -- listening ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def listen(layer: Layer) -> Iterator[Callable[[], ChannelWaker]]:
    """A waker that is interested in the queue ``mail``, and listens."""
    wakers = []

    def make() -> ChannelWaker:
        wakers.append(waker := ChannelWaker("default", {"mail"}.__contains__))
        return waker

    yield make
    layer.error = None
    for waker in wakers:
        waker.close()
        assert not waker._listener.thread.is_alive()


def test_only_queues_of_interest_wake(layer: Layer, listen: Callable[[], ChannelWaker]) -> None:
    waker = listen()
    assert waker.wait(10) == [], "it looks once when it begins to listen: what came before nobody heard"
    layer.deliver("reports")
    layer.deliver("reports", "mail")
    assert waker.wait(10) == ["mail"]
    layer.deliver()
    assert waker.wait(10) == [], "any queue: woken, without a name"
    layer.deliver("reports")
    wait_until(lambda: not layer._messages)
    assert not waker._event.is_set()


def test_it_polls_while_the_layer_is_down_and_listens_again(
    layer: Layer, listen: Callable[[], ChannelWaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChannelListener, "RETRY", 0.05)
    waker = listen()
    waker.wait(10)
    layer.error = OSError("gone")
    wait_until(lambda: not waker._listener.listening)
    layer.error = None
    wait_until(lambda: waker._listener.listening)
    waker.wait(10)
    layer.deliver("mail")
    assert waker.wait(10) == ["mail"]


def test_it_leaves_its_group_when_it_is_closed(layer: Layer) -> None:
    waker = ChannelWaker("default", {"mail"}.__contains__)
    wait_until(lambda: layer.members)
    waker.close()
    assert not layer.members
    waker.close()
