"""``manage.py chokaq`` as a process: exit codes, help, options of Django, pipes, and a database without tables."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chokaq_django.cli import SUBCOMMANDS, program
from chokaq_django.cli.logs import quiet_terminal
from chokaq_django.cli.subcommand import Subcommand
from chokaq_django.management.commands import runworker
from chokaq_django.management.commands.chokaq import Command
from chokaq_django.management.commands.runworker import Command as RunWorker
from chokaq_django.models import JobHot, MetricBucket, Queue, Worker
from tests import factories as make

from ..helpers import ROOT, WorkerProcess, database_url, wait_until
from .conftest import Run

NAMES = [(subcommand.name,) for subcommand in SUBCOMMANDS] + [
    (subcommand.name, child.name) for subcommand in SUBCOMMANDS for child in subcommand.children
]


def command(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "chokaq", *arguments],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "COLUMNS": "80", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


SEVERAL = """
import contextlib, io, json, shlex, sys
from django.core.management import execute_from_command_line
answers = {}
for typed in json.loads(sys.argv[1]):
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            execute_from_command_line(["manage.py", "chokaq", *shlex.split(typed)])
        except SystemExit as end:
            code = end.code or 0
    answers[typed] = (code, said.getvalue())
print(json.dumps(answers))
"""


def typed_in_one_process(typed: list[str], env: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Exit code and words of each, as ``manage.py`` ends with them."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(typed)],
        cwd=ROOT, env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "COLUMNS": "80", **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return {line: (code, said) for line, (code, said) in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def parser() -> Any:
    return Command().create_parser("manage.py", "chokaq")


@pytest.mark.any_engine
@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_every_help_has_examples_that_parse(
    parser: Any, name: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as end:
        parser.parse_args([*name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert f"manage.py chokaq {' '.join(name)}" in text
    assert "examples:" in text
    assert "exit code:" in text


def examples() -> list[str]:
    def of(subcommand: Subcommand) -> list[str]:
        own = [typed for typed, _ in subcommand.examples]
        return own + [typed for child in subcommand.children for typed in of(child)]

    return [typed for subcommand in SUBCOMMANDS for typed in of(subcommand)]


@pytest.mark.any_engine
@pytest.mark.parametrize("name", ["runworker", "chokaq_worker"])
def test_the_help_of_the_worker_has_examples_that_parse(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = RunWorker().create_parser("manage.py", name)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert f"  python manage.py {name} --burst\n" in text
    for typed, _ in runworker.EXAMPLES:
        parser.parse_args(shlex.split(typed))


@pytest.mark.any_engine
@pytest.mark.parametrize("typed", examples())
def test_the_examples_of_the_help_are_right(parser: Any, typed: str) -> None:
    assert callable(parser.parse_args(shlex.split(typed)).run)


@pytest.mark.any_engine
def test_a_database_without_tables(tmp_path: Path) -> None:
    env = {"DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"}
    expected = {"jobs": 3, "queues": 3, "pause mail": 3, "cancel --all": 3, "health": 1, "doctor": 1}
    for typed, (code, said) in typed_in_one_process(list(expected), env).items():
        assert code == expected[typed], (typed, said)
        assert "manage.py migrate" in said
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) < 20


@pytest.mark.any_engine
def test_a_database_that_is_not_there() -> None:
    done = command("queues", env={"DATABASE_URL": "postgres://nobody:secret-word@127.0.0.1:1/none"})
    assert done.returncode == 3
    assert "cannot do this: " in " ".join(done.stderr.split())
    assert "secret-word" not in done.stderr
    assert "Traceback" not in done.stderr


WRONG = {
    "statu": "'statu' is no subcommand. Did you mean 'status'?",
    "workers stp": "'stp' is no action. Did you mean 'stop'?",
    "jobs --limt 5": "There is no option --limt. Did you mean '--limit'?",
    "jobs --limit none": "--limit must be a whole number of at least 1, not 'none'",
    "jobs --limit": "--limit needs a value",
    "dlq --group-by typ": "'typ' is no value of --group-by. Did you mean 'type'?",
    "pause": "QUEUE is missing.",
    "job 1 2": "'2' is one argument too many.",
    "--json status": "--json goes behind the subcommand.",
}


@pytest.mark.any_engine
def test_usage_errors_say_in_a_sentence_what_to_type() -> None:
    for typed, (code, said) in typed_in_one_process([*WRONG, "--json jobs --limt"], {}).items():
        assert code == 2
        assert WRONG.get(typed, "") in " ".join(said.split())
        assert "Traceback" not in said
        assert "--help`." in said.splitlines()[-1]
        assert [line for line in said.splitlines() if len(line) > 80 and not line.startswith("{")] == []


@pytest.mark.any_engine
def test_usage_errors_are_json_too_where_that_is_asked_for() -> None:
    done = command("jobs", "--json", "--limit", "none")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error == {"exit_code": 2, "message": "--limit must be a whole number of at least 1, not 'none'"}
    assert error["message"] in " ".join(done.stderr.split())


@pytest.mark.any_engine
def test_without_a_subcommand_it_says_what_there_is() -> None:
    ((code, said),) = typed_in_one_process([""], {}).values()
    assert code == 2
    assert [line for line in said.splitlines() if len(line) > 80] == []
    for subcommand in SUBCOMMANDS:
        assert f"    {subcommand.name} " in said


@pytest.mark.any_engine
def test_names_may_stand_on_both_sides_of_options(parser: Any) -> None:
    found = parser.parse_args(["pause", "mail", "--reason", "outage", "reports"])
    assert (found.names, found.reason) == (["mail", "reports"], "outage")
    found = parser.parse_args(["pause", "mail", "--reason", "outage", "--", "reports"])
    assert found.names == ["mail", "reports"]
    found = parser.parse_args(["workers", "concurrency", "5", "--by", "ada", "web-1", "--json", "web-2"])
    assert (found.threads, found.ids) == (5, ["web-1", "web-2"])


# -- at a terminal -----------------------------------------------------------------------------------------------------


def at_a_terminal(*arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code and words of a run whose three streams are a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "chokaq", *arguments],
        cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs,
        env={
            **os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "COLUMNS": "80", "TERM": "xterm",
            "DATABASE_URL": database_url(), **(env or {}),
        },
    )  # fmt: skip
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # what a terminal says when nobody holds its other end any more
        while part := os.read(ours, 65_536):
            said += part
    os.close(ours)
    return process.wait(60), said.decode()


@pytest.mark.usefixtures("transactional_db")
def test_no_color_is_heeded() -> None:
    make.queue("mail")
    assert "\x1b[" in at_a_terminal("queues")[1]
    assert "\x1b[" not in at_a_terminal("queues", env={"NO_COLOR": "1"})[1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.any_engine
def test_its_log_lines_do_not_reach_a_terminal_unless_asked_for() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    logger = logging.getLogger("chokaq")
    handlers, level = [logging.StreamHandler(stream) for stream in (terminal, pipe)], logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        for verbosity in (1, 2):
            with quiet_terminal(verbosity):
                logger.getChild("control").info("an act, -v %d", verbosity)
                logger.getChild("control").warning("a warning, -v %d", verbosity)
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
    assert terminal.getvalue().splitlines() == ["a warning, -v 1", "an act, -v 2", "a warning, -v 2"]
    assert len(pipe.getvalue().splitlines()) == 4


@pytest.mark.usefixtures("transactional_db")
def test_options_of_django_may_stand_behind() -> None:
    env = {"DATABASE_URL": database_url()}
    done = command("queues", "--json", "--settings=tests.settings", "--no-color", "-v", "0", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["queues"] == []


@pytest.mark.usefixtures("transactional_db")
def test_a_reader_that_goes_away() -> None:
    for _ in range(50):
        make.hot(queue="q" * 200)
    line = f"{sys.executable} manage.py chokaq jobs --limit 50 --json | head -c 10"
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": database_url()}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("transactional_db")
def test_a_terminal_that_knows_only_ascii() -> None:
    make.hot(queue="ü🎉")
    done = command("queues", env={"DATABASE_URL": database_url(), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    assert r"\xfc\U0001f389" in done.stdout


# -- with real workers -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("transactional_db")
def test_real_workers_are_listed_and_stopped(chokaq: Run) -> None:
    with WorkerProcess("--processes=2") as worker:
        wait_until(lambda: Worker.objects.count() == 2, 30, what=worker.output)
        assert chokaq("status", "--json").json["workers"]["alive"] == 2
        assert chokaq("health").code == 0
        answer = chokaq("workers", "stop", "--all", "--wait", "--timeout", "30", "--by", "ada")
        assert answer.code == 0, answer
        assert "All of them are gone." in answer.out
        assert worker.wait() == 0
    assert not Worker.objects.exists()


@pytest.mark.usefixtures("transactional_db")
def test_bench_measures_and_leaves_nothing(chokaq: Run) -> None:
    job, buried = make.hot(queue="mail"), make.running(queue="mail", worker_id="long-dead")
    done = command("bench", "--jobs", "300", "--samples", "5", "--json", env={"DATABASE_URL": database_url()})
    assert done.returncode == 0, done
    document = json.loads(done.stdout)
    assert document["drain_per_second"] > 0
    assert document["enqueue_per_second"] > 0
    assert document["bulk_enqueue_per_second"] > 0
    assert document["durability"]
    assert document["pickup_ms"]["samples"] == 5
    assert 0 < document["pickup_ms"]["p50"] <= document["pickup_ms"]["p95"] <= document["pickup_ms"]["max"]
    # Nothing of it is left, and nobody else's job was touched, rescue included.
    assert set(JobHot.objects.values_list("pk", "status")) == {(job.pk, 0), (buried.pk, 2)}
    assert not Queue.objects.filter(name__startswith="chokaq-bench").exists()
    assert not MetricBucket.objects.exists()
    assert not Worker.objects.exists()


@pytest.mark.usefixtures("transactional_db")
def test_an_interrupted_bench_cleans_up(chokaq: Run) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "chokaq", "bench", "--jobs", "20000"],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": database_url()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_until(Worker.objects.exists, 60, what="the worker of the benchmark")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    assert "Traceback" not in out
    assert not JobHot.objects.exists()
    assert not Queue.objects.filter(name__startswith="chokaq-bench").exists()


@pytest.mark.django_db
def test_bench_keeps_away_from_a_fleet_that_serves_everything(chokaq: Run) -> None:
    make.worker()
    answer = chokaq("bench")
    assert (answer.code, "workers stop --all" in answer.error) == (2, True)


@pytest.mark.django_db
def test_what_a_killed_bench_has_left(chokaq: Run) -> None:
    make.hot(queue="chokaq-bench-1234")
    make.archived(queue="chokaq-bench-1234")
    make.queue("chokaq-bench-5678")
    kept = make.hot(queue="chokaq-benches")
    assert sorted(chokaq("bench", "--clean-up", "--json").json["deleted"]) == ["chokaq-bench-1234", "chokaq-bench-5678"]
    assert JobHot.objects.get().pk == kept.pk


@pytest.mark.any_engine
@pytest.mark.parametrize(
    ("argv0", "typed_as"),
    [
        ("manage.py", "python manage.py"), ("/srv/app/manage.py", "python manage.py"),
        ("/usr/bin/django-admin", "django-admin"), ("/lib/django/__main__.py", "python -m django"),
        ("/lib/pytest/__main__.py", "python manage.py"),
    ],
)  # fmt: skip
def test_commands_are_named_as_they_are_typed(monkeypatch: pytest.MonkeyPatch, argv0: str, typed_as: str) -> None:
    monkeypatch.setattr(sys, "argv", [argv0])
    assert program.typed("bulk show X --follow") == f"{typed_as} chokaq bulk show X --follow"
    assert Command().create_parser("manage.py", "chokaq").prog == f"{typed_as} chokaq"
    for name in ("runworker", "chokaq_worker"):
        assert RunWorker().create_parser("manage.py", name).prog == f"{typed_as} {name}"
    said = "See `chokaq dlq`, `manage.py migrate` or `python manage.py check`; not `chokaqs` nor chokaq jobs."
    assert program.as_typed(said) == (
        f"See `{typed_as} chokaq dlq`, `{typed_as} migrate` or `{typed_as} check`; not `chokaqs` nor chokaq jobs."
    )
