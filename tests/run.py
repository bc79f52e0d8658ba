"""Runs the whole suite once for each engine in reach; ``make test`` calls it.

    python tests/run.py [pytest arguments]

* SQLite always runs. PostgreSQL and MariaDB run when a server answers at ``CHOKAQ_TEST_POSTGRES_URL`` (default: user
  ``postgres`` at 127.0.0.1:5432) and ``CHOKAQ_TEST_MARIADB_URL`` (default: user ``root`` without a password at
  127.0.0.1:3306; a MySQL server is as good and is called by its name). SQL Server runs when ``CHOKAQ_TEST_MSSQL_URL``
  names one. It says which engines run and why another does not.
* ``CHOKAQ_TEST_ENGINES=sqlite,postgresql,mariadb,mssql`` chooses; an engine that is named there but not in reach is a
  failure, and so is one whose variable is set.
* Tests that show the same on every engine (marked ``any_engine``) run on the first one only, and on none when
  ``CHOKAQ_TEST_ANY_ENGINE=elsewhere`` says that another run has them.
* Each engine runs in two parts, with a database each: tests that start processes and wait for them, and all others.
  Four parts run at the same time where there are two processors; ``CHOKAQ_TEST_LANES`` says how many do. Their outputs
  come one after the other.

Django makes the database that the tests use, ``test_`` before the name in the URL, and drops it afterwards: the user
needs the right to create databases. A URL's query string becomes Django's ``OPTIONS``, percent-encoded::

    CHOKAQ_TEST_MSSQL_URL='mssql://sa:secret@host:1433/chokaq?python_driver=mssql_python&extra_params=TrustServerCertificate%3Dyes'
    CHOKAQ_TEST_MSSQL_URL='mssql://sa:secret@host/chokaq?driver=ODBC%20Driver%2018%20for%20SQL%20Server&extra_params=Encrypt%3Dno'

The last line adds the engines' results up in pytest's own form. Exit code: 0 when every engine passed.
"""

from __future__ import annotations

import hashlib
import os
import queue
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db.utils import ConnectionHandler

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from example_project.databases import database_from_url  # noqa: E402 - found by the line above

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


def own_name() -> str:
    """A database name of this folder's own: two checkouts on one machine do not drop each other's test database."""
    return f"chokaq_{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}_py{PYTHON}"


def postgresql() -> Engine:
    url = os.environ.get("CHOKAQ_TEST_POSTGRES_URL") or f"postgres://postgres@127.0.0.1:5432/{own_name()}"
    _, why = probe(url, "postgres", "SELECT version()")
    return Engine("postgresql", missing=why) if why else Engine("postgresql", url)


def mariadb() -> Engine:
    url = os.environ.get("CHOKAQ_TEST_MARIADB_URL") or f"mysql://root@127.0.0.1:3306/{own_name()}"
    version, why = probe(url, "", "SELECT VERSION()")
    if why:
        return Engine("mariadb", missing=why)
    return Engine("mariadb" if "MariaDB" in version else "mysql", url)


def mssql() -> Engine:
    url = os.environ.get("CHOKAQ_TEST_MSSQL_URL")
    if not url:
        return Engine("mssql", missing="CHOKAQ_TEST_MSSQL_URL is not set")
    _, why = probe(url, None, "SELECT @@VERSION")
    return Engine("mssql", missing=why) if why else Engine("mssql", url)


def probe(url: str, database: str | None, question: str) -> tuple[str, str]:
    """The answer of the server at ``url``, through Django and the driver that the tests will use; or why there is none.

    ``database``: one that is always there to connect to.
    """
    config = {**database_from_url(url), "NAME": database, "CONN_HEALTH_CHECKS": False}
    connection = None
    try:
        connection = ConnectionHandler({"default": config})["default"]
        with connection.cursor() as cursor:
            cursor.execute(question)
            return str(cursor.fetchone()[0]), ""
    except ImproperlyConfigured as error:
        return "", f"no driver: {str(error).splitlines()[0]}"
    except Exception as error:  # noqa: BLE001 - of any driver, also one whose own libraries are missing
        return "", f"not to be had at {config['HOST']}:{config['PORT']}: {(str(error) or repr(error)).splitlines()[0]}"
    finally:
        if connection is not None:
            connection.close()


FINDERS = {"sqlite": sqlite, "postgresql": postgresql, "mariadb": mariadb, "mssql": mssql}
VARIABLES = {
    "postgresql": "CHOKAQ_TEST_POSTGRES_URL",
    "mariadb": "CHOKAQ_TEST_MARIADB_URL",
    "mssql": "CHOKAQ_TEST_MSSQL_URL",
}


WAITING = ("tests/browser", "tests/chaos", "tests/worker")
"""Folders whose tests wait for processes most of their time."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the suite: what it is called, and the folders or tests that it runs."""

    name: str
    places: tuple[str, ...]


class Run:
    """pytest on one engine, in a thread of its own; ``lines`` ends with None."""

    def __init__(self, engine: Engine, part: Part, arguments: list[str], *, is_first: bool) -> None:
        """``arguments``: of pytest, but for what to run."""
        self.engine, self.part, self._is_first = engine, part, is_first
        self._arguments = [*arguments, *part.places]
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.code, self.counts = 1, Counter[str]()

    def __call__(self) -> None:
        try:
            self._pytest()
        finally:
            self.lines.put(None)

    def _pytest(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--create-db", *self._arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": of_part(self.engine.url or "", self.part.name),
                **({} if self._is_first else {"CHOKAQ_TEST_ANY_ENGINE": "elsewhere"}),
                "PYTHONUNBUFFERED": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        closing = ""
        for line in process.stdout:
            self.lines.put(line)
            closing = line.strip() or closing
        self.code = process.wait()
        plain = re.sub(r"\x1b\[[\d;]*m", "", closing)
        found = SUMMARY.match(plain)
        if found:
            for number, word in re.findall(r"(\d+) ([a-z]+)", found["counts"]):
                self.counts[word.rstrip("s") if word in {"errors", "warnings"} else word] += int(number)
        if self.code not in {0, 1, NO_TESTS} or (self.code != NO_TESTS and not self.counts):
            self.counts["error"] += 1  # pytest itself did not come to its end

    def show(self) -> None:
        """Print its output as it comes, from the start, until it has ended."""
        print(f"\n======== {' '.join(filter(None, (self.engine.name, self.part.name)))} ========", flush=True)
        while (line := self.lines.get()) is not None:
            print(line, end="", flush=True)


def names_tests(argument: str) -> bool:
    """Whether an argument of pytest says which tests to run."""
    return not argument.startswith("-") and (ROOT / argument.split("::")[0]).exists()


def of_part(url: str, part: str) -> str:
    """The URL of a database of the part's own beside the one at ``url``."""
    if not part:
        return url
    place, mark, options = url.partition("?")
    folder, slash, name = place.rpartition("/")
    path = Path(name)
    return f"{folder}{slash}{path.stem}_{part}{path.suffix}{mark}{options}"


def parts(arguments: Sequence[str]) -> list[Part]:
    """Of a run with these arguments of pytest; the longest first. Who names tests gets those, in one part."""
    if any(map(names_tests, arguments)):
        return [Part("", ())]
    tests = ROOT / "tests"
    found = sorted({f"tests/{path.relative_to(tests).parts[0]}" for path in tests.rglob("test_*.py")})
    waiting = tuple(place for place in found if place in WAITING)
    return [Part("waiting", waiting), Part("computing", tuple(place for place in found if place not in WAITING))]


def together(codes: Sequence[int]) -> int:
    """The exit code of an engine whose parts ended so. A signal that ended one is a negative number; a part without
    tests is well where another has some."""
    bad = [code for code in codes if code not in {0, NO_TESTS}]
    return bad[0] if bad else min(codes)


def lanes() -> int:
    """How many parts run at the same time. The suite waits about half of its time, for events and for disks."""
    return int(os.environ.get("CHOKAQ_TEST_LANES") or (1 if (os.cpu_count() or 1) < 2 else 4))


def main(arguments: list[str]) -> int:
    wanted = [name.strip() for name in os.environ.get("CHOKAQ_TEST_ENGINES", "").split(",") if name.strip()]
    unknown = set(wanted) - FINDERS.keys()
    if unknown:
        print(f"CHOKAQ_TEST_ENGINES names {', '.join(sorted(unknown))}; there are: {', '.join(FINDERS)}")
        return 2
    began = time.monotonic()
    settings.configure(USE_TZ=True)
    django.setup()  # for the probes: no app, no database
    names = [name for name in FINDERS if not wanted or name in wanted]
    engines = [FINDERS[name]() for name in names]
    demanded = {name for name in names if name in wanted or os.environ.get(VARIABLES.get(name, ""))}
    print("Engines of this run:")
    for engine in engines:
        print(f"  {engine.name:<11} {'runs' if engine.url else 'left out: ' + engine.missing}")

    found = [engine for engine in engines if engine.url]
    runs = [Run(engine, part, arguments, is_first=engine is found[0]) for part in parts(arguments) for engine in found]
    with ThreadPoolExecutor(lanes()) as pool:
        ends = [pool.submit(run) for run in runs]
        for run in runs:
            run.show()
    for end in ends:
        end.result()  # raises what kept a run from being one, such as a pytest that cannot be started

    total: Counter[str] = Counter()
    results = []
    for engine in engines:
        if engine.url:
            of_engine = [run for run in runs if run.engine is engine]
            counts = sum((run.counts for run in of_engine), Counter())
            code = together([run.code for run in of_engine])
        else:
            code, counts = (1, Counter(error=1)) if engine.name in demanded else (0, Counter())
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
