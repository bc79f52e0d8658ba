"""Job classes: records by their annotations, options by their class line."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from chokaq_django.job.backoff import Explicit, Exponential
from chokaq_django.job.context import JobContext
from chokaq_django.job.definition import UNSET, CircuitPolicy, Job, JobType
from chokaq_django.job.registry import registry


def define(**options: Any) -> JobType:
    class Made(Job, **options):
        a: int = 1

        def run(self, ctx: JobContext) -> None: ...

    return registry.for_class(Made)


def test_annotations_are_fields_and_the_record_is_frozen() -> None:
    class Mail(Job, type="mail.v1", queue="mail"):
        to: str
        subject: str = "Welcome"

        def run(self, ctx: JobContext) -> None: ...

    job = Mail("ada", subject="Hi")
    assert [field.name for field in dataclasses.fields(Mail)] == ["to", "subject"]
    assert job == Mail(to="ada", subject="Hi")
    assert hash(job) == hash(Mail("ada", "Hi"))
    assert not hasattr(job, "queue")
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.to = "bob"  # type: ignore[misc]


def test_defaults_leave_it_to_the_settings() -> None:
    kind = define(type="x")
    assert (kind.queue, kind.priority, kind.max_attempts, kind.timeout, kind.backoff) == (
        "default",
        10,
        None,
        None,
        None,
    )
    assert (kind.max_age, kind.crash_policy, kind.circuit, kind.on_timeout) == (UNSET, None, None, "dlq")
    assert (kind.schema_version, kind.aliases, kind.max_snoozes, kind.is_async) == (1, (), 1000, False)


def test_every_option() -> None:
    policy = CircuitPolicy(window=timedelta(minutes=2))
    kind = define(
        type=" x.v2 ",
        queue="mail",
        priority=-5,
        max_attempts=5,
        backoff=[1, timedelta(minutes=1)],
        timeout=timedelta(seconds=30),
        retry_on=OSError,
        fatal=(KeyError, ValueError),
        max_age=None,
        crash_policy="retry",
        atomic=True,
        on_timeout="retry",
        max_snoozes=0,
        circuit=policy,
        schema_version=3,
        aliases=["x.v1"],
        unique_key=lambda job: str(job.a),
    )
    assert (kind.key, kind.queue, kind.priority, kind.max_attempts) == ("x.v2", "mail", -5, 5)
    assert (kind.backoff, kind.timeout) == (Explicit([1, 60]), 30.0)
    assert (kind.retry_on, kind.fatal, kind.max_age) == ((OSError,), (KeyError, ValueError), None)
    assert (kind.crash_policy, kind.atomic, kind.on_timeout, kind.max_snoozes) == ("retry", True, "retry", 0)
    assert (kind.circuit, kind.schema_version, kind.aliases) == (policy, 3, ("x.v1",))
    assert policy.window == 120.0
    assert kind.unique_key is not None
    assert kind.unique_key(kind.cls(a=7)) == "7"  # type: ignore[misc]


def test_no_circuit_and_interrupt() -> None:
    kind = define(type="x", circuit=False, interrupt=True, backoff=Exponential(1), max_age=60)
    assert (kind.circuit, kind.interrupt, kind.backoff, kind.max_age) == (False, True, Exponential(1), 60.0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_atempts": 5}, TypeError, "unknown job option 'max_atempts'; did you mean 'max_attempts'"),
        ({"Queue": "x"}, TypeError, "did you mean 'queue'"),
        ({"throttles": []}, TypeError, "unknown job option 'throttles'; valid are: type, queue, priority"),
        ({"queue": "a b"}, ValueError, "option queue must be letters"),
        ({"queue": ""}, ValueError, "option queue must be"),
        ({"queue": 5}, ValueError, "option queue must be a string"),
        ({"priority": "high"}, ValueError, "option priority must be an integer"),
        ({"priority": True}, ValueError, "option priority must be an integer"),
        ({"max_attempts": 0}, ValueError, "option max_attempts must be at least 1"),
        ({"max_attempts": 2.0}, TypeError, "option max_attempts must be an integer"),
        ({"timeout": 0}, ValueError, "option timeout must be more than 0"),
        ({"timeout": "30"}, TypeError, "option timeout must be a timedelta or a number of seconds"),
        ({"timeout": float("inf")}, ValueError, "option timeout must be a finite"),
        ({"timeout": None}, TypeError, "option timeout must be"),
        ({"backoff": 5}, TypeError, "option backoff must be a policy"),
        ({"backoff": Exponential}, TypeError, r"write Exponential\(...\)"),
        ({"backoff": []}, ValueError, "at least one delay"),
        ({"backoff": [1, -1]}, ValueError, r"delays\[1\] must be 0 or more"),
        ({"retry_on": "OSError"}, TypeError, "option retry_on must be an exception class"),
        ({"fatal": (OSError, 5)}, TypeError, "option fatal must be an exception class"),
        ({"max_age": -1}, ValueError, "option max_age must be more than 0"),
        ({"crash_policy": "retyr"}, ValueError, "must be 'dlq' or 'retry', got 'retyr'; did you mean 'retry'"),
        ({"on_timeout": "drop"}, ValueError, "option on_timeout must be 'dlq' or 'retry'"),
        ({"atomic": 1}, TypeError, "option atomic must be True or False"),
        ({"interrupt": "yes"}, TypeError, "option interrupt must be True or False"),
        ({"max_snoozes": -1}, ValueError, "option max_snoozes must be at least"),
        ({"circuit": True}, TypeError, "option circuit must be a CircuitPolicy"),
        ({"schema_version": 0}, ValueError, "option schema_version must be at least 1"),
        ({"aliases": "x.v0"}, TypeError, "option aliases must be a list"),
        ({"aliases": ["a b"]}, ValueError, "option aliases must be letters"),
        ({"unique_key": "a"}, TypeError, "option unique_key must be a function"),
        ({"atomic": True, "interrupt": True}, TypeError, "exclude each other"),
        ({"type": ""}, ValueError, "type must be letters"),
        ({"type": 5}, ValueError, "type must be a string"),
        ({"type": "x" * 256}, ValueError, "type must be at most 255 characters"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        define(**{"type": "x", **options})
    assert "test_definition.define.<locals>.Made" in str(caught.value)
    assert registry.get("x") is None


@pytest.mark.parametrize("options", [{"atomic": True}, {"interrupt": True}])
def test_async_handlers_can_be_neither_atomic_nor_interrupted(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="needs a plain `def` handler"):

        class Late(Job, type="late", **options):
            async def run(self, ctx: JobContext) -> None: ...

    assert registry.get("late") is None


def test_a_run_without_the_context_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'test\.forgetful': run\(self\).* write `def run\(self, ctx\)`"):

        class ForgetfulJob(Job, type="test.forgetful"):
            def run(self) -> None: ...

    class LaxJob(Job, type="test.lax"):
        def run(self, *args: Any, more: int = 0) -> None: ...

    assert registry.for_class(LaxJob).handler is LaxJob.run


def test_a_field_may_not_be_called_run() -> None:
    with pytest.raises(TypeError, match="a field may not be called 'run'"):

        class Bad(Job, type="bad"):
            run: int

    with pytest.raises(TypeError, match="'run' must be a plain method"):

        class Static(Job, type="bad"):
            @staticmethod
            def run(ctx: JobContext) -> None: ...


def test_abstract_bases_hand_down_fields_and_options() -> None:
    class MailJob(Job, queue="mail", max_attempts=7, timeout=10):
        to: str

    class Welcome(MailJob, type="mail.welcome", timeout=5, aliases=["mail.hello"]):
        subject: str = "Welcome"

        def run(self, ctx: JobContext) -> None: ...

    class LateWelcome(Welcome, type="mail.late"):
        pass

    kind = registry.for_class(Welcome)
    assert (kind.queue, kind.max_attempts, kind.timeout) == ("mail", 7, 5.0)
    assert Welcome("ada") == Welcome(to="ada", subject="Welcome")
    with pytest.raises(LookupError, match=r'MailJob has no type key: write class MailJob\(Job, type="..."\)'):
        registry.for_class(MailJob)
    late = registry.for_class(LateWelcome)
    assert (late.queue, late.timeout, late.aliases, late.handler) == ("mail", 5.0, (), Welcome.run)


def test_options_of_abstract_bases_are_checked_too() -> None:
    with pytest.raises(TypeError, match="unknown job option 'queu'; did you mean 'queue'"):

        class Base(Job, queu="x"):  # type: ignore[call-arg]
            pass


def test_async_run_is_seen() -> None:
    class Late(Job, type="late"):
        async def run(self, ctx: JobContext) -> None: ...

    assert registry.for_class(Late).is_async


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"failures": 0}, "CircuitPolicy: failures must be at least 1"),
        ({"probes": True}, "CircuitPolicy: probes must be an integer"),
        ({"window": 0}, "CircuitPolicy: window must be more than 0"),
        ({"break_": "x"}, "CircuitPolicy: break_ must be a timedelta"),
    ],
)
def test_wrong_circuit_policies(values: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        CircuitPolicy(**values)
