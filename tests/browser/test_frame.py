"""The frame around every page: looks, zones, keys, narrow screens, browsers without scripts."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from chokaq_django.models import AuditEntry, Circuit, Queue
from chokaq_django.storage import get_storage
from tests import factories as make

from .conftest import DESK, PHONE, Deck
from .keys import lead

pytestmark = pytest.mark.any_engine

TOKYO = dt.timedelta(hours=9)
PAGES = ("", "queues/", "queue/?name=mail", "fleet/", "circuits/")
LOOKS = [
    (DESK, "", "light"), (DESK, "", "dark"), (DESK, "blueprint", "light"), (DESK, "carbon", "light"),
    (PHONE, "", "light"),
]  # fmt: skip
READABLE = (Path(__file__).parent / "readable.js").read_text()
LISTS = ("jobhot", "jobarchive", "jobdlq", "jobtrash", "auditentry", "queue", "worker", "circuit")


def look(page: Page) -> object:
    return page.evaluate("document.documentElement.dataset.chokaqTheme ?? 'admin'")


def ground(page: Page) -> object:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_a_look_is_chosen_and_remembered(deck: Deck) -> None:
    context = deck.user(color_scheme="light")
    page = deck.open(context=context)
    grounds = {ground(page)}
    other = deck.open("/admin/chokaq/jobdlq/", context=context)
    for name in ("blueprint", "carbon"):
        page.get_by_label("Look").select_option(name)
        grounds.add(ground(page))
        expect(other.locator("html")).to_have_attribute("data-chokaq-theme", name)  # the other tab follows
    assert len(grounds) == 3
    page.add_init_script(
        "document.addEventListener('readystatechange', () => {"
        " window.early ??= document.documentElement.dataset.chokaqTheme; })"
    )
    page.reload()
    assert page.evaluate("window.early") == "carbon"  # before any module ran
    expect(page.get_by_label("Look")).to_have_value("carbon")
    page.locator(".theme-toggle").first.click()  # admin's own switch
    expect(page.get_by_label("Look")).to_have_value("admin")
    page.reload()
    assert look(page) == "admin"


def test_admins_dark_side_carries_over(deck: Deck) -> None:
    light = ground(deck.open(context=deck.user(color_scheme="light", username="day")))
    dark = ground(deck.open(context=deck.user(color_scheme="dark", username="night")))
    assert light != dark


def test_times_are_in_the_viewers_zone_or_in_utc(deck: Deck) -> None:
    entry = make.audit_entry()
    page = deck.open(f"/admin/chokaq/auditentry/{entry.pk}/change/", timezone_id="Asia/Tokyo")
    time = page.locator("time").first
    expect(time).to_have_text(f"{entry.at + TOKYO:%Y-%m-%d %H:%M:%S}")
    page.get_by_label("Times").select_option("utc")
    expect(time).to_have_text(f"{entry.at:%Y-%m-%d %H:%M:%S} UTC")
    page.reload()
    expect(time).to_have_text(f"{entry.at:%Y-%m-%d %H:%M:%S} UTC")
    page.get_by_label("Times").select_option("local")
    expect(time).to_have_text(f"{entry.at + TOKYO:%Y-%m-%d %H:%M:%S}")


def test_keys_lead_everywhere(deck: Deck) -> None:
    make.queue("mail")
    make.queue("reports")
    page = deck.open()
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keys")
    expect(help_).to_contain_text("Queues")
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    lead(page, "gq", re.compile(r"/deck/queues/$"))
    expect(page.locator("[data-queue]")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queue/?name=reports")
    page.get_by_label("Jobs at once").press("g")  # typing is typing
    page.keyboard.press("d")
    expect(page.get_by_label("Jobs at once")).to_have_value("gd")


def test_a_job_is_found_by_its_id_from_every_page(deck: Deck) -> None:
    job = make.archived()
    page = deck.open()
    page.keyboard.press("/")
    expect(page.get_by_label("Find a job by its id")).to_be_focused()
    page.keyboard.type(job.pk.lower())
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/deck/job/{job.pk}/")
    page.goto("/admin/chokaq/jobhot/")
    page.keyboard.press("/")
    expect(page.locator("#filter-q")).to_be_focused()  # a list's own search comes first


@pytest.mark.parametrize(
    "path",
    ["deck/failures/", "deck/bulk/", "auditentry/", "deck/retention/", "deck/settings/", "jobarchive/", "queue/"],
)
def test_the_navigation_counts_on_every_page(deck: Deck, path: str) -> None:
    make.circuit("partner.sync", state=Circuit.OPEN)
    page = deck.open(f"/admin/chokaq/{path}")
    expect(page.locator('[data-nav-count="circuits"]')).to_have_text("1")


def test_the_first_tab_skips_to_the_content(deck: Deck) -> None:
    page = deck.open()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to main content")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.chokaq-frame') !== null")


def test_an_act_by_keyboard_alone(deck: Deck) -> None:
    make.queue("mail")
    page = deck.open("/admin/chokaq/deck/queues/")
    page.locator('[data-queue="mail"]').get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not Queue.objects.get().is_paused
    page.keyboard.press("Enter")
    page.keyboard.type("by hand")
    page.keyboard.press("Enter")
    expect(page.locator('[data-queue="mail"]')).to_contain_text("Paused")


def test_nothing_is_wider_than_a_phone(deck: Deck) -> None:
    make.queue("a-queue-with-a-name-that-is-much-longer-than-a-phone-is-wide.and-goes-on")
    make.dead(), make.archived(), make.hot(), make.audit_entry(reason="x" * 300)
    context = deck.user(viewport=PHONE)
    page = context.new_page()
    for path in [*(f"deck/{page}" for page in PAGES), *(f"{model}/" for model in LISTS)]:
        page.goto(f"/admin/chokaq/{path}")
        expect(page.locator("h1").last).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        entry = page.locator(".chokaq-nav").get_by_role("link", name="Fleet")
        expect(entry).to_be_hidden()
        page.locator(".chokaq-nav-toggle").click()
        expect(entry).to_be_visible()


def test_the_page_of_an_act_on_a_phone(deck: Deck) -> None:
    entry = make.audit_entry(details='{"queue": ["' + "x" * 200 + '", "mail"]}')
    page = deck.open(f"/admin/chokaq/auditentry/{entry.pk}/change/", context=deck.user(viewport=PHONE))
    card, details = page.locator("fieldset.module").first.bounding_box(), page.locator(".chokaq-code").bounding_box()
    assert card is not None
    assert details is not None
    assert details["x"] + details["width"] <= card["x"] + card["width"]
    fields = [box.bounding_box() for box in page.locator(".form-multiline > *").all()]
    assert fields
    assert all(box is not None and box["height"] < 90 for box in fields)


def test_everything_can_be_read_and_has_a_name(deck: Deck) -> None:
    make.queue("mail", max_workers=1), make.queue("held", is_paused=True)
    make.audit_entry(action="pause_queue", target="held")
    make.circuit(state=Circuit.OPEN, failures=5)
    waiting = make.hot(queue="held", tags='["tag"]')
    make.running(progress=40, progress_message="half of it")
    traceback = "Traceback (most recent call last):\nValueError: no"
    dead = make.dead(error_type="ValueError", error_details=traceback, fingerprint="12" * 16)
    make.archived(), make.purged()
    get_storage().recount_groups()
    paths = [
        *(f"deck/{page}" for page in PAGES), "deck/queue/?name=held", "deck/failures/",
        f"deck/failure/{dead.fingerprint}/", f"deck/job/{waiting.pk}/", f"deck/job/{dead.pk}/",
        f"deck/job/{dead.pk}/edit/", "deck/bulk/", "deck/bulk/new/?action=resurrect&status=dead", "deck/health/",
        "deck/retention/", "deck/settings/?name=RETRY.BASE_DELAY", "jobdlq/", "jobtrash/?queue=none", "auditentry/",
    ]  # fmt: skip
    page = deck.user().new_page()
    wrong: dict[str, object] = {}
    for path in paths:
        page.set_viewport_size(DESK)
        page.goto(f"/admin/chokaq/{path}")
        expect(page.locator("h1").last).to_be_visible()
        expect(page.locator(".chokaq-main [aria-busy=true]")).to_have_count(0)
        for size, name, scheme in LOOKS:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            page.evaluate("name => document.documentElement.dataset.chokaqTheme = name", name)
            wrong[f"{path} in {name or scheme}, {size['width']} wide"] = page.evaluate(READABLE)
    assert {where: what for where, what in wrong.items() if what} == {}


def test_without_scripts_admins_own_pages_do(deck: Deck) -> None:
    make.queue("mail")
    page = deck.open(java_script_enabled=False)
    expect(page.get_by_text("drawn by a script, which did not run")).to_be_visible()
    page.goto("/admin/chokaq/deck/queue/?name=mail")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".messagelist")).to_contain_text("Paused: mail.")
    assert Queue.objects.get().is_paused
    page.get_by_label("Jobs at once").fill("3")
    page.get_by_role("button", name="Set these limits").click()
    expect(page.locator(".messagelist")).to_contain_text("The new limits hold")
    assert Queue.objects.get().max_workers == 3


def test_limits_are_given_back_to_the_settings_when_one_is_sure(deck: Deck) -> None:
    make.queue("mail", max_workers=9, updated_by="ada")
    page = deck.open("/admin/chokaq/deck/queue/?name=mail")
    own = page.locator("#chokaq-own-limits")
    expect(own).to_contain_text("ada has set limits here")
    own.get_by_role("button", name="Back to the settings").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Give the limits back to the settings?")
    dialog.get_by_role("textbox").fill("the rush is over")
    assert Queue.objects.get().max_workers == 9
    dialog.get_by_role("button", name="Back to the settings").click()
    expect(page.locator(".messagelist")).to_contain_text("It follows the settings again: mail.")
    expect(own).to_have_count(0)
    assert Queue.objects.get().max_workers is None
    assert AuditEntry.objects.get(action="reset_queue").reason == "the rush is over"
