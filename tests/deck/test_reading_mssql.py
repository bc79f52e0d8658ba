"""What the Deck reads by statements of ours, as SQL Server would be sent them: Microsoft's parser takes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

from chokaq_django.models import JobHot
from chokaq_django.models.fields import FIRST, LAST, stands_for_many
from chokaq_django.reading import group_sums, groups, queues
from chokaq_django.reading.plans import LIVE, WAITING, live, waiting
from tests.storage.mssql_recorder import parsed

pytestmark = pytest.mark.any_engine

NOON = dt.datetime(2031, 5, 17, 12, 0, tzinfo=dt.UTC)


class Server:
    """Takes statements for SQL Server, and answers that there is nothing."""

    vendor = "microsoft"

    def __init__(self) -> None:
        self.sent: list[str] = []

    def cursor(self) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def execute(self, sql: str, params: Sequence[Any]) -> None:
        assert sql.count("%s") == len(params)
        # Django's driver for SQL Server rewrites statements with GROUP BY and parameters.
        assert not params or "GROUP BY" not in sql
        self.sent.append(sql.replace("%s", "@given"))

    def fetchall(self) -> list[tuple[Any, ...]]:
        return []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    def init(self: Any, alias: str) -> None:
        self._connection = server

    monkeypatch.setattr("chokaq_django.reading.selects.Selects.__init__", init)
    monkeypatch.setattr("chokaq_django.reading.selects.Selects.parameter", lambda self, value: value)
    return server


def test_what_is_sought_of_groups_and_queues_is_t_sql(server: Server) -> None:
    sums = group_sums._Reader("default")
    for order in ("count", "last_seen"):
        for acknowledged in (None, True, False):
            sums.first(8, order, acknowledged)
    reader = groups._Reader("default")
    reader.newest(["1" * 32, "2" * 32])
    reader.died([("1" * 32, NOON, NOON)])
    figures = queues._Reader("default")
    figures.bounded([("", ["mail"]), (" AND priority = %s AND run_at <= %s", ["mail", 10, NOON])])
    figures.highest([("mail", None), ("mail", 10)])
    figures.others({"mail", "sms"})
    assert len(server.sent) == 11
    for version in ("2017", "2025"):
        parsed(";\n".join(server.sent), version)


def test_all_dead_jobs_are_added_up_by_t_sql(server: Server) -> None:
    with pytest.raises(ValueError, match="not enough values"):  # nobody answers
        group_sums._Reader("default").all()
    parsed(server.sent[0], "2017")


def test_what_waits_and_what_is_leased_is_asked_for_in_the_words_of_its_index() -> None:
    """A filtered index serves no statement that has the status as a parameter."""
    for rows, words in ((waiting(JobHot.objects.all()), WAITING), (live(JobHot.objects.all()), LIVE)):
        sql, parameters = rows.filter(queue="mail").values_list("id").query.sql_with_params()
        assert f"({words})" in sql
        assert parameters == ("mail",)


def test_it_holds_no_time_that_python_cannot() -> None:
    """So that a list goes on behind the first and the last instant of the calendar as behind any other."""
    assert not any(stands_for_many(at, "microsoft") for at in (FIRST, NOON, LAST))
    assert stands_for_many(LAST, "postgresql")
