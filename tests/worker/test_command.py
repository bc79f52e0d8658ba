"""``manage.py runworker``: what its arguments do, with real processes where only those can show it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from channels.management.commands.runworker import Command as ChannelsCommand
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from chokaq_django import enqueue, enqueue_many
from chokaq_django.models import JobArchive, JobStatus

from .. import jobs
from ..helpers import ROOT, WorkerProcess, database_url, wait_until
from ..ledger import Ledger
from .support import Settings, committed, job

pytestmark = committed

StartProcess = Callable[..., WorkerProcess]
MEMORY_LAYER = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


def test_burst_runs_what_is_due_and_exits_with_0(worker_process: StartProcess, ledger: Ledger) -> None:
    enqueue_many([jobs.NoteJob()] * 100)
    later = enqueue(jobs.NoteJob(), delay=3_600).id
    worker = worker_process("--burst")
    assert worker.wait() == 0, worker.output
    assert ledger.count() == 100
    assert JobArchive.objects.count() == 100
    assert job(later).status == JobStatus.PENDING
    assert " ERROR " not in worker.output


def test_max_jobs_replaces_the_process_and_loses_nothing(worker_process: StartProcess, ledger: Ledger) -> None:
    enqueue_many([jobs.SleepJob(seconds=0.02)] * 60)
    worker = worker_process("--burst", "--max-jobs=20", "--concurrency=2")
    assert worker.wait(60) == 0, worker.output
    assert ledger.count("leave") == JobArchive.objects.count() == 60
    by_process = {entry.pid for entry in ledger.entries()}
    assert len(by_process) >= 2


def test_named_queues_only_and_the_other_name_of_the_command(worker_process: StartProcess, ledger: Ledger) -> None:
    for queue in ("mail", "reports", "other"):
        enqueue(jobs.NoteJob(name=queue), queue=queue)
    worker = worker_process("--queues=reports,mail", "--burst", command="chokaq_worker")
    assert worker.wait() == 0, worker.output
    assert sorted(ledger.names()) == ["mail", "reports"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--queues=,"], "names no queue"),
        (["--queues=mail,no such name"], "--queues"),
        (["--strict"], "name the queues"),
        (["--layer=default"], "--layer goes with channel names"),
        (["--concurrency=0"], "at least 1"),
        (["--processes=none"], "invalid"),
        (["--burst", "thumbnails"], "--burst and channel names do not go together"),
        (["--queues=mail", "--processes=2", "thumbnails"], "--queues, --processes and channel names"),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("runworker", *arguments)
    assert said.replace(" and channel", "") in str(refused.value).replace(" and channel", "")


def test_bare_names_go_to_channels_own_command(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.CHANNEL_LAYERS = MEMORY_LAYER
    called: list[tuple[list[str], str]] = []

    def handle(self: ChannelsCommand, *args: object, **options: object) -> None:
        called.append((options["channels"], options["layer"]))  # type: ignore[arg-type]

    monkeypatch.setattr(ChannelsCommand, "handle", handle)
    call_command("runworker", "thumbnails", "mail")
    call_command("runworker", "--layer=other", "thumbnails")
    assert called == [(["thumbnails", "mail"], "default"), (["thumbnails"], "other")]


def test_bare_names_without_a_channel_layer_say_how_to_name_queues(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {}
    with pytest.raises(CommandError, match="--queues=mail,reports"):
        call_command("runworker", "mail", "reports")


# -- before the tables are there ---------------------------------------------------------------------------------------


@contextmanager
def empty_database(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment that names a database without any table."""
    if connection.vendor == "sqlite":
        yield {"DATABASE_URL": f"sqlite:///{folder / 'empty.sqlite3'}"}
        return
    name = connection.ops.quote_name(f"{connection.settings_dict['NAME']}_empty")
    force = " WITH (FORCE)" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        address, question, query = database_url().partition("?")
        yield {"DATABASE_URL": f"{address}_empty{question}{query}"}
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}{force}")


def manage(env: Mapping[str, str], *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


ENQUEUE = "from tests.jobs import NoteJob; from chokaq_django import enqueue; enqueue(NoteJob(name='at last'))"


def test_a_worker_waits_for_the_tables_says_so_and_goes_on(
    worker_process: StartProcess, ledger: Ledger, tmp_path: Path
) -> None:
    with empty_database(tmp_path) as env:
        worker = worker_process(env=env)
        wait_until(lambda: "The worker waits; run `manage.py migrate`" in worker.output, 30, what=worker.output)
        assert "0001_initial" in worker.output
        manage(env, "migrate", "--verbosity=0")
        manage(env, "shell", "--command", ENQUEUE)
        wait_until(lambda: ledger.names() == ["at last"], 30, what=worker.output)
        assert worker.stop() == 0, worker.output
        assert "Traceback" not in worker.output
