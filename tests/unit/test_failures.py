"""Errors: what is fatal, what is stored of them, and which are the same."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chokaq_django.job.definition import JobType
from chokaq_django.job.error_info import DETAILS_LIMIT, ErrorInfo, describe
from chokaq_django.job.failures import (
    CancelReason,
    FailureReason,
    FatalJobError,
    JobCancelled,
    JobInterrupted,
    PayloadError,
    PayloadTooLarge,
    SchemaVersionError,
    Snooze,
    ThrottledError,
    is_fatal,
    retry_after,
)
from chokaq_django.job.fingerprint import fingerprint
from chokaq_django.job.text import safe_text


def test_reasons_have_their_stored_numbers() -> None:
    assert {reason.label: reason.value for reason in FailureReason} == {
        "MaxRetriesExceeded": 0,
        "Cancelled": 1,
        "Zombie": 2,
        "CircuitBreakerOpen": 3,
        "Rejected": 4,
        "Throttled": 5,
        "FatalError": 6,
        "Timeout": 7,
        "Transient": 8,
        "HeartbeatFailure": 9,
        "RetryLifetimeExpired": 10,
        "Expired": 11,
        "UnknownType": 12,
        "Poison": 13,
        "ParentFailed": 14,
    }


@pytest.mark.parametrize("value", ["Expired", "EXPIRED", 11, FailureReason.EXPIRED])
def test_reasons_are_read_by_any_name(value: Any) -> None:
    assert FailureReason.parse(value) is FailureReason.EXPIRED


@pytest.mark.parametrize("value", ["Expird", 15, -1, None, True, 1.0])
def test_unknown_reasons(value: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        FailureReason.parse(value)


def kind(**options: Any) -> JobType:
    return JobType(key="x", cls=None, **options)


@pytest.mark.parametrize(
    ("error", "options", "fatal"),
    [
        (FatalJobError(), {}, True),
        (PayloadError("$", "x"), {}, True),
        (PayloadTooLarge(2, 1), {}, True),
        (SchemaVersionError("$", "x"), {}, True),
        (NotImplementedError(), {}, True),
        (ValueError(), {}, False),
        (RuntimeError(), {}, False),  # the base of NotImplementedError is not
        (ThrottledError(), {}, False),
        (ValueError(), {"fatal": (ValueError,)}, True),
        (UnicodeError(), {"fatal": (ValueError,)}, True),
        (KeyError(), {"fatal": (ValueError,)}, False),
        (OSError(), {"retry_on": (OSError,)}, False),
        (ConnectionError(), {"retry_on": (OSError,)}, False),
        (ValueError(), {"retry_on": (OSError,)}, True),
        (NotImplementedError(), {"retry_on": (NotImplementedError,)}, False),
        (ConnectionError(), {"retry_on": (OSError,), "fatal": (ConnectionError,)}, True),
        (ThrottledError(), {"retry_on": (OSError,)}, False),
        (ThrottledError(), {"fatal": (ThrottledError,)}, True),
    ],
)
def test_fatal(error: Exception, options: dict[str, Any], fatal: bool) -> None:
    assert is_fatal(error, kind(**options)) is fatal
    if not options:
        assert is_fatal(error) is fatal


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ThrottledError(), None),
        (ThrottledError(retry_after=5), 5.0),
        (ThrottledError(retry_after=timedelta(minutes=1)), 60.0),
        (ThrottledError(retry_after=-5), 0.0),
        (ThrottledError(retry_after=float("nan")), None),
        (ThrottledError(retry_after=float("inf")), None),
        (ThrottledError(retry_after=10**400), None),
        (ThrottledError(retry_after="5"), None),  # type: ignore[arg-type]
        (ThrottledError(retry_after=True), None),
        (ValueError(), None),
    ],
)
def test_retry_after(error: Exception, seconds: float | None) -> None:
    assert retry_after(error) == seconds


@pytest.mark.parametrize("error", [JobCancelled(CancelReason.TIMEOUT), Snooze(1.0), JobInterrupted()])
def test_control_flow_passes_except_exception(error: BaseException) -> None:
    assert not isinstance(error, Exception)


def test_payload_errors_can_be_pickled() -> None:
    for error in (PayloadError("$.a", "bad"), PayloadTooLarge(5, 3)):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own


# --- text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain é 📮", "plain é 📮"),
        ("a\x00b", "a\\x00b"),
        ("a\ud800b\udfff", "a\\ud800b\\udfff"),
        ("", ""),
    ],
)
def test_safe_text(text: str, stored: str) -> None:
    assert safe_text(text) == stored


def test_long_text_is_cut_with_a_mark() -> None:
    cut = safe_text("x" * 5000, 100)
    assert len(cut) == 100
    assert cut.endswith("x… [truncated, 5,000 characters]")
    assert safe_text("x" * 100, 100) == "x" * 100


@given(st.text(st.characters(), max_size=200), st.integers(0, 120))
def test_safe_text_is_storable_and_within_its_limit(text: str, limit: int) -> None:
    for stored in (safe_text(text), safe_text(text, limit)):
        stored.encode()
        assert "\x00" not in stored
    assert len(safe_text(text, limit)) <= limit


class Hostile(Exception):  # noqa: N818
    def __init__(self, what: BaseException | object) -> None:
        self.what = what

    def __str__(self) -> str:
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what  # type: ignore[return-value]

    __repr__ = __str__


@pytest.mark.parametrize(
    "what",
    [
        ValueError("x"),
        RecursionError(),
        KeyboardInterrupt(),
        SystemExit(),
        JobCancelled(),
        5,
        None,
        "\x00\ud800",
        "x" * 10**6,
    ],
    ids=lambda what: repr(what)[:20],
)
def test_describe_never_raises(what: object) -> None:
    try:
        raise Hostile(what)
    except Hostile as error:
        info = describe(error)
    for text in (info.type, info.message, info.details, info.frame):
        text.encode()
        assert "\x00" not in text
    assert info.type.endswith("test_failures.Hostile")
    assert len(info.message) <= 2_000
    assert len(info.details) <= DETAILS_LIMIT
    assert "test_describe_never_raises" in info.details


def test_describe_keeps_both_ends_of_a_long_traceback() -> None:
    group = ExceptionGroup("many", [ValueError("z" * 1000) for _ in range(60)])
    for make in (lambda: pay("m" * 100_000), lambda: (_ for _ in ()).throw(group)):
        try:
            make()
        except Exception as error:  # noqa: BLE001 - any of them
            info = describe(error)
        assert "truncated, " in info.details
        assert info.details.startswith("Traceback") or "Exception Group" in info.details[:100]
        assert len(info.details) <= DETAILS_LIMIT


def test_describe_names_builtin_errors_shortly() -> None:
    info = describe(ValueError("x"))
    assert (info.type, info.message, info.frame) == ("ValueError", "x", "")
    assert info.details == "ValueError: x\n"


# --- fingerprints --------------------------------------------------------------------------------------------------


def caught(function: Any, *args: Any) -> BaseException:
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 - whatever it raises
        return error
    raise AssertionError


def pay(message: str) -> None:
    raise ValueError(message)


def refund(message: str) -> None:
    raise ValueError(message)


def parse(text: str) -> None:
    json.loads(text)


REASON = FailureReason.FATAL_ERROR


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("order 5 not found", "order 77 not found"),
        ("took 1.5 s", "took 20.25 s"),
        ("no user 'ada'", "no user 'bob o\\'neil'"),
        ('no user "ada"', 'no user ""'),
        ("id 6a1f0c1e-0000-4000-8000-0123456789ab", "id ffffffff-1111-4222-8333-0123456789ab"),
        ("job 01E75PVKXA3GFABX1M1J9NZZNF", "job 7ZZZZZZZZZZZZZZZZZZZZZZZZ0"),
        ("at 0x7f1b", "at 0xDEADbeef"),
        ("commit deadbeef01", "commit 00000000aa"),
        ("two  lines\n here", "two lines here"),
        ("10.0.0.1:5432 refused", "192.168.10.20:5433 refused"),
    ],
)
def test_failures_that_are_the_same(left: str, right: str) -> None:
    assert fingerprint(REASON, caught(pay, left)) == fingerprint(REASON, caught(pay, right))


def test_failures_that_differ() -> None:
    errors = [
        caught(pay, "order 5 not found"),
        caught(refund, "order 5 not found"),
        caught(pay, "order 5 not paid"),
        caught(parse, "{"),
    ]
    prints = {fingerprint(REASON, error) for error in errors}
    prints |= {fingerprint(FailureReason.TIMEOUT, errors[0]), fingerprint(FailureReason.ZOMBIE, None)}
    assert len(prints) == len(errors) + 2
    assert all(len(print_) == 32 and int(print_, 16) >= 0 for print_ in prints)


def test_the_frame_is_the_projects_own() -> None:
    assert describe(caught(parse, "{")).frame == "test_failures.py:parse"
    error = caught(parse, "{")
    assert fingerprint(REASON, describe(error)) == fingerprint(REASON, error)


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_description_has_a_fingerprint(message: str, frame: str) -> None:
    assert len(fingerprint(REASON, ErrorInfo("E", message, "", frame))) == 32
