"""Options that cannot be followed: real workers go on and say it once; the Deck and the doctor show it."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client
from django.utils import timezone

from chokaq_django import doctor, enqueue, enqueue_many
from chokaq_django.models import JobArchive, Setting, Worker

from .. import factories as make
from .. import jobs
from ..helpers import WorkerProcess, wait_until
from ..ledger import Ledger
from .support import committed

pytestmark = committed

BAD = {
    "RETRY.BASE_DELAY": "{", "RETRY.MAX_DELAY": '"x"', "CIRCUIT.BREAK": "1e300", "CIRCUIT.FAILURES": "[]",
    "RETENTION.TRASH": "-1", "RETENTION.DLQ_BY_REASON.Expird": "60", "OLD.OPTION": "1", "HEALTH.LAG_DEGRADED": "9000",
    "WORKER.CONCURRENCY": "7",
}  # fmt: skip
"""No JSON, another type, out of range, of no option, in contradiction to the rest, and of one that cannot be set."""


def put(name: str, value: str) -> None:
    Setting.objects.update_or_create(
        name=name, defaults={"value": value, "updated_at": timezone.now(), "updated_by": "ada"}
    )


def test_workers_go_on(worker_process: Callable[..., WorkerProcess], ledger: Ledger) -> None:
    put("RETRY.JITTER", "0")
    worker = worker_process("--concurrency=2", options={"RETRY": {"BASE_DELAY": 0.01, "MAX_DELAY": 0.02}})
    enqueue_many([jobs.NoteJob()] * 3)
    wait_until(lambda: ledger.count() == 3, what=worker.output)
    for name, value in BAD.items():
        put(name, value)
    wait_until(lambda: all(f"The option {name} that" in worker.output for name in BAD), what=worker.output)
    enqueue(jobs.FailJob(times=2))  # with the delays that the project says
    wait_until(lambda: ledger.count() == 6, what=worker.output)
    put("OLD.OPTION", "2")  # they are looked at again
    seen = Worker.objects.get().last_seen
    wait_until(lambda: Worker.objects.get().last_seen > seen, what=worker.output)
    put("RETRY.MAX_ATTEMPTS", "1")
    wait_until(lambda: "The option RETRY.MAX_ATTEMPTS that" in worker.output, what=worker.output)
    assert {worker.output.count(f"The option {name} that") for name in BAD} == {1}
    wait_until(lambda: JobArchive.objects.count() == 4, what=worker.output)

    told = {finding.message for finding in doctor.examine().findings if finding.code == "setting_not_followed"}
    assert {name for name in BAD if not any(f"has set {name}, " in message for message in told)} == set()
    client = Client()
    client.force_login(make.operator("view_deck"))
    page = client.get("/admin/chokaq/deck/settings/").content.decode()
    assert page.count("Not followed: ") >= len(BAD)
    assert client.get("/admin/chokaq/deck/retention/").status_code == 200
    assert worker.stop() == 0
