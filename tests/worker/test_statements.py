"""Which statements leave a session as they found it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chokaq_django.worker.statements import leaves_session

pytestmark = pytest.mark.any_engine

SNAPSHOTS = Path(__file__).parent.parent / "storage" / "mssql_snapshots"

LEAVE = {
    "postgresql": [
        'SELECT "a"."set", "a"."template" FROM "a" WHERE "a"."begin" = %s FOR UPDATE',
        "UPDATE a SET b = 1",
        "  -- why\n/* and\nwho */ (SELECT 1) UNION (SELECT 2);",
        "SELECT pg_advisory_xact_lock(1)",
        """SELECT ("a"."b" #> %s) FROM "a" WHERE "a"."c" LIKE '%%' || REPLACE("a"."d", E'\\\\', E'\\\\\\\\')""",
        "SELECT '/* no comment --' FROM a",
        "EXPLAIN ANALYZE SELECT 1",
        "SET LOCAL statement_timeout = 5",
        "SET CONSTRAINTS ALL IMMEDIATE",
        'ROLLBACK TO SAVEPOINT "s1"',
        "LOCK TABLE a",
        "COPY a FROM STDIN",
        "INSERT INTO temperature VALUES (1)",
        """INSERT INTO "a;b" VALUES ('it''s; SET role = a', 'b;')""",
        "CREATE UNIQUE INDEX CONCURRENTLY a ON b (c)",
    ],
    "mysql": [
        "SELECT `a`.`use` FROM `a` WHERE `a`.`email` = 'somebody@example.org'",
        "REPLACE INTO a VALUES (%s)",
        "SAVEPOINT `s1`",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SELECT VERSION(), @@sql_mode",
        "SELECT `a`.`b` FROM `a` WHERE `a`.`c` LIKE REPLACE(`a`.`d`, '\\\\', '\\\\\\\\')",
        "SELECT RELEASE_LOCK('a')",
        """INSERT INTO `a;b` VALUES ("it's; SET a", 'b;')""",
        "create  index a ON b (c)",
    ],
    "sqlite": [
        "BEGIN IMMEDIATE",
        "SELECT 1",
        "PRAGMA foreign_key_check",
        'RELEASE SAVEPOINT "s1"',
        "INSERT INTO temperature VALUES ('a; b')",
        "CREATE INDEX a ON b (c)",
        r"""SELECT 1 FROM "a" WHERE "a"."b" LIKE %s ESCAPE '\'""",
    ],
    "microsoft": [
        "SET NOCOUNT ON INSERT INTO [a] ([b]) VALUES (%s); SELECT CAST(SCOPE_IDENTITY() AS bigint)",
        "SET IDENTITY_INSERT [a] ON ; INSERT INTO [a] ([b]) VALUES (%s); SET IDENTITY_INSERT [a] OFF",
        "UPDATE a SET b = 1, c += 2",
        "UPDATE TOP (1) a SET b  = 1",
        "EXEC dbo.recount %s",
        "SAVE TRANSACTION s1",
        "IF 1 = 1 BEGIN SELECT 1 END",
        "SELECT [cursor], [alter], [create], [request_context] FROM [a] WHERE [cursor] > 'declare; b'",
        "CREATE INDEX a ON b (c)",
    ],
}
STAY = {
    "postgresql": [
        "BEGIN", "SET ROLE a", "DISCARD ALL", "DO $$ BEGIN END $$", "CALL a()", "EXECUTE a", "UNLISTEN *",
        "SELECT 1 INTO TEMP TABLE a", "SELECT pg_try_advisory_lock_shared(1)", "SELECT set_config('a', 'true', false)",
        "SELECT 1;SET a = 1", "CREATE TEMPORARY TABLE a (b int)", "INSERT INTO pg_temp.a VALUES (1)",
        "SELECT 1 INTO TEMPORARY a", "SELECT 'a'; SET a = ';'", r"SELECT E'\''; SET a = 1; SELECT ''",
        "SELECT 1 -- it's\n; SET a = 1; SELECT 1 -- '", "SELECT $$'$$; SET a = 1; SELECT $$'$$",
        "SELECT 1 /* ' */; SET a = 1; SELECT 1 /* ' */", "CREATE TABLE a (b int)", "SELECT 'a; SET a = 1",
        "SELECT set_config('app.tenant', %s, true)", """SELECT "set_config"('a', 'b', false)""",
        "SELECT set_config/**/('a', 'b', false)", "SELECT set_config('a', 'x, true)', false)",
        r"""SELECT U&"set\005fconfig"('a', 'b', false)""", "UPDATE pg_settings SET setting = 'off' WHERE name = 'a'",
        "EXPLAIN ANALYZE CREATE TEMP TABLE a AS SELECT 1", "EXPLAIN ANALYZE EXECUTE a", "SELECT 1 INTO/**/TEMP a",
        "/* a /* */ SELECT 1 */ SET a = 1", "/* a */ SET a = 1 /* b */ SELECT 1", "SELECT 1 /* why */",
    ],
    "mysql": [
        "/*!40101 SET NAMES latin1 */", "USE a", "LOCK TABLES a READ", "HANDLER a OPEN", "PREPARE a FROM 'SELECT 1'",
        "SELECT get_lock('a', 1)", "SELECT 1 INTO @a", "SET SESSION TRANSACTION READ ONLY", "SET LOCAL sql_mode = ''",
        "START TRANSACTION", "# why\nSELECT 1", "/*M! SET NAMES latin1 */",
        "SELECT 1 # it's\n; SET a = 1; SELECT 1 # '",
        r"SELECT '\''; SET a = 1; SELECT ''", 'SELECT "\'"; SET a = 1; SELECT "\'"',
        "SELECT 5 INTO@a", "SELECT 5 INTO/**/@a", "SELECT 5 INTO @`a`", "SELECT @@sql_mode INTO @a", "SELECT @a := 1",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "EXPLAIN FORMAT=JSON SET a = 1",
    ],
    "sqlite": [
        "PRAGMA query_only = ON", "PRAGMA query_only(1)", "ATTACH 'a' AS b", "DELETE FROM temp.a",
        'DELETE FROM "temp".a', "PRAGMA a /*;*/ = 0", "EXPLAIN PRAGMA a = 0",
    ],
    "microsoft": [
        "SELECT 1 SET LANGUAGE German", "SET ROWCOUNT 1", "SELECT 1 AS n INTO #a", "EXEC sp_getapplock 'a'",
        "BEGIN TRAN", "USE a", "DECLARE c CURSOR FOR SELECT 1", "EXECUTE AS USER = 'a'",
        "EXEC sp_set_session_context 'a', 1", "DECLARE @a CURSOR", "DECLARE c INSENSITIVE SCROLL CURSOR FOR SELECT 1",
        "EXEC ('BEGIN TRAN')", "EXEC AS USER = 'a'", "EXEC sp_prepexec 1", "SET CONTEXT_INFO 0x1",
        "CREATE TABLE #a (b int)", "EXEC sp_setapprole 'a', 'b'", "INSERT INTO [#a] VALUES (1)",
        "SET/**/LANGUAGE German", "SET --\nLANGUAGE German",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("vendor", "sql"), [(vendor, sql) for vendor, all_of in LEAVE.items() for sql in all_of])
def test_ordinary_statements_leave_a_session(vendor: str, sql: str) -> None:
    assert leaves_session(vendor, sql)
    assert leaves_session(vendor, sql + " " * 10_000), "however long"


@pytest.mark.parametrize(("vendor", "sql"), [(vendor, sql) for vendor, all_of in STAY.items() for sql in all_of])
def test_these_do_not(vendor: str, sql: str) -> None:
    assert not leaves_session(vendor, sql)
    assert not leaves_session(vendor, " " * 10_000 + sql.lower())


def test_of_a_backend_that_is_not_known_nothing_is_known() -> None:
    assert not leaves_session("oracle", "SELECT 1")


def test_enqueue_on_sql_server_leaves_the_callers_session() -> None:
    (name,) = SNAPSHOTS.glob("callers_transaction.sql")
    for batch in name.read_text().split("\nGO\n"):
        assert leaves_session("microsoft", batch)
