"""The program that runs the suite on every engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_every_engine_runs_every_folder_and_begins_with_another() -> None:
    tests = ROOT / "tests"
    holding = {path for path in tests.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))}
    orders = [run.places(turn, 3) for turn in range(3)]
    for order in orders:
        assert len(order) == len(holding)
        assert {ROOT / place for place in order} == holding
    assert len({order[0] for order in orders}) == 3
    assert run.places(0, 1) == sorted(orders[0])


def test_who_names_tests_gets_those() -> None:
    assert run.names_tests("tests/unit")
    assert run.names_tests("tests/unit/test_run.py::test_who_names_tests_gets_those")
    assert not any(map(run.names_tests, ["-q", "-m", "not chaos and not slow", "-k", "enqueue"]))
