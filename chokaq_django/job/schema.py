"""Schema versions: functions that lift stored payloads to what the code now expects.

A type's ``schema_version`` is stamped at enqueue. When a job of an older version is run, the registered steps lift its
payload one version at a time; a missing step is a contract error, never a guess.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from .definition import JobType
from .failures import SchemaVersionError

__all__ = ["Step", "lift", "migrates"]

Step = Callable[[dict[str, Any]], dict[str, Any]]

_lock = threading.Lock()
_steps: WeakKeyDictionary[type, dict[int, Step]] = WeakKeyDictionary()


def migrates(cls: type[Any], *, from_version: int) -> Callable[[Step], Step]:
    """Decorator: the function turns a payload of ``cls`` of version ``from_version`` into one of the next version.

    It gets and returns the plain dict of the JSON, and belongs next to the class in ``jobs.py``. ``ValueError`` when
    the step is taken.
    """
    if isinstance(from_version, bool) or not isinstance(from_version, int) or from_version < 1:
        raise ValueError(f"migrates(): from_version must be an integer of at least 1, got {from_version!r}")

    def decorate(step: Step) -> Step:
        with _lock:
            steps = _steps.setdefault(cls, {})
            if from_version in steps:
                raise ValueError(
                    f"{cls.__qualname__} already has a step from version {from_version}: {steps[from_version]}"
                )
            steps[from_version] = step
        return step

    return decorate


def lift(job_type: JobType, raw: Any, version: int) -> Any:
    """The parsed payload ``raw`` of ``version`` as one of the type's own version; ``SchemaVersionError`` otherwise."""
    wanted = job_type.schema_version
    if version > wanted:
        raise SchemaVersionError(
            "$",
            f"stored with schema version {version} of {job_type.key}, this code knows {wanted}; deploy the newer code",
        )
    steps = _steps.get(job_type.cls, {}) if job_type.cls is not None else {}
    for current in range(version, wanted):
        step = steps.get(current)
        if step is None:
            raise SchemaVersionError(
                "$",
                f"no migration of {job_type.key} from schema version {current} to {current + 1}; "
                f"register one with @migrates({getattr(job_type.cls, '__name__', '...')}, from_version={current})",
            )
        if not isinstance(raw, dict):
            raise SchemaVersionError(
                "$", f"expected an object to migrate from version {current}, got {type(raw).__name__}"
            )
        try:
            raw = step(raw)
        except Exception as error:
            raise SchemaVersionError(
                "$", f"the migration from schema version {current} raised {type(error).__name__}: {error}"
            ) from error
    return raw
