"""What workers do is seen as it happens, and what the page knows is said when it knows less."""

from __future__ import annotations

import datetime as dt
import os
import re

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import LocatorAssertions, Page, WebSocketRoute, expect

from chokaq_django import enqueue
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, BulkOperation, JobArchive, JobHot, JobStatus, Queue
from chokaq_django.reading.series import read_totals
from chokaq_django.storage import get_storage
from tests import factories as make
from tests.helpers import wait_until
from tests.jobs import GateJob, NoteJob, ProgressJob

from .conftest import Deck, Gate
from .spare import Stopwatch

BARS = {"address": 1.0, "address_with_redis": 0.25}
"""Which server -> seconds from a worker's commit until the browser shows it."""
TRIES = int(os.environ.get("CHOKAQ_TEST_PUSHES", "0"))
"""Changes to time: their p95 must be within the bar. Without it, one of up to ten is enough, and the time in which no
processor was free is nobody's delay."""


def ago(seconds: float) -> dt.datetime:
    return timezone.now() - dt.timedelta(seconds=seconds)


def badge(page: Page, mode: str) -> None:
    expect(page.locator(".chokaq-live")).to_have_attribute("data-mode", mode)


def tile(page: Page, label: str) -> LocatorAssertions:
    return expect(page.locator(".chokaq-tile", has_text=label).locator(".chokaq-tile-value"))


def succeeded() -> str:
    """How many jobs have, since the database was made, as a tile says it."""
    totals, _ = read_totals("default", ago(0))
    return f"{totals.done:,}"


def seen_at(page: Page, selector: str) -> None:
    """From now on the page notes when it first shows ``selector``."""
    page.evaluate(
        """selector => {
            window.seen = new Promise(resolve => {
                const look = () => document.querySelector(selector) && resolve(Date.now() / 1000);
                new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true});
                look();
            });
        }""",
        selector,
    )


@pytest.mark.parametrize("server", BARS)
def test_what_a_worker_does_is_seen_within_the_bar(deck: Deck, server: str, request: pytest.FixtureRequest) -> None:
    make.queue("mail")
    page = deck.open(address=request.getfixturevalue(server))
    badge(page, "live")
    tile(page, "Succeeded").to_have_text(succeeded())  # a badge is live before the first look at the database has ended
    delays: list[float] = []
    while len(delays) < (TRIES or 10):
        watch = Stopwatch()
        job = enqueue(NoteJob(name=str(len(delays))), queue="mail")
        seen_at(page, f'#events a[href*="{job.id}"]')
        shown = page.evaluate("window.seen")
        delay = shown - JobArchive.objects.get(pk=job.id).finished_at.timestamp()
        delays.append(delay if TRIES else watch.of(delay))
        if delays[-1] < BARS[server] and not TRIES:
            break
    bar, ordered = BARS[server], sorted(delays)
    if TRIES:
        print(f"{connection.vendor}, {server}: p50 {ordered[TRIES // 2]:.3f} s, p95 {ordered[TRIES * 95 // 100]:.3f} s")
    assert ordered[TRIES * 95 // 100] < bar
    tile(page, "Succeeded").to_have_text(succeeded())
    expect(page.locator('[data-queue="mail"]')).to_be_visible()


def test_progress_moves_and_the_job_leaves(deck: Deck, gate: Gate) -> None:
    page = deck.open()
    job = enqueue(ProgressJob(gate=(name := gate("progress"))), queue="reports")
    row = page.locator(f'[data-job="{job.id}"]')
    expect(row.locator("progress")).to_have_attribute("value", "50")
    expect(row).to_contain_text("half way ü")
    expect(row).to_contain_text("test.progress")
    tile(page, "Processing").to_have_text("1")
    deck.ledger.open_gate(name)
    expect(row).to_have_count(0)
    tile(page, "Processing").to_have_text("0")


def test_a_lost_socket_is_said_and_heals(deck: Deck) -> None:
    context = deck.user()
    page = context.new_page()
    sockets: list[WebSocketRoute] = []
    line = {"cut": False}

    def through(socket: WebSocketRoute) -> None:
        if line["cut"]:
            socket.close(code=1011)
        else:
            socket.connect_to_server()
            sockets.append(socket)

    page.route_web_socket(re.compile("/ws/chokaq/deck/"), through)
    page.goto("/admin/chokaq/deck/")
    badge(page, "live")
    line["cut"] = True
    sockets.pop().close(code=1011)
    badge(page, "polling")
    make.queue("new-while-polling")  # seen all the same
    expect(page.locator('[data-queue="new-while-polling"]')).to_be_visible()
    line["cut"] = False
    badge(page, "live")
    make.queue("new-while-live")
    expect(page.locator('[data-queue="new-while-live"]')).to_be_visible()


def test_two_tabs_see_each_others_acts(deck: Deck) -> None:
    make.queue("mail")
    context = deck.user()
    one, two = deck.open(context=context), deck.open("/admin/chokaq/deck/queues/", context=context)
    one.locator('[data-queue="mail"] button').click()
    dialog = one.get_by_role("dialog", name="Pause mail?")
    dialog.get_by_label("Reason").fill("partner is down")
    dialog.get_by_role("button", name="Pause").click()
    expect(one.locator(".chokaq-toast")).to_contain_text("Paused: mail.")
    for page in (one, two):
        expect(page.locator('[data-queue="mail"]')).to_contain_text("Paused")
    expect(one.locator("#events")).to_contain_text("partner is down")
    assert AuditEntry.objects.get().by == "grace"
    two.locator('[data-queue="mail"]').get_by_role("button", name="Resume").click()
    expect(one.locator('[data-queue="mail"]')).not_to_contain_text("Paused")
    assert not Queue.objects.get(pk="mail").is_paused


def test_a_late_queue_and_a_queue_without_worker_come_first(deck: Deck, gate: Gate) -> None:
    """What is wrong stands on top, with what is safe to do."""
    make.queue("mail", max_workers=1)
    name = gate("late")
    enqueue(GateJob(gate=name), queue="mail")
    # It has the queue's only place before another job is there, or that one would be gone at once.
    wait_until(JobHot.objects.filter(status=JobStatus.PROCESSING).exists, what="the worker is at the gate")
    page = deck.open()
    verdict = page.locator(".chokaq-verdict")
    expect(verdict).to_have_attribute("data-state", "healthy")
    expect(verdict).to_contain_text("Nothing is stuck")  # nor failing, unless a job of another test has just died
    make.hot(queue="mail", created_at=ago(60), run_at=ago(60), due_at=ago(60))
    expect(verdict).to_have_attribute("data-state", "unhealthy")
    expect(verdict).to_contain_text("The queue mail is")
    expect(page.locator('[data-queue="mail"] [data-level="critical"]')).to_be_visible()
    expect(page.locator('[data-nav-count="queues"]')).to_have_text("1")


def test_a_stopped_operation_is_no_part_of_the_verdict(deck: Deck) -> None:
    """The line at the top says what ``chokaq health`` says; what only waits for a decision stands below it."""
    now = get_storage().now()
    BulkOperation.objects.create(
        id=new_id(), action="resurrect", state="stopped", message="4 of the first 4 jobs have died; at most 5.0% may.",
        total=27, done=4, applied=4, canary=4, canary_decision="failed", died=4, created_at=now, started_at=now,
        ended_at=now, updated_at=now,
    )  # fmt: skip
    BulkOperation.objects.create(
        id=new_id(), action="resurrect", state="done", total=9, done=9, applied=9, created_at=now, started_at=now,
        ended_at=now, updated_at=now,
    )  # fmt: skip
    page = deck.open()
    verdict = page.locator(".chokaq-verdict")
    expect(verdict).to_contain_text("A bulk operation has stopped by itself.")
    expect(verdict).to_contain_text("Needs a look")
    expect(verdict).to_contain_text("Nothing is stuck")
    expect(verdict).to_have_attribute("data-state", "healthy")
    expect(verdict).to_have_class(re.compile("chokaq-good"))
    expect(page.locator("#bulk tbody tr").nth(1).locator("td").nth(4)).to_have_text("0 · 4")
    expect(page.locator("#bulk tbody tr").nth(0).locator("td").nth(4)).to_have_text("-")  # nothing watched it


def test_without_operate_there_is_nothing_to_press(deck: Deck) -> None:
    make.queue("mail")
    make.circuit("test.fail", state=1, failures=5)
    context = deck.user("view_deck", username="viewer")
    for path, mark in (("queues", "queue"), ("fleet", "worker"), ("circuits", "circuit")):
        page = deck.open(f"/admin/chokaq/deck/{path}/", context=context)
        expect(page.locator(f"[data-{mark}]").first).to_be_visible()
        expect(page.locator(f"[data-{mark}] button")).to_have_count(0)


def test_a_worker_is_asked_and_answers(deck: Deck) -> None:
    page = deck.open("/admin/chokaq/deck/fleet/")
    row = page.locator("[data-worker]")
    expect(row).to_have_count(1)
    row.get_by_label(re.compile("Jobs at once in")).fill("7")
    row.get_by_role("button", name="Set").click()
    expect(page.locator(".chokaq-toast")).to_contain_text("Asked to run so many jobs at once")
    expect(row.locator(".chokaq-num").first).to_contain_text("/ 107")


def test_hostile_names_stay_text(deck: Deck) -> None:
    """Names as no code would choose them, in every panel: drawn as text, and their links lead to their pages."""
    hostile = '"><img src=x onerror=alert(1)>/?#% 🎉'
    make.queue(hostile)
    make.hot(queue=hostile, type=hostile, run_at=ago(-3600))
    make.circuit(hostile, state=1, failures=5)
    make.audit_entry(by=hostile[:100], target=hostile, reason=hostile)
    page = deck.open()
    link = page.locator("[data-queue] a", has_text=hostile)
    expect(link).to_be_visible()
    expect(page.locator("#circuits")).to_contain_text(hostile)
    expect(page.locator("#events")).to_contain_text(hostile)
    assert page.locator("img[src=x]").count() == 0
    link.click()
    expect(page.locator("h1")).to_have_text(hostile)
    tile(page, "Scheduled").to_have_text("1")
    badge(page, "live")
