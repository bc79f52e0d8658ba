"""Whatever a page says can be translated: with every translated text in brackets, no other word is left on it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chokaq_django import control, health
from chokaq_django.conf import get_options
from chokaq_django.control import JobFilter
from chokaq_django.deck.pages.health import Visit, doctor
from chokaq_django.doctor import AREAS, Examination, fleet, work
from chokaq_django.models import Circuit, FailureReason, JobStatus, Queue
from chokaq_django.reading.fleet import read_workers
from chokaq_django.storage import get_storage
from tests import factories as make

from .pages import MODELS, edit_page, job_page, list_of, page_of
from .visible import pseudo, untranslated

pytestmark = [pytest.mark.django_db, pytest.mark.any_engine]

NAMES = """
    mail night hidden paused test note unknown type shop partner partnererror traceback the secret of error ada grace
    worker web europe berlin utc first second tag max retries exceeded
"""
"""Jobs, queues, people and machines in the rows below."""
STABLE = """
    ms min id json csv ndjson mb mib chokaq django sqlite uuid url utf http api payloaderror ulid
    currency purge status none auto default database preset middleware false true null str string name dlq
    blueprint carbon search
"""
"""Products and formats; names of options, columns, types and addresses, and their values; the looks. "Search" is
of a drawing in Django's own template."""
DATA = frozenset([*NAMES.split(), *STABLE.split(), *(reason.label.lower() for reason in FailureReason)])
NOW = timezone.now


def rows() -> dict[str, str]:
    """Something in each state, and what the pages of one thing are of."""
    make.queue("mail", max_workers=1)
    make.queue("night", window_start=dt.time(1), window_end=dt.time(1, 0, 1), window_zone="UTC")
    make.queue("hidden", is_active=False)
    make.queue("paused", is_paused=True)
    make.worker(clock_offset=5.0, clock_doubt=0.01)
    make.worker("worker-2", last_seen=NOW() - dt.timedelta(hours=1), state="draining", queues='["mail"]')
    make.circuit(state=Circuit.OPEN, forced=True, failures=5)
    make.circuit("unknown.type", state=Circuit.HALF_OPEN, open_until=NOW() + dt.timedelta(minutes=1))
    log = json.dumps([{
        "attempt": 1, "worker": "worker-1", "started": NOW().isoformat(), "duration_ms": 1200, "outcome": "failed",
        "error_type": "shop.partner.PartnerError", "message": "the secret", "traceback": "Traceback", "log": ["first"],
    }])  # fmt: skip
    waiting = make.hot(run_at=NOW() - dt.timedelta(hours=1), due_at=NOW() - dt.timedelta(hours=1), tags='["tag"]')
    later = make.hot(queue="night", type="unknown.type", run_at=NOW() + dt.timedelta(hours=1), attempt=1)
    hidden = make.hot(queue="hidden", deadline_at=NOW() - dt.timedelta(minutes=5))
    paused = make.hot(queue="paused", status=JobStatus.PENDING)
    awaiting = make.hot(status=JobStatus.AWAITING)
    running = make.running(progress=40, progress_message="first", cancel_requested_at=NOW(), cancel_requested_by="ada")
    done = make.archived(attempt_log=log)
    dead = make.dead(attempt_log=log, note="note", assignee="ada", fingerprint="12" * 16)
    others = [
        make.dead(failure_reason=reason, fingerprint=f"{reason:032x}", error_type=None) for reason in FailureReason
    ]
    purged = make.purged()
    make.audit_entry(action="set_queue", target="mail", reason="note")
    get_storage().recount_groups()
    control.purge([others[0].pk], by="ada", reason="note")
    operation = control.bulk_resurrect(where=JobFilter(status="dead", queue="mail"), by="ada", rate=5)
    return {
        "job": " ".join(
            row.pk for row in (waiting, later, hidden, paused, awaiting, running, done, dead, purged, *others[1:])
        ),
        "edit": f"{waiting.pk} {dead.pk}",
        "fingerprint": dead.fingerprint or "",
        "operation": operation.id,
    }


def examined() -> Visit:
    """What the doctor finds in these rows, without its looks at the server, which take seconds."""
    workers, options = read_workers("default", get_storage().now()), get_options()
    found = [replace(each, area="work") for each in (*fleet.findings(workers), *work.findings("default", options))]
    assert {each.code for each in found} >= {"worker_clock_skew", "unknown_type", "not_expired"}
    return Visit(NOW(), Examination("sqlite", list(AREAS), found))


def addresses(found: dict[str, str]) -> Iterator[str]:
    def page(name: str, *args: str) -> str:
        return reverse(f"admin:chokaq_deck_{name}", args=args)

    yield reverse("admin:chokaq_deck_changelist")
    for name in ("queues", "fleet", "circuits", "failures", "bulk", "health", "retention", "settings"):
        yield page(name)
    for name in ("mail", "night", "hidden", "paused"):
        yield f"{page('queue')}?name={name}"
    yield page("failure", found["fingerprint"])
    yield page("bulk_one", found["operation"])
    yield from (job_page(pk) for pk in found["job"].split())
    yield from (edit_page(pk) for pk in found["edit"].split())
    for action, status in (
        ("resurrect", "dead"), ("purge", "dead"), ("cancel", "pending"), ("edit", "pending"), ("restore", "trash"),
        ("remove", "pending"), ("purge", "nothing"), ("wrong", ""),
    ):  # fmt: skip
        yield f"{page('bulk_new')}?action={action}&status={status}&queue=mail"
    yield from (list_of(model) for model in MODELS)
    yield page_of(Queue.objects.get(pk="mail"))


def test_every_word_of_every_page_can_be_translated(deck: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows()
    health._cache.clear()
    monkeypatch.setattr(doctor, "last", examined())
    pseudo(monkeypatch)
    left = {}
    for address in addresses(found):
        answer = deck.get(address)
        assert answer.status_code in (200, 400), address
        if words := untranslated(answer.content.decode(), DATA):
            left[address] = words
    lines = {line: address for address, words in left.items() for line in words}
    assert lines == {}
