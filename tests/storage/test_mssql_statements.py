"""Every statement that SQL Server can be sent, checked without a server: by Microsoft's parser, by rules, by snapshots.

The snapshots in ``mssql_snapshots/`` are for reading: what a change of the code does to the SQL shows there. After such
a change, write them anew with ``CHOKAQ_WRITE_SNAPSHOTS=1 pytest tests/storage/test_mssql_statements.py``.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from chokaq_django.storage import OutcomeKind
from chokaq_django.storage.contract import Storage

from .mssql_recorder import ALIAS, Recorder, Sent, callers_storage, parsed, private_storage
from .mssql_scenarios import LEASES, ONE, OPERATIONS, TWO, WORKER, job, outcome
from .test_mssql_migrations import migration_statements

from chokaq_django.storage import mssql as package  # isort: skip - after the recorder, which skips where it cannot be
from chokaq_django.storage.mssql import settle  # isort: skip
from chokaq_django.storage.mssql.tsql import CHANGED, UNLOCKED, Batch  # isort: skip

pytestmark = pytest.mark.any_engine

FOLDER = Path(__file__).parent / "mssql_snapshots"
WRITE = os.environ.get("CHOKAQ_WRITE_SNAPSHOTS") == "1"
WIDTH = 140
"""Characters of a line."""


def callers(storage: Any) -> None:
    """What an application and an atomic job send inside their own transaction."""
    with transaction.atomic(using=ALIAS):
        storage.enqueue([job(ONE)])
        storage.enqueue([job(ONE, idempotency_key="a"), job(TWO)])
        storage.settle(WORKER, [outcome(ONE, OutcomeKind.SUCCEEDED)])
        storage.heartbeat(WORKER, LEASES)
        assert storage.is_marked(storage.mark_transaction())


@functools.cache
def recorded() -> dict[str, list[tuple[str, list[Sent]]]]:
    """Operation -> scenario and what was sent in it."""
    found: dict[str, list[tuple[str, list[Sent]]]] = {}
    for operation, scenarios in OPERATIONS.items():
        for title, scenario in scenarios.items():
            recorder = Recorder()
            scenario(private_storage(recorder), recorder)
            assert not recorder.answers, f"{operation} {title}: never asked for {recorder.answers}"
            found.setdefault(operation, []).append((title, recorder.statements()))
    recorder = Recorder()
    recorder.answer("OUTPUT inserted.id", [(ONE,)])
    recorder.answer("@held", [(ONE, False, None)])
    for _ in range(2):
        recorder.answer("CURRENT_TRANSACTION_ID", [(7,)])
    with callers_storage(recorder) as storage:
        callers(storage)
    found["callers_transaction"] = [("enqueue, settle, heartbeat, mark", recorder.statements())]
    recorder = Recorder()
    private_storage(recorder)._connected()
    found["session"] = [("a worker's connection", recorder.sent)]
    return found


def statements() -> Iterator[Sent]:
    for scenarios in recorded().values():
        for _, sent in scenarios:
            yield from sent


def text_of(operation: str) -> str:
    """The statements of one operation as a script."""
    parts: list[str] = []
    seen: dict[str, None] = {}
    for title, sent in recorded()[operation]:
        parts.append(f"-- {operation}{': ' * bool(title)}{title}")
        for one in sent:
            sql = readable(re.sub(r"\bs\d+_x", "s_x", one.rendered.strip()))  # a savepoint's name has the thread's
            if sql in seen and len(sql) > 100:
                sql = f"-- statement {list(seen).index(sql) + 1} again"
            seen.setdefault(sql)
            parts.append(f"{sql}\nGO")
    return "\n".join(parts) + "\n"


def readable(sql: str) -> str:
    """Statements are laid out where they are written; those in one long line are by the formatter."""
    return parsed(sql, "2017").strip() if max(map(len, sql.splitlines())) > WIDTH else sql


def plain(sql: str) -> list[str]:
    """Without what a formatter decides: breaks, blanks, the case of words."""
    return re.findall(r"\w+|[^\w\s]", sql.lower())


@pytest.mark.parametrize("operation", [*OPERATIONS, "callers_transaction", "session"])
def test_a_statement_is_as_it_was(operation: str) -> None:
    path = FOLDER / f"{operation}.sql"
    sql = text_of(operation)
    if WRITE:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(sql, encoding="utf-8")
    assert plain(path.read_text(encoding="utf-8")) == plain(sql), f"{path.name}: see this module's docstring"


@pytest.mark.parametrize("version", ["2017", "2022", "2025"])
def test_microsofts_parser_takes_every_statement(version: str) -> None:
    parsed("\n".join(text_of(operation) for operation in recorded()), version)


def test_the_parser_rejects_what_is_no_t_sql() -> None:
    for wrong in ("SELECT 1 FROM t LIMIT 1", "DELETE FROM t RETURNING id", "SELECT 1 FROM t WITH (READPST)"):
        with pytest.raises(AssertionError):
            parsed(wrong, "2022")


def test_there_is_no_snapshot_of_something_gone() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(recorded())


def test_every_operation_of_the_contract_has_a_snapshot() -> None:
    own = {"close", "hurry", "limit_lock_waits"}  # about the connection: they send nothing
    operations = {name for name in Storage.__abstractmethods__ - own if callable(getattr(Storage, name))}
    assert operations <= set(OPERATIONS), operations - set(OPERATIONS)


def test_every_batch_of_the_package_is_sent_in_some_scenario() -> None:
    sent = {one.sql for one in statements()}
    settle.settle_batch(("archive",), True)  # the only ones that are not constants are made on demand
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        for name, value in vars(module).items():
            for key, batch in value.items() if isinstance(value, dict) else [(None, value)]:
                if isinstance(batch, Batch):
                    forms = {_driver(batch.inside), _driver(batch.alone)}
                    assert any(_same(form, one) for form in forms for one in sent), f"{module.__name__}.{name} {key}"


def _driver(sql: str) -> str:
    return sql.replace("%s", "?")


def _same(form: str, sent: str) -> bool:
    """Whether ``sent`` is the form with some of its parameters NULL."""
    return form == sent or re.fullmatch(re.escape(form).replace(r"\?", r"(?:\?|NULL)"), sent) is not None


def test_settle_has_one_batch_for_each_set_of_targets_and_all_parse() -> None:
    targets = ("archive", "dlq", "pending")
    texts = []
    for count in (1, 2, 3):
        for chosen in combinations(targets, count):
            for counted in (True, False):
                batch = settle.settle_batch(chosen, counted)
                texts += [batch.alone, batch.inside]
    parsed("\nGO\n".join(texts).replace("%s", "@p"), "2017")


# -- rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["MERGE", "NOLOCK", "READUNCOMMITTED", "LIMIT %s", "RETURNING", "ON CONFLICT", "GROUP BY", "{", "%s", ";;"]
)
def test_no_statement_has_it(word: str) -> None:
    """GROUP BY: mssql-django rewrites statements with these words and parameters. The others are not T-SQL, or wrong
    here."""
    assert not [one.sql for one in statements() if word in one.sql and (one.params or word != "GROUP BY")]


def test_no_statement_comes_near_the_number_of_parameters() -> None:
    assert max(len(one.params) for one in statements()) < 40


def test_every_text_parameter_is_declared_or_compared_with_a_column() -> None:
    """What a worker sends often begins with declarations, so that no plan depends on the length of a text."""
    for one in statements():
        if re.search(r"^DECLARE\n", one.sql, re.MULTILINE):
            head = one.sql[: one.sql.index(";\n", one.sql.index("DECLARE\n"))]
            assert head.count("?") == len(one.params), one.sql


def test_no_parameter_is_null() -> None:
    """A driver asks the server for the type of one, and a failed question ends the transaction."""
    assert not [one.sql for one in statements() if None in one.params]


SOUGHT = (
    r"(\w\.)?(id|job_id|operation_id|name|type|series|fingerprint) (=|IN)",
    r"(fingerprint IS NULL|series >)",
    r"(h\.)?status = 0 AND (h\.)?queue (=|>)",
    r"h\.status IN \(1, 2\) AND h\.queue (=|>)",
    r"h\.idempotency_key = .* AND h\.idempotency_key IS NOT NULL",
    r"idempotency_key IS NOT NULL AND idempotency_key IN",
    r"status \+ 0 = 0 AND deadline_at IS NOT NULL AND deadline_at <",
    r"((queue|type|failure_reason) = \? AND )?(finished_at|failed_at) >= \? AND (finished_at|failed_at) <= \?",
    r"(expires_at|b\.at) <=",
    r"b\.span = @span\s+AND b\.at <=",
    r"t\.(span = b\.span AND t\.)?at = b\.at AND t\.series =",
    r"t\.series =",
    r"t\.at = @tick AND t\.series =",
)
"""What a key or an index finds. A filtered index serves a statement only when its filter stands there literally, and
without an index that serves SQL Server refuses the hint (error 8622)."""


def test_what_must_be_sought_can_be() -> None:
    seen: set[str] = set()
    for one in statements():
        for match in re.finditer(r"FORCESEEK[^)]*\)\s+(?:WHERE|ON) ([^;]*)", one.sql):
            forms = [form for form in SOUGHT if re.match(form, match[1])]
            assert forms, one.sql
            seen.update(forms)
        assert one.sql.count("FORCESEEK") == len(re.findall(r"FORCESEEK[^)]*\)\s+(?:WHERE|ON) ", one.sql)), one.sql
        assert not re.search(r"status (=|IN) \(?[?@]", one.sql), one.sql
    assert seen == set(SOUGHT)


def test_what_must_be_sought_has_an_index() -> None:
    """Without one that begins with the column SQL Server refuses the hint (error 8622)."""
    begins: set[tuple[str, str]] = set()
    for sql in migration_statements():
        if made := re.match(r"CREATE TABLE \[(\w+)\]", sql):
            begins |= {(made[1], column) for column in re.findall(r"\[(\w+)\] [^\[,]*PRIMARY KEY", sql)}
            begins |= {(made[1], column) for column in re.findall(r"PRIMARY KEY \(\[(\w+)\]", sql)}
        elif made := re.match(r"CREATE (?:UNIQUE )?INDEX \[\w+\] ON \[(\w+)\] \(\[(\w+)\]", sql):
            begins.add((made[1], made[2]))
    assert ("chokaq_bulk_item", "operation_id") in begins
    hinted = 0
    for one in statements():
        for table, found in re.findall(
            r"(chokaq_\w+)(?: AS \w+)? WITH \([^)]*FORCESEEK[^)]*\)\)?\s+(?:WHERE|ON) ([^;]*)", one.sql
        ):
            columns = re.findall(
                r"(?:\w\.)?(\w+) (?:=|IN|IS|>|<|>=|<=) ", re.sub(r"status (\+ 0 )?(=|IN) \(?[\d, ]+\)?", "", found)
            )
            hinted += 1
            assert any((table, column) in begins for column in columns[:3]), (table, columns, one.sql)
    assert hinted > 100


def test_whatever_is_locked_or_changed_is_sought() -> None:
    """On a small table a plan would rather read all of it, and wait for every row that somebody else has locked."""
    locks = changes = 0
    for one in statements():
        for hint in re.findall(r"WITH \(([A-Z, ]*UPDLOCK[A-Z, ]*)\)", one.sql):
            locks += 1
            assert "FORCESEEK" in hint, one.sql
        for match in re.finditer(r"\b(?:UPDATE|DELETE)(?: TOP \(\d+\))? (@?\w+)\b([^;]*)", one.sql):
            target, rest = match.groups()
            if target.startswith("@") or rest.startswith(" @") or f"FROM @queue AS {target}" in rest:
                continue  # a variable of the batch
            changes += 1
            hints = re.findall(rf"chokaq_\w+ AS {target} (WITH \([A-Z, ]+\))", rest)
            assert hints in ([CHANGED], [UNLOCKED]), one.sql
    assert locks > 30
    assert changes > 30


def test_whatever_is_locked_is_locked_by_row() -> None:
    for one in statements():
        for hint in re.findall(r"WITH \(([A-Z, ]+)\)", one.sql):
            words = set(hint.split(", "))
            if "UPDLOCK" in words:
                assert "ROWLOCK" in words, one.sql
            if "READPAST" in words:
                assert "READCOMMITTEDLOCK" in words, "READPAST with row versioning"
                assert "ROWLOCK" in words, "a locked page is waited for"
            if "TABLOCK" in words:
                assert "HAVING SUM(" in one.sql, "only to set groups right, by hand"
                held = re.findall(r"FROM chokaq_\w+( WITH \(TABLOCK, HOLDLOCK\))?", one.sql)
                assert all(held), "a table without it is read as of another moment, with row versioning"
                continue
            if "HOLDLOCK" in words:
                assert {"FORCESEEK", "UPDLOCK"} <= words, "else the whole table is held"
            assert not ({"TABLOCK", "PAGLOCK", "XLOCK", "TABLOCKX", "SERIALIZABLE"} & words)


def test_waiting_rows_are_inserted_by_row() -> None:
    """A claim passes over rows that are being inserted, and would wait for a page of them."""
    inserts = [
        hint
        for one in statements()
        for hint in re.findall(r"INSERT INTO chokaq_job_hot ([^\n]*?)\s*\((?:id|\n)", one.sql)
    ]
    assert len(inserts) > 10
    assert set(inserts) == {"WITH (ROWLOCK)"}


def test_no_place_is_locked_where_a_caller_may_hold_it_for_long() -> None:
    """With HOLDLOCK whoever writes a neighbour of the key would wait for the end of the caller's transaction."""
    for _, sent in recorded()["callers_transaction"]:
        assert any("idempotency_key = r.idempotency_key" in one.sql for one in sent)
        assert any("INSERT INTO chokaq_metric_bucket" in one.sql for one in sent)
        assert not [one.sql for one in sent if "HOLDLOCK" in one.sql]


def test_a_duplicate_is_looked_for_again_and_every_other_error_is_raised() -> None:
    """Not for ever: nobody has had the same place a hundred times in a row."""
    caught = [
        (one.sql, *match) for one in statements()
        for match in re.findall(r"BEGIN CATCH\s+SET (@\w+) \+= 1;\s+(.*?)\s+END CATCH", one.sql)
    ]  # fmt: skip
    assert sum(one.sql.count("BEGIN CATCH") for one in statements()) == len(caught) > 10
    for sql, times, condition in caught:
        assert sql.count(f"{times} int = 0") == 1, "declared once in its batch"
        assert condition in {
            f"IF ERROR_NUMBER() NOT IN (2601, 2627){other} OR XACT_STATE() = -1 OR {times} > 100 THROW;"
            for other in ("", " OR CHARINDEX(N'chokaq_hot_key', ERROR_MESSAGE()) = 0")
        }


def test_literals_of_a_filter_stay_literals() -> None:
    """A database with PARAMETERIZATION FORCED makes parameters of those in a statement that has none of its own."""
    filtered = [one for one in statements() if re.search(r"FORCESEEK[^;]*status (?:= \d|IN \(\d)", one.sql)]
    assert len(filtered) > 10
    assert not [one.sql for one in filtered if not one.params and "@" not in one.sql]


def test_what_changes_more_than_one_row_of_a_table_stops_at_its_first_error() -> None:
    """A worker's batch that begins a transaction has XACT_ABORT ON, and ends it."""
    begun = [one.sql for one in statements() if "BEGIN TRANSACTION;" in one.sql]
    assert len(begun) > 10
    for sql in begun:
        assert sql.startswith("SET NOCOUNT, XACT_ABORT ON;")
        assert sql.count("BEGIN TRANSACTION;") == sql.count("COMMIT TRANSACTION;") == 1


def test_nothing_is_begun_or_committed_in_the_callers_transaction() -> None:
    for _, sent in recorded()["callers_transaction"]:
        texts = [one.sql for one in sent]
        assert not [sql for sql in texts if "BEGIN TRAN" in sql or "COMMIT TRAN" in sql or "XACT_ABORT" in sql]
        assert any("SAVE TRANSACTION" in sql for sql in texts), "several statements are all or nothing there"


def test_every_batch_is_quiet_and_reads_the_clock_once() -> None:
    for one in statements():
        if "@now" in one.sql:
            assert one.sql.startswith(("SET NOCOUNT ON;", "SET NOCOUNT, XACT_ABORT ON;"))
            assert one.sql.count("SYSUTCDATETIME()") == 1
        assert "GETDATE()" not in one.sql
