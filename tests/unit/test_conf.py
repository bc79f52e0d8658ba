"""The CHOKAQ setting: defaults, presets, and everything wrong with it at once."""

from __future__ import annotations

import dataclasses
from datetime import time, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from chokaq_django.conf import Options, QueueOptions, Window, get_options, parse_options
from chokaq_django.job.backoff import Exponential, Polynomial
from chokaq_django.job.failures import FailureReason

HOUR, DAY = 3600.0, 86400.0


def parsed(raw: object) -> Options:
    options, problems = parse_options(raw)
    assert not problems, [str(problem) for problem in problems]
    assert options is not None
    return options


def problems_of(raw: object) -> list[str]:
    options, problems = parse_options(raw)
    assert options is None
    return [str(problem) for problem in problems]


@pytest.mark.parametrize("raw", [None, {}])
def test_defaults(raw: object) -> None:
    options = parsed(raw)
    assert (options.database, options.preset, options.max_payload_bytes) == ("default", "chokaq", 1_000_000)
    assert (options.middleware, dict(options.queues)) == ((), {})
    assert dataclasses.astuple(options.worker) == (
        10, 100, 1, "auto", 200, 500, "auto", None, 1.0, 5.0, 30.0, 5.0, None, None,
    )  # fmt: skip
    assert dataclasses.astuple(options.execution) == (900.0, 8.0, 12.0, 10, False, 600.0)
    assert dataclasses.astuple(options.recovery) == (30.0, 600.0, 600.0, 10.0, "dlq", 3)
    assert (options.retry.max_attempts, options.retry.max_age) == (3, DAY)
    assert options.retry.backoff == Exponential(3, 2.0, HOUR, 1)
    circuit = options.circuit
    assert (circuit.failures, circuit.window, circuit.break_, circuit.probes, circuit.probe_timeout) == (
        5,
        60,
        30,
        1,
        30,
    )
    assert (options.retention.archive, options.retention.dlq) == (30 * DAY, None)
    assert options.retention.dlq_by_reason == {FailureReason.EXPIRED: 7 * DAY}
    assert dataclasses.astuple(options.deck)[:6] == (5.0, 10.0, 0.5, 1000, 25, None)
    assert "*password*" in options.deck.mask_fields
    assert not options.strict_queue_order


def test_the_nexjob_preset() -> None:
    options = parsed({"PRESET": "nexjob"})
    assert (options.recovery.crash_policy, options.retry.max_attempts) == ("retry", 10)
    assert options.retry.backoff == Polynomial(4, 15, 30, DAY)
    assert options.retry.backoff.delay(9) >= 9**4 + 15
    assert (options.worker.poll_interval, options.execution.heartbeat_max) == (15.0, 30.0)
    assert (options.recovery.worker_timeout, options.recovery.zombie_timeout) == (90.0, 300.0)
    assert (options.retention.archive, options.retention.dlq) == (7 * DAY, 30 * DAY)
    assert (options.deck.lag_warning, options.deck.lag_critical) == (30.0, 60.0)
    assert options.strict_queue_order
    assert parsed({"PRESET": "nexjob", "RETRY": {"MAX_ATTEMPTS": 2}}).retry.max_attempts == 2


def test_what_is_set_wins() -> None:
    options = parsed(
        {
            "DATABASE": "jobs",
            "MAX_PAYLOAD_BYTES": 5000,
            "MIDDLEWARE": ["a.b", "c.d"],
            "WORKER": {"CONCURRENCY": 20, "PREFETCH": 0, "MAX_JOBS": 5, "POLL_INTERVAL": 10, "SHUTDOWN_GRACE": 0},
            "EXECUTION": {"TIMEOUT": timedelta(hours=1), "CANCEL_ON_HEARTBEAT_FAILURE": True},
            "RETRY": {"BASE_DELAY": 1, "MULTIPLIER": 3, "MAX_DELAY": 60, "JITTER": 0, "MAX_AGE": None},
            "CIRCUIT": {"BREAK": timedelta(minutes=1)},
            "RETENTION": {
                "ARCHIVE": None,
                "TRASH": 2 * DAY,
                "ARCHIVE_BY_TYPE": {"shop.audit.v1": None},
                "DLQ_BY_QUEUE": {"mail": timedelta(days=1)},
                "DLQ_BY_REASON": {"Poison": 5, FailureReason.EXPIRED: None},
            },
            "QUEUES": {
                "reports": {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": timedelta(hours=1), "ZOMBIE_TIMEOUT": 3600},
                "night": {"WINDOW": "22:00-6:30 Europe/Berlin"},
                "plain": {},
            },
        }
    )
    assert (options.database, options.max_payload_bytes, options.middleware) == ("jobs", 5000, ("a.b", "c.d"))
    assert (options.worker.concurrency, options.worker.prefetch, options.worker.max_jobs) == (20, 0, 5)
    assert (options.worker.poll_interval, options.worker.idle_poll_interval) == (10.0, 10.0)
    assert (options.execution.timeout, options.execution.cancel_on_heartbeat_failure) == (HOUR, True)
    assert options.retry.backoff == Exponential(1, 3, 60, 0)
    assert options.retry.max_age is None
    assert options.circuit.break_ == 60.0
    assert (parsed({}).retention.trash, options.retention.trash) == (7 * DAY, 2 * DAY)
    assert options.retention.dlq_by_reason == {FailureReason.EXPIRED: None, FailureReason.POISON: 5.0}
    assert (options.retention.dlq_by_queue, options.retention.dlq_by_type) == ({"mail": DAY}, {})
    assert (options.retention.archive_by_type, options.retention.archive_by_queue) == ({"shop.audit.v1": None}, {})
    assert options.queues["reports"] == QueueOptions(2, HOUR, HOUR, None)
    assert options.queues["night"].window == Window(time(22), time(6, 30), "Europe/Berlin")
    assert options.queues["plain"] == QueueOptions()
    with pytest.raises(TypeError):
        options.queues["x"] = QueueOptions()  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.database = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ([], "CHOKAQ must be a dict, got []"),
        ("x", "CHOKAQ must be a dict"),
        ({"WORKERS": {}}, "CHOKAQ['WORKERS'] is not an option (did you mean 'WORKER'?)"),
        ({"worker": {}}, "CHOKAQ['worker'] is not an option (did you mean 'WORKER'?)"),
        ({"WORKER": {"CONCURENCY": 1}}, "['WORKER']['CONCURENCY'] is not an option (did you mean 'CONCURRENCY'?)"),
        ({"WORKER": {"XYZ": 1}}, "['WORKER']['XYZ'] is not an option (valid are ASYNC_CONCURRENCY, CANCEL_GRACE"),
        ({5: 1}, "CHOKAQ['5'] is not an option"),
        ({"DECKS": {}}, "CHOKAQ['DECKS'] is not an option (did you mean 'DECK'?)"),
        ({"WORKER": {"EMBEDDED": True}}, "['EMBEDDED'] is not an option"),
        ({"WORKER": 5}, "CHOKAQ['WORKER'] must be a dict, got 5"),
        ({"DATABASE": 5}, "CHOKAQ['DATABASE'] must be the name of a database"),
        ({"DATABASE": ""}, "CHOKAQ['DATABASE'] must be the name of a database"),
        ({"PRESET": "nexjobs"}, "must be 'chokaq' or 'nexjob', got 'nexjobs' (did you mean 'nexjob'?)"),
        ({"MAX_PAYLOAD_BYTES": 0}, "must be at least 1, got 0"),
        ({"MAX_PAYLOAD_BYTES": "1MB"}, "must be an integer, got '1MB'"),
        ({"EXECUTION": {"CANCEL_ON_HEARTBEAT_FAILURE": 1}}, "must be True or False, got 1"),
        ({"MIDDLEWARE": "a.b"}, "must be a list of dotted paths"),
        ({"MIDDLEWARE": ["ab"]}, "must be a list of dotted paths"),
        ({"WORKER": {"CONCURRENCY": 0}}, "must be at least 1"),
        ({"WORKER": {"CONCURRENCY": True}}, "must be an integer, got True"),
        ({"WORKER": {"PROCESSES": 2.5}}, "must be an integer, got 2.5"),
        ({"WORKER": {"PREFETCH": "all"}}, "must be 'auto' or an integer of at least 0, got 'all'"),
        ({"WORKER": {"PREFETCH": -1}}, "must be 'auto' or an integer of at least 0"),
        ({"WORKER": {"WAKE_UP": "never"}}, "must be 'auto' or 'poll', got 'never'"),
        ({"WORKER": {"POLL_INTERVAL": 0}}, "must be more than 0"),
        ({"WORKER": {"SHUTDOWN_GRACE": -1}}, "must be 0 or more"),
        ({"WORKER": {"MAX_JOBS": 0}}, "must be at least 1"),
        ({"WORKER": {"LISTEN_DATABASE": 5}}, "must be the name of a database"),
        ({"EXECUTION": {"TIMEOUT": "15 min"}}, "must be a timedelta or a number of seconds, got '15 min'"),
        ({"EXECUTION": {"TIMEOUT": None}}, "must be a timedelta or a number of seconds, got None"),
        ({"EXECUTION": {"TIMEOUT": float("nan")}}, "must be a finite number of seconds"),
        ({"RETRY": {"MULTIPLIER": 0.5}}, "multiplier must be finite and at least 1"),
        ({"RETRY": {"MAX_ATTEMPTS": 0}}, "must be at least 1"),
        ({"RECOVERY": {"CRASH_POLICY": "requeue"}}, "must be 'dlq' or 'retry', got 'requeue'"),
        ({"CIRCUIT": {"BREAK": 0}}, "['CIRCUIT']['BREAK'] must be more than 0"),
        ({"CIRCUIT": {"BREAK_": 5}}, "did you mean 'BREAK'"),
        ({"RETENTION": {"ARCHIVE": 0}}, "must be more than 0"),
        ({"RETENTION": {"TRASH": -1}}, "must be more than 0"),
        ({"RETENTION": {"DLQ_BY_REASON": []}}, "must be a dict of failure reason"),
        ({"RETENTION": {"DLQ_BY_REASON": {"Expird": 5}}}, "unknown failure reason 'Expird' (did you mean 'Expired'?)"),
        ({"RETENTION": {"DLQ_BY_REASON": {"Expired": "x"}}}, "['Expired'] must be a timedelta"),
        ({"RETENTION": {"DLQ_BY_QUEUE": ["mail"]}}, "must be a dict of queue name to duration"),
        ({"RETENTION": {"DLQ_BY_QUEUE": {"a b": 5}}}, "has 'a b', which is no queue name (it must be letters"),
        ({"RETENTION": {"ARCHIVE_BY_QUEUE": {" a": 5}}}, "it must not begin or end with blanks"),
        ({"RETENTION": {"ARCHIVE_BY_TYPE": {5: 5}}}, "has 5, which is no type key (it must be a string"),
        ({"RETENTION": {"DLQ_BY_TYPE": {"a.v1": 0}}}, "['a.v1'] must be more than 0"),
        ({"QUEUES": []}, "CHOKAQ['QUEUES'] must be a dict"),
        ({"QUEUES": {"a b": {}}}, "CHOKAQ['QUEUES']['a b'] is not a queue name: it must be letters"),
        ({"QUEUES": {" a": {}}}, "must not begin or end with blanks"),
        ({"QUEUES": {5: {}}}, "is not a queue name: it must be a string"),
        ({"QUEUES": {"a": 5}}, "CHOKAQ['QUEUES']['a'] must be a dict"),
        ({"QUEUES": {"a": {"MAX_WORKER": 5}}}, "did you mean 'MAX_WORKERS'"),
        ({"QUEUES": {"a": {"MAX_WORKERS": 0}}}, "must be at least 1"),
        ({"QUEUES": {"a": {"WINDOW": "22-6"}}}, "must be two times and a zone, such as '22:00-06:00 Europe/Berlin'"),
        ({"QUEUES": {"a": {"WINDOW": "22:00-06:00"}}}, "must be two times and a zone, such as"),
        ({"QUEUES": {"a": {"WINDOW": "22:00-24:00 UTC"}}}, "times from 00:00 to 23:59"),
        ({"QUEUES": {"a": {"WINDOW": "22:00-22:00 UTC"}}}, "must not start and end at the same time"),
        ({"QUEUES": {"a": {"WINDOW": "22:00-06:00 Europe/Berln"}}}, "must name a time zone"),
        ({"QUEUES": {"a": {"WINDOW": "22:00-06:00 ../etc"}}}, "must name a time zone"),
        ({"QUEUES": {"a": {"WINDOW": 5}}}, "must be two times and a zone, such as"),
        # contradictions
        ({"EXECUTION": {"HEARTBEAT_MIN": 13}}, "(13 s) must not be above EXECUTION.HEARTBEAT_MAX (12 s)"),
        ({"EXECUTION": {"HEARTBEAT_MAX": 15}}, "(15 s) must be less than half of RECOVERY.WORKER_TIMEOUT (30 s)"),
        ({"RECOVERY": {"WORKER_TIMEOUT": 24}}, "(12 s) must be less than half of RECOVERY.WORKER_TIMEOUT (24 s)"),
        ({"RECOVERY": {"ZOMBIE_TIMEOUT": 12}}, "(12 s) must be above EXECUTION.HEARTBEAT_MAX (12 s)"),
        ({"QUEUES": {"a": {"ZOMBIE_TIMEOUT": 5}}}, "['QUEUES']['a']['ZOMBIE_TIMEOUT'] (5 s) must be above"),
        ({"HEALTH": {"LAG_DEGRADED": 10}}, "(10 s) must be below HEALTH.LAG_UNHEALTHY (10 s)"),
        ({"DECK": {"LAG_WARNING": 12}}, "(12 s) must be below DECK.LAG_CRITICAL (10 s)"),
        ({"DECK": {"LAG_CRITICAL": 5}}, "(5 s) must be below DECK.LAG_CRITICAL (5 s)"),
        ({"DECK": {"MASK_FIELDS": "password"}}, "must be a list of name patterns such as '*password*'"),
        ({"DECK": {"MASK_FIELDS": ["a", ""]}}, "must be a list of name patterns"),
        ({"RETRY": {"BASE_DELAY": 20, "MAX_DELAY": 10}}, "(10 s) must not be below RETRY.BASE_DELAY (20 s)"),
        (
            {"WORKER": {"POLL_INTERVAL": 5, "IDLE_POLL_INTERVAL": 2}},
            "(2 s) must not be below WORKER.POLL_INTERVAL (5 s)",
        ),
        ({"PRESET": "nexjob", "RETRY": {"BASE_DELAY": 1}}, "no effect with the nexjob preset"),
    ],
    ids=str,
)
def test_wrong_options(raw: object, problem: str) -> None:
    found = problems_of(raw)
    assert len(found) == 1, found
    assert problem in found[0]
    assert found[0].startswith("CHOKAQ")


def test_everything_wrong_is_said_at_once() -> None:
    found = problems_of(
        {
            "DATABSE": "x",
            "WORKER": {"CONCURRENCY": 0, "PROCESES": 1},
            "EXECUTION": {"HEARTBEAT_MAX": "x"},
            "QUEUES": {"a b": {}, "c": {"WINDOW": "x"}},
        }
    )
    assert len(found) == 6


def test_a_wrong_value_is_not_held_against_others() -> None:
    assert len(problems_of({"EXECUTION": {"HEARTBEAT_MIN": 20, "HEARTBEAT_MAX": "20"}})) == 1


def test_get_options_is_read_once_and_follows_the_setting(settings: Any) -> None:
    settings.CHOKAQ = {"WORKER": {"CONCURRENCY": 3}}
    assert get_options().worker.concurrency == 3
    assert get_options() is get_options()
    settings.CHOKAQ = {"WORKER": {"CONCURRENCY": 4}}
    assert get_options().worker.concurrency == 4
    settings.CHOKAQ = None
    assert get_options().worker.concurrency == 10


def test_get_options_lists_every_problem(settings: Any) -> None:
    settings.CHOKAQ = {"WORKER": {"CONCURRENCY": 0}, "PRESET": "x"}
    with pytest.raises(ImproperlyConfigured, match=r"(?s)\['WORKER'\]\['CONCURRENCY'\] .*|PRESET") as caught:
        get_options()
    assert str(caught.value).count("\n- ") == 2
