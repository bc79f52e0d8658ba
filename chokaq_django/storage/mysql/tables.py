"""JSON tables: how many rows travel into one statement.

Columns are declared with their character set, texts with a binary collation: it yields to no other, and two that are
not binary would be an error where they meet. Ids are ASCII, which yields to whatever it is compared with.
"""

from __future__ import annotations

ID = "VARCHAR(32) CHARACTER SET ascii"
"""A job's id, or the digest that is the key of a row that adds up."""
TEXT = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

IDS = f"JSON_TABLE(%s, '$[*]' COLUMNS (id {ID} PATH '$')) j"
"""A JSON list of ids as a table."""


def json_table(columns: dict[str, str], alias: str = "j") -> str:
    """A JSON list of lists as a table; ``columns``: name -> type, in the order of the lists."""
    listed = ", ".join(f"{name} {sql_type} PATH '$[{at}]'" for at, (name, sql_type) in enumerate(columns.items()))
    return f"JSON_TABLE(%s, '$[*]' COLUMNS ({listed})) {alias}"


def outcomes(**columns: str) -> str:
    """A JSON table ``j`` whose lists begin with the id of a job. Long texts come last: finding a position means to read
    what stands before it."""
    return json_table({"id": ID, **columns})
