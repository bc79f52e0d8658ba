"""Log events: what comes from outside neither forges a record nor moves a cursor."""

from __future__ import annotations

import logging
import pickle
from decimal import Decimal

import pytest

from chokaq_django.management.commands.runworker import log_to_console
from chokaq_django.observability.events import LONGEST, Event, log_event

from ..helpers import bare_loggers

logger = logging.getLogger("chokaq.tests")
FORGED = "bad\n2026-01-31 12:00:00,000 ERROR   [1] chokaq.worker: Worker vm-1 gave up\x1b[2J\x1b]0;owned\x07\u202e\r"
SHOWN = r"bad\n2026-01-31 12:00:00,000 ERROR   [1] chokaq.worker: Worker vm-1 gave up\x1b[2J\x1b]0;owned\x07\u202e\r"


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no word of it")


@pytest.mark.parametrize("value", [FORGED, ValueError(FORGED)], ids=["text", "exception"])
def test_an_argument_stays_on_its_line_and_is_kept_as_it_came(value: object, caplog: pytest.LogCaptureFixture) -> None:
    log_event(logger, logging.WARNING, Event.JOB_BURIED, "Job %s is dead, attempt %d: %s", "1", 2, value)
    (record,) = caplog.records
    assert record.getMessage() == f"Job 1 is dead, attempt 2: {SHOWN}"
    assert record.event_args == ("1", 2, FORGED)  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(record.__dict__))["event_args"] == ("1", 2, FORGED)  # noqa: S301 - our own


def test_numbers_stay_numbers(caplog: pytest.LogCaptureFixture) -> None:
    log_event(logger, logging.WARNING, Event.CIRCUIT_CHANGED, "%d %.1f %.0f", 1, 2.25, Decimal("3.0"))
    assert caplog.records[0].getMessage() == "1 2.2 3"


def test_an_endless_text_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    log_event(logger, logging.WARNING, Event.JOB_BURIED, "%s", "x" * (LONGEST + 1))
    assert caplog.records[0].getMessage() == "x" * LONGEST + "…"


def test_an_error_without_a_text_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    log_event(logger, logging.WARNING, Event.JOB_BURIED, "%s", MuteError())
    assert caplog.records[0].getMessage() == "<MuteError without a text>"


def test_what_nobody_reads_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "level", logging.WARNING)
    said: list[str] = []

    class Counted:
        def __str__(self) -> str:
            said.append("")
            return ""

    log_event(logger, logging.DEBUG, Event.JOB_SUCCEEDED, "%s", Counted())
    assert not said


@pytest.mark.parametrize("name", ["chokaq.worker", "shop.mail"])
def test_only_records_of_a_worker_begin_at_the_margin(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare_loggers(monkeypatch)
    log_to_console(1)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger(name).exception("It failed: %s", FORGED)
    printed = capsys.readouterr().err
    lines = printed.removesuffix("\n").split("\n")
    assert [line for line in lines if not line.startswith("    ")] == lines[:1]
    assert lines[0].endswith(f"] {name}: It failed: bad")
    assert "    Traceback (most recent call last):" in lines
    assert "    ValueError: bad" in lines
    assert all(line.isprintable() for line in lines)
    assert printed.count(r"Worker vm-1 gave up\x1b[2J\x1b]0;owned\x07\u202e") == 2
