"""Verbs on the circuit of a type."""

from __future__ import annotations

from functools import partial

from django.db import transaction

from .. import wake
from ..conf import get_options
from ..job.envelope import clean_type
from ..sentence import Sentence
from ..storage import BulkResult, CircuitAct, Conflict, get_storage
from .acts import PERSON_LIMIT, Operator, act_transaction, audit, authorised, log_act

__all__ = ["close_circuit", "open_circuit", "reset_circuit"]


def open_circuit(type_key: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Start no job of the type until an operator closes the circuit; jobs keep their place. Needs ``chokaq.operate``.

    Workers look about once a second; what runs goes on.
    """
    return _set(CircuitAct.OPEN, type_key, by, reason, Sentence("The circuit was opened by an operator already."))


def close_circuit(type_key: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Let jobs of the type start again now, without a probe. Needs ``chokaq.operate``."""
    return _set(CircuitAct.CLOSE, type_key, by, reason, Sentence("The circuit is closed already."))


def reset_circuit(type_key: str, *, by: str | Operator, reason: str = "") -> BulkResult:
    """Close the circuit if it is not, and forget the failures counted so far. Needs ``chokaq.operate``."""
    return _set(CircuitAct.RESET, type_key, by, reason, Sentence("The circuit is closed and has counted no failure."))


def _set(act: CircuitAct, type_key: str, by: str | Operator, reason: str, unchanged: str) -> BulkResult:
    actor = authorised(by, "operate")
    key = clean_type(type_key)
    alias = get_options().database
    action = f"{act.value}_circuit"
    answer = BulkResult()
    with act_transaction(alias):
        if get_storage(alias).set_circuit(key, act, actor[:PERSON_LIMIT]):
            audit(alias, action, {key: {}}, actor, reason)
            transaction.on_commit(partial(wake.notify, alias), using=alias, robust=True)
            answer.applied.append(key)
        else:
            answer.refused.append(Conflict(key, unchanged))
    log_act(action, actor, answer)
    return answer
