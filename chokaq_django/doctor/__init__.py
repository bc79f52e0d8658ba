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
from ..conf import get_options, project_options
from ..job.registry import autodiscover
from ..job.text import safe_text
from ..models import Setting
from ..reading.queue_limits import other_limits
from ..reading.settings import take_overrides
from ..sentence import Sentence
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
        if area not in self.seen:
            self.seen.append(area)


def examine(note: Callable[[str], None] = lambda area: None, *, handlers: bool = True) -> Examination:
    """Look at everything that can be looked at. ``note`` hears of each area before it is looked at. ``handlers``:
    whether to load them, as workers do; a web process need not be burdened with what they import."""
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
    result.look("code", _code(handlers))
    note("database")
    report = health.check()
    storage = [finding for finding in report.findings if finding.check == health.STORAGE]
    result.engine = engine_name(alias)
    if report.as_of is None:
        result.look("database", map(from_health, storage))
        return result
    result.look("database", [*map(from_check, checks.server_findings(alias, options)), *schema.clock(alias)])
    result.look("settings", _guarded(alias, lambda: [*_not_followed(alias), *_other_limits(alias)]))
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
    for check in (
        checks.check_database, checks.check_listen_database, checks.check_read_database, checks.check_commands,
        checks.check_middleware,
    ):  # fmt: skip
        messages += check(None)
    return [from_check(message) for message in messages]


def _not_followed(alias: str) -> Iterator[Diagnosis]:
    """What is stored of options that operators have set, and fits nothing."""
    stored = Setting.objects.using(alias).values_list("name", "value")
    for name, why in take_overrides(stored).items():
        yield Diagnosis(
            "setting_not_followed", Severity.WARNING,
            Sentence(
                "An operator has set %(name)s, and it is not followed: %(why)s",
                name=safe_text(name, 80), why=safe_text(why, 500),
            ),
            Sentence(
                "Workers and pages go on with what the project's settings say. Set it anew, or `chokaq "
                "settings reset`.",
            ),
        )  # fmt: skip


def _other_limits(alias: str) -> Iterator[Diagnosis]:
    """Queues whose rows have other limits than the settings."""
    for other in other_limits(alias, project_options()):
        names = ", ".join(f"QUEUES.{safe_text(other.queue, 80)}.{option.upper()}" for option in other.options())
        if other.by is None:
            yield Diagnosis(
                "queue_limits_old", Severity.WARNING,
                Sentence(
                    "Not followed yet, because no worker has started with these settings: %(names)s.", names=names
                ),
                Sentence("Restart the workers."),
            )  # fmt: skip
        else:
            yield Diagnosis(
                "queue_limits_edited", Severity.INFO,
                Sentence(
                    "Not followed, because %(who)s has set limits of the queue, and it keeps its own: %(names)s.",
                    who=safe_text(other.by, 100), names=names,
                ),
                Sentence(
                    "Change the queue itself: `chokaq queue set %(name)s`; or `chokaq queue reset %(name)s`, and it "
                    "follows the settings.",
                    name=safe_text(other.queue, 80),
                ),
            )  # fmt: skip


def _code(handlers: bool) -> Iterator[Diagnosis]:
    """Job types, and their handlers loaded as a worker loads them."""
    try:
        autodiscover(handlers=handlers)
    except Exception as error:  # noqa: BLE001 - whatever the project's modules raise
        yield Diagnosis(
            "handlers_not_importable", Severity.ERROR,
            Sentence(
                "The jobs, tasks or handlers modules cannot be imported: %(name)s: %(error)s",
                name=type(error).__name__, error=str(error),
            ),
            Sentence("No worker starts with this code; repair the import."),
        )  # fmt: skip
    yield from map(from_check, checks.check_types(None))
    if handlers:
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
        return [
            Diagnosis(
                "not_looked_at",
                Severity.WARNING,
                Sentence(
                    "This could not be looked at: %(reason)s",
                    reason=reason,
                ),
            )
        ]
