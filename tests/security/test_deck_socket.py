"""The live feed, tried by those who must not see it: refused before anything is said, closed when they may no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.urls import reverse

from chokaq_django.deck.feed import hub, protocol
from chokaq_django.deck.feed.access import may_look
from chokaq_django.deck.feed.hub import Hub
from chokaq_django.deck.feed.protocol import BURST, LONGEST_MESSAGE, MOST_TOPICS, from_own_origin
from chokaq_django.models import Queue
from tests import factories as make
from tests.deck.feed import OVERVIEW, Browser, in_database, session_of, with_browsers

pytestmark = pytest.mark.usefixtures("feed")


def viewer(**columns: Any) -> User:
    return make.operator("view_deck", username="viewer", **columns)


def connects(*args: Any, **named: Any) -> bool:
    """Whether such a browser gets in."""

    async def run() -> bool:
        browser = Browser(*args, **named)
        accepted = await browser.connect()
        if accepted:
            await browser.close()
        else:
            assert await browser.socket.receive_nothing(), "nothing was said to it"
        return accepted

    return asyncio.run(run())


# -- getting in --------------------------------------------------------------------------------------------------------


def test_who_may_look_gets_in(feed: Hub) -> None:
    session = session_of(viewer())
    assert connects(session)
    assert connects(f'{session}; bad[cookie]=1; =; other="x')
    assert connects(session_of(User.objects.create_superuser("root", password="x")))
    by_group = make.operator(username="member")
    group = Group.objects.create(name="on call")
    group.permissions.set(Permission.objects.filter(content_type__app_label="chokaq", codename="view_deck"))
    by_group.groups.add(group)
    assert connects(session_of(by_group))


def test_without_a_session_nobody_gets_in(feed: Hub) -> None:
    for session in (None, "", "nonsense", "x" * 5_000, "a; DROP TABLE"):
        assert not connects(session), session


def test_a_stranger_s_cookie_disturbs_nobody(feed: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine is asked for a key that PostgreSQL would refuse, and everybody else's socket with it."""
    asked: set[str] = set()
    real = hub.may_look
    monkeypatch.setattr(hub, "may_look", lambda keys: asked.update(keys) or real(keys))
    assert connects(session_of(viewer()))
    assert asked
    asked.clear()
    for session in ('"a\\000b"', '"\\012"', '"\\351"', "\xe9"):
        assert not connects(session), session
    assert not asked


def test_whoever_may_not_look_does_not_get_in(feed: Hub) -> None:
    assert not connects(session_of(make.operator(username="staff")))
    assert not connects(session_of(make.operator("operate", "view_payload", "purge", username="no viewer")))
    assert not connects(session_of(make.operator("view_deck", username="customer", is_staff=False)))
    gone = session_of(make.operator("view_deck", username="gone"))
    User.objects.filter(username="gone").update(is_active=False)
    assert not connects(gone)
    root = session_of(User.objects.create_superuser("root", password="x", is_active=True))
    User.objects.filter(username="root").update(is_staff=False)
    assert not connects(root)


def test_a_session_in_which_nobody_is_signed_in_does_not_get_in(feed: Hub) -> None:
    store = SessionStore()
    store["basket"] = [1]
    store.create()
    assert not connects(store.session_key)


def test_sessions_that_are_nothing_but_a_cookie_get_no_socket(feed: Hub, settings: Any) -> None:
    """Who signs out leaves nothing behind that says so: a socket would go on as long as the browser is open."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    session = session_of(viewer())
    assert may_look([session])[session].code is None
    assert not connects(session)


def test_a_session_that_was_planted_gets_nobody_in(feed: Hub) -> None:
    """Its key is another one once somebody has signed in with it."""
    planted = SessionStore()
    planted["basket"] = [1]
    planted.create()
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = planted.session_key
    user = viewer()
    user.set_password("secret")
    user.save()
    assert client.login(username="viewer", password="secret")
    assert connects(client.cookies[settings.SESSION_COOKIE_NAME].value)
    assert not connects(planted.session_key)


def test_a_session_from_before_the_password_changed_does_not_get_in(feed: Hub) -> None:
    user = viewer()
    session = session_of(user)
    user.set_password("another")
    user.save()
    assert not connects(session)


ELSEWHERE = [
    None, "", "null", "http://evil.example", "http://testserver.evil.example", "http://evil.example/testserver",
    "http://testserver@evil.example", "http://testserver:8000", "ftp://testserver", "testserver", "http://[broken",
    "http://testserver:99999",
]  # fmt: skip
HERE = [
    ("http://testserver:80", "testserver"),
    ("https://testserver", "testserver:443"),
    ("http://TestServer", "testserver"),
    ("http://127.0.0.1:8000", "127.0.0.1:8000"),
    ("http://[::1]:8000", "[::1]:8000"),
]


def test_only_pages_of_the_own_site_get_in(feed: Hub) -> None:
    session = session_of(viewer())
    for origin in ELSEWHERE:
        assert not connects(session, origin=origin), origin
    for here, host in HERE:
        assert connects(session, origin=here, host=host), here


def scope(origin: str, scheme: str = "ws", **headers: str) -> dict[str, Any]:
    said = {"host": "inside:8000", "origin": origin, **headers}
    return {"scheme": scheme, "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in said.items()]}


def test_an_origin_behind_a_proxy_is_what_the_settings_say(settings: Any) -> None:
    assert not from_own_origin(scope("https://shop.example"))
    assert not from_own_origin(scope("https://shop.example", x_forwarded_host="shop.example"))
    settings.USE_X_FORWARDED_HOST = True
    assert from_own_origin(scope("https://shop.example", x_forwarded_host="shop.example"))
    settings.USE_X_FORWARDED_HOST = False
    settings.CSRF_TRUSTED_ORIGINS = ["https://shop.example", "https://*.branch.example"]
    for origin in ("https://shop.example", "https://north.branch.example"):
        assert from_own_origin(scope(origin))
    for origin in (
        "http://shop.example",
        "https://branch.example",
        "http://north.branch.example",
        "https://xbranch.example",
    ):
        assert not from_own_origin(scope(origin))


def test_a_page_without_tls_does_not_get_in_where_there_is_tls(settings: Any) -> None:
    plain = "http://inside:8000"
    assert from_own_origin(scope(plain))
    assert not from_own_origin(scope(plain, scheme="wss"))
    assert from_own_origin(scope("https://inside:8000", scheme="wss"))
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert not from_own_origin(scope(plain, x_forwarded_proto="https"))
    assert from_own_origin(scope(plain, x_forwarded_proto="http"))


def test_another_address_is_refused(feed: Hub) -> None:
    async def run() -> bool:
        browser = Browser(session_of_viewer)
        browser.socket.scope["path"] = "/ws/elsewhere/"
        return await browser.connect()

    session_of_viewer = session_of(viewer())
    assert asyncio.run(run()) is False


# -- staying in --------------------------------------------------------------------------------------------------------


def demoted(user: User, session: str) -> None:
    user.user_permissions.clear()


def no_staff_any_more(user: User, session: str) -> None:
    User.objects.filter(pk=user.pk).update(is_staff=False)


def deactivated(user: User, session: str) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def deleted(user: User, session: str) -> None:
    user.delete()


def logged_out(user: User, session: str) -> None:
    client = Client()
    client.cookies["sessionid"] = session
    client.post(reverse("admin:logout"))


def password_changed(user: User, session: str) -> None:
    user.set_password("another")
    user.save()


def session_flushed(user: User, session: str) -> None:
    SessionStore(session).flush()


WITHDRAWALS: list[tuple[Callable[[User, str], None], int]] = [
    (demoted, 4403),
    (no_staff_any_more, 4403),
    (deactivated, 4401),
    (deleted, 4401),
    (logged_out, 4401),
    (password_changed, 4401),
    (session_flushed, 4401),
]


def test_an_open_socket_is_closed_when_its_user_may_look_no_more(feed: Hub) -> None:
    make.queue()
    users = [make.operator("view_deck", username=f"viewer-{number}") for number in range(len(WITHDRAWALS))]
    sessions = [session_of(user) for user in users]

    async def look(*browsers: Browser) -> None:
        for browser in browsers:
            await browser.subscribe(OVERVIEW)
            await browser.snapshot()
        for (withdraw, _), user, session in zip(WITHDRAWALS, users, sessions, strict=True):
            await in_database(withdraw, user, session)
        codes = [await browser.until_closed() for browser in browsers]
        assert codes == [code for _, code in WITHDRAWALS]
        # Whatever happens from here on, they hear nothing of it.
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        for browser in browsers:
            await browser.say({"type": "subscribe", "topics": ["failures"]})
        assert await browsers[0].socket.receive_nothing(timeout=0.3)
        for browser in browsers:
            assert await browser.socket.receive_nothing(timeout=0)
        assert len(feed) == 0

    with_browsers(*(Browser(session) for session in sessions), work=look)


def test_what_a_demoted_user_asks_for_is_refused_at_once(feed: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    user, wanted = viewer(), [{"type": "subscribe", "topics": ["failures"]}, {"type": "resync", "topic": OVERVIEW}]

    async def look(*browsers: Browser) -> None:
        for browser in browsers:
            await browser.subscribe(OVERVIEW)
            await browser.snapshot()
        monkeypatch.setattr(hub, "ACCESS", 3600)  # nobody looks by themselves
        await in_database(demoted, user, "")
        for browser, message in zip(browsers, wanted, strict=True):
            frames = len(browser.frames)
            await browser.say(message)
            assert await browser.until_closed() == 4403
            told = json.dumps(browser.frames[frames:])
            assert "snapshot" not in told
            assert "failures" not in told

    session = session_of(user)
    with_browsers(*(Browser(session) for _ in wanted), work=look)


def test_one_user_s_demotion_closes_no_other_s_socket(feed: Hub) -> None:
    make.queue()
    user, other = viewer(), make.operator("view_deck", username="other")

    async def look(demoted_browser: Browser, browser: Browser) -> None:
        for one in (demoted_browser, browser):
            await one.subscribe(OVERVIEW)
            await one.snapshot()
        await in_database(demoted, user, "")
        assert await demoted_browser.until_closed() == 4403
        await in_database(Queue.objects.filter(name="mail").update, is_paused=True)
        await browser.section("queues", lambda queues: queues["rows"].get("mail", {}).get("state") == "paused")

    with_browsers(Browser(session_of(user)), Browser(session_of(other)), work=look)


def test_all_sockets_are_looked_at_together(feed: Hub, django_assert_max_num_queries: Any) -> None:
    sessions = [session_of(make.operator("view_deck", username=f"viewer-{n}")) for n in range(12)]
    with django_assert_max_num_queries(4):
        allowed = may_look([*sessions, "nonsense"])
    assert [allowed[session].permissions for session in sessions] == [frozenset({"view_deck"})] * 12
    assert allowed["nonsense"].code == 4401


def test_sessions_elsewhere_than_in_the_database(feed: Hub, settings: Any, tmp_path: Any) -> None:
    settings.SESSION_FILE_PATH = str(tmp_path)
    for engine in ("cache", "file", "cached_db"):
        settings.SESSION_ENGINE = f"django.contrib.sessions.backends.{engine}"
        user = make.operator("view_deck", username=engine)
        session = session_of(user)
        assert connects(session), engine
        assert not connects("nonsense"), engine
        demoted(user, session)
        assert not connects(session), engine
        user.user_permissions.set(Permission.objects.filter(codename="view_deck"))
        password_changed(user, session)
        assert not connects(session), engine


def test_the_project_s_own_backend_has_its_say(feed: Hub, settings: Any) -> None:
    session = session_of(make.operator(username="monday"))
    for name, allowed in (("AllowMonday", True), ("NoMonday", False)):
        own = f"tests.security.backends.{name}"
        settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", own]
        assert connects(session) is allowed


# -- what it says ------------------------------------------------------------------------------------------------------


async def closed_by(browser: Browser, *texts: str) -> int | None:
    """The code with which the socket is closed after these."""
    for text in texts:
        await browser.say(text)
    return await browser.until_closed()


NO_MESSAGES = {
    "{": 4400,
    "[]": 4400,
    '"subscribe"': 4400,
    "null": 4400,
    "[" * 10_000: 4400,
    '{"type": "subscribe", "topics": ["' + "x" * LONGEST_MESSAGE + '"]}': 4413,
}


def test_what_is_no_message_closes_the_socket(feed: Hub) -> None:
    session = session_of(viewer())

    async def look(*browsers: Browser) -> None:
        for browser, (text, code) in zip(browsers, NO_MESSAGES.items(), strict=True):
            assert await closed_by(browser, text) == code, text[:50]

    with_browsers(*(Browser(session) for _ in NO_MESSAGES), work=look)


def test_binary_frames_and_too_many_messages_close_the_socket(feed: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "RATE", 0.01)  # what a slow machine takes a second for is too much all the same

    async def look(binary: Browser, busy: Browser) -> None:
        await binary.socket.send_to(bytes_data=b'{"type": "subscribe", "topics": ["overview"]}')
        assert await binary.until_closed() == 4400
        assert await closed_by(busy, *[json.dumps({"type": "ack", "frame": 1})] * (int(BURST) + 5)) == 4429

    session = session_of(viewer())
    with_browsers(Browser(session), Browser(session), work=look)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "unknown_type"),
    ({"type": None}, "unknown_type"),
    ({"type": "pause_queue", "name": "mail"}, "unknown_type"),
    ({"type": "__class__"}, "unknown_type"),
    ({"type": ["subscribe"]}, "unknown_type"),
    ({"type": "x" * 10_000}, "unknown_type"),
    ({"type": "subscribe"}, "bad_message"),
    ({"type": "subscribe", "topics": "overview"}, "bad_message"),
    ({"type": "subscribe", "topics": [1]}, "bad_message"),
    ({"type": "subscribe", "topics": {"overview": 1}}, "bad_message"),
    ({"type": "unsubscribe"}, "bad_message"),
    ({"type": "resync"}, "bad_message"),
    ({"type": "resync", "topic": ["overview"]}, "bad_message"),
    ({"type": "ack"}, "bad_message"),
    ({"type": "ack", "frame": 10**30}, "bad_message"),
    ({"type": "ack", "frame": -1}, "bad_message"),
    ({"type": "ack", "frame": True}, "bad_message"),
    ({"type": "subscribe", "topics": ["nothing"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["overview:x"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["queue:"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["queue:a\x00b"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["queue:\ud800"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["queue:" + "q" * 300]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["job:"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["job:' OR 1=1 --"]}, "bad_topic"),
    ({"type": "subscribe", "topics": ["bulk:../../etc"]}, "bad_topic"),
    ({"type": "subscribe", "topics": [f"queue:{n}" for n in range(MOST_TOPICS + 1)]}, "too_many_topics"),
]


def test_what_nobody_understands_is_refused_and_harms_nothing(feed: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BURST", 100.0)

    async def look(browser: Browser) -> None:
        for message, code in REFUSED:
            await browser.say(message)
            error = await browser.until(lambda one: one["type"] == "error")
            assert error["code"] == code, message
            assert len(error["message"]) < 200
        await browser.subscribe("bulk")
        await browser.snapshot("bulk")

    with_browsers(Browser(session_of(viewer())), work=look)


def test_a_socket_holds_so_many_topics_and_no_more(feed: Hub) -> None:
    async def look(browser: Browser) -> None:
        for start in (0, 10):
            await browser.subscribe(*(f"queue:q{n}" for n in range(start, start + 10)))
        await browser.snapshot("queue:q19")
        await browser.subscribe(OVERVIEW)
        assert (await browser.until(lambda one: one["type"] == "error"))["code"] == "too_many_topics"
        await browser.say({"type": "unsubscribe", "topics": ["queue:q0"]})
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()

    with_browsers(Browser(session_of(viewer())), work=look)


def test_queues_of_any_name_can_be_looked_at(feed: Hub) -> None:
    names = ["a/b ?c#d%", "Ünïcode 🚀", "..", "<script>alert(1)</script>", "'; DROP TABLE x; --", "__proto__"]
    for name in names:
        make.hot(queue=name)

    async def look(browser: Browser) -> None:
        topics = [f"queue:{name}" for name in names]
        await browser.subscribe(*topics, OVERVIEW)
        shown = await browser.snapshots(*topics, OVERVIEW)
        queues = [shown[topic]["queue"] for topic in topics]
        assert [(one["name"], one["pending"]) for one in queues] == [(name, 1) for name in names]
        rows = shown[OVERVIEW]["queues"]["rows"]
        assert {name: rows[name]["pending"] for name in names} == dict.fromkeys(names, 1)

    with_browsers(Browser(session_of(viewer())), work=look)


def test_nothing_can_be_done_over_it(feed: Hub) -> None:
    """No message changes anything, whoever sends it."""
    make.queue()
    job = make.hot()
    before = list(Queue.objects.values()), job.status
    root = get_user_model()._default_manager.create_superuser("root", password="x")

    async def look(browser: Browser) -> None:
        for kind in ("pause_queue", "cancel", "purge", "act", "websocket.send", "disconnect"):
            await browser.say({"type": kind, "ids": [job.pk], "name": "mail", "by": "root"})
            await browser.until(lambda one: one["type"] == "error")
        await browser.subscribe(OVERVIEW)
        await browser.snapshot()

    with_browsers(Browser(session_of(root)), work=look)
    job.refresh_from_db()
    assert (list(Queue.objects.values()), job.status) == before
