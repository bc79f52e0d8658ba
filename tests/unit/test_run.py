"""The program that runs the suite on every engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
