"""``pause``, ``resume``, ``cancel``, ``resurrect``, ``workers stop``: what changes, what is asked, what is refused."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import pytest

from chokaq_django import Job
from chokaq_django.cli import acting, acts, arguments, console
from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    AuditEntry,
    BulkOperation,
    Circuit,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobHot,
    JobTrash,
    Queue,
    Worker,
)
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


class LetterJob(Job, type="cli.letter"):
    to: str

    def run(self, ctx: object) -> None:
        raise NotImplementedError


# -- queues ------------------------------------------------------------------------------------------------------------


def test_pause_and_resume(chokaq: Run) -> None:
    make.queue("mail")
    make.queue("reports", is_paused=True)
    answer = chokaq("pause", "mail", "reports", "--reason", "provider is down", "--by", "ada")
    assert answer.code == 0
    assert "mail is paused." in answer.out
    assert "reports: The queue is paused already." in answer.out
    assert Queue.objects.get(pk="mail").is_paused
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.by, entry.reason) == ("pause_queue", "mail", "ada", "provider is down")
    assert chokaq("pause", "mail").code == 4
    document = chokaq("resume", "mail", "--json", "--by", "ada").json
    assert document == {"by": "ada", "open": ["mail"], "refused": []}
    assert not Queue.objects.get(pk="mail").is_paused


def test_a_misspelt_queue_is_not_paused(chokaq: Run) -> None:
    make.queue("mail")
    answer = chokaq("pause", "mail", "mial")
    assert answer.code == 2
    assert "Did you mean 'mail'?" in answer.error
    assert not Queue.objects.filter(is_paused=True).exists()  # not the other one either
    assert chokaq("pause", "tomorrow", "--new").code == 0
    assert Queue.objects.get(pk="tomorrow").is_paused
    assert chokaq("pause", "no such name", "--new").code == 2


def test_who_acts_is_the_user_of_the_shell(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments.getpass, "getuser", lambda: "grace")
    make.queue("mail")
    chokaq("pause", "mail")
    assert AuditEntry.objects.get().by == "grace"

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(arguments.getpass, "getuser", nobody)
    chokaq("resume", "mail")
    assert AuditEntry.objects.get(action="resume_queue").by == "shell"
    assert chokaq("pause", "mail", "--by", " ").code == 2


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_cancel_by_id(chokaq: Run) -> None:
    waiting, running, done = make.hot(), make.running(), make.archived()
    answer = chokaq("cancel", waiting.pk.lower(), running.pk, done.pk, "--reason", "wrong", "--json")
    assert answer.code == 1  # one was refused
    document = answer.json
    assert (document["applied"], document["requested"], document["refused"]) == (1, 1, 1)
    assert document["refusals"][0]["id"] == done.pk
    assert JobDLQ.objects.get().pk == waiting.pk
    assert {entry.reason for entry in AuditEntry.objects.all()} == {"wrong"}


def test_cancel_by_filter_takes_those_and_no_others(chokaq: Run) -> None:
    wanted = {make.hot(queue="mail", tags='["x"]').pk for _ in range(3)}
    make.hot(queue="reports", tags='["x"]')
    make.hot(queue="mail", tags='["xx"]')
    answer = chokaq("cancel", "--queue", "mail", "--tag", "x", "--yes")
    assert answer.code == 0
    assert "3 cancelled." in answer.out
    assert set(JobDLQ.objects.values_list("pk", flat=True)) == wanted
    assert JobHot.objects.count() == 2


def test_a_dry_run_changes_nothing_and_says_what(chokaq: Run) -> None:
    make.hot(queue="mail")
    make.hot(queue="mail", type="a.b")
    answer = chokaq("cancel", "--queue", "mail", "--dry-run")
    assert answer.code == 0
    assert "2 jobs to cancel" in answer.out
    assert "dry run" in answer.out
    document = chokaq("cancel", "--queue", "mail", "--dry-run", "--json").json
    assert document["selected"] == 2
    assert len(document["ids"]) == 2
    assert {(kind["type"], kind["count"]) for kind in document["kinds"]} == {("test.note", 1), ("a.b", 1)}
    assert JobHot.objects.count() == 2
    assert not AuditEntry.objects.exists()


def test_limit_takes_the_oldest(chokaq: Run) -> None:
    first, _ = make.hot(), make.hot()
    assert chokaq("cancel", "--all", "--limit", "1", "--yes").code == 0
    assert JobDLQ.objects.get().pk == first.pk


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "Which jobs?"),
        (("--queue", "mail"), "say --yes to do it"),
        (("--all",), "say --yes to do it"),
        (("nonsense",), "is no job id"),
        ((new_id(), "--queue", "mail"), "not both"),
        ((new_id(), "--all"), "not both"),
        (("--status", "succeeded"), "works on active"),
        (("--status", "dead"), "works on active"),
    ],
)
def test_what_is_unclear_changes_nothing(chokaq: Run, given: tuple[str, ...], said: str) -> None:
    make.hot()
    answer = chokaq("cancel", *given)
    assert (answer.code, said in answer.error) == (2, True), answer
    assert JobHot.objects.count() == 1


def test_a_person_is_asked(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make.hot()
    answers = iter(["no", "", "YES"])
    monkeypatch.setattr(console.Console, "is_interactive", True)
    monkeypatch.setattr("builtins.input", lambda: next(answers))
    assert chokaq("cancel", "--queue", "mail").code == 2
    assert chokaq("cancel", "--queue", "mail").code == 2
    assert JobHot.objects.count() == 1
    assert chokaq("cancel", "--queue", "mail").code == 0
    assert JobHot.objects.count() == 0


@pytest.mark.parametrize(("end", "code"), [(EOFError, 2), (KeyboardInterrupt, 130)])
def test_ctrl_d_and_ctrl_c_are_no_yes(
    chokaq: Run, monkeypatch: pytest.MonkeyPatch, end: type[BaseException], code: int
) -> None:
    def leave() -> str:
        raise end

    make.hot()
    monkeypatch.setattr(console.Console, "is_interactive", True)
    monkeypatch.setattr("builtins.input", leave)
    assert chokaq("cancel", "--queue", "mail").code == code
    assert JobHot.objects.count() == 1


def test_many_ids_need_a_yes_few_do_not(chokaq: Run) -> None:
    ids = [make.hot().pk for _ in range(acting.CONFIRM_FROM)]
    assert chokaq("cancel", *ids).code == 2
    assert chokaq("cancel", *ids[1:]).code == 0
    assert JobHot.objects.get().pk == ids[0]


def test_ids_from_standard_input(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make.hot()
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{job.pk}\n"))
    assert chokaq("cancel", "-").code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert "no id" in chokaq("cancel", "-").error


def test_nothing_that_matches(chokaq: Run) -> None:
    answer = chokaq("cancel", "--queue", "mail", "--yes", "--json")
    assert answer.code == 4
    assert answer.json["selected"] == 0


def test_nothing_that_matches_says_what_would(chokaq: Run) -> None:
    for _ in range(3):
        make.dead(queue="mail", type="cli.letter", failure_reason=FailureReason.TIMEOUT)
    make.hot(queue="mail")
    answer = chokaq("resurrect", "--queue", "mail", "--failure", "Zombie", "--type", "cli.letter", "--yes")
    assert answer.code == 4
    assert [line.strip() for line in answer.lines[-1:]] == ["without --failure: 3"]
    assert "with --status" not in answer.out, "it can resurrect dead jobs only"
    for how in ((), ("--background", "--limit", "5"), ("--background", "--dry-run")):
        answer = chokaq("edit", "--queue", "mail", "--status", "retrying", "--priority", "1", "--yes", *how)
        assert answer.code == 4
        assert [line.strip() for line in answer.lines[-2:]] == ["with --status active: 1", "with --status dead: 3"]
    answer = chokaq("cancel", "--queue", "other", "--tag", "vip", "--yes")
    assert "Nor with one option less. What there is: `python manage.py chokaq status`." in " ".join(answer.out.split())
    assert chokaq("cancel", "--queue", "other", "--background", "--limit", "2", "--yes", "--json").json == {
        "operation": None, "followed": False,
    }  # fmt: skip
    assert not BulkOperation.objects.exists()


def test_a_dry_run_says_which_of_the_named_would_be_refused(chokaq: Run) -> None:
    waiting, done, gone = make.hot().pk, make.archived().pk, new_id()
    answer = chokaq("cancel", waiting, done, gone, "--dry-run")
    assert answer.code == 1
    text = " ".join(answer.out.split())
    assert f"2 would not be cancelled: {done} it has succeeded {gone} there is no such job" in text
    assert chokaq("cancel", waiting, "--dry-run").code == 0
    document = chokaq("cancel", waiting, gone, "--dry-run", "--json").json
    assert document["elsewhere"] == [{"id": gone, "reason": "there is no such job"}]


def test_chunks_and_an_interruption_between_them(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "CHUNK", 2)
    for _ in range(5):
        make.hot()
    calls = []

    def cancel(ids: list[str], **named: object) -> object:
        calls.append(list(ids))
        signal.raise_signal(signal.SIGINT)
        return real(ids, **named)

    real = acts.control.cancel
    monkeypatch.setattr(acts.control, "cancel", cancel)
    answer = chokaq("cancel", "--queue", "mail", "--yes")
    assert answer.code == 1
    assert "2 cancelled." in answer.out
    assert "Interrupted: 3 were not touched." in answer.out
    assert (JobHot.objects.count(), JobDLQ.objects.count()) == (3, 2)


# -- resurrect ---------------------------------------------------------------------------------------------------------


def test_resurrect_by_filter(chokaq: Run) -> None:
    timed_out = make.dead(failure_reason=FailureReason.TIMEOUT, fingerprint="a" * 32)
    make.dead(failure_reason=FailureReason.TIMEOUT, fingerprint="b" * 32)
    make.dead(fingerprint="a" * 32)
    answer = chokaq("resurrect", "--failure", "Timeout", "--fingerprint", "aaaaaaaa", "--yes")
    assert answer.code == 0
    assert JobHot.objects.get().pk == timed_out.pk


def test_one_payload_repaired(chokaq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [make.dead(type="cli.letter", payload='{"to":5}') for _ in range(3)]
    file = tmp_path / "payload.json"
    file.write_text('{"to":"file"}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"to":"stdin"}'))
    for job, given in zip(jobs, ['{"to":"text"}', f"@{file}", "-"], strict=True):
        assert chokaq("resurrect", job.pk, "--payload", given, "--priority", "70", "--set-tags", "a,b").code == 0
    rows = [JobHot.objects.get(pk=job.pk) for job in jobs]
    assert [json.loads(row.payload)["to"] for row in rows] == ["text", "file", "stdin"]
    assert {(row.priority, row.tags) for row in rows} == {(70, '["a","b"]')}


def test_a_payload_is_tried_before_it_is_used(chokaq: Run) -> None:
    job = make.dead(type="cli.letter", payload="{}")
    answer = chokaq("resurrect", job.pk, "--payload", '{"to":5}', "--dry-run")
    assert answer.code == 2
    assert "The payload does not fit cli.letter: $.to" in answer.error
    assert chokaq("resurrect", job.pk, "--payload", '{"to":"ada"}', "--dry-run").code == 0
    answer = chokaq("resurrect", job.pk, "--payload", '{"to":5}')
    assert answer.code == 1
    assert "$.to" in answer.out
    assert JobDLQ.objects.get().payload == "{}"


@pytest.mark.parametrize("more", [("--failure", "Timeout"), (new_id(), new_id())])
def test_a_payload_is_for_one_job(chokaq: Run, more: tuple[str, ...]) -> None:
    make.dead(failure_reason=FailureReason.TIMEOUT)
    answer = chokaq("resurrect", *more, "--payload", "{}", "--yes")
    assert (answer.code, "one job" in answer.error) == (2, True)


def test_edits_that_cannot_be(chokaq: Run) -> None:
    job = make.dead()
    assert chokaq("resurrect", job.pk, "--payload", "@/no/such/file").code == 2
    assert "priority" in chokaq("resurrect", job.pk, "--priority", "9999999").error
    assert "tags" in chokaq("resurrect", job.pk, "--set-tags", "t" * 200).error
    assert JobDLQ.objects.count() == 1


def test_a_key_that_is_taken(chokaq: Run) -> None:
    job = make.dead(idempotency_key="k")
    holder = make.hot(idempotency_key="k")
    answer = chokaq("resurrect", job.pk)
    assert answer.code == 1
    assert holder.pk in answer.out
    assert chokaq("resurrect", job.pk, "--drop-key").code == 0
    assert JobHot.objects.get(pk=job.pk).idempotency_key is None


# -- workers -----------------------------------------------------------------------------------------------------------


def test_stop_workers(chokaq: Run) -> None:
    make.worker("one")
    make.worker("two")
    assert chokaq("workers", "stop", "one").code == 0
    assert Worker.objects.get(pk="one").stop_requested
    assert not Worker.objects.get(pk="two").stop_requested
    document = chokaq("workers", "stop", "--all", "--json").json
    assert document["requested"] == ["two"]
    assert [refusal["id"] for refusal in document["refused"]] == ["one"]
    assert chokaq("workers", "stop", "--all").code == 4


@pytest.mark.parametrize("given", [(), ("one", "--all"), ("nobody",)])
def test_workers_that_nobody_named(chokaq: Run, given: tuple[str, ...]) -> None:
    make.worker("one")
    assert chokaq("workers", "stop", *given).code == 2
    assert not Worker.objects.get().stop_requested


def test_waiting_for_workers_ends(chokaq: Run) -> None:
    make.worker("one")
    answer = chokaq("workers", "stop", "one", "--wait", "--timeout", "1")
    assert answer.code == 1
    assert "Still there after 1 s: one" in answer.out


def test_drain_and_resize_workers(chokaq: Run) -> None:
    make.worker("one")
    make.worker("two")
    assert chokaq("workers", "drain", "one").code == 0
    assert Worker.objects.get(pk="one").desired_concurrency == 0
    assert chokaq("workers", "concurrency", "20", "--all").code == 0
    assert set(Worker.objects.values_list("desired_concurrency", flat=True)) == {20}
    answer = chokaq("workers", "concurrency", "1000000", "one")
    assert (answer.code, "concurrency must be from 1" in answer.error) == (2, True)


# -- circuits ----------------------------------------------------------------------------------------------------------


def test_circuits_by_hand(chokaq: Run) -> None:
    answer = chokaq("circuits", "open", "cli.letter", "--by", "ada", "--reason", "provider is down")
    assert (answer.code, "cli.letter is held back" in answer.out) == (0, True)
    assert Circuit.objects.get().forced
    assert AuditEntry.objects.get().reason == "provider is down"
    assert chokaq("circuits", "open", "cli.letter").code == 4
    assert chokaq("circuits", "close", "cli.letter", "--json").json["applied"] == ["cli.letter"]
    assert chokaq("circuits", "reset", "cli.letter").code == 4


def test_a_misspelt_type_is_not_held_back(chokaq: Run) -> None:
    answer = chokaq("circuits", "open", "cli.leter")
    assert (answer.code, "Did you mean 'cli.letter'?" in answer.error) == (2, True)
    for key in ("\udcff", "\x00"):  # no type; the first is a byte that is no UTF-8, as Python reads it from a shell
        assert chokaq("circuits", "open", key).code == 2
        assert chokaq("circuits", "open", key, "--new").code == 2
    assert not Circuit.objects.exists()
    assert chokaq("circuits", "open", "of.other.code", "--new").code == 0


# -- the Trash ---------------------------------------------------------------------------------------------------------


def test_purge_and_restore(chokaq: Run) -> None:
    dead, done = make.dead(fingerprint="a" * 32), make.archived(queue="imports")
    make.dead(fingerprint="b" * 32)
    before = list(JobDLQ.objects.filter(pk=dead.pk).values())
    assert "1 job to purge" in chokaq("purge", "--fingerprint", "aaaaaaaa", "--dry-run").out
    assert not JobTrash.objects.exists()
    assert "1 purged." in chokaq("purge", "--fingerprint", "aaaaaaaa", "--yes", "--by", "ada").out
    assert chokaq("purge", "--status", "succeeded", "--queue", "imports", "--yes").code == 0
    listed = chokaq("jobs", "--status", "purged", "--json").json["jobs"]
    assert {(job["id"], job["came_from"]) for job in listed} == {(dead.pk, "dlq"), (done.pk, "archive")}
    assert "(Trash)" in chokaq("job", dead.pk).out
    assert "ada" in chokaq("job", dead.pk).out
    assert len([line for line in chokaq("jobs", "--status", "purged").lines if len(line) > 80]) == 0
    answer = chokaq("restore", "--since", "10m", "--yes")
    assert (answer.code, "2 restored." in answer.out) == (0, True)
    assert list(JobDLQ.objects.filter(pk=dead.pk).values()) == before
    assert JobArchive.objects.get().pk == done.pk
    assert chokaq("restore", dead.pk).code == 1


def test_what_is_to_be_purged_must_be_said(chokaq: Run) -> None:
    make.dead()
    assert chokaq("purge").code == 2
    assert chokaq("purge", "--all").code == 2  # without a yes
    assert "of dead jobs" in chokaq("purge", "--status", "succeeded", "--failure", "Timeout", "--yes").error
    assert chokaq("purge", "--status", "active", "--yes").code == 2
    assert JobDLQ.objects.count() == 1
