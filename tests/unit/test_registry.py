"""The registry: one class and one handler for a key."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.test.utils import override_settings

from chokaq_django.job.context import JobContext
from chokaq_django.job.definition import Job, UnregisteredJobError
from chokaq_django.job.registry import Registry, autodiscover


@dataclass
class Mail:
    to: str


@dataclass
class Report:
    day: str


@pytest.fixture
def registry() -> Registry:
    return Registry()


def send(job: Mail, ctx: JobContext) -> None: ...


def send_again(job: Mail, ctx: JobContext) -> None: ...


async def send_later(job: Mail, ctx: JobContext) -> None: ...


def take(type: str, payload: str, ctx: JobContext) -> None: ...  # noqa: A002


def take_again(type: str, payload: str, ctx: JobContext) -> None: ...  # noqa: A002


def test_register_handle_and_find(registry: Registry) -> None:
    kind = registry.register(Mail, type="mail.v2", queue="mail", aliases=["mail.v1"])
    assert (kind.key, kind.cls, kind.handler, kind.queue) == ("mail.v2", Mail, None, "mail")
    assert registry.handles(Mail)(send) is send
    kind = registry.for_class(Mail)
    assert kind.handler is send
    assert registry.get("mail.v2") is registry.get("mail.v1") is kind
    assert registry.get("mail.v3") is None
    assert registry.types() == [kind]
    assert registry.nearest_key("mial.v2") == "; did you mean 'mail.v2'?"


def test_async_handlers_are_seen(registry: Registry) -> None:
    registry.register(Mail, type="mail")
    registry.handles(Mail)(send_later)
    assert registry.for_class(Mail).is_async


def test_partials_and_callable_objects(registry: Registry) -> None:
    class Sender:
        async def __call__(self, job: Mail, ctx: JobContext) -> None: ...

    registry.register(Mail, type="mail")
    registry.register(Report, type="report")
    registry.handles(Mail)(Sender())
    registry.handles(Report)(functools.partial(send_later))
    assert registry.for_class(Mail).is_async
    assert registry.for_class(Report).is_async


def test_async_handler_of_an_atomic_type(registry: Registry) -> None:
    registry.register(Mail, type="mail", atomic=True)
    with pytest.raises(TypeError, match="atomic=True needs a plain `def` handler"):
        registry.handles(Mail)(send_later)
    assert registry.for_class(Mail).handler is None


def test_one_handler_for_a_class(registry: Registry) -> None:
    registry.register(Mail, type="mail")
    registry.handles(Mail)(send)
    with pytest.raises(TypeError, match=r"already has the handler .*\.send; .*\.send_again cannot"):
        registry.handles(Mail)(send_again)
    registry.handles(Mail)(send)  # the same function of a reloaded handlers.py


def test_a_handler_beside_run(registry: Registry) -> None:
    class Own(Job):
        def run(self, ctx: JobContext) -> None: ...

    registry.register(Own, type="own")
    with pytest.raises(TypeError, match=r"already has its own run\(\)"):
        registry.handles(Own)(send)


def test_a_handler_of_an_unregistered_class(registry: Registry) -> None:
    with pytest.raises(UnregisteredJobError, match=r'register\(Mail, type="..."\)'):
        registry.handles(Mail)(send)


def test_a_key_is_taken_once(registry: Registry) -> None:
    registry.register(Mail, type="mail", aliases=["post"])
    for key in ("mail", "post"):
        with pytest.raises(ValueError, match=rf"the type key '{key}' of .*Report is taken by .*Mail"):
            registry.register(Report, type=key)
        with pytest.raises(ValueError, match=rf"the type key '{key}' of .*Report is taken by .*Mail"):
            registry.register(Report, type="report", aliases=[key])
    assert [kind.key for kind in registry.types()] == ["mail"]


def test_a_class_has_one_key(registry: Registry) -> None:
    registry.register(Mail, type="mail")
    with pytest.raises(ValueError, match="is registered as 'mail' already and cannot be 'post' too; use aliases="):
        registry.register(Mail, type="post")


def test_a_reloaded_class_takes_its_own_place(registry: Registry) -> None:
    def load() -> type[Any]:
        @dataclass
        class Reloaded:
            a: int

        return Reloaded

    old, new = load(), load()
    registry.register(old, type="r", aliases=["r.old"])
    registry.handles(old)(send)
    kind = registry.register(new, type="r", priority=5)
    assert registry.get("r") is kind is registry.for_class(new)
    assert registry.get("r.old") is None
    assert kind.handler is send
    with pytest.raises(UnregisteredJobError, match="loaded again"):
        registry.for_class(old)


@pytest.mark.parametrize("thing", [5, "Mail", object, send, Mail("x")])
def test_what_is_no_record_class(registry: Registry, thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a dataclass or a Job"):
        registry.register(thing, type="x")


@pytest.mark.parametrize("thing", [5, None, [], Mail("x")])
def test_what_is_no_class(registry: Registry, thing: Any) -> None:
    with pytest.raises(UnregisteredJobError, match="not a job class"):
        registry.for_class(thing)


def test_strings_and_models_are_told_what_to_give_instead(registry: Registry) -> None:
    from django.contrib.auth.models import User

    for cls, said in ((str, "str is not a job class"), (User, "a Job that holds its primary key")):
        with pytest.raises(UnregisteredJobError, match=said):
            registry.for_class(cls)


def test_raw_handlers(registry: Registry) -> None:
    registry.register(Mail, type="legacy.mail")
    registry.raw_handler("legacy.*", queue="old", timeout=5)(take)
    kind = registry.get("legacy.report")
    assert kind is not None
    assert (kind.key, kind.cls, kind.wants_raw, kind.handler) == ("legacy.report", None, True, take)
    assert (kind.queue, kind.timeout) == ("old", 5.0)
    assert registry.get("legacy.report") is kind
    typed = registry.get("legacy.mail")
    assert typed is not None
    assert typed.cls is Mail
    assert registry.get("Legacy.report") is None
    assert [kind.key for kind in registry.types()] == ["legacy.mail", "legacy.*"]
    for number in range(3000):
        assert registry.get(f"legacy.{number}") is not None
    assert len(registry._raw_found) <= 1024


def test_raw_handlers_refused(registry: Registry) -> None:
    registry.raw_handler("a.*")(take)
    registry.raw_handler("a.*")(take)
    with pytest.raises(ValueError, match="already has the handler"):
        registry.raw_handler("a.*")(take_again)
    with pytest.raises(TypeError, match="option 'aliases' needs a job class"):
        registry.raw_handler("b.*", aliases=["x"])
    with pytest.raises(TypeError, match="unknown job option"):
        registry.raw_handler("b.*", quue="x")  # type: ignore[call-arg]
    for pattern in ("", "  ", None):
        with pytest.raises(ValueError, match="pattern must be text"):
            registry.raw_handler(pattern)  # type: ignore[arg-type]


def test_unregister(registry: Registry) -> None:
    registry.register(Mail, type="mail", aliases=["post"])
    registry.unregister(Mail)
    assert registry.types() == []
    assert registry.get("mail") is registry.get("post") is None


def test_autodiscover_imports_handlers_only_for_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tmp_path / "discovered_app"
    app.mkdir()
    for name in ("__init__", "jobs", "tasks", "handlers"):
        (app / f"{name}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with override_settings(INSTALLED_APPS=["discovered_app"]):
        autodiscover(handlers=False)
        assert {"discovered_app.jobs", "discovered_app.tasks"} <= sys.modules.keys()
        assert "discovered_app.handlers" not in sys.modules
        autodiscover(handlers=True)
        assert "discovered_app.handlers" in sys.modules


def test_handlers_that_cannot_be_called_are_refused(registry: Registry) -> None:
    registry.register(Mail, type="mail.v1")

    def forgetful(job: Mail) -> None: ...

    with pytest.raises(TypeError, match=r"write `def forgetful\(job, ctx\)`"):
        registry.handles(Mail)(forgetful)
    with pytest.raises(TypeError, match=r"write `def send\(type, payload_text, ctx\)`"):
        registry.raw_handler("legacy.*")(send)
    assert registry.for_class(Mail).handler is None


def test_what_cannot_run_here_is_told_apart(registry: Registry) -> None:
    registry.register(Mail, type="mail.v1")
    wrong, todo = registry.why_not_runnable("mail.v1")
    assert "Mail) has no handler here" in wrong
    assert "@handles(Mail)" in todo
    wrong, todo = registry.why_not_runnable("mail.v2")
    assert wrong == "No job type 'mail.v2' is registered here; did you mean 'mail.v1'?"
    assert "INSTALLED_APPS" in todo
    assert "aliases" in todo
