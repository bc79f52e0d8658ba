"""Many jobs at once: looked at, frozen, confirmed, watched, and taken back."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from chokaq_django.models import JobArchive, JobDLQ, JobTrash
from tests import factories as make

from .conftest import PHONE, Deck

NEW = "/admin/chokaq/deck/bulk/new/"


def state(page: Page, name: str) -> None:
    expect(page.locator("#chokaq-bulk")).to_have_attribute("data-state", name)


def figure(page: Page, name: str, text: str) -> None:
    expect(page.locator(f'.chokaq-tile-value[data-live="{name}"]')).to_have_text(text)


def test_dead_jobs_come_back_at_a_rate_while_one_watches(deck: Deck) -> None:
    for number in range(60):
        make.dead(type="test.note", payload=f'{{"name":"{number}"}}')
    page = deck.open(f"{NEW}?action=resurrect&status=dead&queue=mail")
    expect(page.locator(".chokaq-bulk-total strong")).to_have_text("60")
    expect(page.get_by_label("Drip: jobs per second")).to_have_value("50")
    expect(page.locator("[data-drip]")).to_have_text("2.0 s")
    page.get_by_label("Drip: jobs per second").fill("1")  # it still runs when everything below has been seen
    expect(page.locator("[data-drip]")).to_have_text("1 min")
    page.get_by_role("button", name="Freeze the set and review").click()
    make.dead(type="test.note")  # later than the set
    expect(page.locator(".chokaq-bulk-total")).to_contain_text("60 jobs")
    expect(page.get_by_label("Type 60 to confirm")).to_be_focused()
    page.keyboard.type("61")
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_contain_text("Nothing was done")
    page.get_by_label("Type 60 to confirm").fill("60")
    page.keyboard.press("Enter")
    state(page, "running")
    jobs = page.locator('section[aria-labelledby="jobs"]')
    expect(jobs.locator(".chokaq-badge", has_text="Succeeded").first).to_be_visible()  # the list moves with the figures
    state(page, "running")
    page.get_by_role("button", name="Pause").click()
    state(page, "paused")
    page.get_by_label("Drip").fill("200")
    page.get_by_role("button", name="Resume").click()
    state(page, "done")  # without a reload
    figure(page, "applied", "60")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    assert (JobArchive.objects.count(), JobDLQ.objects.count()) == (60, 1)


def test_a_purge_on_a_phone_and_its_undo(deck: Deck) -> None:
    ids = {make.dead().pk for _ in range(3)}
    page = deck.open(f"{NEW}?action=purge&status=dead", viewport=PHONE)
    page.get_by_label("Reason, for the audit").fill("test data")
    page.get_by_role("button", name="Freeze the set and review").click()
    page.get_by_label("Type 3 to confirm").fill("3")
    page.get_by_role("button", name="Purge 3 jobs").click()
    state(page, "done")
    assert set(JobTrash.objects.values_list("pk", flat=True)) == ids
    page.get_by_role("button", name="Undo this operation").click()
    state(page, "done")
    expect(page.locator("h1")).to_have_text("Restore")
    assert set(JobDLQ.objects.values_list("pk", flat=True)) == ids
    page.goto("/admin/chokaq/deck/bulk/")
    expect(page.locator("[data-bulk]")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
