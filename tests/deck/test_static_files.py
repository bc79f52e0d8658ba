"""The Deck's files under storages that give each a name with its hash: every name in a page and a module leads on."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage
from django.core.management import call_command
from django.template import Context, Template
from django.test import Client

from chokaq_django.deck.page import LivePage
from chokaq_django.deck.site import PAGES
from tests.helpers import ROOT

pytestmark = pytest.mark.django_db

IMPORTED = re.compile(
    r"""(?:^|[\s;])(?:import|export)\b[^;"'`()]*?["']([./][^"']*)["']"""
    r"""|\bimport\(\s*["']([^"']+)["']\s*\)"""
)
CDN = "https://cdn.example.com/s/"
HASHED = re.compile(r"\.[0-9a-f]{12}\.js$")


class AggregatingStorage(ManifestStaticFilesStorage):
    """One that writes the hashed names into the modules too."""

    support_js_module_import_aggregation = True


@pytest.fixture(params=[ManifestStaticFilesStorage, AggregatingStorage], ids=["entries", "all modules"])
def root(request: Any, settings: Any, tmp_path: Path) -> Path:
    """STATIC_ROOT, collected, of a project whose files are on another host."""
    settings.STATIC_ROOT, settings.STATIC_URL, settings.DEBUG = str(tmp_path), CDN, False
    path = f"{request.param.__module__}.{request.param.__name__}"
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": path}}
    call_command("collectstatic", interactive=False, verbosity=0)
    return tmp_path


def modules_from(root: Path, entry: str) -> dict[str, str]:
    """Every module that the browser loads with the entry: its name to the module that imports it."""
    found, look = {entry: ""}, [entry]
    while look:
        name = look.pop()
        for static, dynamic in IMPORTED.findall((root / name).read_text()):
            other = posixpath.normpath(posixpath.join(posixpath.dirname(name), static or dynamic))
            if other not in found:
                assert (root / other).is_file(), f"{name} imports {static or dynamic}"
                found[other] = name
                look.append(other)
    return found


def entries() -> set[str]:
    """The scripts that pages name."""
    templates = (ROOT / "chokaq_django/templates").rglob("*.html")
    named = {name for path in templates for name in re.findall(r"static '([^']+\.js)'", path.read_text())}
    pages = [page for page in PAGES if issubclass(page, LivePage)]
    assert named
    assert pages
    return named | {page.script for page in pages}


def test_every_module_is_found_once(root: Path, request: Any) -> None:
    """One that a page loaded by two names would be there twice, with a state of its own each."""
    loaded: dict[str, set[str]] = {}
    for entry in entries():
        address = Template("{% load static %}{% static name %}").render(Context({"name": entry}))
        assert address.startswith(CDN)
        for name in modules_from(root, address.removeprefix(CDN)):
            loaded.setdefault(HASHED.sub(".js", name), set()).add(name)
    assert any("uPlot" in name for name in loaded)
    assert [names for names in loaded.values() if len(names) > 1] == []
    by_hash = {name for names in loaded.values() for name in names if HASHED.search(name)}
    assert len(by_hash) == (len(entries()) if "entries" in request.node.name else len(loaded))


def test_a_page_names_files_of_the_other_host_and_loads_nothing_else(root: Path, deck: Client) -> None:
    page = deck.get("/admin/chokaq/deck/").content.decode()
    named = re.findall(r'<(?:script|link)[^>]*(?:src|href)="([^"]+)"', page)
    assert sum(name.startswith(f"{CDN}chokaq/") for name in named) > 5
    assert {name for name in named if not name.startswith(CDN)} == {"/admin/chokaq/deck/jsi18n/"}
    assert "integrity=" not in page
