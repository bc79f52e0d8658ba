"""The texts that can be translated, and the catalogues: ``python -m tests.messages [language]``.

Brings the catalogues of a language up to date with the sources and compiles them; without a language, all that there
are. It needs no GNU gettext, which most machines lack. Two catalogues for each language, as Django has them: ``django``
for pages, ``djangojs`` for scripts, with the sentences in it that servers leave to browsers.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polib
from django.utils.translation.template import templatize

import chokaq_django

PACKAGE = Path(chokaq_django.__file__).parent
LOCALES = PACKAGE / "locale"
DOMAINS = ("django", "djangojs")
SPOKEN = ("health/__init__.py", "health/fleet.py", "reading/waiting.py", "storage/bulk_rules.py")
"""Whose sentences servers leave to browsers."""

_SINGLE = {"_", "gettext", "gettext_lazy", "gettext_noop", "Sentence", "stored"}
_PLURAL = {"ngettext", "ngettext_lazy"}
_CONTEXT = {"pgettext", "pgettext_lazy"}
_STRING = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\$]|\\.)*`)"""
_JS = re.compile(rf"(?<![\w.])(_|ngettext)\(\s*{_STRING}(?:\s*,\s*{_STRING})?")
_FORMATTED = re.compile(r"%\(\w+\)[sd]")


@dataclass
class Text:
    """One text: ``key`` is (context, text); where it stands, and its form for many."""

    plural: str = ""
    places: list[str] = field(default_factory=list)


Texts = dict[tuple[str, str], Text]


@functools.cache
def texts(domain: str) -> Texts:
    """All texts of the sources, in the order of their files."""
    found: Texts = {}
    for path in sorted(PACKAGE.rglob("*")):
        name = path.relative_to(PACKAGE).as_posix()
        if "/vendor/" in name or name.startswith("migrations/") or not path.is_file():
            continue
        for context, text, plural, is_spoken in _of(path, domain):
            if domain == "djangojs" and path.suffix == ".py" and not (is_spoken and name in SPOKEN):
                continue
            known = found.setdefault((context, text), Text())
            known.plural = known.plural or plural
            if name not in known.places:
                known.places.append(name)
    return found


def _of(path: Path, domain: str) -> Iterator[tuple[str, str, str, bool]]:
    if path.suffix == ".py":
        yield from _python(path.read_text())
    elif path.suffix == ".js" and domain == "djangojs":
        yield from _script(path.read_text())
    elif path.suffix == ".html" and domain == "django":
        # Pages become Python in which everything but their texts is filled with X.
        yield from _template(templatize(path.read_text(), origin=str(path)))


def _python(source: str) -> Iterator[tuple[str, str, str, bool]]:
    tree = ast.parse(source)
    sentences = "Sentence(" in source
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        given = [text for argument in node.args for text in [_strings(argument)] if text]
        if name in _SINGLE and given and _strings(node.args[0]):
            for text in given[0]:
                yield "", text, "", name in ("Sentence", "stored") or (name == "gettext_noop" and sentences)
        elif name in _PLURAL and len(given) > 1:
            yield "", given[0][0], given[1][0], False
        elif name in _CONTEXT and len(given) > 1:
            yield given[0][0], given[1][0], "", False


def _strings(node: ast.expr) -> list[str]:
    """The text of a literal, or both of a choice between two."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*_strings(node.body), *_strings(node.orelse)]
    return []


_CALL = re.compile(
    rf"(?<!\w)(gettext|_|ngettext|pgettext|npgettext)\(\s*u?{_STRING}(?:\s*,\s*u?{_STRING})?(?:\s*,\s*u?{_STRING})?"
)


def _template(source: str) -> Iterator[tuple[str, str, str, bool]]:
    for name, *given in _CALL.findall(source):
        read = [ast.literal_eval(text) for text in given if text]
        if name in ("gettext", "_"):
            yield "", read[0], "", False
        elif name == "ngettext":
            yield "", read[0], read[1], False
        else:
            yield read[0], read[1], read[2] if len(read) > 2 else "", False


def _script(source: str) -> Iterator[tuple[str, str, str, bool]]:
    for name, one, many in _JS.findall(source):
        yield "", _unquoted(one), _unquoted(many) if name == "ngettext" else "", True


def _unquoted(literal: str) -> str:
    return re.sub(r"\\(.)", r"\1", literal[1:-1])


# -- catalogues --------------------------------------------------------------------------------------------------------


def catalogue(language: str, domain: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / f"{domain}.po"


def updated(old: polib.POFile, found: Texts) -> polib.POFile:
    """``old`` with the texts that there are now: what is new has no translation yet, what is gone is gone."""
    new = polib.POFile(wrapwidth=120)
    new.metadata, new.header = old.metadata, old.header
    known = {(entry.msgctxt or "", entry.msgid): entry for entry in old if not entry.obsolete}
    for (context, text), here in found.items():
        entry = polib.POEntry(msgid=text, msgctxt=context or None, occurrences=[(place, "") for place in here.places])
        before = known.get((context, text))
        if _FORMATTED.search(text):
            entry.flags.append("python-format")
        if here.plural:
            entry.msgid_plural = here.plural
            forms = before.msgstr_plural if before is not None and before.msgid_plural == here.plural else {}
            entry.msgstr_plural = {number: forms.get(number, "") for number in range(_forms(new))}
        else:
            entry.msgstr = before.msgstr if before is not None and not before.msgid_plural else ""
        new.append(entry)
    return new


def _forms(catalogue: polib.POFile) -> int:
    match = re.search(r"nplurals=(\d+)", catalogue.metadata.get("Plural-Forms", ""))
    return int(match[1]) if match else 2


def update(language: str) -> int:
    """Bring both catalogues of a language up to date; how many texts lack a translation."""
    missing = 0
    for domain in DOMAINS:
        path = catalogue(language, domain)
        path.parent.mkdir(parents=True, exist_ok=True)
        old = polib.pofile(str(path), wrapwidth=120) if path.exists() else _empty(language)
        new = updated(old, texts(domain))
        new.save(str(path))
        new.save_as_mofile(str(path.with_suffix(".mo")))
        missing += len(new.untranslated_entries())
    return missing


def _empty(language: str) -> polib.POFile:
    made = polib.POFile(wrapwidth=120)
    made.metadata = {
        "Project-Id-Version": "chokaq-django",
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": "nplurals=2; plural=(n != 1);",
    }
    return made


def languages() -> list[str]:
    return sorted(path.name for path in LOCALES.iterdir() if path.is_dir()) if LOCALES.exists() else []


def main(given: list[str]) -> None:
    for language in given or languages():
        print(f"{language}: {update(language)} without a translation")


if __name__ == "__main__":
    main(sys.argv[1:])
