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

from chokaq_django.cli import PARTS, SUBCOMMANDS
from chokaq_django.cli.arguments import option_of
from chokaq_django.cli.console import UNABLE, USAGE, Console, Error, columns_of, error_document
from chokaq_django.cli.logs import quiet_terminal
from chokaq_django.cli.parser import Parser
from chokaq_django.cli.program import as_typed, manage, typed
from chokaq_django.cli.subcommand import Call, HelpFormatter, examples_text, overview
from chokaq_django.cli.table import wrap
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
  0 done
  1 not all of it: something was refused, is wrong, or was interrupted
  2 wrong arguments, or not agreed to
  3 the database or the settings do not allow it
  4 nothing: no job matches, or none had to be changed
  130 Ctrl-C"""


class Command(BaseCommand):
    help = "See and operate background jobs. SUBCOMMAND --help has examples of each."
    requires_system_checks: list[str] = []  # it must work, above all, when something is wrong

    def run_from_argv(self, argv: list[str]) -> None:
        if len(argv) == 2:  # nothing but the command: what is there?
            self.print_help(argv[0], argv[1])
            sys.exit(USAGE)
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        kwargs.setdefault("formatter_class", HelpFormatter)
        kwargs.setdefault("epilog", f"{examples_text(EXAMPLES)}\n\n{CODES}")
        kwargs.setdefault("usage", "%(prog)s SUBCOMMAND [options]")
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.prog = typed()
        subparsers = Parser.over(parser).add_subparsers(
            prog=parser.prog, title="subcommands", description=overview(PARTS), metavar="SUBCOMMAND",
            help=argparse.SUPPRESS, dest="subcommand", required=True,
        )  # fmt: skip
        for subcommand in SUBCOMMANDS:
            subcommand.put(subparsers, _base_arguments)
        groups = parser._action_groups  # what one came for stands above Django's own options
        groups.insert(0, groups.pop())

    def execute(self, *args: Any, **options: Any) -> str | None:
        if os.environ.get("NO_COLOR") and not options["force_color"]:
            options["no_color"] = True
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console(self.stdout, self.stderr, self.style, json=options.get("json", False))
        try:
            with quiet_terminal(options["verbosity"]):
                code = self._run(Call(console, options))
            self.stdout.flush()
        except CommandError as error:
            if console.json:
                self.stdout.write(json.dumps(error_document(error.returncode, str(error))))
            if getattr(self, "_called_from_command_line", False):
                name = f"{type(error).__name__}: "  # Django puts it before the message
                error.args = ("\n".join(wrap(f"{name}{error}", columns_of(self.stderr))).removeprefix(name),)
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
            raise Error(f"{option_of(error.field, call.options)} {error.message}", returncode=USAGE) from error
        except (ImproperlyConfigured, StorageError) as error:
            raise Error(as_typed(str(error)), returncode=UNABLE) from error
        except AnyDatabaseError as error:
            raise Error(database_trouble(error), returncode=UNABLE) from error


def database_trouble(error: AnyDatabaseError) -> str:
    """What a database error means for who typed a command."""
    alias = get_options().database
    if isinstance(error, DatabaseError) and tables_missing(error):
        where = f"in the database {alias!r}"
        return f"The job tables are missing {where}, or older than the code: run `{manage()} migrate`."
    reason = one_line((str(error) or repr(error)).strip().splitlines()[0], 300)
    name = one_line(connections[alias].settings_dict.get("NAME") or "", 100)
    return f"The job database {alias!r} ({name}) cannot do this: {reason}"


def _base_arguments(parser: argparse.ArgumentParser) -> None:
    """Django's own options may stand behind the subcommand too; the help names them once, on top."""

    def add(*names: str, **named: Any) -> None:
        parser.add_argument(*names, default=argparse.SUPPRESS, help=argparse.SUPPRESS, **named)

    for name in ("--settings", "--pythonpath"):
        add(name)
    add("-v", "--verbosity", type=int, choices=[0, 1, 2, 3])
    for name in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        add(name, action="store_true")
