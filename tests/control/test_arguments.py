"""Whatever is given to a verb that it cannot take: one error, which names the argument, and nothing is done."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chokaq_django import EnvelopeError, Request, control, enqueue, enqueue_many
from chokaq_django.control import BulkRefusedError, JobFilter, acts
from chokaq_django.models import (
    AuditEntry,
    BulkItem,
    BulkOperation,
    Circuit,
    FailureTriage,
    JobArchive,
    JobDLQ,
    JobHot,
    JobTrash,
    Queue,
    Setting,
    Worker,
)
from tests import factories as make
from tests.jobs import NoteJob

pytestmark = [pytest.mark.django_db, pytest.mark.any_engine]

FINGERPRINT = "f" * 32
HUGE = 10**5_000
"""More digits than Python writes."""
NAIVE = dt.datetime(2026, 1, 1)  # noqa: DTZ001


class Silent:
    """What cannot even be written down."""

    def __repr__(self) -> str:
        raise RuntimeError("not for people")


ODD: dict[str, Any] = {
    "None": None, "a number": 5, "zero": 0, "a fraction": 5.5, "not a number": float("nan"), "endless": float("inf"),
    "huge": HUGE, "huge below zero": -HUGE, "True": True, "a word": "x", "no text": "", "long text": "x" * 5_000,
    "NUL": "a\x00b", "a surrogate": "a\ud800b", "bytes": b"x", "an empty list": [], "a list": [None, 5, [], {}, HUGE],
    "a dict": {"x": 1}, "a dict of odd keys": {5: "x", None: []}, "a naive time": NAIVE, "a day": dt.date(2026, 1, 1),
    "a span": dt.timedelta(days=10**6), "an object": object(), "an object that cannot be shown": Silent(),
    "a class": int, "a function": len,
}  # fmt: skip

Verb = tuple[Callable[..., Any], Callable[[], dict[str, Any]]]


def _operation(**more: Any) -> str:
    return control.bulk_resurrect([make.dead().pk], by="ada", hold=True, **more).id


def _ended() -> str:
    operation = control.bulk_purge([make.dead().pk], by="ada").id
    control.bulk_run(operation)
    return operation


PATCH = [{"op": "add", "path": "/name", "value": "b"}]
FITTING: dict[str, Callable[[], dict[str, Any]]] = {
    "annotate": lambda: {"ids": [make.dead().pk], "note": "known"},
    "bulk_abort": lambda: {"operation_id": _operation()},
    "bulk_cancel": lambda: {"ids": [make.hot().pk]},
    "bulk_counts": lambda: {"operation_id": _operation()},
    "bulk_edit": lambda: {"ids": [make.hot().pk], "priority": 3},
    "bulk_freeze": lambda: {"operation_id": _operation()},
    "bulk_get": lambda: {"operation_id": _operation()},
    "bulk_items": lambda: {"operation_id": _operation()},
    "bulk_list": dict,
    "bulk_of_job": lambda: {"job_id": make.hot().pk},
    "bulk_outcomes": lambda: {"operation_id": _operation()},
    "bulk_pause": lambda: {"operation_id": _operation()},
    "bulk_preview": lambda: {"where": JobFilter(status="dead")},
    "bulk_purge": lambda: {"ids": [make.dead().pk]},
    "bulk_reasons": lambda: {"operation_id": _operation()},
    "bulk_remove": lambda: {"ids": [make.hot().pk]},
    "bulk_restore": lambda: {"ids": [make.purged().pk]},
    "bulk_resume": lambda: {"operation_id": _paused()},
    "bulk_resurrect": lambda: {"ids": [make.dead().pk]},
    "bulk_run": lambda: {"operation_id": _ended()},
    "bulk_set_rate": lambda: {"operation_id": _operation(), "rate": 3},
    "bulk_skip_canary": lambda: {"operation_id": _operation(canary=1)},
    "bulk_undo": lambda: {"operation_id": _ended()},
    "bulk_wait": lambda: {"operation_id": _ended()},
    "cancel": lambda: {"ids": [make.hot().pk]},
    "close_circuit": lambda: {"type_key": make.circuit(state=1).pk},
    "drain_worker": lambda: {"worker_id": make.worker().pk},
    "edit": lambda: {"ids": [make.hot().pk], "priority": 3},
    "get": lambda: {"job_id": make.hot().pk},
    "hide_queue": lambda: {"name": "mail"},
    "iter_jobs": dict,
    "list_jobs": dict,
    "list_settings": dict,
    "open_circuit": lambda: {"type_key": "test.note"},
    "pause_queue": lambda: {"name": "mail"},
    "preview_patch": lambda: {"patch": PATCH, "ids": [make.hot().pk]},
    "purge": lambda: {"ids": [make.dead().pk]},
    "recount_groups": dict,
    "remove": lambda: {"ids": [make.hot().pk]},
    "reset_circuit": lambda: {"type_key": make.circuit(state=1).pk},
    "reset_queue": lambda: {"name": make.queue(max_workers=9, updated_by="ada").name},
    "reset_setting": lambda: {"name": _set()},
    "restore": lambda: {"ids": [make.purged().pk]},
    "resume_queue": lambda: {"name": make.queue(is_paused=True).name},
    "resurrect": lambda: {"ids": [make.dead().pk]},
    "reveal": lambda: {"job_id": make.hot().pk},
    "run_again": lambda: {"ids": [make.archived().pk]},
    "set_concurrency": lambda: {"worker_id": make.worker().pk, "concurrency": 3},
    "set_queue": lambda: {"name": "mail", "max_workers": 3},
    "set_setting": lambda: {"name": "DECK.LAG_WARNING", "value": 7},
    "show_queue": lambda: {"name": make.queue(is_active=False).name},
    "stop_worker": lambda: {"worker_id": make.worker().pk},
    "triage": lambda: {"fingerprint": make.dead(fingerprint=FINGERPRINT).fingerprint, "note": "known"},
}
"""Each verb, and how to call it so that it does what it is for."""
LOOKS = {
    "bulk_counts", "bulk_get", "bulk_items", "bulk_list", "bulk_of_job", "bulk_outcomes", "bulk_preview",
    "bulk_reasons", "bulk_run", "bulk_wait", "get", "iter_jobs", "list_jobs", "list_settings", "preview_patch",
    "recount_groups",
}  # fmt: skip
"""What changes nothing, as it is called here."""
CALLED = {"name": {"queue"}, "type_key": {"type"}, "value": {"DECK"}, "ids": {"revision"}}
"""What an error calls an argument otherwise: by the word for what it is, a setting by its name, values by theirs."""


def _set() -> str:
    return control.set_setting("DECK.LAG_WARNING", 7, by="ada").applied[0]


def _paused() -> str:
    operation = _operation()
    control.bulk_pause(operation, by="ada")
    return operation


def _is_named(parameter: str, value: object, error: EnvelopeError) -> bool:
    if value is None:  # left out: of several that would do one is named
        return error.field.isidentifier() or parameter == "value"
    field = error.field.partition(".")[0]
    is_name = parameter == "name" and str(error).endswith("is not an option")
    return bool(error.message) and (field == parameter or field in CALLED.get(parameter, ()) or is_name)


def _takes() -> Iterator[tuple[str, str]]:
    for name in FITTING:
        for parameter in inspect.signature(getattr(control, name)).parameters:
            yield name, parameter


MODELS = (AuditEntry, BulkItem, BulkOperation, Circuit, FailureTriage, JobArchive, JobDLQ, JobHot, JobTrash, Queue,
          Setting, Worker)  # fmt: skip


def _everything() -> list[Any]:
    return [sorted(model._default_manager.values_list(), key=repr) for model in MODELS]


def _clear() -> None:
    for model in MODELS:
        model._default_manager.all().delete()


def test_every_verb_is_tried() -> None:
    verbs = {name for name in control.__all__ if inspect.isfunction(getattr(control, name))}
    assert verbs == FITTING.keys()


@pytest.mark.parametrize("verb", FITTING)
def test_each_does_what_it_is_for(verb: str) -> None:
    act = getattr(control, verb)
    given = FITTING[verb]()
    before = _everything()
    answer = act(**given, **({"by": "ada"} if "by" in inspect.signature(act).parameters else {}))
    assert getattr(answer, "refused", None) in (None, [], 0)
    assert (_everything() != before) is (verb not in LOOKS)


@pytest.mark.parametrize(("verb", "parameter"), list(_takes()))
def test_what_a_verb_cannot_take_is_named_and_nothing_is_done(verb: str, parameter: str) -> None:
    act = getattr(control, verb)
    by = {"by": "ada"} if "by" in inspect.signature(act).parameters else {}

    def fresh() -> dict[str, Any]:
        given = FITTING[verb]() | by
        if parameter in ("where", "of"):  # which name jobs too
            given.pop("ids", None)
        return given

    given, before, bad = fresh(), _everything(), []
    for name, value in ODD.items():
        if parameter == "note" and callable(value) and verb == "bulk_run":
            continue
        try:
            answer = act(**{**given, parameter: value})
            if isinstance(answer, types.GeneratorType):
                list(answer)
        except EnvelopeError as error:
            if not _is_named(parameter, value, error):
                bad.append(f"{name}: {error.field!r} {error}"[:150])
        except BulkRefusedError as error:
            if parameter != "operation_id":
                bad.append(f"{name}: {error!r}")
        except Exception as error:  # noqa: BLE001
            bad.append(f"{name}: {type(error).__name__} {error}"[:150])
        else:  # it takes that
            if by:
                _clear()
                given = fresh()
            before = _everything()
            continue
        if _everything() != before:
            bad.append(f"{name}: something was done")
    assert not bad, "\n" + "\n".join(bad)


class Endless:
    """A generator without an end, of which no more is read than must be."""

    def __init__(self, value: object, most: int) -> None:
        self._values, self._left = itertools.repeat(value), most + 1

    def __iter__(self) -> Iterator[Any]:
        for value in self._values:
            self._left -= 1
            assert self._left >= 0, "it is read beyond its limit"
            yield value


FEW = 5
ENDLESS: dict[str, tuple[object, int, str]] = {
    "ids": ("0" * 26, FEW, "5 in one call"), "tags": ("a", 1_000, "50, got more"),
    "state": ("running", 7, "7, got more"), "patch": (PATCH[0], 50, "1 to 50"),
}  # fmt: skip
"""What an endless list of an argument is of, how many items are read, and what is said of more."""


@pytest.mark.parametrize(
    ("verb", "parameter"), [each for each in _takes() if each[1] in ENDLESS and each[0] != "bulk_items"]
)
@pytest.mark.parametrize("odd", [False, True], ids=["good", "bad"])
def test_what_has_no_end_is_not_read_for_ever(
    verb: str, parameter: str, odd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "MOST_IDS", FEW)
    act = getattr(control, verb)
    given = FITTING[verb]() | ({"by": "ada"} if "by" in inspect.signature(act).parameters else {})
    value, most, told = ENDLESS[parameter]
    before = _everything()
    with pytest.raises(EnvelopeError, match=rf"^{parameter} must be .*{told}"):
        act(**{**given, parameter: Endless("" if odd and parameter != "patch" else value, most)})
    assert _everything() == before


def test_as_many_as_there_may_be_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "MOST_IDS", FEW)
    jobs = [make.hot().pk for _ in range(FEW)]
    assert control.edit(iter(jobs), by="ada", tags=(f"t{n}" for n in range(50))).applied == jobs


@pytest.mark.parametrize(
    "act", [lambda tags: enqueue(NoteJob(), tags=tags), lambda tags: enqueue_many([Request(NoteJob(), tags=tags)])]
)
def test_endless_tags_of_a_new_job(act: Callable[[Any], object]) -> None:
    with pytest.raises(EnvelopeError, match=r"^tags must be at most 50"):
        act(Endless("a", 1_000))
    assert not JobHot.objects.exists()
