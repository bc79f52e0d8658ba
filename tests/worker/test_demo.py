"""``manage.py demo`` from an empty database to Ctrl-C, and once more on the same data."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from chokaq_django.models import JobArchive, JobHot
from example_project.shop.models import Order

from ..helpers import ROOT, database_url, wait_until

pytestmark = [pytest.mark.any_engine, pytest.mark.slow, pytest.mark.usefixtures("transactional_db")]


class Demo:
    """A running demo. Its output goes to a file, which is read by everything here."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "demo.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "demo", "--rate=10"],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "example_project.settings",
                    "DATABASE_URL": database_url(),
                    "EMAIL_DIR": str(folder / "emails"),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._log.read_text()

    def address(self) -> str:
        match = wait_until(
            lambda: re.search(r"The shop: +(http\S+)/\n", self.output), 60, what="the address is printed"
        )
        return match[1]

    def tree(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def test_the_demo_runs_stops_and_goes_on(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    try:
        address = demo.address()
        assert "Log in as admin, password admin." in demo.output
        wait_until(lambda: Order.objects.filter(status=Order.Status.CONFIRMED).count() >= 3, 60, what="confirmations")
        wait_until(lambda: JobArchive.objects.filter(type="shop.resize_picture.v1").exists(), 60, what="pictures")
        with urllib.request.urlopen(f"{address}/", timeout=60) as page:  # noqa: S310 - our own address
            assert "The last orders" in page.read().decode()
        with urllib.request.urlopen(f"{address}/static/admin/css/base.css", timeout=60) as style:  # noqa: S310
            assert style.status == 200
        family = demo.tree()
        assert len(family) >= 5  # web, two workers (each with a child), the load, the guard
        assert demo.interrupt() == 0, demo.output
        assert not any(process.is_running() for process in family)
        assert "Traceback" not in demo.output

        # A job that was being run has been handed back: nothing is left in a worker's hands.
        assert not JobHot.objects.exclude(status=0).exists()
        orders = Order.objects.count()
        demo = Demo(tmp_path)
        demo.address()
        wait_until(lambda: "Log in as admin, as before." in demo.output, what="it knows its operator")
        wait_until(lambda: Order.objects.count() > orders, 60, what="it goes on with the same data")
        assert demo.interrupt() == 0, demo.output
    except AssertionError as error:
        error.add_note(demo.output)
        raise
    finally:
        demo.process.kill()


def test_a_taken_port_is_said_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"127.0.0.1:{port} cannot be listened on"):
            call_command("demo", port=port, stdout=(out := io.StringIO()))
    assert out.getvalue() == ""
    assert not get_user_model().objects.exists(), "no database was touched"
    with pytest.raises(CommandError, match="cannot be listened on"):
        call_command("demo", port=70_000)
