"""Wake-ups inside one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chokaq_django import wake

ALIAS = "tests.wake"


@pytest.fixture
def subscribe() -> Iterator[Callable[..., list[str]]]:
    """Subscribes a listener that notes each call; unsubscribed afterwards."""
    listeners = []

    def add(interested: Callable[[str], bool] | None = None) -> list[str]:
        calls: list[str] = []

        def listener() -> None:
            calls.append("woken")

        listeners.append(listener)
        wake.subscribe(ALIAS, listener, interested)
        return calls

    yield add
    for listener in listeners:
        wake.unsubscribe(ALIAS, listener)


def test_every_listener_of_the_alias_is_woken(subscribe: Callable[..., list[str]]) -> None:
    first, second = subscribe(), subscribe()
    wake.notify(ALIAS, ["mail"])
    wake.notify("another", ["mail"])
    assert (first, second) == (["woken"], ["woken"])


def test_only_those_whose_queues_are_named(subscribe: Callable[..., list[str]]) -> None:
    mail, everything = subscribe({"mail"}.__contains__), subscribe()
    wake.notify(ALIAS, ["reports", "default"])
    assert (mail, everything) == ([], ["woken"])
    wake.notify(ALIAS, ["reports", "mail"])
    wake.notify(ALIAS)  # any queue may have work
    assert (len(mail), len(everything)) == (2, 3)


def test_unsubscribed_is_forgotten() -> None:
    calls: list[int] = []
    listener = lambda: calls.append(1)  # noqa: E731
    wake.subscribe(ALIAS, listener)
    assert wake.listening(ALIAS)
    wake.unsubscribe(ALIAS, listener)
    wake.unsubscribe(ALIAS, listener)
    wake.notify(ALIAS)
    assert calls == []
    assert not wake.listening(ALIAS)


def test_a_failing_listener_stops_nobody(subscribe: Callable[..., list[str]], caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise OSError("closed")

    wake.subscribe(ALIAS, broken)
    later = subscribe()
    try:
        wake.notify(ALIAS)
    finally:
        wake.unsubscribe(ALIAS, broken)
    assert later == ["woken"]
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert "OSError: closed" in caplog.text
