"""``manage.py chokaq``: see and operate background jobs from a shell. The subcommands are in ``chokaq_django.cli``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections
from django.db import Error as AnyDatabaseError

from chokaq_django.cli import SUBCOMMANDS
from chokaq_django.cli.console import UNABLE, USAGE, Console
from chokaq_django.cli.subcommand import Call, HelpFormatter, examples_text
from chokaq_django.cli.text import one_line
from chokaq_django.conf import get_options
from chokaq_django.job.envelope import EnvelopeError
from chokaq_django.storage import StorageError
from chokaq_django.storage.missing import tables_missing

INTERRUPTED = 130
EXAMPLES = (
    ("status", "how things are, on one screen"),
    ("jobs --queue mail --status retrying", "what fails and will be tried again"),
    ("dlq", "what needs a person, grouped by like failures"),
    ("resurrect --fingerprint 3f2a… --dry-run", "what would come back"),
    ("pause mail --reason 'provider is down'", "claim nothing more from a queue"),
    ("health || alert", "for a script: 0 is healthy, 1 is not"),
)
CODES = """exit codes:
  0 done   1 findings, unhealthy, or nothing matched   2 wrong arguments
  3 the database or the settings do not allow it"""


class Command(BaseCommand):
    help = "See and operate background jobs. `chokaq SUBCOMMAND --help` has examples of each."
    requires_system_checks: list[str] = []  # it must work, above all, when something is wrong

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        kwargs.setdefault("formatter_class", HelpFormatter)
        kwargs.setdefault("epilog", f"{examples_text(EXAMPLES)}\n\n{CODES}")
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        subparsers = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", dest="subcommand", required=True)
        for subcommand in SUBCOMMANDS:
            subcommand.put(subparsers, _base_arguments)
        groups = parser._action_groups  # what one came for stands above Django's own options
        groups.insert(0, groups.pop())

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console(self.stdout, self.stderr, self.style, json=options.get("json", False))
        try:
            code = self._run(Call(console, options))
            self.stdout.flush()
        except CommandError as error:
            if console.json:
                self.stdout.write(json.dumps({"error": {"exit_code": error.returncode, "message": str(error)}}))
            raise
        except KeyboardInterrupt:
            self.stderr.write("Interrupted.")
            code = INTERRUPTED
        except BrokenPipeError:  # whoever read us, `head` for one, has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        if code:
            sys.exit(code)

    def _run(self, call: Call) -> int:
        """The subcommand, with every error that is not a bug as a sentence that says what to do."""
        run = call.options["run"]
        try:
            code: int = run(call)
            return code
        except EnvelopeError as error:
            raise CommandError(str(error), returncode=USAGE) from error
        except (ImproperlyConfigured, StorageError) as error:
            raise CommandError(str(error), returncode=UNABLE) from error
        except AnyDatabaseError as error:
            raise CommandError(database_trouble(error), returncode=UNABLE) from error


def database_trouble(error: AnyDatabaseError) -> str:
    """What a database error means for who typed a command."""
    alias = get_options().database
    if isinstance(error, DatabaseError) and tables_missing(error):
        return f"The job tables are missing in the database {alias!r}, or older than the code: run `manage.py migrate`."
    reason = one_line((str(error) or repr(error)).strip().splitlines()[0], 300)
    name = one_line(connections[alias].settings_dict.get("NAME") or "", 100)
    return f"The job database {alias!r} ({name}) does not do what it is asked: {reason}"


def _base_arguments(parser: argparse.ArgumentParser) -> None:
    """Django's own options may stand behind the subcommand too; the help names them once, on top."""

    def add(*names: str, **named: Any) -> None:
        parser.add_argument(*names, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **named)

    for name in ("--settings", "--pythonpath"):
        add(name)
    add("-v", "--verbosity", type=int, choices=[0, 1, 2, 3])
    for name in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        add(name, action="store_true")
