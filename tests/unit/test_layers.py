"""Imports point down: each layer of the package knows those below it, and nothing of those above.

Within a layer any module may import any other. Imports within functions count too: they hide a knot and leave it tied.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import chokaq_django

ROOT = Path(chokaq_django.__file__).parent

LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "sentence",
        "job",  # what a job is: classes, payloads, failures
        "conf observability",
        "models",
        "storage",
        "request channel_wake channel_listener wake",
        "producer testing",
        "reading",  # what is in the tables, for people
        "control",  # what operators do
        "worker",
        "checks health",
        "doctor health_views",
        "api deck",
        "cli",
        "admin api_urls apps health_urls management migrations templatetags",
    )
)
"""From the lowest to the highest, by the first part below the package."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

UPWARD = {
    ("job/codec.py", "conf"): "how large a payload may be is an option, and options are made of durations and policies",
}
"""The imports that point up, each with its reason."""


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The first part below the package of each module that this one imports."""
    package = ("chokaq_django", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = [*base, *(node.module.split(".") if node.module else ())]
            # ``from . import x`` and ``from chokaq_django import x`` name a part, or a name of the package itself.
            names = [[*module, alias.name] for alias in node.names] if len(module) == 1 else [module]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            continue
        yield from (parts[1] for parts in names if parts[0] == "chokaq_django" and len(parts) > 1)


def modules() -> list[Path]:
    """All but the package itself, which gives the public names of all layers."""
    return [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or path.name != "__init__.py"]


def test_every_part_has_its_layer() -> None:
    assert len(LEVEL) == sum(map(len, LAYERS)), "one twice"
    assert {part_of(path) for path in modules()} == set(LEVEL)


def test_imports_point_down() -> None:
    up = {
        (str(path.relative_to(ROOT)), name)
        for path in modules()
        for name in imported(path)
        if LEVEL.get(name, 0) > LEVEL[part_of(path)]  # __version__ is the package's own
    }
    assert up == set(UPWARD)


def test_imports_are_seen() -> None:
    assert {"storage", "wake", "reading"} <= set(imported(ROOT / "control" / "jobs.py"))
    assert "channel_wake" in set(imported(ROOT / "wake.py")), "from . import channel_wake"
