"""Three in the morning: a partner was down for an hour, two thousand jobs are dead, one in fifty has a broken payload.

Whoever is called sees it at a glance, repairs the broken ones, takes a slip back, and brings the rest back at a rate
while watching how many die: with the mouse, and again without one.
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from typing import Protocol

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from chokaq_django.conf import get_options
from chokaq_django.job.error_info import ErrorInfo
from chokaq_django.job.failures import FailureReason
from chokaq_django.job.fingerprint import fingerprint
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, BulkOperation, JobArchive, JobDLQ, JobHot, JobTrash
from chokaq_django.storage import get_storage
from tests import factories as make
from tests.helpers import wait_until

from .conftest import Deck
from .keys import lead

ONE_IN = 50
RATE = 400
"""Jobs a second that come back; the Deck proposes 50."""
BY_HAND = 2
"""Broken payloads that are repaired in the editor; the others by one operation."""
DOWN = ErrorInfo("shop.partner.PartnerError", "503 Service Unavailable", "", "shop/partner.py:send")

STEPS = """element => {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
    const stops = all.filter(each => each.tabIndex >= 0 && !each.disabled && each.checkVisibility());
    return stops.indexOf(element) - stops.indexOf(document.activeElement);
}"""
"""How often Tab has to be pressed to come to an element."""
OVERVIEW = re.compile(r"/admin/chokaq/deck/$")


class Hands(Protocol):
    """How the operator works: what is pressed, and what is typed where."""

    def press(self, target: Locator) -> None: ...

    def type(self, target: Locator, text: str) -> None: ...

    def overview(self, page: Page) -> None: ...


class Mouse:
    def press(self, target: Locator) -> None:
        target.click()

    def type(self, target: Locator, text: str) -> None:
        target.click()
        target.fill(text)

    def overview(self, page: Page) -> None:
        with page.expect_navigation(url=OVERVIEW):  # from the overview too, to a new one: nothing is done on the old
            page.locator(".chokaq-nav").get_by_role("link", name="Overview").click()


class Keyboard:
    """From one element to the next with the Tab key, as the page has them in order."""

    def press(self, target: Locator) -> None:
        self._go_to(target)
        target.page.keyboard.press("Enter")

    def type(self, target: Locator, text: str) -> None:
        self._go_to(target)
        target.page.keyboard.press("ControlOrMeta+A")
        target.page.keyboard.type(text)

    def overview(self, page: Page) -> None:
        lead(page, "go", OVERVIEW)

    def _go_to(self, target: Locator) -> None:
        expect(target).to_be_visible()
        for _ in range(3):  # what is live may have changed on the way
            steps = target.evaluate(STEPS)
            for _ in range(abs(steps)):
                target.page.keyboard.press("Tab" if steps > 0 else "Shift+Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"the Tab key does not lead to {target}")


def last_night(count: int) -> int:
    """So many dead jobs; how many of them have a broken payload."""
    broken = count // ONE_IN
    pattern = make.dead(
        type="test.sync", error_type=DOWN.type, error_details=f"Traceback ...\n{DOWN.type}: {DOWN.message}",
        fingerprint=fingerprint(FailureReason.MAX_RETRIES_EXCEEDED, DOWN), payload='{"order":0,"amount":"10.50"}',
    )  # fmt: skip
    fields = {field.attname: getattr(pattern, field.attname) for field in pattern._meta.concrete_fields}
    others = [
        JobDLQ(**{**fields, "id": new_id(), "payload": f'{{"order":{order},"amount":"10.50"}}'})
        for order in range(1, count - broken)
    ]
    JobDLQ.objects.bulk_create(others, batch_size=1_000)
    get_storage().recount_groups()
    pending = make.hot(type="test.sync", run_at=timezone.now(), payload=broken_payload(count - broken))
    fields = {field.attname: getattr(pending, field.attname) for field in pending._meta.concrete_fields}
    JobHot.objects.bulk_create(
        JobHot(**{**fields, "id": new_id(), "payload": broken_payload(order)})
        for order in range(count - broken + 1, count)
    )
    wait_until(lambda: JobDLQ.objects.count() == count, 30, what="the worker has buried the broken ones")
    return broken


def broken_payload(order: int) -> str:
    """Each of another amount, with the same fault."""
    return f'{{"order":{order},"amount":"{order}.50","currency":"EURO"}}'


class Night:
    """What the operator does, page by page."""

    def __init__(self, page: Page, hands: Hands, dead: int, broken: int) -> None:
        self.page, self.hands, self.dead, self.broken = page, hands, dead, broken

    def press(self, name: str, *, role: str = "button") -> None:
        self.hands.press(self.page.get_by_role(role, name=name, exact=True))  # type: ignore[arg-type]

    def group(self, name: str) -> Locator:
        return self.page.locator("#failures .chokaq-group", has_text=name)

    def see_what_fails(self) -> None:
        groups = self.page.locator("#failures .chokaq-group")
        expect(groups).to_have_count(2)
        expect(groups.first).to_contain_text("PartnerError")
        expect(groups.first.locator(".chokaq-group-count")).to_have_text(f"{self.dead - self.broken:,}")
        expect(groups.last).to_contain_text("PayloadError")
        expect(groups.last).to_contain_text("$.currency")
        expect(groups.last.locator(".chokaq-group-count")).to_have_text(str(self.broken))

    def open_group(self, name: str) -> None:
        self.hands.overview(self.page)
        self.hands.press(self.group(name).locator("a").first)
        expect(self.page.locator("h1")).to_have_text(name)

    def dead_in_group(self, count: int) -> None:
        """As the group's page says."""
        expect(self.page.locator(".chokaq-failure-tiles .chokaq-tile-value").first).to_have_text(f"{count:,}")

    def repair_newest(self) -> str:
        """The id of the newest job of the group, which has run when this returns."""
        self.press("the newest of them", role="link")
        self.page.wait_for_url("**/deck/job/*/")
        self.press("Edit", role="link")
        return self.repair_here()

    def repair_next(self) -> str:
        """From the page of a repaired one."""
        self.press("Edit the next one", role="link")
        return self.repair_here()

    def repair_here(self) -> str:
        self.page.wait_for_url("**/edit/")
        job_id = self.page.url.split("/")[-3]
        currency = self.page.locator('[data-path="$.currency"]')
        expect(currency.locator(".chokaq-error")).to_be_visible()  # what is wrong stands there already
        self.hands.type(currency.locator("input"), "EUR")
        self.press("Check and compare")
        expect(self.page.locator(".chokaq-diff-del")).to_have_count(1)
        self.press("Save and resurrect")
        expect(self.page.locator(".chokaq-lead")).to_contain_text("Succeeded")
        return job_id

    def repair_all(self, count: int) -> None:
        """From a group's page to the operation's: one field of all of its payloads."""
        self.press("Repair payloads…", role="link")
        for label, text in (("Field", "currency"), ("New value", '"EUR"'), ("Value now", '"EURO"')):
            self.hands.type(self.page.get_by_role("group", name="Change 1").get_by_label(label), text)
        self.press("Try it")
        expect(self.page.locator('[data-trial="changed"]')).to_have_text(str(count))
        expect(self.page.locator('[data-trial="unfit"]')).to_have_text("0")
        expect(self.page.locator(".chokaq-diff-del").first).to_contain_text('"EURO"')
        self.go("Edit", count)

    def begin(self, verb: str, count: int, **options: str) -> None:
        """From a group's page to the operation's: all of its jobs."""
        self.press(f"{verb} all…", role="link")
        self.go(verb, count, **options)

    def go(self, verb: str, count: int, **options: str) -> None:
        """From the preview to the operation's page."""
        expect(self.page.locator(".chokaq-bulk-total strong")).to_have_text(f"{count:,}")
        for label, text in options.items():
            self.hands.type(self.page.get_by_label(label), text)
        freeze = self.page.get_by_role("button", name="Freeze the set and review")
        if freeze.count():
            self.hands.press(freeze)
            self.confirm(count)
            self.press(f"{verb} {count:,} jobs")
        else:  # so few that one look is enough
            self.press(f"{verb} {count:,} jobs")

    def confirm(self, count: int) -> None:
        self.hands.type(self.page.get_by_label(f"Type {count:,} to confirm"), str(count))

    def ends_well(self, verb: str, applied: int) -> None:
        expect(self.page.locator("h1")).to_have_text(verb)
        expect(self.page.locator("#chokaq-bulk")).to_have_attribute("data-state", "done", timeout=60_000)
        expect(self.page.locator('.chokaq-tile-value[data-live="applied"]')).to_have_text(f"{applied:,}")


def repair(deck: Deck, hands: Hands, dead: int) -> None:
    ran_before = deck.ledger.count()
    broken = last_night(dead)
    night = Night(page := deck.open(), hands, dead, broken)
    night.see_what_fails()

    # two of the broken ones in the editor
    night.open_group("PayloadError")
    night.dead_in_group(broken)
    expect(page.locator(".chokaq-failure-said")).to_contain_text("$.currency")
    edited = [night.repair_newest(), *(night.repair_next() for _ in range(BY_HAND - 1))]
    left = broken - BY_HAND
    assert set(JobArchive.objects.values_list("pk", flat=True)) == set(edited)
    night.open_group("PayloadError")
    night.dead_in_group(left)

    # a slip, taken back
    night.begin("Purge", left)
    night.ends_well("Purge", left)
    assert JobTrash.objects.count() == left
    if left >= get_options().deck.confirm_from:
        night.confirm(left)
    night.press("Undo this operation")
    night.ends_well("Restore", left)
    assert (JobTrash.objects.count(), JobDLQ.objects.count()) == (0, dead - BY_HAND)

    # the others by one operation
    night.open_group("PayloadError")
    night.repair_all(left)
    night.ends_well("Edit", left)
    night.press(f"Resurrect the {left} repaired jobs…", role="link")
    night.go("Resurrect", left)
    night.ends_well("Resurrect", left)

    # the rest, drop by drop, the first twenty ahead
    night.open_group("PartnerError")
    expect(page.locator(".chokaq-notice")).to_contain_text("Running it again")
    many = dead - broken
    night.begin("Resurrect", many, **{"Drip: jobs per second": str(RATE), "Reason, for the audit": "partner is back"})
    expect(page.locator("#chokaq-bulk")).to_contain_text("passed, the rest goes on", timeout=30_000)
    night.ends_well("Resurrect", many)
    expect(page.locator('.chokaq-tile-value[data-outcome="died"]')).to_have_text("0")

    # all is well
    hands.overview(page)
    expect(page.locator("#failures")).to_contain_text("Nothing is dead")
    wait_until(lambda: JobArchive.objects.count() == dead, 60, what="all have succeeded")
    tile = page.locator(".chokaq-tile", has_text="Failed").locator(".chokaq-tile-value")
    expect(tile).to_have_text("0")
    assert not JobHot.objects.exists()
    assert not JobDLQ.objects.exists()
    ran = [entry for entry in deck.ledger.entries() if entry.word == "ran"][ran_before:]
    assert Counter(entry.name for entry in ran) == Counter(str(order) for order in range(dead))  # each once
    assert sum(Decimal(entry.more["amount"]) for entry in ran) == sum(
        Decimal("10.50") if order < many else Decimal(f"{order}.50") for order in range(dead)
    )
    acts = BulkOperation.objects.order_by("created_at").values_list("action", "canary_decision")
    assert list(acts)[-1] == ("resurrect", "passed")
    assert [action for action, _ in acts] == ["purge", "restore", "edit", "resurrect", "resurrect"]
    edits = AuditEntry.objects.filter(action__in=("edit", "bulk_edit"))
    assert Counter(edits.values_list("action", "by")) == {("edit", "grace"): BY_HAND, ("bulk_edit", "grace"): 1}


def test_three_in_the_morning(deck: Deck) -> None:
    repair(deck, Mouse(), 2_000)


@pytest.mark.any_engine
def test_three_in_the_morning_without_a_mouse(deck: Deck) -> None:
    repair(deck, Keyboard(), 200)
