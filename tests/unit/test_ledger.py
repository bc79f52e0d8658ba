"""What handlers say of themselves belongs to the test that started them, however long they go on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.ledger import VARIABLE, Ledger, gate_is_open, note

pytestmark = pytest.mark.any_engine


def test_a_handler_that_outlives_its_test_has_no_part_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Ledger(tmp_path / "first"), Ledger(tmp_path / "second")
    entered, over, seen = threading.Event(), threading.Event(), []

    def handler() -> None:
        note("enter")
        entered.set()
        assert over.wait(10)
        seen.append(gate_is_open("end"))
        note("leave")

    monkeypatch.setenv(VARIABLE, str(first.path))
    thread = threading.Thread(target=handler)
    thread.start()
    assert entered.wait(10)
    monkeypatch.setenv(VARIABLE, str(second.path))
    second.open_gate("end")
    over.set()
    thread.join(10)
    note("enter")
    assert (seen, first.count("enter"), first.count("leave")) == ([False], 1, 1)
    assert (second.count("enter"), second.count("leave")) == (1, 0)
