"""The tables as they should be, and the two clocks."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.apps import apps
from django.db import connections
from django.db.models import Index, Model
from django.utils.translation import gettext_noop

from ..models.indexes import NOTHING
from ..sentence import Sentence
from ..storage import get_storage
from ..worker.migrations import pending
from .finding import Diagnosis, Severity

__all__ = ["clock", "findings"]

SKEW = 2.0
"""Seconds between the clocks of host and database from which it is said."""


def findings(alias: str) -> Iterator[Diagnosis]:
    """Migrations, tables, columns and indexes."""
    missing = pending(alias)
    if missing:
        yield Diagnosis(
            "migrations_pending", Severity.ERROR, Sentence(
                "Migrations are not applied: %(names)s.",
                names=", ".join(missing),
            ),
            Sentence("Run `manage.py migrate`; workers that start now wait for it."),
        )  # fmt: skip
    connection = connections[alias]
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        for model in apps.get_app_config("chokaq").get_models(include_auto_created=True):
            table = model._meta.db_table
            if table not in tables:
                if not missing:
                    yield Diagnosis(
                        "table_missing", Severity.ERROR, Sentence(
                            "The table %(table)s is missing, though its migration counts as applied.",
                            table=table,
                        ),
                        Sentence(
                            "Restore it, or run `manage.py migrate chokaq zero` and `migrate` in an empty "
                            "database.",
                        ),
                    )  # fmt: skip
                continue
            have = set(connection.introspection.get_constraints(cursor, table))
            lost = [index for index in model._meta.indexes if index.name not in have]
            for index, statement in _statements(alias, model, lost):
                if not missing:
                    yield Diagnosis(
                        "index_missing", Severity.ERROR,
                        Sentence(
                            "%(table)s lacks the index %(name)s: what it serves reads the whole table.",
                            table=table, name=index.name,
                        ), f"{statement};",
                    )  # fmt: skip


def _statements(alias: str, model: type[Model], indexes: list[Index]) -> Iterator[tuple[Index, str]]:
    """How each of these is made; those that this engine does without are left out."""
    editor = connections[alias].schema_editor(collect_sql=True)
    for index in indexes:
        statement = str(index.create_sql(model, editor))
        if statement != NOTHING:
            yield index, statement


_AHEAD = gettext_noop(
    "The database's clock is %(skew)s s ahead of this machine's. Jobs run by the database's; a run_at that this "
    "machine computes is off by that much."
)
_BEHIND = gettext_noop(
    "The database's clock is %(skew)s s behind this machine's. Jobs run by the database's; a run_at that this "
    "machine computes is off by that much."
)


def clock(alias: str) -> Iterator[Diagnosis]:
    """The database's clock against this machine's. Jobs follow the database's alone."""
    if connections[alias].vendor == "sqlite":
        return  # it has the machine's
    storage = get_storage(alias)
    before = time.time()
    theirs = storage.now().timestamp()
    after = time.time()
    skew, doubt = theirs - (before + after) / 2, (after - before) / 2
    if abs(skew) - doubt > SKEW:
        yield Diagnosis(
            "clock_skew", Severity.WARNING,
            Sentence(_AHEAD if skew > 0 else _BEHIND, skew=f"{abs(skew):.1f}"),
            Sentence("Let both follow the same time service (NTP)."),
        )  # fmt: skip
