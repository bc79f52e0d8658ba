"""What a statement reads, as each engine tells it: to be asserted, where a time could not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection

from chokaq_django.reading.plans import by_index

__all__ = ["analyse", "rows_read"]

_TABLES = ("chokaq_job_hot", "chokaq_job_archive", "chokaq_job_dlq", "chokaq_job_trash", "chokaq_audit_entry")
_ANALYSE = {
    "sqlite": ["ANALYZE"],
    "postgresql": ["ANALYZE"],
    "mysql": [f"ANALYZE TABLE {name}" for name in _TABLES],
}


def analyse() -> None:
    """Let the planner know what the tables hold, as a database that has lived for an hour does. MySQL commits by it."""
    with connection.cursor() as cursor:
        for sql in _ANALYSE[connection.vendor]:
            cursor.execute(sql)
            if cursor.description:
                cursor.fetchall()


def rows_read(sql: str) -> int:
    """How many rows and index entries a SELECT looks at; of SQLite, which does not count them, by its steps."""
    return {"sqlite": _by_steps, "postgresql": _by_plan, "mysql": _by_handler}[connection.vendor](sql)


def _ask(sql: str) -> Sequence[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def _by_steps(sql: str) -> int:
    """In steps of SQLite's virtual machine: reading a row takes some ten of them, and more columns more."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    connection.connection.set_progress_handler(tick, 10)
    try:
        _ask(sql)
    finally:
        connection.connection.set_progress_handler(None, 0)
    return count // 10


def _by_plan(sql: str) -> int:
    with by_index(DEFAULT_DB_ALIAS):  # a table of a test is small enough to be read whole
        ((report,),) = _ask(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
    found = report if isinstance(report, list) else json.loads(report)
    return sum(
        int(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)))
        for node in _nodes(found[0]["Plan"])
        if "Scan" in node["Node Type"]
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)


def _by_handler(sql: str) -> int:
    def counted() -> int:
        return sum(int(value) for _, value in _ask("SHOW SESSION STATUS LIKE 'Handler_read%'"))

    before = counted()
    _ask(sql)
    return counted() - before
