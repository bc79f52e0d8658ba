"""Scenarios of the bulk operations, with arguments that reach every statement SQL Server can be sent."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from chokaq_django.models import BulkState
from chokaq_django.storage.bulk_rules import Operation

from .mssql_recorder import Recorder

Scenario = Callable[[Any, Recorder], object]

NOW = dt.datetime(2031, 5, 17, 12, 0, 0, 250_000, dt.UTC).replace(tzinfo=None)  # as the drivers return it
OPERATION, OTHER = "01BBBBBBBBBBBBBBBBBBBBBBBB", "01CCCCCCCCCCCCCCCCCCCCCCCC"
ONE, TWO, THREE = (f"01AAAAAAAAAAAAAAAAAAAAAAA{number}" for number in "123")
FOUND = [(ONE, 0, "mail", "email.send.v1", 6, NOW), (TWO, 1, "mail", "email.send.v1", 6, NOW)]
CONDITIONS = json.dumps(
    [
        ["queue", "=", "mail"], ["failure_reason", "in", [1, 2]], ["fingerprint", "from", "ab"], ["tags", "has", '"a"'],
        ["tags", "has", '","'],
        ["failed_at", ">=", "2031-05-01T00:00:00+00:00"],
    ]
)  # fmt: skip


def row(**columns: Any) -> tuple[Any, ...]:
    """The operation as the server answers, with the clock."""
    texts = dict.fromkeys(("message", "place", "canary_decision", "freeze_id", "last_id", "watch_id"), "")
    texts |= dict.fromkeys(("conditions", "recent", "history", "samples"), "[]")
    texts |= {"arguments": "{}", "requested_by": "ada"}
    counts = dict.fromkeys(("done", "applied", "requested", "refused", "left_alone", "succeeded", "died", "gone"), 0)
    careful = {"canary_share": 0.1, "canary_timeout": 600.0, "stop_sample": 20, "stop_window": 200, "held": False}
    known = {"id": OPERATION, "action": "resurrect", "state": "running", "total": 9, "created_at": NOW, "paid_at": NOW}
    values = {**texts, **counts, **careful, **known, **columns}
    return (*(values.get(field.name) for field in fields(Operation)), NOW)


def freezing(recorder: Recorder, storage: Any, last: tuple[Any, ...] | None, **columns: Any) -> None:
    recorder.answer("FROM chokaq_bulk_operation WITH", [row(state=BulkState.PREPARING.value, **columns)])
    if last is not None:
        recorder.answer(") c", [last])
    storage.bulk_step(OPERATION)


def freeze_first(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, generation, queue", FOUND)
    freezing(recorder, storage, None, place="dlq", conditions=CONDITIONS)


def freeze_held(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, generation, queue", FOUND)
    freezing(recorder, storage, None, place="dlq", conditions=CONDITIONS, held=True)


def freeze_held_of_another(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT job_id, j.generation", [(ONE, 0, "mail", "email.send.v1", 6, NOW)])
    freezing(recorder, storage, None, place="operation", conditions=json.dumps(OTHER), held=True)


def freeze_held_ids(storage: Any, recorder: Recorder) -> None:
    recorder.answer("DISTINCT queue", [("mail", "email.send.v1", -1, 3, NOW, NOW, 1, 2, 3)])
    freezing(recorder, storage, (ONE,), held=True)


def freeze_next(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, generation, queue", FOUND)
    freezing(recorder, storage, None, place="dlq", freeze_at=NOW, freeze_id=ONE)


def freeze_active(storage: Any, recorder: Recorder) -> None:
    found = '[["status", "=", 0], ["run_at", "<=", "2031-05-17T12:00:00+00:00"], ["attempt", ">", 0]]'
    recorder.answer("SELECT id, generation, queue", [(TWO, 0, "mail", "email.send.v1", -1, NOW)])
    freezing(recorder, storage, None, action="cancel", place="hot", freeze_id=ONE, conditions=found)


def freeze_undo(storage: Any, recorder: Recorder) -> None:
    freezing(recorder, storage, (TWO,), action="restore", undo_of=OTHER)


def freeze_acted_on(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT job_id, j.generation", [(TWO, 0, "mail", "email.send.v1", 6, NOW)])
    freezing(recorder, storage, None, place="operation", conditions=json.dumps(OTHER))


def frozen(storage: Any, recorder: Recorder) -> None:
    freezing(recorder, storage, None, place="archive")


def acting(*items: tuple[str, int | None, str | None], **columns: Any) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        recorder.answer("FROM chokaq_bulk_operation WITH", [row(**columns)])
        recorder.answer("SELECT job_id, generation, note", list(items))
        storage.bulk_step(OPERATION)

    return scenario


def watching(storage: Any, recorder: Recorder) -> None:
    recorder.answer("FROM chokaq_bulk_operation WITH", [row(stop_share=0.2, last_id=THREE, done=3, applied=3)])
    recorder.answer("SELECT job_id, state", [(ONE, 1), (TWO, 1), (THREE, 1)])
    recorder.answer("failure_reason", [(ONE, -1), (TWO, -2), (THREE, 0)])
    storage.bulk_step(OPERATION)


def edited(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, revision, modified_by", [(ONE, 2, "bob", "mail", "email.send.v1", 10, "[]", 1, 0)])
    acting((ONE, 0, None), (TWO, None, None), action="edit", arguments='{"priority": 5}')(storage, recorder)


def patched(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, revision, modified_by", [(ONE, 2, "bob", "mail", "legacy.send", 10, "[]", 1, 0)])
    recorder.answer("SELECT id, payload", [(ONE, '{"a":1}')])
    patch = json.dumps({"patch": '[{"op":"replace","path":"/a","value":2}]'})
    acting((ONE, 0, None), action="edit", arguments=patch)(storage, recorder)


def unpatched(storage: Any, recorder: Recorder) -> None:
    recorder.answer("FROM chokaq_payload_version", [(ONE, '{"a":1}', 1)])
    recorder.answer("SELECT id, revision, modified_by", [(ONE, 3, "ada", "mail", "legacy.send", 10, "[]", 1, 0)])
    recorder.answer("SELECT id, payload", [(ONE, '{"a":2}')])
    acting((ONE, None, '{"payload": true, "revision": 2}'), action="revert")(storage, recorder)


def restored(storage: Any, recorder: Recorder) -> None:
    recorder.answer(
        "SELECT id, operation_id, came_from",
        [(ONE, OTHER, "dlq", None, None, "mail", "email.send.v1", "f" * 32, 6, "E", NOW)],
    )
    acting((ONE, None, json.dumps({"operation": OPERATION})), action="restore")(storage, recorder)


def count(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT @now", [(NOW,)])
    recorder.answer("DISTINCT queue", [("mail", "email.send.v1", 6, 3, NOW, NOW, 1, 2, 3)])
    storage.bulk_count("dlq", CONDITIONS, 100)


def count_frozen(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT @now", [(NOW,)])
    storage.bulk_frozen(OPERATION)


def trim(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id FROM chokaq_bulk_operation", [(OPERATION,)])
    recorder.answer("SELECT job_id FROM chokaq_bulk_item", [(ONE,), (TWO,)])
    storage.trim_bulk(2_592_000.0, 100)


NOTE = '{"priority": 5, "revision": 2}'
BULK: dict[str, dict[str, Scenario]] = {
    "bulk_open": {"": lambda storage, recorder: storage.bulk_open()},
    "bulk_step": {
        "the first chunk of the set": freeze_first,
        "the first chunk of a set that is held": freeze_held,
        "what another operation acted on, held": freeze_held_of_another,
        "ids that are held": freeze_held_ids,
        "the next chunk": freeze_next,
        "of active jobs": freeze_active,
        "of another operation": freeze_undo,
        "dead ones of another operation": freeze_acted_on,
        "the set is complete": frozen,
        "resurrect": acting((ONE, 1, None), (TWO, 0, None)),
        "purge": acting((ONE, None, None), action="purge", arguments='{"ttl": 60.0}'),
        "remove": acting((ONE, 0, None), action="remove"),
        "cancel": acting((ONE, 0, None), action="cancel"),
        "restore": acting((ONE, None, None), action="restore"),
        "restore what another has purged": restored,
        "edit": edited,
        "edit by a patch": patched,
        "revert": acting((ONE, None, NOTE), action="revert"),
        "revert of a patch": unpatched,
        "watching": watching,
    },
    "bulk_fail": {"": lambda storage, recorder: storage.bulk_fail(OPERATION, "Why.")},
    "bulk_count": {"": count},
    "bulk_frozen": {"": count_frozen},
    "trim_bulk": {"": trim},
}
