"""Pages that a script draws: all of their texts can be translated, and come in the viewer's language."""

from __future__ import annotations

import datetime as dt
import platform
import re

import pytest
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from chokaq_django import enqueue
from chokaq_django.models import Circuit, FailureReason, JobHot
from chokaq_django.storage import get_storage
from tests import factories as make
from tests.deck.test_translation import DATA
from tests.deck.visible import CLOSE, OPEN, untranslated
from tests.helpers import wait_until
from tests.jobs import ProgressJob

from .conftest import Deck, Gate

pytestmark = pytest.mark.any_engine

IN_BRACKETS = f"""
window.gettext = (text) => "{OPEN}" + text + "{CLOSE}";
window.ngettext = (one, many, count) => "{OPEN}" + (count === 1 ? one : many) + "{CLOSE}";
"""


def rows() -> None:
    """What makes each panel say something: a late queue, a dead worker, an open circuit, failures, happenings."""
    hour_ago = timezone.now() - dt.timedelta(hours=1)
    make.queue("mail", max_workers=1)
    make.queue("night", window_start=dt.time(1), window_end=dt.time(1, 0, 1), window_zone="UTC")
    make.queue("paused", is_paused=True)
    make.hot(queue="paused", run_at=hour_ago, due_at=hour_ago)
    make.hot(queue="nowhere", run_at=timezone.now() + dt.timedelta(hours=1))
    make.worker("gone", host="web", last_seen=hour_ago, clock_offset=-3.0, clock_doubt=0.1)
    make.circuit("test.note", state=Circuit.OPEN, failures=5, open_until=timezone.now() + dt.timedelta(hours=1))
    make.dead(failed_at=timezone.now())
    make.dead(failure_reason=FailureReason.EXPIRED, fingerprint="12" * 16)
    make.archived()
    make.audit_entry(action="pause_queue", target="mail")
    get_storage().recount_groups()


def texts_left(page: Page) -> list[str]:
    """The words in what the script has drawn that no translation made."""
    drawn = page.locator("#chokaq-panels")
    expect(drawn).not_to_contain_text("Reading…", timeout=15_000)
    expect(drawn.locator(f"text={OPEN}").first).to_be_visible()
    # Without the reasons of acts: the server remembers those of earlier tests.
    said = re.sub("“[^”]*”", "", drawn.inner_html())
    return untranslated(said, DATA | {"nowhere", "gone", platform.node().lower()})


def test_every_word_of_the_panels_can_be_translated(deck: Deck) -> None:
    rows()
    context = deck.user()
    in_brackets = re.compile(r".*/deck/jsi18n/")

    def answer(route: Route) -> None:
        route.fulfill(content_type="text/javascript", body=IN_BRACKETS)

    context.route(in_brackets, answer)
    left = {}
    for name in ("", "queues/", "fleet/", "circuits/", "queue/?name=paused"):
        page = deck.open(f"/admin/chokaq/deck/{name}", context=context)
        if found := texts_left(page):
            left[name] = found
    assert left == {}


def test_a_page_and_what_comes_live_are_in_the_viewers_language(deck: Deck) -> None:
    make.queue("paused", is_paused=True)
    waiting = make.hot(queue="paused", type="a.type")
    make.circuit("a.type", state=Circuit.OPEN, forced=True)
    german = deck.user(locale="de-DE", username="gerda")
    page = deck.open(context=german)
    expect(page.get_by_role("heading", name="Übersicht")).to_be_visible()
    expect(page.get_by_text("Der Schutzschalter von a.type ist offen, von Hand: Dessen Jobs warten.")).to_be_visible()
    other = deck.open(context=deck.user(username="ada"))
    expect(other.get_by_text("The circuit of a.type is open, by an operator: its jobs wait.")).to_be_visible()

    make.dead()
    page = deck.open("/admin/chokaq/jobdlq/", context=german)
    expect(page.locator(".action-counter")).to_have_text("0 von 1 ausgewählt")

    page = deck.open(f"/admin/chokaq/deck/job/{waiting.pk}/", context=german)
    hold = page.locator('[data-hold="paused"] [data-hold-text]')
    expect(hold).to_have_text("Die Queue paused ist angehalten.")
    waiting.run_at = waiting.due_at = timezone.now() + dt.timedelta(hours=3)
    waiting.save()
    expect(page.locator('[data-hold="due"] [data-hold-text]')).to_have_text(
        re.compile(r"Er ist in (3 h|2 h 59 min) fällig\.")
    )


BROKEN = """() => {
  const lines = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return new Set([...range.getClientRects()].map((rect) => Math.round(rect.top))).size;
  };
  const right = (element) => element.getBoundingClientRect().right;
  const labels = [...document.querySelectorAll(".chokaq-tiles-overview .chokaq-tile-label")];
  const kinds = [...document.querySelectorAll(".chokaq-line-kind")];
  return [
    ...labels.filter((label) => lines(label) > 1 || label.scrollWidth > label.clientWidth),
    ...kinds.filter((kind) => right(kind) > kind.nextElementSibling.getBoundingClientRect().left),
  ].map((element) => element.textContent);
}"""


def test_long_words_have_room(deck: Deck) -> None:
    rows()
    page = deck.open(context=deck.user(locale="de-DE", username="gerda"))
    expect(page.locator(".chokaq-tile-label", has_text="Fehlgeschlagen")).to_be_visible()
    expect(page.locator(".chokaq-line-kind").first).to_be_visible()
    assert page.evaluate(BROKEN) == []


def test_shares_are_written_as_in_the_viewers_language(deck: Deck, gate: Gate) -> None:
    # One that runs: a row that nobody keeps alive is brought away by the worker within seconds.
    job = enqueue(ProgressJob(gate=gate("shares")))
    wait_until(lambda: JobHot.objects.filter(pk=job.id, progress=50).exists(), what="it is half done")
    page = deck.open(f"/admin/chokaq/deck/job/{job.id}/", context=deck.user(locale="de-DE", username="gerda"))
    expect(page.locator("#chokaq-job-progress .chokaq-progress-text")).to_have_text("50\u00a0%")
    page = deck.open(f"/admin/chokaq/deck/job/{job.id}/", context=deck.user(username="ada"))
    expect(page.locator("#chokaq-job-progress .chokaq-progress-text")).to_have_text("50%")
