"""The doctor: looks at settings, database, tables, engine, wake-ups, fleet and work, and says what to do.

:func:`examine` reads and never writes. It reuses the system checks (``chokaq_django.checks``) and health
(``chokaq_django.health``), and adds what only a live look can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseError
from django.db import connections, transaction

from .. import checks, health
from ..conf import get_options
from ..job.registry import autodiscover
from . import fleet, schema, wake, work
from .engines import engine_findings, engine_name
from .finding import Diagnosis, Severity, from_check, from_health

__all__ = ["AREAS", "Diagnosis", "Examination", "Severity", "examine"]

AREAS = ("settings", "code", "database", "tables", "engine", "wake-up", "fleet", "work")
"""What is looked at, in this order."""


@dataclass(slots=True)
class Examination:
    """What was found. ``seen``: the areas that could be looked at."""

    engine: str = ""
    seen: list[str] = field(default_factory=list)
    findings: list[Diagnosis] = field(default_factory=list)

    @property
    def worst(self) -> Severity | None:
        return max((finding.severity for finding in self.findings), default=None)

    def look(self, area: str, found: Iterable[Diagnosis]) -> None:
        self.findings += [replace(finding, area=area) for finding in found]
        self.seen.append(area)


def examine(note: Callable[[str], None] = lambda area: None) -> Examination:
    """Look at everything that can be looked at. ``note`` hears of each area before it is looked at."""
    result = Examination()
    note("settings")
    result.look("settings", _settings())
    try:
        options = get_options()
        alias = options.database
        result.engine = engine_name(alias)
    except (ImproperlyConfigured, KeyError, ImportError):
        return result  # the settings' findings say it
    note("code")
    result.look("code", _code())
    note("database")
    report = health.check()
    storage = [finding for finding in report.findings if finding.check == health.STORAGE]
    result.engine = engine_name(alias)
    if report.as_of is None:
        result.look("database", map(from_health, storage))
        return result
    result.look("database", [*map(from_check, checks.server_findings(alias, options)), *schema.clock(alias)])
    others: list[tuple[str, Callable[[], Iterable[Diagnosis]]]] = [
        ("tables", lambda: schema.findings(alias)),
        ("engine", lambda: engine_findings(alias, options)),
        ("wake-up", lambda: wake.findings(alias)),
        ("fleet", lambda: [*_of(report, health.WORKER), *fleet.findings(report.workers)]),
        ("work", lambda: [*_of(report, health.SATURATION), *work.findings(alias, options)]),
    ]
    for area, findings in others:
        note(area)
        result.look(area, _guarded(alias, findings))
    result.findings.sort(key=lambda finding: -finding.severity)
    return result


def _settings() -> list[Diagnosis]:
    messages = checks.check_options(None)
    for check in (checks.check_database, checks.check_listen_database, checks.check_commands, checks.check_middleware):
        messages += check(None)
    return [from_check(message) for message in messages]


def _code() -> Iterator[Diagnosis]:
    """Job types and their handlers, loaded as a worker loads them."""
    try:
        autodiscover(handlers=True)
    except Exception as error:  # noqa: BLE001 - whatever the project's modules raise
        yield Diagnosis(
            "handlers_not_importable", Severity.ERROR,
            f"The jobs, tasks or handlers modules cannot be imported: {type(error).__name__}: {error}",
            "No worker starts with this code; repair the import.",
        )  # fmt: skip
    yield from map(from_check, checks.check_types(None))
    yield from work.types_without_handlers()


def _of(report: health.Report, check: str) -> list[Diagnosis]:
    return [from_health(finding) for finding in report.findings if finding.check == check]


def _guarded(alias: str, findings: Callable[[], Iterable[Diagnosis]]) -> list[Diagnosis]:
    """What a look finds; a look that the database refuses is a finding of its own, and stops no other."""
    try:
        with transaction.atomic(using=alias):
            return list(findings())
    except DatabaseError as error:
        connections[alias].close_if_unusable_or_obsolete()
        reason = (str(error) or repr(error)).strip().splitlines()[0]
        return [Diagnosis("not_looked_at", Severity.WARNING, f"This could not be looked at: {reason}")]
