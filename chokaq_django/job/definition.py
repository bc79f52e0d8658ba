"""Job types: the ``Job`` base class, the options of a type and the record the registry keeps of it."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, cast, dataclass_transform
from weakref import WeakKeyDictionary

from ..sentence import Sentence
from .backoff import Backoff, Explicit
from .durations import Duration, to_seconds
from .envelope import EnvelopeError, clean_priority, clean_queue, clean_type

if TYPE_CHECKING:
    from .codec import PayloadCodec

__all__ = ["UNSET", "CircuitPolicy", "Handler", "Job", "JobOptions", "JobType", "UnregisteredJobError", "Unset"]

Handler = Callable[..., Any]


class Unset(Enum):
    """The type of ``UNSET``."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""Not said: the setting decides. Differs from None where None means "no limit"."""


class UnregisteredJobError(LookupError):
    """A class that is not a registered job type."""


def positive_int(value: object) -> int:
    """``value`` if it is an integer of at least 1; the errors read on from the name of an option."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"must be at least 1, got {value}")
    return value


@dataclass(frozen=True, slots=True, init=False)
class CircuitPolicy:
    """When the circuit of a type opens and how it closes. ``window``, ``break_`` and ``probe_timeout`` in seconds."""

    failures: int
    window: float
    break_: float
    probes: int
    probe_timeout: float

    def __init__(
        self,
        failures: int = 5,
        window: Duration = 60.0,
        break_: Duration = 30.0,
        probes: int = 1,
        probe_timeout: Duration = 30.0,
    ) -> None:
        given: dict[str, tuple[Callable[[object], float], object]] = {
            "failures": (positive_int, failures),
            "window": (to_seconds, window),
            "break_": (to_seconds, break_),
            "probes": (positive_int, probes),
            "probe_timeout": (to_seconds, probe_timeout),
        }
        for name, (check, value) in given.items():
            try:
                object.__setattr__(self, name, check(value))
            except (TypeError, ValueError) as error:
                raise type(error)(f"CircuitPolicy: {name} {error}") from None


class JobOptions(TypedDict, total=False):
    """What the class line of a ``Job``, or ``register``, may say about a type."""

    queue: str
    priority: int
    max_attempts: int
    backoff: Backoff | Iterable[Duration]
    timeout: Duration
    retry_on: type[BaseException] | tuple[type[BaseException], ...]
    fatal: type[BaseException] | tuple[type[BaseException], ...]
    max_age: Duration | None
    crash_policy: Literal["dlq", "retry"]
    atomic: bool
    interrupt: bool
    on_timeout: Literal["dlq", "retry"]
    max_snoozes: int
    circuit: CircuitPolicy | Literal[False]
    schema_version: int
    aliases: Iterable[str]
    unique_key: Callable[[Any], str | None]


class _ClassLine(JobOptions, total=False):
    type: str


@dataclass(frozen=True, slots=True)
class JobType:
    """One registered type. None stands for "as the settings say" unless said otherwise; durations in seconds."""

    key: str
    cls: type[Any] | None
    handler: Handler | None = None
    is_async: bool = False
    wants_raw: bool = False
    queue: str = "default"
    priority: int = 10
    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    fatal: tuple[type[BaseException], ...] = ()
    max_age: float | Unset | None = UNSET
    """None is no limit; ``UNSET`` is the setting."""
    crash_policy: str | None = None
    atomic: bool = False
    interrupt: bool = False
    on_timeout: str = "dlq"
    max_snoozes: int = 1000
    circuit: CircuitPolicy | Literal[False] | None = None
    """False is no circuit for this type; None is the setting."""
    schema_version: int = 1
    aliases: tuple[str, ...] = ()
    unique_key: Callable[[Any], str | None] | None = None
    codec: PayloadCodec | None = field(default=None, repr=False, compare=False)

    def with_handler(self, handler: Handler) -> JobType:
        """A copy that runs ``handler``. ``TypeError`` when the handler does not go with the type's options."""
        is_async = is_async_callable(handler)
        if is_async and (self.atomic or self.interrupt):
            option = "atomic=True" if self.atomic else "interrupt=True"
            why = "its transaction belongs to one thread" if self.atomic else "it raises inside the job's own thread"
            raise TypeError(f"job type {self.key!r}: {option} needs a plain `def` handler, not `async def`: {why}")
        _refuse_wrong_parameters(self, handler)
        return dataclasses.replace(self, handler=handler, is_async=is_async)


def _refuse_wrong_parameters(job_type: JobType, handler: Handler) -> None:
    """``TypeError`` for a handler that cannot be called as workers call it: each of its jobs would die of that."""
    given = ("type", "payload_text", "ctx") if job_type.wants_raw else ("job", "ctx")
    try:
        inspect.signature(handler).bind(*given)
    except ValueError:
        return  # no signature to be had, as of some callables in C
    except TypeError:
        name = getattr(handler, "__name__", "handler")
        if job_type.cls is not None and getattr(job_type.cls, "run", None) is handler:
            given = ("self", "ctx")
        raise TypeError(
            f"job type {job_type.key!r}: {name}{inspect.signature(handler)} cannot be called with what a worker gives "
            f"it; write `def {name}({', '.join(given)})`"
        ) from None


def is_async_callable(handler: Handler) -> bool:
    """Whether calling ``handler`` gives a coroutine: an ``async def``, or an object whose ``__call__`` is one."""
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


# --- options of a type ---------------------------------------------------------------------------------------------

_OPTION_NAMES: Final = tuple(JobOptions.__annotations__)
_NOT_INHERITED: Final = frozenset({"type", "aliases", "schema_version"})


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, got {value!r}")
    return value


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            hint = nearest(value, allowed)
            raise ValueError(f"must be {' or '.join(map(repr, allowed))}, got {value!r}{hint}")
        return cast(str, value)

    return check


def _exceptions(value: Any) -> tuple[type[BaseException], ...]:
    classes = tuple(value) if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise TypeError(f"must be an exception class or a tuple of them, got {cls!r}")
    return classes


def _backoff(value: Any) -> Backoff:
    if isinstance(value, type):
        raise TypeError(f"must be a policy object, got the class {value.__name__}: write {value.__name__}(...)")
    if isinstance(value, Backoff):
        return value
    if isinstance(value, (list, tuple)):
        return Explicit(value)
    raise TypeError(f"must be a policy (Exponential, Polynomial, Explicit) or a list of delays, got {value!r}")


def _circuit(value: Any) -> CircuitPolicy | Literal[False]:
    if value is False or isinstance(value, CircuitPolicy):
        return value
    raise TypeError(f"must be a CircuitPolicy, or False for no circuit, got {value!r}")


def _aliases(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"must be a list of type keys, got {value!r}")
    return tuple(clean_type(alias) for alias in value)


def _unique_key(value: Any) -> Callable[[Any], str | None]:
    if not callable(value):
        raise TypeError(f"must be a function of the job that returns a string or None, got {value!r}")
    return cast("Callable[[Any], str | None]", value)


_CLEAN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "queue": clean_queue,
    "priority": clean_priority,
    "max_attempts": positive_int,
    "backoff": _backoff,
    "timeout": to_seconds,
    "retry_on": _exceptions,
    "fatal": _exceptions,
    "max_age": lambda value: None if value is None else to_seconds(value),
    "crash_policy": _one_of("dlq", "retry"),
    "atomic": _flag,
    "interrupt": _flag,
    "on_timeout": _one_of("dlq", "retry"),
    "max_snoozes": lambda value: 0 if value == 0 and not isinstance(value, bool) else positive_int(value),
    "circuit": _circuit,
    "schema_version": positive_int,
    "aliases": _aliases,
    "unique_key": _unique_key,
}


def nearest(name: object, valid: Iterable[str]) -> str:
    """``"; did you mean 'queue'?"`` for the valid name nearest to ``name``, or an empty string."""
    found = difflib.get_close_matches(str(name).casefold(), {v.casefold(): v for v in valid}, n=1, cutoff=0.6)
    by_fold = {v.casefold(): v for v in valid}
    return Sentence("; did you mean %(name)s?", name=repr(by_fold[found[0]])) if found else ""


def clean_options(owner: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` of the type ``owner`` checked and in the form ``JobType`` keeps; ``TypeError`` or ``ValueError``."""
    clean: dict[str, Any] = {}
    for name, value in options.items():
        check = _CLEAN.get(name)
        if check is None:
            hint = nearest(name, ("type", *_OPTION_NAMES)) or f"; valid are: {', '.join(('type', *_OPTION_NAMES))}"
            raise TypeError(f"{owner}: unknown job option {name!r}{hint}")
        try:
            clean[name] = check(value)
        except EnvelopeError as error:
            raise ValueError(f"{owner}: option {name} {error.message}") from None
        except (TypeError, ValueError) as error:
            raise type(error)(f"{owner}: option {name} {error}") from None
    if clean.get("atomic") and clean.get("interrupt"):
        raise TypeError(
            f"{owner}: atomic=True and interrupt=True exclude each other: an exception thrown into the middle of a "
            "transaction would leave its connection unusable; drop interrupt, a timed-out atomic job is rolled back "
            "anyway"
        )
    return clean


# --- the base class ------------------------------------------------------------------------------------------------

_class_lines: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
@dataclass(frozen=True)
class Job:
    """Base of typed jobs: a frozen record whose class line holds the options.

    ::

        class SendEmailJob(Job, type="email.send.v1", queue="mail", max_attempts=5, timeout=30):
            to: str
            subject: str = "Welcome"

            def run(self, ctx: JobContext) -> None:  # or: async def run(self, ctx)
                send(self.to, self.subject)

    Annotations become fields; the options never do. A subclass without ``type`` is a base for others: its fields and
    options are inherited, it cannot be enqueued. Without ``run``, a function marked ``@handles(SendEmailJob)`` runs it.
    Wrong options raise ``TypeError`` or ``ValueError`` when the class is made.
    """

    def __init_subclass__(cls, **options: Unpack[_ClassLine]) -> None:
        super().__init_subclass__()
        owner = f"{cls.__module__}.{cls.__qualname__}"
        _refuse_reserved_fields(cls, owner)
        dataclass(frozen=True)(cls)
        given = dict(options)
        key = given.pop("type", None)
        merged: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited = _class_lines.get(base, {})
            merged.update({name: value for name, value in inherited.items() if name not in _NOT_INHERITED})
        merged.update(given)
        if key is None:
            clean_options(owner, merged)
            _class_lines[cls] = merged
            return
        from .registry import registry

        registry.register(cls, type=cast(str, key), **cast(JobOptions, merged))
        _class_lines[cls] = merged


def _refuse_reserved_fields(cls: type, owner: str) -> None:
    annotations = inspect.get_annotations(cls)
    if "run" in annotations:
        raise TypeError(f"{owner}: a field may not be called 'run', the method that runs the job; rename the field")
    run = cls.__dict__.get("run")
    if run is not None and not inspect.isfunction(run):
        raise TypeError(f"{owner}: 'run' must be a plain method, `def run(self, ctx)` or `async def run(self, ctx)`")
