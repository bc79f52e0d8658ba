"""``manage.py runworker``: what its arguments do, with real processes where only those can show it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from channels.management.commands.runworker import Command as ChannelsCommand
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction

from chokaq_django import control, enqueue, enqueue_many
from chokaq_django.management.commands.runworker import log_to_console
from chokaq_django.models import JobArchive, JobStatus
from chokaq_django.reading.queues import known_queues

from .. import factories as make
from .. import jobs
from ..helpers import ROOT, WorkerProcess, bare_loggers, database_url, wait_until
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
        (["--queues=mail,no such name"], "must be letters"),
        (["--concurrency=0"], "--concurrency must be a whole number of at least 1, not '0'"),
        (["--processes=none"], "--processes must be a whole number"),
        (["--health-port=x"], "--health-port must be from 0 to 65535, not 'x'"),
        (["--concurency=3"], "There is no option --concurency. Did you mean '--concurrency'?"),
        (["--burst", "thumbnails"], "--burst and channel names do not go together"),
        (["--queues=mail", "--processes=2", "thumbnails"], "--queues, --processes and channel names"),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("runworker", *arguments)
    assert said.replace(" and channel", "") in str(refused.value).replace(" and channel", "")
    assert refused.value.returncode == 2


def test_a_queue_that_nothing_knows_is_said_and_waited_for(worker_process: StartProcess) -> None:
    make.queue("mail", updated_by="ada")
    for _ in range(2):  # at the next start too, when the first worker has made a row for the name
        worker = worker_process("--queues=mial,mail", "--burst")
        assert worker.wait() == 0, worker.output
        (line,) = [line for line in worker.output.splitlines() if "WARNING" in line]
        assert "knows a queue mial" in line
        assert "Did you mean 'mail'?" in line


def test_a_queue_whose_jobs_are_at_work_is_known() -> None:
    make.hot(queue="slow", status=JobStatus.PROCESSING, claim_number=1)
    make.hot(queue="leased", status=JobStatus.FETCHED, claim_number=1)
    assert {"slow", "leased"} <= known_queues()


def test_a_queue_that_operators_hold_is_known() -> None:
    make.queue("a worker's own")
    for name, verb in (("limited", partial(control.set_queue, max_workers=1)), ("paused", control.pause_queue),
                       ("hidden", control.hide_queue)):  # fmt: skip
        verb(name, by="ada")
    # Nothing of these is left in their rows.
    for name, verbs in (("resumed", (control.pause_queue, control.resume_queue)),
                        ("shown", (control.hide_queue, control.show_queue)),
                        ("reset", (partial(control.set_queue, max_workers=1), control.reset_queue))):  # fmt: skip
        for verb in verbs:
            verb(name, by="ada")
    make.audit_entry(action="set_setting", target="a worker's own")
    known = known_queues()
    assert {"limited", "paused", "hidden", "resumed", "shown", "reset"} <= known
    assert "a worker's own" not in known


def test_a_database_in_memory_is_refused_and_the_error_says_what_tests_need(tmp_path: Path) -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": "sqlite:///:memory:"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "runworker", "--burst"],
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert '"TEST": {"NAME": BASE_DIR / "test.sqlite3"}' in " ".join(done.stderr.split())


@pytest.mark.django_db
def test_a_worker_is_refused_inside_a_transaction_and_told_what_a_test_needs() -> None:
    with pytest.raises(CommandError, match="TransactionTestCase") as refused, transaction.atomic():
        call_command("runworker", "--burst")
    assert refused.value.returncode == 2


def test_warnings_of_the_projects_own_loggers_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = bare_loggers(monkeypatch)
    log_to_console(1)
    logging.getLogger("shop.mail").warning("the letter is long")
    logging.getLogger("asyncio").info("nothing")
    ours.warning("once")
    printed = capsys.readouterr().err.splitlines()
    assert [line.rpartition("] ")[2] for line in printed] == ["shop.mail: the letter is long", "chokaq: once"]


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
            if connection.vendor == "microsoft":  # the server may not have noticed yet that the processes are gone
                cursor.execute(f"ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
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


def test_ctrl_c_ends_the_waiting_for_the_tables(worker_process: StartProcess, tmp_path: Path) -> None:
    with empty_database(tmp_path) as env:
        worker = worker_process(env=env)
        wait_until(lambda: "The worker waits; run `manage.py migrate`" in worker.output, 30, what=worker.output)
        worker.signal(signal.SIGINT)
        assert worker.wait() == 0, worker.output
        assert "Traceback" not in worker.output
