"""``edit``, ``run-again``, ``remove`` and ``queue``: what changes, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chokaq_django import Job
from chokaq_django.job.ids import new_id
from chokaq_django.models import AuditEntry, JobArchive, JobDLQ, JobHot, JobTrash, PayloadVersion, Queue
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


class ParcelJob(Job, type="cli.parcel"):
    to: str

    def run(self, ctx: object) -> None:
        raise NotImplementedError


class LetterToJob(Job, type="cli.letter_to"):
    to: str
    stamp: int

    def run(self, ctx: object) -> None:
        raise NotImplementedError


# -- edit --------------------------------------------------------------------------------------------------------------


def test_edit_one(chokaq: Run, tmp_path: Path) -> None:
    job = make.dead(type="cli.parcel", payload='{"to":5}')
    file = tmp_path / "payload.json"
    file.write_text('{"to":"ada"}')
    answer = chokaq(
        "edit", job.pk, "--payload", f"@{file}", "--priority", "7", "--set-tags", "a,b", "--set-queue", "slow",
        "--by", "grace", "--reason", "repaired",
    )  # fmt: skip
    assert (answer.code, "1 edited." in answer.out) == (0, True)
    row = JobDLQ.objects.get()
    assert (json.loads(row.payload), row.priority, row.tags, row.queue) == ({"to": "ada"}, 7, '["a","b"]', "slow")
    assert PayloadVersion.objects.get().payload == '{"to":5}'
    assert (AuditEntry.objects.get().by, AuditEntry.objects.get().reason) == ("grace", "repaired")


def test_edit_is_refused_when_somebody_was_there_first(chokaq: Run) -> None:
    job = make.hot(type="cli.parcel", payload='{"to":"ada"}')
    assert chokaq("edit", job.pk, "--priority", "5", "--revision", "0", "--by", "bob").code == 0
    answer = chokaq("edit", job.pk, "--priority", "6", "--revision", "0")
    assert answer.code == 1
    assert "bob" in answer.out
    assert "priority 10 -> 5" in " ".join(answer.out.split())
    assert JobHot.objects.get().priority == 5


def test_a_payload_must_fit_the_type_that_it_is_to_have(chokaq: Run) -> None:
    job = make.hot(type="cli.parcel", payload='{"to":"ada"}')
    given = ("edit", job.pk, "--payload", '{"to":"ada"}', "--set-type", "cli.letter_to")
    answer = chokaq(*given, "--dry-run")
    assert (answer.code, "does not fit cli.letter_to" in answer.error) == (2, True)
    assert chokaq(*given).code == 1
    assert "did you mean 'cli.letter_to'" in chokaq("edit", job.pk, "--set-type", "cli.lettr_to").error
    assert JobHot.objects.get().type == "cli.parcel"
    good = ("--payload", '{"to":"ada","stamp":80}', "--set-type", "cli.letter_to")
    assert chokaq("edit", job.pk, *good).code == 0
    assert JobHot.objects.get().type == "cli.letter_to"


def test_edit_by_filter(chokaq: Run) -> None:
    for queue in ("mail", "mail", "sms"):
        make.hot(queue=queue)
    make.running(queue="mail")
    assert "2 edited." in chokaq("edit", "--queue", "mail", "--priority", "1", "--yes").out
    assert JobHot.objects.filter(priority=1).count() == 2
    make.dead(queue="mail")
    assert chokaq("edit", "--status", "dead", "--all", "--set-queue", "sms", "--yes").code == 0
    assert JobDLQ.objects.get().queue == "sms"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((new_id(),), "What is to change?"),
        (("--all", "--payload", "{}", "--yes"), "--payload is of one job"),
        (("--all", "--priority", "1", "--revision", "0", "--yes"), "--revision is of one job"),
        ((new_id(), "--set-queue", "no such name"), "queue must be"),
        ((new_id(), "--priority", "9999999"), "priority must be"),
        (("--status", "succeeded", "--priority", "1", "--yes"), "works on"),
    ],
)
def test_edits_that_cannot_be(chokaq: Run, given: tuple[str, ...], said: str) -> None:
    answer = chokaq("edit", *given)
    assert (answer.code, said in answer.error) == (2, True), answer


# -- run again, remove -------------------------------------------------------------------------------------------------


def test_run_again(chokaq: Run) -> None:
    job = make.archived()
    document = chokaq("run-again", job.pk, "--json").json
    new = document["new_ids"][job.pk]
    assert (JobHot.objects.get().pk, JobArchive.objects.get().pk) == (new, job.pk)
    assert f"{job.pk} -> " in chokaq("run-again", job.pk).out
    assert "1 job to run again." in chokaq("run-again", "--all", "--dry-run").out
    assert JobHot.objects.count() == 2


def test_remove(chokaq: Run) -> None:
    waiting, running = make.hot(), make.running()
    answer = chokaq("remove", waiting.pk, running.pk)
    assert answer.code == 1
    assert "1 removed." in answer.out
    assert (JobTrash.objects.get().pk, JobHot.objects.get().pk) == (waiting.pk, running.pk)
    assert "1 restored." in chokaq("restore", waiting.pk).out
    assert JobHot.objects.count() == 2


# -- queues ------------------------------------------------------------------------------------------------------------


def test_limits_of_a_queue(chokaq: Run) -> None:
    make.queue("mail")
    limits = ("--max-workers", "3", "--execution-timeout", "2h", "--zombie-timeout", "90s")
    answer = chokaq("queue", "set", "mail", *limits, "--window", "22:00-06:00 Europe/Berlin", "--by", "ada")
    assert (answer.code, "mail is changed." in answer.out) == (0, True)
    row = Queue.objects.get()
    assert (row.max_workers, row.execution_timeout, row.zombie_timeout) == (3, 7_200, 90)
    assert (f"{row.window_start:%H:%M}", row.window_zone) == ("22:00", "Europe/Berlin")
    assert chokaq("queue", "set", "mail", *limits).code == 4  # it has them already
    assert chokaq("queue", "set", "mail", "--max-workers", "none", "--window", "none", "--json").json["changed"] == [
        "mail"
    ]
    row.refresh_from_db()
    assert (row.max_workers, row.window_start, row.execution_timeout) == (None, None, 7_200)
    reset = chokaq("queue", "reset", "mail", "--reason", "over", "--by", "bob")
    assert (reset.code, "mail has the limits of the settings." in reset.out) == (0, True)
    row.refresh_from_db()
    assert (row.execution_timeout, row.zombie_timeout, row.updated_by) == (None, None, None)
    assert chokaq("queue", "reset", "mail").code == 4
    assert chokaq("queue", "reset", "mial").code == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("mail",), "Which limit?"),
        (("mail", "--max-workers", "0"), "--max-workers must be from 1"),
        (("mail", "--max-workers", "-5"), "--max-workers must be from 1 to 1,000,000, got -5"),
        (("mail", "--max-workers", "9" * 5_000), "--max-workers must be an integer"),
        (("mail", "--max-workers", "many"), "--max-workers must be an integer"),
        (("mail", "--execution-timeout", "5"), "--execution-timeout 5: give a span"),
        (("mail", "--zombie-timeout", "0s"), "--zombie-timeout must"),
        (("mail", "--window", "nights"), "window"),
        (("mial", "--max-workers", "1"), "Did you mean 'mail'?"),
    ],
)
def test_bad_limits(chokaq: Run, given: tuple[str, ...], said: str) -> None:
    make.queue("mail")
    answer = chokaq("queue", "set", *given)
    assert (answer.code, said in answer.error) == (2, True), answer
    assert Queue.objects.get().max_workers is None


def test_hide_and_show(chokaq: Run) -> None:
    make.queue("mail")
    assert "mail is hidden." in chokaq("queue", "hide", "mail", "--reason", "moved").out
    assert not Queue.objects.get().is_active
    assert chokaq("queue", "hide", "mail").code == 4
    assert "hidden" in chokaq("queue").out
    assert chokaq("queue", "show", "mail").code == 0
    assert Queue.objects.get().is_active
