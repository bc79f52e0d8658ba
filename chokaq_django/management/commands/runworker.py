"""``manage.py runworker``: run background jobs, or, given channel names, Channels' own command of the same name."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from chokaq_django.conf import get_options
from chokaq_django.job.envelope import EnvelopeError, clean_queue
from chokaq_django.job.registry import autodiscover
from chokaq_django.observability.events import Event, log_event
from chokaq_django.worker.health_server import HealthServer
from chokaq_django.worker.migrations import wait_until_migrated
from chokaq_django.worker.process import WorkerPlan
from chokaq_django.worker.supervisor import Supervisor

logger = logging.getLogger("chokaq.worker")


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65_536:
        raise argparse.ArgumentTypeError("must be from 0 to 65535; 0 takes a free one and logs it")
    return value


class Command(BaseCommand):
    help = (
        "Runs background jobs until stopped. SIGTERM or Ctrl-C stops gracefully: running jobs may finish, nothing is "
        "lost; a second signal stops at once. With channel names it runs Channels' worker of the same name instead."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--queues", metavar="A,B", help="Queues to work on, by comma. Default: all active queues.")
        parser.add_argument(
            "--strict", action="store_true", help="The order of --queues comes before the priority of jobs."
        )
        parser.add_argument("--concurrency", type=positive, metavar="N", help="Threads per process (setting: 10).")
        parser.add_argument("--processes", type=positive, metavar="N", help="Worker processes (setting: 1).")
        parser.add_argument("--burst", action="store_true", help="Stop as soon as no due job is left.")
        parser.add_argument(
            "--max-jobs", type=positive, metavar="N", help="Replace a process after it has run this many jobs."
        )
        parser.add_argument(
            "--health-port", type=port, metavar="P", help="Answer probes at http://127.0.0.1:P/live and /ready."
        )
        parser.add_argument(
            "--health-host", metavar="H", help="The address for --health-port; 0.0.0.0 where probes come from outside."
        )
        parser.add_argument("--layer", default=None, help="Channel layer, with channel names only.")
        parser.add_argument("channels", nargs="*", help="Channel names: run Channels' worker for them.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["channels"]:
            self._run_channels(options)
            return
        if options["layer"] is not None:
            raise CommandError("--layer goes with channel names; to run jobs leave it out.")
        log_to_console(options["verbosity"])
        chokaq = get_options()
        plan = WorkerPlan(
            queues=self._queues(options["queues"]),
            concurrency=options["concurrency"],
            strict=options["strict"] or (chokaq.strict_queue_order and options["queues"] is not None),
            burst=options["burst"],
            max_jobs=options["max_jobs"] or chokaq.worker.max_jobs,
        )
        if plan.strict and not plan.queues:
            raise CommandError("--strict makes the order of --queues binding: name the queues.")
        autodiscover(handlers=True)
        processes = options["processes"] or chokaq.worker.processes
        health = self._health(options, processes)
        wait_until_migrated(chokaq.database, time.sleep if health is None else health.rest)
        code = Supervisor(chokaq, plan, processes, health).run()
        if code:
            sys.exit(code)

    def _health(self, options: dict[str, Any], processes: int) -> HealthServer | None:
        port, host = options["health_port"], options["health_host"]
        if port is None:
            if host is not None:
                raise CommandError("--health-host goes with --health-port: say the port too.")
            return None
        try:
            server = HealthServer(host or "127.0.0.1", port, processes)
        except OSError as error:
            raise CommandError(f"--health-port {port}: {error.strerror or error}") from None
        log_event(
            logger, logging.INFO, Event.WORKER_PROBED, "Probes are answered at http://%s:%d/live and /ready",
            *server.address,
        )  # fmt: skip
        return server

    def _queues(self, text: str | None) -> list[str]:
        if text is None:
            return []
        names = [name for name in text.split(",") if name.strip()]
        if not names:
            raise CommandError("--queues names no queue; leave it out to work on all of them.")
        try:
            return list(dict.fromkeys(clean_queue(name) for name in names))
        except EnvelopeError as error:
            raise CommandError(f"--queues: {error}") from None

    def _run_channels(self, options: dict[str, Any]) -> None:
        names = ("queues", "strict", "concurrency", "processes", "burst", "max_jobs", "health_port", "health_host")
        ours = [
            f"--{name.replace('_', '-')}" for name in names if options[name] is not None and options[name] is not False
        ]
        if ours:
            raise CommandError(
                f"{', '.join(ours)} and channel names do not go together: give queues with --queues to run jobs, or "
                "channel names alone to run Channels' worker."
            )
        if not getattr(settings, "CHANNEL_LAYERS", None):
            names = options["channels"]
            raise CommandError(
                f"{' '.join(names)}: bare names are channels, for Channels' worker, and there are no CHANNEL_LAYERS. "
                f"To run the jobs of these queues: runworker --queues={','.join(names)}"
            )
        from channels import DEFAULT_CHANNEL_LAYER
        from channels.management.commands.runworker import Command as ChannelsCommand

        command = ChannelsCommand(stdout=self.stdout, stderr=self.stderr)
        command.handle(**{**options, "layer": options["layer"] or DEFAULT_CHANNEL_LAYER})


def log_to_console(verbosity: int) -> None:
    """Unless the project's LOGGING says otherwise, a worker tells what it does on stderr."""
    ours = logging.getLogger("chokaq")
    if ours.handlers or logging.getLogger().handlers or verbosity == 0:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s"))
    ours.addHandler(handler)
    ours.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
    ours.propagate = True
