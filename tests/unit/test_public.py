"""The package itself: its names, and that importing it needs nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chokaq_django
from chokaq_django import control
from tests.helpers import ROOT


def test_every_public_name_loads() -> None:
    for name in chokaq_django.__all__:
        assert getattr(chokaq_django, name) is not None
    assert set(chokaq_django.__all__) <= set(dir(chokaq_django))


def test_type_checkers_see_the_same_names() -> None:
    source = Path(chokaq_django.__file__).read_text()
    (block,) = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    seen = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == set(chokaq_django.__all__) - {"__version__"}
    assert (Path(chokaq_django.__file__).parent / "py.typed").exists()


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'enqeue'"):
        _ = chokaq_django.enqeue


def test_importing_needs_no_django() -> None:
    code = (
        "import sys, chokaq_django; dir(chokaq_django); assert 'django' not in sys.modules;"
        "from chokaq_django import Job, JobContext, FatalJobError, handles, register;"
        "assert 'django.db.models' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(chokaq_django.__file__).parents[1])


def test_the_reference_of_control_has_its_public_names_and_no_other() -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / "docs/reference/control.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    called = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    named = set(re.findall(r"`(\w+)[`(]", text))
    assert set(control.__all__) - named == set()
    assert called - set(control.__all__) == set()
    assert all(hasattr(control, name) for name in control.__all__)
