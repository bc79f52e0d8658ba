"""``manage.py chokaq`` as a process: exit codes, help, options of Django, pipes, and a database without tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chokaq_django.cli import SUBCOMMANDS
from chokaq_django.cli.subcommand import Subcommand
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


@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_every_help_has_examples_that_parse(
    chokaq: Run, name: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert chokaq(*name, "--help").code == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80 and "manage.py chokaq" not in line] == []
    assert f"manage.py chokaq {' '.join(name)}" in text
    assert "examples:" in text


def examples() -> list[str]:
    def of(subcommand: Subcommand) -> list[str]:
        own = [typed for typed, _ in subcommand.examples]
        return own + [typed for child in subcommand.children for typed in of(child)]

    return [typed for subcommand in SUBCOMMANDS for typed in of(subcommand)]


@pytest.mark.parametrize("typed", examples())
def test_the_examples_of_the_help_are_right(typed: str) -> None:
    import shlex

    from chokaq_django.management.commands.chokaq import Command

    parsed = Command().create_parser("manage.py", "chokaq").parse_args(shlex.split(typed))
    assert callable(parsed.run)


def test_a_database_without_tables(tmp_path: Path) -> None:
    env = {"DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"}
    expected = {
        ("jobs",): 3,
        ("queues",): 3,
        ("pause", "mail"): 3,
        ("cancel", "--all"): 3,
        ("health",): 1,
        ("doctor",): 1,
    }
    for arguments, code in expected.items():
        done = command(*arguments, env=env)
        assert done.returncode == code, (arguments, done)
        assert "manage.py migrate" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert len((done.stdout + done.stderr).strip().splitlines()) < 20


def test_a_database_that_is_not_there() -> None:
    done = command("queues", env={"DATABASE_URL": "postgres://nobody:secret-word@127.0.0.1:1/none"})
    assert done.returncode == 3
    assert "does not do what it is asked" in done.stderr
    assert "secret-word" not in done.stderr
    assert "Traceback" not in done.stderr


def test_usage_errors_are_two() -> None:
    for arguments in ((), ("statu",), ("jobs", "--limit", "none"), ("pause",), ("job",)):
        done = command(*arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done


@pytest.mark.django_db(transaction=True)
def test_options_of_django_may_stand_behind() -> None:
    env = {"DATABASE_URL": database_url()}
    done = command("queues", "--json", "--settings=tests.settings", "--no-color", "-v", "0", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["queues"] == []


@pytest.mark.django_db(transaction=True)
def test_a_reader_that_goes_away() -> None:
    for _ in range(50):
        make.hot(queue="q" * 200)
    line = f"{sys.executable} manage.py chokaq jobs --limit 50 --json | head -c 10"
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": database_url()}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.django_db(transaction=True)
def test_a_terminal_that_knows_only_ascii() -> None:
    make.hot(queue="ü🎉")
    done = command("queues", env={"DATABASE_URL": database_url(), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    assert r"\xfc\U0001f389" in done.stdout


# -- with real workers -------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
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


@pytest.mark.django_db(transaction=True)
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


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_bench_cleans_up(chokaq: Run) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "chokaq", "bench", "--jobs", "100000"],
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
