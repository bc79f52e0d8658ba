"""What a page shows that no translation has made: read from its HTML while every translated text stands in brackets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.utils import translation

OPEN, CLOSE = "⟦", "⟧"
_DATA = {"code", "pre", "script", "style", "time", "kbd", "svg", "textarea", "template"}
"""Elements of which nothing is to be translated: code, values, moments, keys."""
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_SAID = ("title", "aria-label", "aria-description", "placeholder", "alt", "data-label", "label")
_WORD = re.compile(r"(?<!\S)[(“]?([^\W\d_]{2,}(?:[-'’][^\W\d_]+)*)[.,:;!?)”…]*(?!\S)")
"""A word as people write them: what has digits, dots, quotes or lines in it is a name or a value."""


def pseudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text that is translated from now on stands in brackets; lazy ones too, wherever they are made."""

    def in_brackets(text: str) -> str:
        return f"{OPEN}{text}{CLOSE}" if text else text

    catalogue: Any = translation._trans
    monkeypatch.setattr(catalogue, "gettext", in_brackets)
    monkeypatch.setattr(catalogue, "pgettext", lambda context, text: in_brackets(text))
    monkeypatch.setattr(catalogue, "ngettext", lambda one, many, n: in_brackets(one if n == 1 else many))
    monkeypatch.setattr(catalogue, "npgettext", lambda context, one, many, n: in_brackets(one if n == 1 else many))


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stream: list[str] = []
        self.attributes: list[str] = []
        self._open: list[tuple[str, bool]] = []

    @property
    def _is_data(self) -> bool:
        return any(is_data for _, is_data in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        is_data = tag in _DATA
        if not self._is_data and tag not in ("script", "style", "link", "meta"):
            self.attributes += [named[name] or "" for name in _SAID if name in named]
            if tag == "input" and named.get("type") in ("submit", "button"):
                self.attributes.append(named.get("value") or "")
        if tag not in _VOID:
            self._open.append((tag, is_data))

    def handle_endtag(self, tag: str) -> None:
        if any(name == tag for name, _ in self._open):
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.stream += ["\n", "" if self._is_data else data]


def _outside(text: str) -> Iterator[str]:
    """The parts of ``text`` that are in no brackets."""
    depth, part = 0, ""
    for character in text:
        if character == OPEN:
            depth += 1
            yield part
            part = ""
        elif character == CLOSE:
            depth = max(0, depth - 1)
        elif not depth:
            part += character
    yield part


def untranslated(html: str, data: Collection[str]) -> list[str]:
    """Lines of visible text with a word that is neither translated nor one of ``data``."""
    texts = _Texts()
    texts.feed(html)
    parts = [*_outside("".join(texts.stream)), *(part for text in texts.attributes for part in _outside(text))]
    lines = {line.strip() for part in parts for line in part.split("\n")}
    return sorted(line for line in lines if any(word.lower() not in data for word in _WORD.findall(line)))
