"""Circuits by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from chokaq_django import EnvelopeError, control, wake
from chokaq_django.models import AuditEntry, Circuit
from chokaq_django.storage import get_storage
from chokaq_django.storage.contract import CircuitPolicy, CircuitReport
from tests import factories as make

pytestmark = pytest.mark.django_db

TYPE = "partner.call.v1"
POLICY = CircuitPolicy(failures=5, window=60.0, break_=30.0, probes=1, probe_timeout=30.0)


def report(**named: Any) -> None:
    get_storage().report_circuits([CircuitReport(TYPE, POLICY, **named)])


def test_an_open_circuit_stays_open_until_an_operator_closes_it() -> None:
    assert control.open_circuit(TYPE, by="ada", reason="partner moves").applied == [TYPE]
    row = Circuit.objects.get()
    assert (row.state, row.forced, row.open_until, row.updated_by) == (Circuit.OPEN, True, None, "ada")
    report(successes=50)
    [seen] = get_storage().circuits()
    assert (seen.state, seen.forced) == (Circuit.OPEN, True)
    again = control.open_circuit(TYPE, by="bob")
    assert again.refused[0].reason == "The circuit was opened by an operator already."
    assert Circuit.objects.get().updated_by == "ada"
    assert control.close_circuit(TYPE, by="bob").applied == [TYPE]
    row = Circuit.objects.get()
    assert (row.state, row.forced, row.failures, row.updated_by) == (Circuit.CLOSED, False, 0, "bob")
    assert get_storage().circuits() == []
    acts = AuditEntry.objects.order_by("at", "id").values_list("action", "target", "by", "reason")
    assert list(acts) == [("open_circuit", TYPE, "ada", "partner moves"), ("close_circuit", TYPE, "bob", "")]


def test_what_opened_by_itself_can_be_held_open_and_closed() -> None:
    report(failures=5)
    assert control.open_circuit(TYPE, by="ada").applied == [TYPE], "now until an operator closes it"
    assert Circuit.objects.get().forced
    control.close_circuit(TYPE, by="ada")
    report(failures=4)
    assert Circuit.objects.get().state == Circuit.CLOSED, "it counts from nothing"


def test_a_half_open_one_forgets_its_probes_when_it_is_closed() -> None:
    make.circuit(TYPE, state=Circuit.HALF_OPEN, probes='[["01AAAAAAAAAAAAAAAAAAAAAAAA","2031-01-01T00:00:00+00:00"]]')
    control.close_circuit(TYPE, by="ada")
    assert json.loads(Circuit.objects.get().probes) == []


def test_reset_forgets_failures_too() -> None:
    report(failures=4)
    assert control.close_circuit(TYPE, by="ada").refused[0].reason == "The circuit is closed already."
    assert control.reset_circuit(TYPE, by="ada").applied == [TYPE]
    assert Circuit.objects.get().failures == 0
    assert control.reset_circuit(TYPE, by="ada").refused[0].reason == (
        "The circuit is closed and has counted no failure."
    )
    control.open_circuit(TYPE, by="ada")
    assert control.reset_circuit(TYPE, by="ada").applied == [TYPE]
    assert Circuit.objects.get().state == Circuit.CLOSED


@pytest.mark.parametrize("verb", [control.close_circuit, control.reset_circuit])
def test_a_circuit_that_nobody_knows_is_closed(verb: Callable[..., Any]) -> None:
    assert len(verb(TYPE, by="ada").refused) == 1
    assert not Circuit.objects.exists()
    assert not AuditEntry.objects.exists()


def test_closing_wakes_workers(django_capture_on_commit_callbacks: Any) -> None:
    control.open_circuit(TYPE, by="ada")
    calls: list[str] = []

    def listener() -> None:
        calls.append("woken")

    wake.subscribe("default", listener)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            control.close_circuit(TYPE, by="ada")
    finally:
        wake.unsubscribe("default", listener)
    assert calls == ["woken"]


@pytest.mark.parametrize("verb", [control.open_circuit, control.close_circuit, control.reset_circuit])
def test_who_may_and_what_is_a_type(verb: Callable[..., Any]) -> None:
    with pytest.raises(PermissionDenied, match=r"chokaq\.operate"):
        verb(TYPE, by=make.operator("view_deck", "cancel", "purge"))
    with pytest.raises(EnvelopeError, match="type must be letters"):
        verb("no type", by="ada")
