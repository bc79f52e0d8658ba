"""Operators' verbs on dead jobs, for tests of what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chokaq_django import control

VERBS: dict[str, Callable[[list[str]], Any]] = {
    "edit": lambda ids: control.edit(ids, by="ada", queue="else"),
    "purge": lambda ids: control.purge(ids, by="ada"),
    "resurrect": lambda ids: control.resurrect(ids, by="ada"),
    "annotate": lambda ids: control.annotate(ids, by="ada", note="hm"),
}
