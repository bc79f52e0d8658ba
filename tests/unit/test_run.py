"""The program that runs the suite on every engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .. import run

ROOT = Path(__file__).resolve().parents[2]
BROKEN = """
from tests import run
run.sys.executable = "/nowhere/python"
raise SystemExit(run.main([]))
"""


def test_a_run_that_cannot_be_started_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN],
        cwd=ROOT,
        env={**os.environ, "CHOKAQ_TEST_ENGINES": "sqlite"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "/nowhere/python" in done.stderr


def test_the_parts_together_are_every_folder_that_holds_tests_once() -> None:
    tests = ROOT / "tests"
    holding = {path for path in tests.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))}
    parts = run.parts(["-q"])
    places = [ROOT / place for part in parts for place in part.places]
    assert len(places) == len(set(places))
    assert set(places) == holding
    assert all(part.places for part in parts)
    assert [part.places for part in run.parts(["-q", "tests/unit"])] == [()]


@pytest.mark.parametrize(
    ("codes", "code"),
    [([0, 0], 0), ([0, 5], 0), ([5, 5], 5), ([0, 1], 1), ([2, 0], 2), ([0, -9], -9), ([-11, 5], -11), ([1], 1)],
)
def test_an_engine_is_well_when_each_of_its_parts_is(codes: list[int], code: int) -> None:
    assert run.together(codes) == code


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("sqlite:////tmp/x/tests-py311.sqlite3", "sqlite:////tmp/x/tests-py311_a.sqlite3"),
        ("postgres://postgres@127.0.0.1:5432/jobs", "postgres://postgres@127.0.0.1:5432/jobs_a"),
        (
            "mssql://sa:s%2Fx@h:1433/chokaq?driver=ODBC%20Driver%2018",
            "mssql://sa:s%2Fx@h:1433/chokaq_a?driver=ODBC%20Driver%2018",
        ),
    ],
)
def test_each_part_has_a_database_of_its_own(url: str, own: str) -> None:
    assert run.of_part(url, "a") == own
    assert run.of_part(url, "") == url


def test_who_names_tests_gets_those() -> None:
    assert run.names_tests("tests/unit")
    assert run.names_tests("tests/unit/test_run.py::test_who_names_tests_gets_those")
    assert not any(map(run.names_tests, ["-q", "-m", "not chaos and not slow", "-k", "enqueue"]))
