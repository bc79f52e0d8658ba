"""``manage.py demo``: the shop, two worker processes and a steady load, all from one command."""

from __future__ import annotations

import os
import socket
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from example_project.processes import Program, Supervisor

OPERATOR = "admin"
PORTS = range(8000, 8100)


class Command(BaseCommand):
    help = "Migrates the database, makes a demo operator, then runs the web server, two workers and a sample load."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, help="default: the first free one from 8000")
        parser.add_argument("--rate", type=float, default=2.0, help="orders per second (default: %(default)s)")

    def handle(self, *args: Any, host: str, port: int | None, rate: float, **options: Any) -> None:
        # First of all: a demo that finds its port taken at the end has printed an address of somebody else's server.
        if port and not is_free(host, port):
            raise CommandError(
                f"{host}:{port} cannot be listened on: most likely something does so already. Say another --port."
            )
        port = port or free_port(host)
        call_command("migrate", interactive=False, verbosity=0)
        new = make_operator()
        address = f"http://{host}:{port}"

        # Whoever presses Ctrl-C waits: exports that run are handed back, and begin again at the next start.
        os.environ.setdefault("CHOKAQ_WORKER_SHUTDOWN_GRACE", "3")
        # No connection may be open when the children start, and this process needs none from here on.
        python, manage = sys.executable, sys.argv[0]
        worker = [python, manage, "runworker", "--settings=example_project.worker_settings"]
        # Without a line for every request: the demo is about what the workers do.
        web = [python, "-m", "daphne", "-v", "0", "-b", host, "-p", str(port), "example_project.asgi:application"]
        programs = [
            Program("web", web),
            Program("worker-1", worker),
            Program("worker-2", worker),
            Program(
                "load", [python, manage, "demo_load", f"--address={address}", f"--rate={rate:g}"], needs_others=True
            ),
        ]
        supervisor = Supervisor(programs, write=self._line)
        self.stdout.write(f"The Deck:  {address}/admin/chokaq/deck/\nThe shop:  {address}/\n")
        self.stdout.write(f"Log in as {OPERATOR}, password {OPERATOR}." if new else f"Log in as {OPERATOR}, as before.")
        self.stdout.write("Ctrl-C stops everything; the data stays for the next start.\n\n")
        self.stdout.flush()
        if not supervisor.run():
            raise CommandError("One of the programs could not be kept running; its last lines are above.")
        self.stdout.write("Everything has stopped.")

    def _line(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def make_operator() -> bool:
    """The demo's superuser, whose password is its name; False when there is one already."""
    users = get_user_model()._default_manager
    if users.filter(**{get_user_model().USERNAME_FIELD: OPERATOR}).exists():
        return False
    get_user_model().objects.create_superuser(OPERATOR, f"{OPERATOR}@example.com", OPERATOR)
    return True


def is_free(host: str, port: int) -> bool:
    """Whether nothing listens there, and we may."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            return True
        except (OSError, OverflowError):  # taken, not ours to take, or no port at all
            return False


def free_port(host: str) -> int:
    """The first port of ``PORTS`` on which nothing listens."""
    for port in PORTS:
        if is_free(host, port):
            return port
    raise CommandError(f"No free port from {PORTS.start} to {PORTS.stop - 1} on {host}; name one with --port.")
