"""Runs the whole suite once for each engine in reach; ``make test`` calls it.

    python tests/run.py [pytest arguments]

* SQLite always runs, PostgreSQL when a server answers at ``CHOKAQ_TEST_POSTGRES_URL`` (default: user ``postgres`` at
  127.0.0.1:5432). It says which engines run and why another does not.
* ``CHOKAQ_TEST_ENGINES=sqlite,postgresql`` chooses; an engine that is named there but not in reach is a failure.

The last line adds the engines' results up in pytest's own form. Exit code: 0 when every engine passed.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = re.compile(r"^=* ?(?P<counts>.*\b\d+ [a-z]+.*|no tests ran) in [\d.]+s\b.*$")
NO_TESTS = 5  # pytest's exit code


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine to run on, or why it cannot be."""

    name: str
    url: str | None = None
    missing: str = ""


# Two Pythons may run the suite in one folder at the same time.
PYTHON = f"{sys.version_info[0]}{sys.version_info[1]}"


def sqlite() -> Engine:
    return Engine("sqlite", f"sqlite:///{ROOT / 'var' / f'tests-py{PYTHON}.sqlite3'}")


def postgresql() -> Engine:
    # A name of this folder's own, so that two checkouts on one machine do not drop each other's test database.
    name = f"chokaq_{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}_py{PYTHON}"
    url = os.environ.get("CHOKAQ_TEST_POSTGRES_URL") or f"postgres://postgres@127.0.0.1:5432/{name}"
    import psycopg

    parts = urlsplit(url)
    probe = urlunsplit(parts._replace(scheme="postgresql", path="/postgres"))
    try:
        psycopg.connect(probe, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        return Engine("postgresql", missing=f"no server at {parts.hostname}:{parts.port}: {str(error).splitlines()[0]}")
    return Engine("postgresql", url)


FINDERS = {"sqlite": sqlite, "postgresql": postgresql}
LATER = {"mariadb": "comes with a later release", "mssql": "comes with a later release"}


def run(engine: Engine, arguments: list[str]) -> tuple[int, Counter[str]]:
    """Runs pytest on one engine, its output passed on as it comes; its exit code and the counts it closed with."""
    print(f"\n======== {engine.name} ========", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--create-db", *arguments],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": engine.url or "", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    closing = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        closing = line.strip() or closing
    code = process.wait()
    plain = re.sub(r"\x1b\[[\d;]*m", "", closing)
    found = SUMMARY.match(plain)
    counts: Counter[str] = Counter()
    if found:
        for number, word in re.findall(r"(\d+) ([a-z]+)", found["counts"]):
            counts[word.rstrip("s") if word in {"errors", "warnings"} else word] += int(number)
    if code not in {0, 1, NO_TESTS} or (code != NO_TESTS and not counts):
        counts["error"] += 1  # pytest itself did not come to its end
    return code, counts


def main(arguments: list[str]) -> int:
    wanted = [name.strip() for name in os.environ.get("CHOKAQ_TEST_ENGINES", "").split(",") if name.strip()]
    unknown = set(wanted) - FINDERS.keys()
    if unknown:
        print(f"CHOKAQ_TEST_ENGINES names {', '.join(sorted(unknown))}; there are: {', '.join(FINDERS)}")
        return 2
    began = time.monotonic()
    engines = [find() for name, find in FINDERS.items() if not wanted or name in wanted]
    print("Engines of this run:")
    for engine in engines:
        print(f"  {engine.name:<11} {'runs' if engine.url else 'left out: ' + engine.missing}")
    for name, reason in LATER.items():
        print(f"  {name:<11} left out: {reason}")

    total: Counter[str] = Counter()
    results = []
    for engine in engines:
        if engine.url:
            code, counts = run(engine, arguments)
        else:
            code, counts = (1, Counter(error=1)) if wanted else (0, Counter())
        total += counts
        results.append((engine, code, counts))

    print("\nResults by engine:")
    for engine, code, counts in results:
        text = ", ".join(f"{number} {word}" for word, number in counts.items()) or "not run"
        print(f"  {engine.name:<11} {text}{'' if code == 0 else f' (exit code {code})'}")
    order = ["failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error"]
    words = ", ".join(f"{total[word]} {word}" for word in order if total[word]) or "no tests ran"
    print(f"======== {words} in {time.monotonic() - began:.2f}s ========", flush=True)
    return 0 if total["passed"] and all(code in {0, NO_TESTS} for _, code, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
