"""A real Chromium in front of real processes: one web server, one worker and one browser for all tests of this folder.

They have a database of their own. It is emptied after each test, but for the rows of the processes that go on and the
counts that they remember. Every page that a test opens is watched: what breaks the content security policy, an error in
a script and a complaint in the console fail the test.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, connections
from django.db.models import Q
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from chokaq_django.models import Counter, JobHot, JobStatus, LeaderLease, MetricBucket, MetricRollup, Worker
from tests import factories as make
from tests import ledger as ledger_file
from tests.deck.conftest import ALL
from tests.helpers import NO_REDIS, ProjectProcess, WorkerProcess, keep_versions, redis_url, wait_until
from tests.ledger import Ledger

ENGINES = ("sqlite", "postgresql", "microsoft")
"""One with a file and one with a server: what a browser sees is made of the same reads on every engine, and MariaDB's
run would add minutes and show nothing new. A SQL Server is only there when somebody asks for its run, and then it is to
be whole."""
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
KEPT = (Worker, LeaderLease, Counter, MetricBucket, MetricRollup)
"""What the worker and the server go by between tests. Counts of what has ended only grow: a server reads all of them
once a minute, and those of a time that has settled once."""
DEADLINE = 15_000
"""Milliseconds for anything to be seen: far more than the time it takes, on a machine with other work."""
LISTENING = re.compile(r"Listening on TCP address 127\.0\.0\.1:(\d+)")


expect.set_options(timeout=DEADLINE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


# -- what runs for all tests -------------------------------------------------------------------------------------------


@pytest.fixture(scope="package")
def database(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """A database of their own, which this process uses for as long as the folder's tests run."""
    if connection.vendor not in ENGINES:
        pytest.skip(f"browser tests run on {' and '.join(ENGINES)}")
    usual, config = connection.settings_dict["NAME"], connection.settings_dict["TEST"]
    name = Path(usual).name.removeprefix("test_").removesuffix(".sqlite3")
    own = f"test_{name}_browser"
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
        # Playwright keeps an event loop in this thread, and Django would take every test for a coroutine.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        patch.setitem(config, "NAME", str(Path(usual).with_name(f"{own}.sqlite3")) if "/" in str(usual) else own)
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        keep_versions(connection)
        yield
        connection.creation.destroy_test_db(usual, verbosity=0)


@pytest.fixture(scope="package")
def chromium(database: None) -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no chromium on this machine", pytrace=False)
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()
        connections.close_all()  # those of tests: the event loop has had its own


@pytest.fixture(scope="package")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """What the worker's jobs write, and the gates at which they wait."""
    return Ledger(tmp_path_factory.mktemp("browser") / "ledger")


@pytest.fixture(scope="package")
def processes(chromium: Browser, ledger: Ledger) -> Iterator[tuple[ProjectProcess, WorkerProcess]]:
    """The web server and the worker. Where there is a Redis, the worker tells through it what is new; this server does
    not listen there."""
    env = {ledger_file.VARIABLE: str(ledger.path), "REDIS_URL": redis_url() or ""}
    with web_server() as server, WorkerProcess(env=env) as worker:
        port_of(server)
        wait_until(Worker.objects.exists, 60, what="the worker is there")
        yield server, worker


def web_server(port: int = 0, redis: str = "") -> ProjectProcess:
    """A daphne; without a ``port``, on one that is free. ``redis`` is the URL of its channel layer. A worker of whom a
    test only has the row is alive there for as long as the test takes."""
    daphne = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "example_project.asgi:application")
    return ProjectProcess(*daphne, env={"REDIS_URL": redis}, options={"RECOVERY": {"WORKER_TIMEOUT": 60}})


def port_of(server: ProjectProcess) -> int:
    """Where it listens, once it does."""
    return int(wait_until(lambda: LISTENING.search(server.output), 60, what="the server listens")[1])


@pytest.fixture(scope="package")
def address(processes: tuple[ProjectProcess, WorkerProcess]) -> str:
    """Where the web server listens."""
    return f"http://127.0.0.1:{port_of(processes[0])}"


@pytest.fixture(scope="package")
def address_with_redis(processes: tuple[ProjectProcess, WorkerProcess]) -> Iterator[str]:
    """Where a second web server listens, which hears through Redis what is new."""
    url = redis_url()
    if url is None:
        pytest.skip(NO_REDIS)
    with web_server(redis=url) as server:
        yield f"http://127.0.0.1:{port_of(server)}"


# -- what one test gets ------------------------------------------------------------------------------------------------


class Deck:
    """Opens pages for a test, and watches them."""

    def __init__(self, browser: Browser, address: str, ledger: Ledger) -> None:
        self._browser, self._address, self.ledger = browser, address, ledger
        self._contexts: list[BrowserContext] = []
        self.troubles: list[str] = []
        """What the consoles of all pages complained about."""

    def user(self, *permissions: str, username: str = "grace", address: str = "", **options: Any) -> BrowserContext:
        """A browser of its own, signed in as a new operator; all permissions unless some are named.

        ``address``: another server than the usual one. ``options`` are Playwright's for the context.
        """
        address = address or self._address
        client = Client()
        client.force_login(make.operator(*(permissions or ALL), username=username))
        context = self._browser.new_context(base_url=address, **{"viewport": DESK, **options})
        context.set_default_timeout(DEADLINE)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": address}])
        context.on("page", self._watch)
        self._contexts.append(context)
        return context

    def open(self, path: str = "/admin/chokaq/deck/", context: BrowserContext | None = None, **options: Any) -> Page:
        """A new page, in the browser of a user with all permissions unless ``context`` is another."""
        page = (context or self.user(**options)).new_page()
        page.goto(path)
        return page

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.troubles.append(f"error in a script: {error}"))
        page.on("console", self._hear)

    def _hear(self, message: ConsoleMessage) -> None:
        where = str(message.location.get("url"))
        if message.type in ("error", "warning") and not where.endswith("/favicon.ico"):  # pages of Django's have none
            self.troubles.append(f"{message.type}: {message.text} ({where})")

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def deck(chromium: Browser, address: str, ledger: Ledger, tidy: None) -> Iterator[Deck]:
    """Opens pages of the Deck; afterwards none of them may have complained."""
    deck = Deck(chromium, address, ledger)
    yield deck
    deck.close()
    assert deck.troubles == []


Gate = Callable[[str], str]


@pytest.fixture
def gate(ledger: Ledger, tidy: None) -> Iterator[Gate]:
    """Names a gate that is closed now and open when the test has ended, so that no job outlives it."""
    names: list[str] = []

    def closed(name: str) -> str:
        ledger.close_gate(name)
        names.append(name)
        return name

    yield closed
    for name in names:
        ledger.open_gate(name)


@pytest.fixture
def tidy(processes: tuple[ProjectProcess, WorkerProcess], ledger: Ledger) -> Iterator[None]:
    """Afterwards no job runs and nothing is stored, but for what :data:`KEPT` names."""
    yield
    Worker.objects.exclude(host=socket.gethostname()).delete()  # those that a test made up
    real = Worker.objects.values_list("pk", flat=True)
    JobHot.objects.filter(Q(status=JobStatus.PENDING) | ~Q(worker_id__in=list(real))).delete()
    wait_until(lambda: not JobHot.objects.exclude(status=JobStatus.PENDING).exists(), what="no job runs any more")
    for model in (*apps.get_app_config("chokaq").get_models(), Session, User):
        if model not in KEPT and not model._meta.proxy:
            model._default_manager.all().delete()
