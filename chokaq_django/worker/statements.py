"""Which statements leave a session as they found it, by their words.

Whoever is in doubt says no: that costs the next job a new connection, a wrong yes may cost it its writes. What a
function or procedure of the database does to the session, no word of the statement tells.
"""

from __future__ import annotations

import functools
import re

_SHORT = 4_096
"""Characters; the judgement of longer statements is not kept, which are many rows at once and rarely the same."""

_LEADING = re.compile(r"(?:[\s(]|/\*(?!m?!)(?:(?!\*/|/\*).)*\*/|--[^\n]*(?:\n|$))*", re.DOTALL)
"""Blanks, brackets and comments before the first word. (What stands in ``/*! */`` and ``/*M! */`` is run.)"""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_QUOTES_UNSURE = re.compile(r"\\|\$\w*\$")
"""Literals and names; and what may make another thing of a quote: escapes, PostgreSQL's other quotes."""
_DOUBTFUL = re.compile(r"--|/\*")
_DOUBTFUL_ON = {"mysql": re.compile(r"--|/\*|#|(?<!@)@(?!@)")}
"""What no plain statement has outside of quotes: comments further on, which may stand anywhere, and variables."""
_COMMENT_WITHIN = re.compile(r"/\*|[^;\s]\s*--")
"""The same of a batch, which may have comments between its statements."""
_ROWS = "select|insert|update|delete|with"
_COMMON = (
    rf"{_ROWS}|values|explain\s+(?:analyze\s+)?(?:{_ROWS})|analyze|savepoint|release|rollback to|"
    r"create\s+(?:unique\s+)?index"
)
_PLAIN = {
    vendor: re.compile(rf"[\s(]*(?:$|(?:{_COMMON}|{words})\b)")
    for vendor, words in {
        "postgresql": "copy|merge|table|truncate|lock|notify|show|refresh|vacuum|set local|set constraints",
        # The last is of the next transaction only.
        "mysql": r"replace|table|truncate|show|optimize|set transaction isolation level read committed(?=\s*$)",
        # Django begins its own transactions by a statement, and the driver knows whether one is open.
        "sqlite": r"replace|begin|commit|rollback|vacuum|reindex|pragma(?![^;]*[=(])",
    }.items()
}
"""First words after which nothing stays, but for what the next table finds further on."""
_STAYS = {
    "postgresql": (
        ("set_config", "pg_settings", "advisory_lock", "temp", "dblink", "u&"),
        (
            r"set_config|pg_settings|advisory_lock|dblink_|\bu&[\"']|"
            r"\binto\s+(?:local\s+|global\s+)?temp(?:orary)?\b|\bpg_temp"
        ),
    ),
    "mysql": (("get_lock",), "get_lock"),
    "sqlite": (("temp",), r"\btemp(?:orary)?[\"'`\]]?\s*\."),
    # A batch is a program, whose first word says little. What a procedure sets ends with it.
    "microsoft": (
        ("set", "begin", "use", "#", "cursor", "exec", "sp_"),
        (
            r"\bset\s+(?!nocount\b|identity_insert\b)\w+\s+(?!\s*[-+*/%&|^]?=)|"
            r"\bbegin\s+(?:distributed\s+)?tran|\buse\s|"
            r"#\w|\bdeclare\s+@?\w+\s+(?:insensitive\s+|scroll\s+)*cursor\b|\bexec(?:ute)?\s+as\b|"
            r"\bsp_(?:prep|cursor|set|getapplock)"
        ),
    ),
}
"""What stays, wherever in a statement it stands: short words of which one is in each such statement, and a pattern."""
_PATTERNS = {vendor: (words, re.compile(pattern)) for vendor, (words, pattern) in _STAYS.items()}


def leaves_session(vendor: str, sql: str) -> bool:
    """Whether the session is the same after ``sql`` (which may be several statements) as before."""
    return _judged(vendor, sql) if len(sql) <= _SHORT else _judge(vendor, sql)


def _judge(vendor: str, sql: str) -> bool:
    if vendor not in _PATTERNS:
        return False
    words, pattern = _PATTERNS[vendor]
    lower = sql.lower()
    if any(word in lower for word in words) and pattern.search(lower):
        return False
    leading = _LEADING.match(lower)
    rest = lower[leading.end() :] if leading else lower
    if vendor not in _PLAIN:
        return not _COMMENT_WITHIN.search(rest)
    if not _QUOTES_UNSURE.search(rest):  # or those of a literal are taken for statements and comments too
        rest = _QUOTED.sub("''", rest)
    if _DOUBTFUL_ON.get(vendor, _DOUBTFUL).search(rest):
        return False
    return all(_PLAIN[vendor].match(part) for part in rest.split(";"))


_judged = functools.lru_cache(maxsize=1_024)(_judge)
