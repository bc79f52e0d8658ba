"""``manage.py runworker``: run background jobs, or, given channel names, Channels' own command of the same name."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connections

from chokaq_django.checks.sqlite import IN_MEMORY, in_memory
from chokaq_django.cli.arguments import positive
from chokaq_django.cli.console import meant, unable, usage
from chokaq_django.cli.parser import Parser
from chokaq_django.cli.program import typed
from chokaq_django.cli.subcommand import HelpFormatter, examples_text
from chokaq_django.conf import get_options
from chokaq_django.job.envelope import EnvelopeError, clean_queue
from chokaq_django.job.registry import autodiscover
from chokaq_django.observability.events import Event, log_event
from chokaq_django.observability.harmless import HarmlessFormatter
from chokaq_django.reading.queues import known_queues
from chokaq_django.worker.health_server import HealthServer
from chokaq_django.worker.migrations import wait_until_migrated
from chokaq_django.worker.plan import WorkerPlan
from chokaq_django.worker.supervisor import Supervisor

logger = logging.getLogger("chokaq.worker")

EXAMPLES = (
    ("", "all active queues, one process"),
    ("--queues=mail,reports --concurrency 20", "two queues, 20 jobs at a time"),
    ("--processes 4 --health-port 8099", "four processes, with probes for an orchestrator"),
    ("--burst", "what is due, then an end: for cron, and for tests (a TransactionTestCase)"),
)
CODES = """exit code:
  0 stopped
  1 a process of it could not be kept alive
  2 wrong arguments
  3 the port for probes cannot be had"""


def port(text: str) -> int:
    """An argparse type: a number of a port."""
    if not text.isdecimal() or int(text) >= 65_536:
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535, not {text!r}; 0 takes a free one and logs it")
    return int(text)


class Command(BaseCommand):
    help = (
        "Runs background jobs until stopped. SIGTERM or Ctrl-C stops gracefully: running jobs may finish, nothing is "
        "lost; a second signal stops at once. With channel names it runs Channels' worker of the same name instead."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        kwargs.setdefault("formatter_class", HelpFormatter)
        kwargs.setdefault("epilog", f"{examples_text(EXAMPLES, subcommand)}\n\n{CODES}")
        kwargs.setdefault("usage", "%(prog)s [options] [CHANNEL ...]")
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser = Parser.over(parser)
        parser.prog = typed(command=parser.prog.rpartition(" ")[2])
        parser.add_argument("--queues", metavar="A,B", help="Queues to work on, by comma. Default: all active queues.")
        parser.add_argument(
            "--strict", action="store_true", help="The order of --queues comes before the priority of jobs."
        )
        parser.add_argument(
            "--concurrency", type=positive, metavar="N", help="Threads per process (WORKER.CONCURRENCY: 10)."
        )
        parser.add_argument("--processes", type=positive, metavar="N", help="Worker processes (WORKER.PROCESSES: 1).")
        parser.add_argument("--burst", action="store_true", help="Stop as soon as no due job is left.")
        parser.add_argument(
            "--max-jobs", type=positive, metavar="N", help="Replace a process after it has run this many jobs."
        )
        parser.add_argument(
            "--health-port",
            type=port,
            metavar="P",
            help="Answer probes at http://127.0.0.1:P/live and /ready; 0 takes a free port and logs it.",
        )
        parser.add_argument(
            "--health-host", metavar="H", help="The address for --health-port; 0.0.0.0 where probes come from outside."
        )
        parser.add_argument("--layer", default=None, help="Channel layer, with channel names only.")
        parser.add_argument(
            "channels", nargs="*", metavar="CHANNEL", help="Channel names: run Channels' worker for them."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["channels"]:
            self._run_channels(options)
            return
        if options["layer"] is not None:
            usage("--layer goes with channel names; to run jobs leave it out.")
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
            usage("--strict makes the order of --queues binding: name the queues.")
        refuse_in_transaction(chokaq.database)
        refuse_in_memory(chokaq.database)
        autodiscover(handlers=True)
        processes = options["processes"] or chokaq.worker.processes
        health = self._health(options, processes)
        try:
            wait_until_migrated(chokaq.database, time.sleep if health is None else health.rest)
        except KeyboardInterrupt:
            log_event(logger, logging.INFO, Event.WORKER_STOPPED, "Stopped while the database was waited for")
            return
        warn_of_unknown(plan.queues, chokaq.database)
        code = Supervisor(chokaq, plan, processes, health).run()
        if code:
            sys.exit(code)

    def _health(self, options: dict[str, Any], processes: int) -> HealthServer | None:
        port, host = options["health_port"], options["health_host"]
        if port is None:
            if host is not None:
                usage("--health-host goes with --health-port: say the port too.")
            return None
        try:
            server = HealthServer(host or "127.0.0.1", port, processes)
        except OSError as error:
            unable(f"--health-port {port}: {error.strerror or error}")
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
            usage("--queues names no queue; leave it out to work on all of them.")
        try:
            return list(dict.fromkeys(clean_queue(name) for name in names))
        except EnvelopeError as error:
            usage(f"--queues: {error.message}")

    def _run_channels(self, options: dict[str, Any]) -> None:
        names = ("queues", "strict", "concurrency", "processes", "burst", "max_jobs", "health_port", "health_host")
        ours = [
            f"--{name.replace('_', '-')}" for name in names if options[name] is not None and options[name] is not False
        ]
        if ours:
            usage(
                f"{', '.join(ours)} and channel names do not go together: give queues with --queues to run jobs, or "
                "channel names alone to run Channels' worker."
            )
        if not getattr(settings, "CHANNEL_LAYERS", None):
            names = options["channels"]
            usage(
                f"{' '.join(names)}: bare names are channels, for Channels' worker, and there are no CHANNEL_LAYERS. "
                f"To run the jobs of these queues: {typed('--queues=' + ','.join(names), 'runworker')}"
            )
        from channels import DEFAULT_CHANNEL_LAYER
        from channels.management.commands.runworker import Command as ChannelsCommand

        command = ChannelsCommand(stdout=self.stdout, stderr=self.stderr)
        command.handle(**{**options, "layer": options["layer"] or DEFAULT_CHANNEL_LAYER})


def refuse_in_transaction(alias: str) -> None:
    """A worker has connections of its own: it would wait for a transaction that is open here, and see nothing of it."""
    if connections[alias].in_atomic_block:
        usage(
            "A transaction is open here, as around each test of a TestCase: a worker sees nothing of it. In a test use "
            "a TransactionTestCase (pytest: django_db(transaction=True)), or chokaq_django.testing.run_job."
        )


def refuse_in_memory(alias: str) -> None:
    """A worker has connections of its own: each would have an empty database, or none that it can share."""
    connection = connections[alias]
    if connection.vendor == "sqlite" and in_memory(str(connection.settings_dict["NAME"])):
        usage(
            f"The job database {alias!r} is SQLite in memory, where a worker sees nothing of what waits. {IN_MEMORY} "
            "Or run single jobs with chokaq_django.testing.run_job."
        )


def warn_of_unknown(queues: Sequence[str], alias: str) -> None:
    """Say which of the named queues nothing knows: a slip would leave a worker idle for ever, and nobody told."""
    try:
        known = known_queues() if queues else set()
    except DatabaseError:
        return  # the worker says what is wrong with the database
    finally:
        connections[alias].close()  # the processes of the worker have their own
    for name in queues:
        if name not in known:
            log_event(
                logger, logging.WARNING, Event.WORKER_QUEUE_UNKNOWN,
                "No setting, type, job or operator knows a queue %s; its jobs are waited for.%s",
                name, meant(name, known),
            )  # fmt: skip


def log_to_console(verbosity: int) -> None:
    """Unless the project's LOGGING says otherwise, a worker tells what it does on stderr."""
    ours = logging.getLogger("chokaq")
    if ours.handlers or logging.getLogger().handlers or verbosity == 0:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(
        HarmlessFormatter("%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s"),
    )
    ours.addHandler(handler)
    ours.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
    ours.propagate = True
    # Python prints warnings of loggers that nobody has configured, but only while no handler is at the root; the one
    # that keeps the lines of jobs is.
    others = logging.StreamHandler()
    others.setLevel(logging.WARNING)
    others.setFormatter(handler.formatter)
    others.addFilter(lambda record: record.name.partition(".")[0] not in ("chokaq", "django"))
    logging.getLogger().addHandler(others)
