"""The live feed as browsers get it over real sockets."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.backends.signals import connection_created

from chokaq_django import control
from chokaq_django.conf import get_options
from chokaq_django.deck.feed import board, consumer, hub, pace
from chokaq_django.deck.feed.hub import Hub
from chokaq_django.models import JobHot, Queue
from tests import factories as make

from .conftest import ALL
from .feed import DEADLINE, OVERVIEW, Browser, in_database, session_of, with_browsers

pytestmark = pytest.mark.usefixtures("feed")


@pytest.fixture
def session(feed: Hub) -> str:
    """Of somebody who may do everything."""
    return session_of(make.operator(*ALL, username="grace"))


def test_it_greets_and_shows_what_is_there(session: str) -> None:
    make.queue(max_workers=3)
    job = make.running(progress=40, progress_message="4 of 10")
    make.hot()

    async def look(browser: Browser) -> None:
        hello = await browser.until(lambda message: True)
        assert hello["type"] == "hello"
        assert (hello["schema"], hello["mode"], hello["masked"]) == (1, "live", False)
        assert hello["permissions"] == sorted(ALL)
        await browser.subscribe(OVERVIEW, f"job:{job.pk}")
        shown = await browser.snapshots(OVERVIEW, f"job:{job.pk}")
        sections = shown[OVERVIEW]
        assert sections["tiles"]["processing"] == {"value": 1, "capped": False, "how": "exact"}
        assert sections["queues"]["rows"]["mail"]["pending"] == 1
        assert sections["matrix"]["rows"][job.pk]["message"] == "4 of 10"
        one = shown[f"job:{job.pk}"]["job"]
        assert (one["status"], one["progress"]) == ("processing", 40)

    with_browsers(Browser(session), work=look)


def test_what_others_commit_comes_by_itself_and_only_that(session: str) -> None:
    make.queue()
    make.queue("reports")
    make.worker()

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()
        await in_database(Queue.objects.filter(name="reports").update, is_paused=True)
        delta = await browser.until(lambda message: message["type"] == "delta" and "queues" in message["sections"])
        assert delta["sections"]["queues"]["rows"].keys() == {"reports"}
        assert delta["sections"]["queues"]["rows"]["reports"]["state"] == "paused"
        assert "order" not in delta["sections"]["queues"]
        assert "fleet" not in delta["sections"]
        row = await in_database(make.hot)
        await browser.section("tiles", lambda tiles: tiles["pending"]["value"] == 1)
        await in_database(JobHot.objects.filter(pk=row.pk).delete)
        await browser.section("queues", lambda queues: queues["rows"].get("mail", {}).get("pending") == 0)

    with_browsers(Browser(session), work=look)


def test_a_job_is_followed_wherever_it_goes(session: str) -> None:
    job = make.hot()

    async def look(browser: Browser) -> None:
        topic = f"job:{job.pk}"
        await browser.subscribe(topic)
        sections = await browser.snapshot(topic)
        assert sections["job"]["location"] == "hot"
        assert [reason["code"] for reason in sections["job"]["waiting"]] == ["no_worker"]
        await in_database(control.cancel, [job.pk], by="grace")
        section = await browser.section("job", lambda one: one["location"] == "dlq")
        assert (section["status"], section["reason"], section["waiting"]) == ("cancelled", "Cancelled", [])
        await in_database(control.purge, [job.pk], by="grace")
        await browser.section("job", lambda one: one["location"] == "trash" and one["status"] == "cancelled")
        nobody = make_id(job.pk)
        await browser.subscribe(f"job:{nobody}")
        assert (await browser.snapshot(f"job:{nobody}"))["job"]["location"] is None

    with_browsers(Browser(session), work=look)


def make_id(other: str) -> str:
    """An id that no job has."""
    return other[:-4] + ("ZZZZ" if not other.endswith("ZZZZ") else "YYYY")


def test_happenings_come_once_as_events(session: str) -> None:
    make.archived()

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        sections = await browser.snapshot()
        assert [row["kind"] for row in sections["events"]["rows"]] == ["archived"]
        row = await in_database(make.dead)
        event = await browser.until(lambda message: message["type"] == "event")
        (happened,) = event["events"]
        assert (happened["kind"], happened["job"], happened["reason"]) == ("failed", row.pk, "MaxRetriesExceeded")
        await in_database(control.pause_queue, "mail", by="ada", reason="partner is down")
        event = await browser.until(lambda message: message["type"] == "event")
        (happened,) = event["events"]
        assert (happened["kind"], happened["by"], happened["target"]) == ("operator", "ada", "mail")

    with_browsers(Browser(session), work=look)


def test_texts_of_jobs_are_kept_from_those_who_may_not_see_payloads(feed: Hub) -> None:
    job = make.running(progress_message="secret of the job", progress=3)
    viewer, all_seeing = make.operator("view_deck", username="viewer"), make.operator(*ALL, username="grace")

    async def look(masked: Browser, full: Browser) -> None:
        for browser in (masked, full):
            await browser.subscribe(OVERVIEW, f"job:{job.pk}", "queue:mail")
            await browser.snapshots(OVERVIEW, f"job:{job.pk}", "queue:mail")
        assert "secret of the job" in json.dumps(full.frames)
        assert "secret of the job" not in json.dumps(masked.frames)
        hello = masked.frames[0]
        assert (hello["masked"], hello["permissions"]) == (True, ["view_deck"])
        await in_database(lambda: viewer.user_permissions.set(all_permissions()))
        await masked.until(lambda message: message["type"] == "hello" and not message["masked"])
        assert (await masked.snapshot())["matrix"]["rows"][job.pk]["message"] == "secret of the job"

    with_browsers(Browser(session_of(viewer)), Browser(session_of(all_seeing)), work=look)


def all_permissions() -> list[Permission]:
    return list(Permission.objects.filter(content_type__app_label="chokaq", codename__in=ALL))


def test_topics_can_be_left(session: str) -> None:
    make.queue()

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW, "queue:mail")
        await browser.snapshot("queue:mail")
        await browser.say({"type": "unsubscribe", "topics": [OVERVIEW, "never had"]})
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        delta = await browser.until(lambda message: message["type"] == "delta" and "queue" in message["sections"])
        assert delta["topic"] == "queue:mail"
        assert not [one for one in browser.messages if one.get("topic") == OVERVIEW]

    with_browsers(Browser(session), work=look)


def test_resync_sends_all_of_it_again(session: str) -> None:
    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()
        await browser.say({"type": "resync", "topic": OVERVIEW})
        await browser.snapshot()
        await browser.say({"type": "resync", "topic": "failures"})  # not its own: nothing is to be sent
        await browser.subscribe("bulk")
        sections = await browser.snapshot("bulk")
        assert sections["bulk"]["rows"] == {}

    with_browsers(Browser(session), work=look)


def test_whoever_hears_nothing_is_told_that_nothing_has_changed(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "ALIVE", 0.3)

    async def look(browser: Browser) -> None:
        await browser.subscribe("bulk")
        await browser.snapshot("bulk")
        first = await browser.until(lambda message: message["type"] == "alive")
        second = await browser.until(lambda message: message["type"] == "alive" and message["at"] > first["at"])
        assert second["at"] - first["at"] < 60

    with_browsers(Browser(session), work=look)


def test_a_slow_browser_gets_the_newest_state_and_no_backlog(session: str) -> None:
    make.queue()

    async def look(slow: Browser, quick: Browser) -> None:
        for browser in (slow, quick):
            await browser.subscribe("queue:mail")
            await browser.snapshot("queue:mail")
        unanswered = len(slow.frames)
        slow.acks = False
        for cap in range(1, 6):
            await in_database(Queue.objects.filter(name="mail").update, max_workers=cap)
            await quick.section("queue", lambda queue, cap=cap: queue["max_workers"] == cap)
        # Whatever was sent without an answer, it is no more than the window.
        while not await slow.socket.receive_nothing(timeout=0.05, interval=0.01):
            await slow.frame()
        assert len(slow.frames) - unanswered <= consumer.WINDOW
        slow.acks = True
        await slow.say({"type": "ack", "frame": slow.frames[-1]["frame"]})
        await slow.section("queue", lambda queue: queue["max_workers"] == 5)
        assert len(slow.frames) - unanswered <= consumer.WINDOW + 1, "one frame over all that it missed"

    with_browsers(Browser(session), Browser(session), work=look)


def test_a_browser_that_only_claims_to_have_read_gets_no_more(session: str) -> None:
    """It reads nothing and guesses numbers: the server would keep for it whatever the network does not take."""

    async def look(liar: Browser) -> None:
        await liar.subscribe(OVERVIEW)
        for number in range(1, 14):
            await liar.say({"type": "ack", "frame": number})
            await liar.say({"type": "resync", "topic": OVERVIEW})
        for _ in range(consumer.WINDOW):  # however long the server takes for them
            await liar.frame()
        assert await liar.socket.receive_nothing(timeout=1.0, interval=0.05)

    with_browsers(Browser(session, acks=False), work=look)


def test_a_browser_that_answers_nothing_is_given_up(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "DEAD", 0.2)
    monkeypatch.setattr(consumer, "ALIVE", 0.2)

    async def look(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        assert await browser.until_closed() == 4408

    with_browsers(Browser(session, acks=False), work=look)


def test_no_browser_gets_more_than_five_frames_a_second(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "SECOND", 1.0)
    monkeypatch.setattr(pace, "GAP", 0.2)
    put, sent = consumer.DeckConsumer._put, []

    async def note_and_put(self: consumer.DeckConsumer, texts: list[str]) -> None:
        sent.append(time.monotonic())  # where it leaves: on a busy machine a browser may come to it later
        await put(self, texts)

    monkeypatch.setattr(consumer.DeckConsumer, "_put", note_and_put)
    make.queue()

    async def look(browser: Browser) -> None:
        await browser.subscribe("queue:mail")
        await browser.snapshot("queue:mail")
        before = len(browser.frames)
        for cap in range(1, 8):
            await in_database(Queue.objects.filter(name="mail").update, max_workers=cap)
            hub.get_hub().hint()
            await browser.section("queue", lambda queue, cap=cap: queue["max_workers"] == cap)
        assert len(browser.frames) - before >= 7
        paced = sent[1:]  # the greeting is beside the pace
        took = [last - first for first, last in zip(paced, paced[5:], strict=False)]
        assert min(took) >= 0.95, "six frames take a second"

    with_browsers(Browser(session), work=look)


def test_a_hint_is_followed_at_once(session: str, settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "DECK": {"TICK": 600}}
    make.queue()

    async def look(browser: Browser) -> None:
        await browser.subscribe("queue:mail")
        await browser.snapshot("queue:mail")
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        hub.get_hub().hint()
        await browser.section("queue", lambda queue: queue["state"] == "paused")

    with_browsers(Browser(session), work=look)


def test_a_dead_thread_is_replaced(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "ALIVE", 0.1)
    make.queue()

    def die(self: Hub) -> None:
        raise MemoryError

    async def look(browser: Browser) -> None:
        await browser.subscribe("queue:mail")
        await browser.snapshot("queue:mail")
        dead = hub.get_hub().thread
        assert dead is not None
        with monkeypatch.context() as patched:
            patched.setattr(Hub, "_round", die)
            await asyncio.to_thread(dead.join, 10)
            assert not dead.is_alive()
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        await browser.section("queue", lambda queue: queue["state"] == "paused")
        assert hub.get_hub().thread is not dead

    with_browsers(Browser(session), work=look)


def test_where_nobody_says_who_may_look_what_is_shown_is_stale(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions in a cache that is down, for one: browsers are told, the thread goes on, and it heals."""

    async def work(browser: Browser) -> None:
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()
        thread = hub.get_hub().thread

        def down(keys: object) -> None:
            raise ConnectionError("no cache")

        with monkeypatch.context() as broken:
            broken.setattr(hub, "may_look", down)
            assert (await browser.until(lambda one: one["type"] == "stale"))["reason"] == "database"
        assert (await browser.until(lambda one: one["type"] == "stale"))["reason"] is None
        assert hub.get_hub().thread is thread

    with_browsers(Browser(session), work=work)


def test_a_socket_whose_server_cancels_it_leaves_the_hub(session: str, feed: Hub) -> None:
    async def look() -> None:
        browser = Browser(session)
        assert await browser.connect()
        assert len(feed) == 1
        await browser.socket.send_input({"type": "websocket.disconnect", "code": 1006})
        await browser.socket.wait(DEADLINE)
        assert len(feed) == 0
        browser = Browser(session)
        assert await browser.connect()
        browser.socket.future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await browser.socket.future
        assert len(feed) == 0

    asyncio.run(look())


def test_the_database_is_looked_at_once_for_all(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty browsers cost as many looks and statements as one does, whatever pages they are on."""
    make.queue()
    waiting, running = make.hot(), make.running()
    make.dead()
    held = control.bulk_purge(where=control.JobFilter(status="dead"), by="grace", hold=True)
    topics = (
        OVERVIEW, "queue:mail", "failures", "bulk", f"bulk:{held.id}", f"job:{waiting.pk}", f"job:{running.pk}",
    )  # fmt: skip

    def looks(count: int) -> tuple[list[int], int, float]:
        """The statements of each look; how many looks there were while something changed, and how long that took."""
        board.clear()
        counter.statements.clear()

        async def look(*browsers: Browser) -> tuple[int, float]:
            for browser in browsers:
                await browser.subscribe(*topics)
            for browser in browsers:
                await browser.snapshots(*topics)
            began, before = time.monotonic(), len(counter.statements)
            for number in range(3):
                await in_database(Queue.objects.filter(name="mail").update, max_workers=number + 1)
                for browser in browsers:
                    await browser.section(
                        "queues", lambda one, n=number + 1: one["rows"].get("mail", {}).get("max_workers") == n
                    )
            return len(counter.statements) - before, time.monotonic() - began

        there, seconds = with_browsers(*(Browser(session) for _ in range(count)), work=look)
        return list(counter.statements), there, seconds

    with CountingLooks(monkeypatch) as counter:  # around both: the second may find the connection of the first
        found = [looks(1), looks(20)]
    (one, *_), (twenty, *_) = found
    assert min(max(one), max(twenty)) > 20
    assert max(twenty) <= max(one) * 1.5
    for _, there, seconds in found:
        # One may have begun before, and one is not at the end of its tick yet.
        assert there <= seconds / get_options().deck.tick + 2, "looks follow the clock, not the number of browsers"


class CountingLooks:
    """Counts the statements of each look of the hub's thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[int] = []
        self._count = 0
        read = board.Board._read

        def counted(one: board.Board, *args: Any) -> bool:
            self._count = 0
            try:
                return read(one, *args)
            finally:
                self.statements.append(self._count)

        monkeypatch.setattr(board.Board, "_read", counted)

    def __enter__(self) -> CountingLooks:
        connection_created.connect(self._watch)
        return self

    def __exit__(self, *args: object) -> None:
        connection_created.disconnect(self._watch)

    def _watch(self, connection: Any, **_: Any) -> None:
        if threading.current_thread().name == "chokaq-deck" and self._execute not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._execute)

    def _execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self._count += 1
        return execute(sql, params, many, context)
