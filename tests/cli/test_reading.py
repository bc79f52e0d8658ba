"""``status``, ``queues``, ``workers``, ``jobs``, ``job``, ``dlq`` and ``circuits`` on real tables."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import control
from chokaq_django.job.ids import new_id
from chokaq_django.models import FailureReason, JobHot, JobStatus
from chokaq_django.reading import queues as reading
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db

EVIL = "e\x1b[2J\x07\u202e\nline"
SUBCOMMANDS = [
    ("status",), ("queues",), ("workers",), ("workers", "-v", "2"), ("jobs",), ("jobs", "--status", "succeeded"),
    ("jobs", "--status", "dead"), ("dlq",), ("dlq", "--group-by", "type"), ("dlq", "list"), ("circuits", "--all"),
    ("audit",), ("audit", "-v", "2"), ("health",), ("doctor",), ("bulk",), ("queue",),
]  # fmt: skip


def ago(**span: float) -> dt.datetime:
    return timezone.now() - dt.timedelta(**span)


def fill_with_evil() -> None:
    """Rows that hold what an attacker would put into a terminal."""
    make.hot(queue=EVIL, type=EVIL, tags=json.dumps([EVIL]))
    make.archived(queue=EVIL, type=EVIL)
    make.dead(queue=EVIL, type=EVIL, error_type=EVIL, error_details=EVIL, fingerprint=EVIL)
    make.queue(EVIL)
    make.worker(EVIL, host=EVIL, version=EVIL, queues=json.dumps([EVIL]))
    make.circuit(EVIL, state=1, opened_at=timezone.now(), updated_by=EVIL)
    make.audit_entry(by=EVIL, target=EVIL, reason=EVIL, action=EVIL[:50])
    control.bulk_purge(where=control.JobFilter(status="dead", queue=EVIL), by=EVIL, reason=EVIL)


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", SUBCOMMANDS, ids=" ".join)
def test_nothing_from_a_row_reaches_the_terminal_as_it_is(chokaq: Run, arguments: tuple[str, ...]) -> None:
    fill_with_evil()
    answer = chokaq(*arguments)
    assert answer.error == ""
    assert r"e\x1b" in answer.out
    assert not {"\x1b", "\x07", "\u202e"} & set(answer.out)
    assert not [line for line in answer.lines if line.startswith("line")]  # its line break breaks nothing


@pytest.mark.any_engine
@pytest.mark.parametrize("arguments", SUBCOMMANDS, ids=" ".join)
def test_eighty_columns_are_enough(chokaq: Run, arguments: tuple[str, ...]) -> None:
    long = "a-name-that-somebody-made-from-a-tenant." * 6
    for place in range(3):
        make.hot(queue=long, type=f"{long}{place}", status=JobStatus.PENDING)
        make.archived(queue=long, type=long)
        make.dead(queue=long, type=long, error_type=long, fingerprint=f"{place}" * 32)
    make.queue(long, max_workers=1_000_000)
    make.worker("x" * 100, queues=json.dumps([long]), succeeded=10**12, last_seen=ago(days=300))
    make.circuit(long, state=1, opened_at=ago(days=300), updated_by="u" * 100)
    make.audit_entry(by="b" * 150, target=long, reason="r" * 2_000)
    control.bulk_purge(where=control.JobFilter(status="dead", queue=long), by="b" * 150, reason="r" * 2_000)
    answer = chokaq(*arguments)
    assert answer.error == ""
    to_copy = ("  python manage.py ", "  --after ")  # commands stay on their line
    assert [line for line in answer.lines if len(line) > 80 and not line.startswith(to_copy)] == []


@pytest.mark.any_engine
@pytest.mark.parametrize("arguments", SUBCOMMANDS, ids=" ".join)
def test_json_is_one_ascii_document(chokaq: Run, arguments: tuple[str, ...]) -> None:
    fill_with_evil()
    answer = chokaq(*arguments, "--json")
    assert answer.out.isascii()
    assert "\x1b" not in answer.out
    assert isinstance(answer.json, dict)


@pytest.mark.parametrize("arguments", SUBCOMMANDS, ids=" ".join)
def test_empty_tables_are_no_error(chokaq: Run, arguments: tuple[str, ...]) -> None:
    answer = chokaq(*arguments)
    assert answer.error == ""
    assert answer.out.strip()
    assert answer.code in (0, 1, 4)


# -- figures -----------------------------------------------------------------------------------------------------------


def test_status_counts(chokaq: Run) -> None:
    for minutes in (3, 1):
        make.hot(run_at=ago(minutes=minutes))
    make.hot(run_at=ago(minutes=5), priority=50)
    make.hot(run_at=ago(minutes=-5))
    make.running()
    make.dead()
    make.worker(busy=1)
    make.worker("gone", last_seen=ago(minutes=5))
    document = chokaq("status", "--json").json
    assert document["jobs"] == {
        "due": 3, "scheduled": 1, "fetched": 0, "processing": 1, "dead": 1, "counts_capped": False,
    }  # fmt: skip
    assert document["workers"] == {"alive": 1, "silent": 1, "busy": 1, "slots": 10}
    (queue,) = document["queues"]
    assert (queue["name"], queue["due"], queue["scheduled"], queue["processing"]) == ("mail", 3, 1, 1)
    assert 299 < queue["lag_seconds"] < 330  # the oldest, whatever its priority
    assert dt.datetime.fromisoformat(document["as_of"]).tzinfo is not None
    assert "1 in the DLQ, 0 died within an hour" in chokaq("status").out  # the first from rows, the other from buckets


def test_a_closed_queue_has_no_lag(chokaq: Run) -> None:
    make.queue("mail", is_paused=True)
    make.queue("reports", is_active=False)
    opens, closes = (ago(hours=-hours).astimezone(dt.UTC).time() for hours in (6, 7))
    make.queue("night", window_start=opens, window_end=closes, window_zone="UTC")
    for name in ("mail", "reports", "night"):
        make.hot(queue=name, run_at=ago(hours=2))
    queues = {queue["name"]: queue for queue in chokaq("queues", "--json").json["queues"]}
    assert {name: queue["lag_seconds"] for name, queue in queues.items()} == {"mail": 0, "reports": 0, "night": 0}
    assert {name: queue["state"] for name, queue in queues.items()} == {
        "mail": "paused", "reports": "hidden", "night": "outside its window",
    }  # fmt: skip
    assert [queue["due"] for queue in queues.values()] == [1, 1, 1]


def test_counts_stop_at_their_limit(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_COUNTED", 3)
    for _ in range(5):
        make.hot(run_at=ago(minutes=1))
    (queue,) = chokaq("queues", "--json").json["queues"]
    assert (queue["due"], queue["counts_capped"]) == (3, True)
    assert "3+" in chokaq("queues").out


def test_figures_cost_the_same_for_one_queue_and_for_many(chokaq: Run) -> None:
    make.hot(queue="q0")
    with CaptureQueriesContext(
        connection,
    ) as one:
        chokaq("queues", "--json")
    for number in range(1, 20):
        make.hot(queue=f"q{number}")
        make.queue(f"q{number}")
    with CaptureQueriesContext(connection) as many:
        chokaq("queues", "--json")
    assert len(many) == len(one)


def test_an_unknown_queue_is_said_with_the_nearest(chokaq: Run) -> None:
    make.queue("mail")
    answer = chokaq("queues", "mial")
    assert answer.code == 2
    assert "There is no queue 'mial'. Did you mean 'mail'?" in answer.error


# -- jobs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("active", {"due", "later", "again", "held", "runs"}),
        ("pending", {"due", "later", "again"}),
        ("due", {"due"}),
        ("scheduled", {"later", "again"}),
        ("retrying", {"again"}),
        ("fetched", {"held"}),
        ("processing", {"runs"}),
        ("succeeded", {"done"}),
        ("dead", {"failed", "cancelled", "zombie"}),
        ("failed", {"failed"}),
        ("cancelled", {"cancelled"}),
        ("ZOMBIE", {"zombie"}),
    ],
)
def test_jobs_by_status(chokaq: Run, status: str, found: set[str]) -> None:
    ids = {
        make.hot(run_at=ago(minutes=1)).pk: "due",
        make.hot(run_at=ago(minutes=-1)).pk: "later",
        make.hot(run_at=ago(minutes=-1), attempt=1).pk: "again",
        make.hot(status=JobStatus.FETCHED).pk: "held",
        make.running().pk: "runs",
        make.archived().pk: "done",
        make.dead().pk: "failed",
        make.dead(failure_reason=FailureReason.CANCELLED).pk: "cancelled",
        make.dead(failure_reason=FailureReason.ZOMBIE).pk: "zombie",
    }
    document = chokaq("jobs", "--status", status, "--json").json
    assert {ids[job["id"]] for job in document["jobs"]} == found
    assert document["more"] is False


def test_filters_hold_together(chokaq: Run) -> None:
    wanted = make.hot(queue="reports", type="a.b", tags='["x","customer-42"]')
    make.hot(queue="reports", type="a.b", tags='["customer-421"]')
    make.hot(queue="reports", type="a.c", tags='["customer-42"]')
    make.hot(queue="mail", type="a.b", tags='["customer-42"]')
    make.hot(queue="reports", type="a.b", tags='["CUSTOMER-42"]')
    answer = chokaq("jobs", "--queue", "reports", "--type", "a.b", "--tag", "customer-42", "--json")
    assert [job["id"] for job in answer.json["jobs"]] == [wanted.pk]


@pytest.mark.parametrize("tag", ['quo"te', "back\\slash", "per%cent", "under_score", "ü🎉"])
def test_a_tag_is_literal(chokaq: Run, tag: str) -> None:
    wanted = make.archived(tags=json.dumps([tag], ensure_ascii=False, separators=(",", ":")))
    make.archived(tags='["other","perXcent","underXscore"]')
    answer = chokaq("jobs", "--status", "succeeded", "--tag", tag, "--since", "1d", "--json")
    assert [job["id"] for job in answer.json["jobs"]] == [wanted.pk]


def test_since_and_limit(chokaq: Run) -> None:
    new, _, old = make.archived(), make.archived(finished_at=ago(hours=1)), make.archived(finished_at=ago(days=2))
    document = chokaq("jobs", "--status", "succeeded", "--since", "3h", "--limit", "1", "--json").json
    assert ([job["id"] for job in document["jobs"]], document["more"]) == ([new.pk], True)
    rest = chokaq("jobs", "--status", "succeeded", "--since", "3h", "--after", document["next"], "--json").json
    assert (len(rest["jobs"]), rest["more"], rest["next"]) == (1, False, None)
    assert len(chokaq("jobs", "--status", "succeeded", "--until", "1d", "--json").json["jobs"]) == 1
    day = (old.finished_at - dt.timedelta(days=1)).date().isoformat()
    assert len(chokaq("jobs", "--status", "succeeded", "--since", day, "--json").json["jobs"]) == 3


@pytest.mark.parametrize("text", ["3x", "yesterday", "", "2026-13-01", "9" * 400 + "d", "0001-01-01T00:00:00+14:00"])
def test_a_bad_time_says_how_to_write_one(chokaq: Run, text: str) -> None:
    answer = chokaq("jobs", "--since", text)
    assert answer.code == 2
    assert "such as 15m, 2h or 7d" in answer.error


def test_nothing_that_matches_is_an_exit_code_of_its_own(chokaq: Run) -> None:
    answer = chokaq("jobs", "--queue", "nothing")
    assert answer.code == 4
    assert "No job matches (status active, queue nothing)" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--status", "sleeping"), "--status"),
        (("--queue", " "), "--queue is empty"),
        (("--tag", "nul\x00"), "--tag"),
        (("--concurrency-key", ""), "--concurrency-key is empty"),
        (("--id-prefix", "x%"), "--id-prefix must be the beginning of a job id"),
        (("--until", "soon"), "--until soon: give a span"),
        (("--after", "nonsense"), "must be the 'next' of a page"),
        (("--status", "succeeded", "--worker", "w"), "at most seven days"),
    ],
)
def test_bad_filters_are_refused(chokaq: Run, arguments: tuple[str, ...], said: str) -> None:
    answer = chokaq("jobs", *arguments)
    assert (answer.code, said in answer.error) == (2, True), answer


def test_filters_on_what_a_job_was_given(chokaq: Run) -> None:
    wanted = make.hot(created_by="ada", idempotency_key="k", concurrency_key="c", worker_id="w")
    make.hot()
    for arguments in (
        ("--created-by", "ada"), ("--key", "k"), ("--concurrency-key", "c"), ("--worker", "w"),
        ("--id-prefix", wanted.pk),
    ):  # fmt: skip
        document = chokaq("jobs", *arguments, "--json").json
        assert [job["id"] for job in document["jobs"]] == [wanted.pk], arguments


def test_a_list_reads_no_payload(chokaq: Run) -> None:
    make.archived(payload="p" * 1_000)
    with CaptureQueriesContext(connection) as captured:
        chokaq("jobs", "--status", "succeeded")
    assert not [query for query in captured if "payload" in query["sql"] and "archive" in query["sql"]]


# -- one job -----------------------------------------------------------------------------------------------------------


def test_a_job_in_full(chokaq: Run) -> None:
    log = [
        {"attempt": 1, "outcome": "retry", "started": ago(minutes=1).isoformat(), "duration_ms": 5, "message": "boom"}
    ]
    job = make.dead(payload='{"a":12345678901234567890,"b":1.10}', attempt_log=json.dumps(log), tags='["x"]')
    make.audit_entry(target=job.pk, reason="because")
    answer = chokaq("job", job.pk)
    assert answer.code == 0
    for words in ("failed (DLQ)", "12345678901234567890", "1.10", "boom", "the secret of the error", "because", "UTC"):
        assert words in answer.out, words
    document = chokaq("job", job.pk.lower(), "--json").json
    assert document["job"]["failure_reason"] == "MaxRetriesExceeded"
    assert document["job"]["attempts"] == log
    assert document["audit"][0]["reason"] == "because"


@pytest.mark.parametrize("job_id", ["nope", "", "\x00", "x" * 400])
def test_an_unknown_job(chokaq: Run, job_id: str) -> None:
    answer = chokaq("job", job_id)
    assert (answer.code, answer.error) == (4, "")
    assert "There is no job" in answer.out
    document = chokaq("job", new_id(), "--json").json
    assert {**document, "as_of": ""} == {"as_of": "", "job": None, "waiting_because": [], "audit": []}


def test_why_it_does_not_run(chokaq: Run) -> None:
    make.queue("mail", is_paused=True, max_workers=1)
    make.running()
    make.circuit("no.such.type", state=1)
    job = make.hot(type="no.such.type", run_at=ago(minutes=-2), due_at=ago(minutes=-2))
    reasons = "\n".join(chokaq("job", job.pk, "--json").json["waiting_because"])
    for words in ("it is due in", "is paused", "its cap is 1", "the circuit of", "does not know the type", "(0 alive)"):
        assert words in reasons, words
    assert chokaq("job", make.archived().pk, "--json").json["waiting_because"] == []


def test_a_job_that_nothing_holds_back_says_so(chokaq: Run) -> None:
    make.worker()
    make.hot(priority=90)
    job = make.hot(run_at=ago(seconds=1))
    (reason,) = chokaq("job", job.pk, "--json").json["waiting_because"]
    assert reason.startswith("nothing holds it back but jobs of higher priority")


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_the_dlq_in_groups(chokaq: Run) -> None:
    for _ in range(3):
        make.dead(fingerprint="a" * 32, type="x.y")
    make.dead(fingerprint="b" * 32, type="x.z", failure_reason=FailureReason.TIMEOUT)
    make.dead(fingerprint=None)
    groups = chokaq("dlq", "--json").json["groups"]
    assert (groups[0]["key"], groups[0]["count"]) == ("a" * 32, 3)
    assert {group["key"] for group in groups} == {"a" * 32, "b" * 32, None}
    answer = chokaq("dlq", "--group-by", "reason")
    assert "chokaq resurrect --failure MaxRetriesExceeded --dry-run" in answer.out
    assert chokaq("dlq", "--json", "--look-at", "2").json["looked_at_all"] is False
    found = chokaq("dlq", "list", "--fingerprint", "B" * 12, "--failure", "timeout", "--json").json["jobs"]
    assert [job["fingerprint"] for job in found] == ["b" * 32]


def test_circuits(chokaq: Run) -> None:
    make.circuit("a.open", state=1, failures=5, opened_at=ago(seconds=5), open_until=ago(seconds=-20))
    make.circuit("b.closed", failures=1)
    make.circuit("c.forced", state=1, forced=True)
    document = chokaq("circuits", "--json").json["circuits"]
    assert [(row["type"], row["state"], row["forced"]) for row in document] == [
        ("a.open", "open", False), ("c.forced", "open", True),
    ]  # fmt: skip
    assert 10 < document[0]["probed_in_seconds"] <= 20
    assert len(chokaq("circuits", "--all", "--json").json["circuits"]) == 3
    make.circuit("d.late", state=1, opened_at=ago(minutes=5), open_until=ago(minutes=4))
    (late,) = (line for line in chokaq("circuits").lines if line.startswith("d.late"))
    assert "next job" in late  # it is probed when there is one


@pytest.mark.parametrize(
    "typed",
    [
        "jobs --queue mial", "dlq --queue mial", "dlq list --queue mial", "failures --queue mial",
        "cancel --queue mial --yes", "resurrect --queue mial --dry-run", "purge --queue mial --yes",
    ],
)  # fmt: skip
def test_a_name_that_nothing_knows_is_said_where_nothing_matches(chokaq: Run, typed: str) -> None:
    make.queue("mail")
    make.dead(queue="mail")
    answer = chokaq(*typed.split())
    assert "There is no queue 'mial'. Did you mean 'mail'?" in " ".join(answer.out.split())
    assert "There is no queue" not in chokaq(*typed.replace("mial", "mail").split()).out


def test_a_type_that_nothing_knows_is_said_too(chokaq: Run) -> None:
    answer = chokaq("jobs", "--type", "no.such.type")
    assert (answer.code, "knows no type 'no.such.type'" in " ".join(answer.out.split())) == (4, True)


def test_seven_days_are_seven_days_a_moment_later_too(chokaq: Run) -> None:
    make.archived(tags='["vip"]')
    assert chokaq("jobs", "--status", "succeeded", "--tag", "vip", "--since", "7d").code == 0
    assert chokaq("jobs", "--status", "succeeded", "--tag", "vip", "--since", "8d").code == 2


def test_json_has_the_same_shape_when_nothing_matches(chokaq: Run) -> None:
    dry, wet = ["--all", "--dry-run", "--json"], ["--all", "--yes", "--json"]
    nothing = [set(chokaq("resurrect", *how).json) for how in (dry, wet)]
    make.dead()
    assert nothing == [set(chokaq("resurrect", *how).json) for how in (dry, wet)]


def test_workers_that_there_are_not_and_how_many_threads(chokaq: Run) -> None:
    make.worker("web-1")
    assert chokaq("workers", "stop", "other").error == "There is no worker 'other'. Workers: web-1."
    assert "Did you mean 'web-1'?" in chokaq("workers", "stop", "wep-1").error
    assert "Asked web-1 to have 5 threads." in chokaq("workers", "concurrency", "5", "web-1").out


def test_how_far_the_clocks_of_workers_are_off(chokaq: Run) -> None:
    make.worker("ahead", clock_offset=5.04, clock_doubt=0.002)
    make.worker("old")
    lines = {line.split()[0]: line for line in chokaq("workers").out.splitlines() if line.strip()}
    assert "CLOCK" in lines["WORKER"]
    assert "+5.0 s" in lines["ahead"]
    assert " s " not in lines["old"], "it did not say"
    told = {worker["id"]: worker for worker in chokaq("workers", "--json").json["workers"]}
    assert (told["ahead"]["clock_offset_seconds"], told["ahead"]["clock_is_off"]) == (5.04, True)
    assert (told["old"]["clock_offset_seconds"], told["old"]["clock_is_off"]) == (None, False)
    assert "5.040 s ahead of the database's, give or take 0.002 s" in chokaq("workers", "-v", "2").out


def test_jobs_without_a_fingerprint_name_no_option_for_one(chokaq: Run) -> None:
    make.dead(fingerprint=None)
    out = chokaq("dlq").out
    assert "(none)" in out
    assert "--fingerprint" not in out


def test_one_job_is_one_job(chokaq: Run) -> None:
    make.dead()
    assert "This would purge 1 job: say --yes" in chokaq("purge", "--all").error


def test_a_pipe_gets_everything(chokaq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a-very-long-queue-name." * 8
    make.hot(queue=name)
    assert name not in chokaq("jobs").out
    monkeypatch.delenv("COLUMNS")
    assert name in chokaq("jobs").out
    assert JobHot.objects.count() == 1
