"""The catalogues that come with the package say everything, and what they say has the same places for values."""

from __future__ import annotations

import re
from pathlib import Path

import polib
import pytest
from django.utils import translation

from tests import messages

PLACE = re.compile(r"%(?:\(\w+\))?[sdr%]|</?\w+>|`[^`]*`")
EACH = [(language, domain) for language in messages.languages() for domain in messages.DOMAINS]


def read(language: str, domain: str) -> polib.POFile:
    return polib.pofile(str(messages.catalogue(language, domain)))


def keys(entries: polib.POFile) -> set[tuple[str, str, str]]:
    return {(entry.msgctxt or "", entry.msgid, entry.msgid_plural) for entry in entries if not entry.obsolete}


def test_there_are_texts_of_all_kinds() -> None:
    pages, scripts = messages.texts("django"), messages.texts("djangojs")
    assert pages["", "Overview"].places == ["deck/navigation.py", "deck/pages/overview.py"]
    assert pages["", "%(n)s more kind."].places == ["templates/chokaq/deck/bulk_counts.html"]
    assert pages["", "%(n)s more kind."].plural == "%(n)s more kinds."
    assert scripts["", "%(count)s more"].plural == "%(count)s more"
    assert scripts["", "the queue %(name)s is paused."].places == ["reading/waiting.py"], "browsers say it too"
    assert ("", "The job is in the Trash.") not in scripts


@pytest.mark.parametrize(("language", "domain"), EACH)
def test_every_text_is_translated(language: str, domain: str) -> None:
    """Where it is not: ``python -m tests.messages``, and translate what is new."""
    there = read(language, domain)
    known = {(context, text, found.plural) for (context, text), found in messages.texts(domain).items()}
    assert keys(there) == known, "python -m tests.messages brings the catalogues up to date"
    assert [entry.msgid for entry in there if not entry.translated()] == []
    assert [entry.msgid for entry in there if entry.fuzzy or entry.obsolete] == []


@pytest.mark.parametrize(("language", "domain"), EACH)
def test_translations_have_the_same_places_and_code(language: str, domain: str) -> None:
    wrong = []
    for entry in read(language, domain):
        wanted = sorted(PLACE.findall(entry.msgid_plural or entry.msgid))
        for number, said in entry.msgstr_plural.items() if entry.msgid_plural else [(1, entry.msgstr)]:
            found = sorted(PLACE.findall(said))
            # One may be said without its number: "once".
            if found != wanted and not (entry.msgid_plural and number == 0 and set(found) <= set(wanted)):
                wrong.append((entry.msgid, said))
    assert wrong == []


@pytest.mark.parametrize(("language", "domain"), EACH)
def test_what_is_compiled_is_what_is_written(language: str, domain: str) -> None:
    path = messages.catalogue(language, domain)
    compiled = polib.mofile(str(path.with_suffix(".mo")))
    said = {(e.msgctxt or "", e.msgid): (e.msgstr, e.msgstr_plural) for e in read(language, domain)}
    assert {(e.msgctxt or "", e.msgid): (e.msgstr, e.msgstr_plural) for e in compiled} == said


def test_a_catalogue_keeps_what_is_translated_and_drops_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "LOCALES", tmp_path)
    many = len(messages.texts("django")) + len(messages.texts("djangojs"))
    assert messages.update("fr") == many, "none has been translated"
    path = messages.catalogue("fr", "django")
    made = polib.pofile(str(path))
    made.find("Overview").msgstr = "Vue d'ensemble"
    made.append(polib.POEntry(msgid="nothing says this", msgstr="rien"))
    made.save()
    assert messages.update("fr") == many - 1
    again = polib.pofile(str(path))
    assert again.find("Overview").msgstr == "Vue d'ensemble"
    assert again.find("nothing says this") is None


def test_german_is_spoken() -> None:
    with translation.override("de"):
        assert translation.gettext("Failures") == "Fehlschläge"
        assert translation.ngettext("%(count)s job", "%(count)s jobs", 1) == "%(count)s Job"
