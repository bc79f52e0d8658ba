"""What operators change in the Deck is what a worker then runs."""

from __future__ import annotations

from django.test import Client

from chokaq_django import control
from chokaq_django.control import Location

from .. import factories as make
from ..deck.pages import edit_page
from ..ledger import Ledger
from .conftest import StartWorker
from .support import committed, settled

pytestmark = committed


def test_a_dead_job_runs_with_the_payload_that_it_was_given(start_worker: StartWorker, ledger: Ledger) -> None:
    """The largest integer of most databases and a decimal that no float holds, through the form, to the handler."""
    client = Client()
    client.force_login(make.operator("view_deck", "view_payload", "edit_payload", "resurrect"))
    job = make.hot(type="test.every", payload='{"number":"broken","price":"0.10"}')
    control.cancel(job.pk, by="ada")
    typed = {
        "revision": "0", "view": "fields", "queue": "mail", "priority": "10", "tags": "", "type": "test.every",
        "$.number": str(2**63 - 1), "$.price": "12345678901234567890.10", "$.name": "mended",
    }  # fmt: skip
    assert client.post(edit_page(job), {**typed, "act": "save_and_resurrect"}).status_code == 302
    start_worker("mail")
    assert settled(job.pk).location is Location.ARCHIVE
    (ran,) = ledger.entries("ran")
    assert (ran.name, ran.more) == ("mended", {"number": 2**63 - 1, "price": "12345678901234567890.10"})
