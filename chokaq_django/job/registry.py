"""The registry: type key, class, handler. Only what is registered here can run; no stored name is ever imported."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, TypeVar, Unpack

from .codec import PayloadCodec
from .definition import Job, JobOptions, JobType, UnregisteredJobError, clean_options, nearest
from .envelope import EnvelopeError, clean_type

__all__ = ["Registry", "autodiscover", "handles", "raw_handler", "register", "registry"]

_F = TypeVar("_F", bound=Callable[..., Any])
_RAW_KEYS_KEPT = 1024
_NOT_FOR_RAW = ("aliases", "schema_version", "unique_key")


def _name(obj: Any) -> str:
    return f"{getattr(obj, '__module__', '?')}.{getattr(obj, '__qualname__', repr(obj))}"


class Registry:
    """Job types by key, alias, class and pattern. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._by_key: dict[str, JobType] = {}  # aliases too
        self._by_class: dict[type, JobType] = {}
        self._raw: dict[str, JobType] = {}  # pattern -> type, in order of registration
        self._raw_found: dict[str, JobType] = {}

    def register(self, cls: type[Any], /, *, type: str, **options: Unpack[JobOptions]) -> JobType:  # noqa: A002
        """Make ``cls``, a ``Job`` or a plain dataclass, the record of the type key ``type``.

        Options are those of a ``Job`` class line. ``TypeError`` for what is not a dataclass or an option,
        ``ValueError`` for a bad value or a key or class that is taken. The same class seen again (a reload)
        takes its own place.
        """
        if not (inspect.isclass(cls) and dataclasses.is_dataclass(cls)):
            raise TypeError(f"register() takes a dataclass or a Job, got {cls!r}; decorate the class with @dataclass")
        owner = _name(cls)
        try:
            key = clean_type(type)
        except EnvelopeError as error:
            raise ValueError(f"{owner}: {error}") from None
        clean = clean_options(owner, options)
        job_type = JobType(key=key, cls=cls, codec=PayloadCodec(cls), **clean)
        run = getattr(cls, "run", None) if issubclass(cls, Job) else None
        if run is not None:
            job_type = job_type.with_handler(run)
        with self._lock:
            before = self._own_predecessor(job_type)
            if run is None and before is not None and before.handler is not None and not _is_run(before):
                job_type = job_type.with_handler(before.handler)
            self._put(job_type, before)
        return job_type

    def handles(self, cls: type[Any], /) -> Callable[[_F], _F]:
        """Decorator: the function runs jobs of ``cls``. It is called with ``(job, ctx)`` and may be ``async def``."""

        def decorate(handler: _F) -> _F:
            with self._lock:
                job_type = self.for_class(cls)
                old = job_type.handler
                if old is not None and (_is_run(job_type) or _name(old) != _name(handler)):
                    what = "its own run()" if _is_run(job_type) else f"the handler {_name(old)}"
                    raise TypeError(
                        f"{_name(cls)} already has {what}; {_name(handler)} cannot handle it too: remove one of them"
                    )
                self._put(job_type.with_handler(handler), job_type)
            return handler

        return decorate

    def raw_handler(self, pattern: str, /, **options: Unpack[JobOptions]) -> Callable[[_F], _F]:
        """Decorator: the function gets ``(type, payload_text, ctx)`` of every type key that ``pattern`` matches.

        The pattern has the wildcards of ``fnmatch``, case-sensitive. A registered type always comes first; of several
        patterns the one registered first. Options as in ``register``, without those that need a class.
        """
        owner = f"raw_handler({pattern!r})"
        if not isinstance(pattern, str) or not pattern.strip():
            raise ValueError(f"{owner}: the pattern must be text such as 'legacy.*'")
        for name in _NOT_FOR_RAW:
            if name in options:
                raise TypeError(f"{owner}: option {name!r} needs a job class; raw handlers have none")
        clean = clean_options(owner, options)

        def decorate(handler: _F) -> _F:
            job_type = JobType(key=pattern, cls=None, wants_raw=True, **clean).with_handler(handler)
            with self._lock:
                old = self._raw.get(pattern)
                if old is not None and _name(old.handler) != _name(handler):
                    raise ValueError(
                        f"the pattern {pattern!r} already has the handler {_name(old.handler)}; "
                        f"remove it or {_name(handler)}"
                    )
                self._raw[pattern] = job_type
                self._raw_found.clear()
            return handler

        return decorate

    def get(self, key: str, /) -> JobType | None:
        """The type of a key: registered, an alias, or matched by a raw handler's pattern (then ``.key`` is ``key``)."""
        job_type = self._by_key.get(key)
        if job_type is not None or not self._raw:
            return job_type
        return self._raw_found.get(key) or self._find_raw(key)

    def for_class(self, cls: type[Any], /) -> JobType:
        """The type of a record class; ``UnregisteredJobError`` when it has none."""
        try:
            return self._by_class[cls]
        except (KeyError, TypeError):
            raise UnregisteredJobError(self._why_unregistered(cls)) from None

    def types(self) -> list[JobType]:
        """All registered types in key order; raw handlers, which have no key of their own, come last."""
        with self._lock:
            return sorted(self._by_class.values(), key=lambda job_type: job_type.key) + list(self._raw.values())

    def runnable(self) -> list[str]:
        """The keys, aliases and patterns of what has a handler here."""
        handled = (job_type for job_type in self.types() if job_type.handler is not None)
        return [name for job_type in handled for name in (job_type.key, *job_type.aliases)]

    def nearest_key(self, key: str) -> str:
        """A hint such as ``"; did you mean 'email.send.v1'?"``, or an empty string."""
        return nearest(key, list(self._by_key))

    def why_not_runnable(self, key: str, /) -> tuple[str, str]:
        """Of a key that has no handler here: what is wrong, and what to do about it."""
        job_type = self.get(key)
        if job_type is not None and job_type.cls is not None:
            name = job_type.cls.__name__
            return (
                f"The job type {key!r} ({_name(job_type.cls)}) has no handler here",
                f"Give {name} a method run(self, ctx), or write @handles({name}) in a handlers.py of an installed app.",
            )
        return (
            f"No job type {key!r} is registered here{self.nearest_key(key)}",
            "Is its class in the jobs.py of an app in INSTALLED_APPS? A renamed type has its old key in aliases.",
        )

    def unregister(self, cls: type[Any], /) -> None:
        """Forget a type. For tests."""
        with self._lock:
            self._drop(self.for_class(cls))

    def _own_predecessor(self, job_type: JobType) -> JobType | None:
        """The registration that ``job_type`` replaces, after refusing every key that belongs to someone else."""
        name = _name(job_type.cls)
        for key in (job_type.key, *job_type.aliases):
            other = self._by_key.get(key)
            if other is not None and _name(other.cls) != name:
                raise ValueError(
                    f"the type key {key!r} of {name} is taken by {_name(other.cls)}; type keys name one stored "
                    "contract: give one of them another type= or alias"
                )
        for other in self._by_class.values():
            if other.cls is job_type.cls and other.key != job_type.key:
                raise ValueError(
                    f"{name} is registered as {other.key!r} already and cannot be {job_type.key!r} too; use aliases="
                )
            if _name(other.cls) == name and (other.key == job_type.key or other.cls is job_type.cls):
                return other
        return None

    def _put(self, job_type: JobType, before: JobType | None) -> None:
        """Add a type in place of ``before``. Readers take no lock: what stays valid must never be missing meanwhile."""
        self._by_class[_class_of(job_type)] = job_type
        keys = (job_type.key, *job_type.aliases)
        for key in keys:
            self._by_key[key] = job_type
        if before is not None:
            self._drop(before, keep=keys)

    def _drop(self, job_type: JobType, keep: tuple[str, ...] = ()) -> None:
        cls = _class_of(job_type)
        if self._by_class.get(cls) is job_type:
            del self._by_class[cls]
        for key in (job_type.key, *job_type.aliases):
            if key not in keep:
                self._by_key.pop(key, None)

    def _find_raw(self, key: str) -> JobType | None:
        with self._lock:
            for pattern, job_type in self._raw.items():
                if fnmatchcase(key, pattern):
                    if len(self._raw_found) >= _RAW_KEYS_KEPT:
                        self._raw_found.clear()
                    found = self._raw_found[key] = dataclasses.replace(job_type, key=key)
                    return found
        return None

    def _why_unregistered(self, cls: Any) -> str:
        name = _name(cls)
        if not inspect.isclass(cls):
            return f"{cls!r} is not a job class"
        if any(_name(known) == name for known in self._by_class):
            return f"{name} was loaded again since this object was made; use the class of the reloaded module"
        if issubclass(cls, Job):
            return f'{name} has no type key: write class {cls.__name__}(Job, type="...")'
        if cls.__module__ == "builtins":
            return f"{cls.__name__} is not a job class: give an instance of one, such as SendReceiptJob(order_id=7)"
        if hasattr(cls, "_meta"):
            return f"{name} is a model, not a job: write a Job that holds its primary key and loads the object in run"
        return f'{name} is not a registered job type: call register({cls.__name__}, type="...") in the app\'s jobs.py'


def _class_of(job_type: JobType) -> type[Any]:
    if job_type.cls is None:
        raise TypeError(f"{job_type.key!r} belongs to a raw handler")
    return job_type.cls


def _is_run(job_type: JobType) -> bool:
    return job_type.handler is not None and job_type.handler is getattr(job_type.cls, "run", None)


registry = Registry()
register = registry.register
handles = registry.handles
raw_handler = registry.raw_handler


def autodiscover(*, handlers: bool) -> None:
    """Import ``jobs`` and ``tasks`` of every installed app, and ``handlers`` too when asked, which only workers do."""
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("jobs")
    autodiscover_modules("tasks")
    if handlers:
        autodiscover_modules("handlers")
