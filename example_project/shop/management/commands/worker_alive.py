"""``manage.py worker_alive``: a container's health check. Exit code 0 when a worker of this machine is at work."""

from __future__ import annotations

import datetime as dt
import socket
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models.functions import Now

from chokaq_django.models import Worker


class Command(BaseCommand):
    help = "Fails unless a worker process of this host has shown itself in the database lately."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--within", type=float, default=30.0, help="seconds (default: %(default)g)")

    def handle(self, *args: Any, within: float, **options: Any) -> None:
        # Both times are the database's: the two machines' clocks need not agree.
        seen = Worker.objects.filter(host=socket.gethostname()).annotate(now=Now()).values_list("last_seen", "now")
        ages = [now - last_seen for last_seen, now in seen]
        if not ages:
            raise CommandError(f"no worker of {socket.gethostname()} is registered")
        if min(ages) > dt.timedelta(seconds=within):
            raise CommandError(f"last seen {min(ages).total_seconds():.0f} s ago")
        self.stdout.write(f"{len(ages)} worker(s), last seen {min(ages).total_seconds():.1f} s ago")
