"""The JSON API: each endpoint does what its verb does, and answers what its description says."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import jsonschema
import pytest
from django.utils import timezone

from chokaq_django import control, health
from chokaq_django.api.shapes import Filter
from chokaq_django.job.ids import new_id
from chokaq_django.models import (
    AuditEntry,
    BulkItem,
    BulkOperation,
    Circuit,
    FailureGroup,
    FailureReason,
    JobArchive,
    JobDLQ,
    JobHot,
    JobTrash,
    Queue,
    Worker,
)
from chokaq_django.reading import bulk_items
from chokaq_django.reading.filter_text import FIELDS
from chokaq_django.reading.masks import MASK
from chokaq_django.reading.seen import JOB
from tests import factories as make
from tests.helpers import ROOT

from .client import Program, described

pytestmark = pytest.mark.django_db

ALL = ("view_deck", "operate", "edit_payload", "resurrect", "cancel", "purge", "view_payload")
ODD = ["a/b ?#%&+ c", "🎉", "<script>alert(1)</script>", "..", "'; --"]


@pytest.fixture
def grace(db: None) -> Program:
    """A program that may do everything."""
    return Program(make.operator(*ALL, username="grace"))


def refusals(response: Any) -> dict[str, str]:
    assert response.status_code == 200, response.content
    return {each["id"]: each["reason"] for each in response.document["refused"]}


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_lists_by_filter_page_by_page(grace: Program) -> None:
    ids = sorted(make.dead(queue="a/b ?#%", failed_at=timezone.now() - dt.timedelta(hours=n)).pk for n in range(5))
    make.dead(queue="other")
    make.hot(queue="a/b ?#%")
    found: list[str] = []
    after = None
    while True:
        query = {"status": "dead", "queue": "a/b ?#%", "limit": 2, "since": "7d", **({"after": after} if after else {})}
        answer = grace.get("jobs", **query).document
        found += [job["id"] for job in answer["jobs"]]
        after = answer["next"]
        if after is None:
            break
    assert sorted(found) == ids
    assert (
        grace.get("jobs", status="dead", queue="a/b ?#%", until="210m", since="7d").document["jobs"][0]["status"]
        == "failed"
    )
    assert [job["status"] for job in grace.get("jobs").document["jobs"]] == ["pending"]


@pytest.mark.parametrize("kind", [make.hot, make.running, make.archived, make.dead, make.purged])
def test_one_job_wherever_it_is(grace: Program, kind: Any) -> None:
    job = kind(payload='{"number":9223372036854775807,"amount":1.10,"password":"pw"}', headers='{"trace":"t"}')
    answer = grace.get(f"jobs/{job.pk.lower()}").document
    assert answer["job"]["id"] == job.pk
    assert '"number":9223372036854775807,"amount":1.10' in answer["job"]["payload"], "digit by digit"
    assert '"pw"' not in answer["job"]["payload"]
    assert answer["masked"] is True
    assert AuditEntry.objects.exclude(action="issue_token").count() == 0
    shown = grace.post(f"jobs/{job.pk}/reveal", reason="ticket 42").document
    assert '"password":"pw"' in shown["job"]["payload"]
    entry = AuditEntry.objects.get(action="reveal")
    assert (entry.target, entry.by, entry.reason) == (job.pk, "grace", "ticket 42")


def test_why_it_waits(grace: Program) -> None:
    make.queue("mail", is_paused=True)
    answer = grace.get(f"jobs/{make.hot(queue='mail').pk}").document
    assert any("paused" in reason for reason in answer["waiting_because"])


def test_there_is_no_such_job(grace: Program) -> None:
    for job_id in (new_id(), "x", "%3F%23", "%00"):
        answer = grace.get(f"jobs/{job_id}")
        assert (answer.status_code, answer.document["error"]["code"]) == (404, "no_such_job")
    assert grace.post(f"jobs/{new_id()}/reveal").status_code == 404


def test_the_verbs(grace: Program) -> None:
    waiting, running, corpse, done, junk = make.hot(), make.running(), make.dead(), make.archived(), new_id()
    ids = [waiting.pk, running.pk, corpse.pk, junk]
    answer = grace.post("jobs/cancel", ids=ids, reason="wrong")
    assert (answer.document["applied"], answer.document["requested"]) == ([waiting.pk], [running.pk])
    assert set(refusals(answer)) == {corpse.pk, junk}
    assert set(AuditEntry.objects.filter(action="cancel").values_list("by", "reason")) == {("grace", "wrong")}
    assert grace.post("jobs/resurrect", ids=[corpse.pk], priority=70, tags=["x"]).document["applied"] == [corpse.pk]
    assert JobHot.objects.get(pk=corpse.pk).priority == 70
    again = grace.post("jobs/run-again", ids=[done.pk]).document
    assert again["new_ids"][done.pk] in JobHot.objects.values_list("pk", flat=True)
    assert grace.post("jobs/purge", ids=[done.pk]).document["applied"] == [done.pk]
    assert grace.post("jobs/remove", ids=[corpse.pk]).document["applied"] == [corpse.pk]
    assert JobTrash.objects.count() == 2
    assert len(grace.post("jobs/restore", ids=[done.pk, corpse.pk]).document["applied"]) == 2
    assert JobArchive.objects.filter(pk=done.pk).exists()


def test_keys_in_conflict(grace: Program) -> None:
    holder, corpse = make.hot(idempotency_key="k"), make.dead(idempotency_key="k")
    assert holder.pk in refusals(grace.post("jobs/resurrect", ids=[corpse.pk]))[corpse.pk]
    assert grace.post("jobs/resurrect", ids=[corpse.pk], on_key_conflict="drop").document["applied"] == [corpse.pk]


def test_an_edit_is_checked_and_keeps_every_digit(grace: Program) -> None:
    job = make.dead(type="test.note", payload='{"name":"a"}')
    answer = grace.post("jobs/edit", f'{{"ids":["{job.pk}"],"payload":{{"name":5}}}}')
    assert "$.name" in refusals(answer)[job.pk]
    assert grace.post("jobs/edit", revisions={job.pk: 0}, payload={"name": "b"}).document["applied"] == [job.pk]
    assert "bob" not in refusals(grace.post("jobs/edit", revisions={job.pk: 0}, priority=3))[job.pk]
    assert JobDLQ.objects.get().payload == '{"name":"b"}'
    assert grace.post("jobs/edit", ids=[job.pk], payload='{"name":"as text"}').document["applied"] == [job.pk]
    big = make.dead(type="test.raw.anything", payload="{}")
    text = '{"n":9223372036854775807123,"d":1.100}'
    for sent in (f'{{"ids":["{big.pk}"],"payload":{text}}}', json.dumps({"ids": [big.pk], "payload": text})):
        answer = grace.post("jobs/edit", sent)
        if answer.document["applied"]:
            assert JobDLQ.objects.get(pk=big.pk).payload == text


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_masked_payload_is_not_stored(grace: Program, ascii_only: bool) -> None:
    job = make.dead(type="test.note", payload='{"name":"a","password":"pw"}')
    payload = json.loads(grace.get(f"jobs/{job.pk}").document["job"]["payload"])
    for path in ("jobs/edit", "jobs/resurrect"):
        sent = json.dumps({"ids": [job.pk], "payload": payload}, ensure_ascii=ascii_only)
        answer = grace.post(path, sent.encode())
        assert (answer.status_code, answer.document["error"]["code"]) == (400, "masked")
    assert JobDLQ.objects.get().payload == '{"name":"a","password":"pw"}'


def test_without_view_payload_texts_stay_away() -> None:
    log = json.dumps(
        [
            {"attempt": 1, "outcome": "Failed", "traceback": "SECRET", "message": "SECRET", "log": ["SECRET"]},
            {"attempt": 2, "of another version": {"quoted": ["SECRET"]}},
        ]
    )
    texts = {"payload": '{"name":"SECRET"}', "attempt_log": log, "headers": '{"h":"SECRET"}'}
    rows = [
        make.dead(error_details="SECRET", **texts),
        make.archived(result='"SECRET"', **texts),
        make.running(progress_message="SECRET", **texts),
    ]
    viewer = Program(make.operator("view_deck", username="viewer"))
    for row in rows:
        answer = viewer.get(f"jobs/{row.pk}")
        assert "SECRET" not in answer.content.decode()
        assert answer.document["masked"] is True
        assert answer.document["job"]["attempts"] == [{"attempt": 1, "outcome": "Failed"}, {"attempt": 2}]
        assert viewer.post(f"jobs/{row.pk}/reveal").status_code == 403
    for status in ("dead", "succeeded", "active"):
        assert "SECRET" not in viewer.get("jobs", status=status).content.decode()


def test_without_view_payload_nobody_asks_what_a_payload_has() -> None:
    job = make.dead(type="test.note", payload='{"name":"SECRET"}')
    editor = Program(make.operator("view_deck", "edit_payload", username="editor"))
    patch = [{"op": "test", "path": "/name", "absent": True}, {"op": "add", "path": "/name", "value": "x"}]
    named = {"ids": [job.pk], "patch": patch}
    for path, body in (
        ("bulk/try-patch", named), ("jobs/edit", named), ("bulk", {"action": "edit", **named}),
        ("bulk/try-patch", {"ids": [job.pk], "patch": [{"op": "remove", "path": "/name"}]}),
    ):  # fmt: skip
        answer = editor.post(path, body)
        assert answer.status_code == 403, path
        assert "view_payload" in answer.document["error"]["message"]
    tried = editor.post("bulk/try-patch", ids=[job.pk], patch=patch[1:])
    assert (tried.status_code, tried.document["preview"]["changed"]) == (200, 1)
    assert "SECRET" not in tried.content.decode()


def test_what_is_hidden_of_a_job_without_view_payload(grace: Program) -> None:
    """A new field is, until it is named in ``JOB``."""
    job = make.dead(payload="{}", error_details="oops", note="partner is down")
    viewer = Program(make.operator("view_deck", username="viewer"))
    whole, part = (program.get(f"jobs/{job.pk}").document["job"] for program in (grace, viewer))
    assert whole.keys() == part.keys()
    assert part.keys() - JOB == {
        "payload", "headers", "result", "error_details", "progress_message", "attempts",
    }  # fmt: skip
    assert {name for name in whole if whole[name] != part[name]} == {"payload", "error_details"}
    assert part["note"] == "partner is down"


def test_notes_are_for_everybody_who_may_look(grace: Program) -> None:
    job = make.dead(fingerprint="ab" * 16)
    group_of(job, 1)
    assert grace.post("jobs/annotate", ids=[job.pk], note="ticket 17").document["applied"]
    assert grace.post(f"failures/{'ab' * 16}/triage", note="ticket 18").document["applied"]
    viewer = Program(make.operator("view_deck", username="viewer"))
    assert viewer.get(f"jobs/{job.pk}").document["job"]["note"] == "ticket 17"
    assert viewer.get(f"failures/{'ab' * 16}").document["group"]["note"] == "ticket 18"
    told = {entry["action"]: entry["details"] for entry in viewer.get("audit").document["entries"]}
    assert told["annotate"]["note"] == "ticket 17"
    assert told["triage"]["note"]["to"] == "ticket 18"


def test_what_an_act_tells_is_hidden_unless_it_is_known(grace: Program) -> None:
    AuditEntry.objects.create(
        id=new_id(), at=timezone.now(), action="act", target="x", by="ada", reason="",
        details='{"queue":{"from":"a","to":"b"},"payload":true,"quoted":{"from":"SECRET"}}',
    )  # fmt: skip
    viewer = Program(make.operator("view_deck", username="viewer"))
    seen, hidden = (who.get("audit", target="x").document["entries"][0]["details"] for who in (grace, viewer))
    assert seen["quoted"] == {"from": "SECRET"}
    assert hidden == {
        "queue": {"from": "a", "to": "b"}, "payload": True, "quoted": MASK,
    }  # fmt: skip


# -- queues, workers, circuits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD)
def test_queues_of_any_name(grace: Program, name: str) -> None:
    make.queue(name)
    make.hot(queue=name)
    (found,) = [queue for queue in grace.get("queues").document["queues"] if queue["name"] == name]
    assert (found["due"], found["has_live_worker"]) == (1, False)
    assert grace.post("queues/pause", queue=name, reason="why").document["applied"] == [name]
    assert grace.get("queues", name=name).document["queues"][0]["paused"] is True
    assert "paused already" in refusals(grace.post("queues/pause", queue=name))[name]
    assert grace.post("queues/resume", queue=name).document["applied"] == [name]
    assert grace.post("queues/hide", queue=name).document["applied"] == [name]
    assert grace.post("queues/show", queue=name).document["applied"] == [name]
    limits = {"max_workers": 3, "execution_timeout": 60, "window": "22:00-06:00 Europe/Berlin"}
    assert grace.post("queues/set", queue=name, **limits).document["applied"] == [name]
    assert grace.post("queues/set", queue=name, max_workers=None).document["applied"] == [name]
    row = Queue.objects.get(name=name)
    assert (row.max_workers, row.execution_timeout, row.window_zone) == (None, 60.0, "Europe/Berlin")
    assert grace.post("queues/reset", queue=name, reason="over").document["applied"] == [name]
    row.refresh_from_db()
    assert (row.execution_timeout, row.window_zone, row.updated_by) == (None, None, None)
    (refused,) = grace.post("queues/reset", queue=name).document["refused"]
    assert refused["reason"].startswith("Nobody has set its limits")


@pytest.mark.parametrize(
    ("path", "field", "slip", "near", "more"),
    [
        *((f"queues/{verb}", "queue", "mial", "'mail'", {}) for verb in ("pause", "resume", "hide", "show", "reset")),
        ("queues/set", "queue", "mial", "'mail'", {"max_workers": 3}),
        *((f"circuits/{verb}", "type", "test.nope", "'test.note'", {}) for verb in ("open", "close", "reset")),
    ],
)
def test_a_misspelt_name_is_no_success(
    grace: Program, path: str, field: str, slip: str, near: str, more: dict[str, Any]
) -> None:
    """As the commands have it: a name that nothing knows is a slip, unless one says that it is new."""
    make.queue("mail", updated_by="ada")
    answer = grace.post(path, {field: slip, **more})
    assert answer.status_code == 400
    error = answer.document["error"]
    assert (error["code"], error["path"]) == ("unknown_name", field)
    assert f"Did you mean {near}?" in error["message"], error
    assert not Queue.objects.filter(name=slip).exists()
    assert not Circuit.objects.filter(type=slip).exists()
    assert grace.post(path, {field: slip, "new": True, **more}).status_code == 200


def test_a_queue_that_there_is_not_is_not_shown_as_open(grace: Program) -> None:
    make.queue("mail", updated_by="ada")
    answer = grace.get("queues", name="mial")
    assert answer.status_code == 400
    assert answer.document["error"] == {
        "code": "unknown_name", "message": "There is no queue 'mial'. Did you mean 'mail'?", "path": "name"
    }  # fmt: skip


def test_workers_and_circuits(grace: Program) -> None:
    make.worker("w-1", clock_offset=-2.3456, clock_doubt=0.0004)
    make.circuit("a/b", state=Circuit.OPEN)
    make.circuit("closed")
    (worker,) = grace.get("workers").document["workers"]
    names = ("id", "clock_offset_seconds", "clock_doubt_seconds", "clock_is_off")
    assert [worker[name] for name in names] == ["w-1", -2.346, 0.0, True]
    assert grace.post("workers/concurrency", worker="w-1", concurrency=4).document["requested"] == ["w-1"]
    assert grace.post("workers/drain", worker="w-1").document["requested"] == ["w-1"]
    assert grace.post("workers/stop", worker="w-1").document["requested"] == ["w-1"]
    assert Worker.objects.get().stop_requested
    assert [circuit["type"] for circuit in grace.get("circuits").document["circuits"]] == ["a/b"]
    assert len(grace.get("circuits", all="true").document["circuits"]) == 2
    assert grace.post("circuits/close", type="a/b").document["applied"] == ["a/b"]
    assert grace.post("circuits/open", type="new.one", new=True).document["applied"] == ["new.one"]
    assert grace.post("circuits/reset", type="new.one").document["applied"] == ["new.one"]


# -- bulk operations ---------------------------------------------------------------------------------------------------


def test_a_bulk_operation_from_preview_to_undo(grace: Program) -> None:
    for _ in range(3):
        make.dead(queue="partner")
    make.dead(queue="mail")
    preview = grace.get("bulk/preview", status="dead", queue="partner").document
    assert (preview["total"], preview["complete"], preview["counts"][0]["count"]) == (3, True, 3)
    begun = grace.post("bulk", action="purge", where={"status": "dead", "queue": "partner"}, hold=True, rate=500.0)
    assert begun.status_code == 202
    one = f"bulk/{begun.document['operation']['id']}"
    control.bulk_freeze(begun.document["operation"]["id"])
    assert grace.get(one).document["operation"]["total"] == 3
    assert grace.get(f"{one}/counts").document["counts"][0]["queue"] == "partner"
    assert grace.post(f"{one}/resume", rate=9_000, reason="go").document["operation"]["state"] == "running"
    assert grace.post(f"{one}/pause").document["operation"]["state"] == "paused"
    grace.post(f"{one}/resume")
    control.bulk_run(begun.document["operation"]["id"])
    items = grace.get(f"{one}/items", state="applied", limit=2).document
    assert len(items["items"]) == 2
    rest = grace.get(f"{one}/items", state="applied", limit=2, after=items["next"]).document
    assert (len(rest["items"]), rest["next"]) == (1, None)
    answer = grace.post(f"{one}/pause")
    assert (answer.status_code, answer.document["error"]["code"]) == (409, "refused")
    assert grace.post(f"{one}/rate", rate=None).status_code == 409
    assert grace.get(f"{one}/outcomes").document["outcomes"] == {"succeeded": 0, "died": 0, "active": 0, "gone": 3}
    undone = grace.post(f"{one}/undo", reason="a slip")
    assert undone.document["operation"]["undo_of"] == begun.document["operation"]["id"]
    assert control.bulk_run(undone.document["operation"]["id"]).applied == 3
    assert JobDLQ.objects.count() == 4
    assert len(grace.get("bulk", state="done", by="grace", limit=10).document["operations"]) == 2
    assert grace.get("bulk", action="revert").document["operations"] == []


def test_an_operation_that_goes_on_gets_another_rate_and_no_canary(grace: Program) -> None:
    begun = grace.post("bulk", action="resurrect", ids=[new_id()], canary=1, rate=5.0).document["operation"]
    one = f"bulk/{begun['id']}"
    assert grace.post(f"{one}/rate", rate=50.0, reason="it works").document["operation"]["rate"] == 50.0
    assert grace.post(f"{one}/rate", rate=None).document["operation"]["rate"] is None
    assert grace.post(f"{one}/skip-canary").document["operation"]["canary_decision"] == "overruled"
    assert grace.post(f"{one}/skip-canary").status_code == 409


def test_a_page_of_one_state_looks_at_no_more_jobs_than_it_may(grace: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_items, "MOST_LOOKED_AT", 5)
    ids = sorted(new_id() for _ in range(12))
    operation = control.bulk_purge(ids, by="ada")
    BulkItem.objects.filter(operation_id=operation.id, job_id__in=[ids[1], *ids[10:]]).update(state=2)
    found, sizes, after = [], [], {}
    while True:
        page = grace.get(f"bulk/{operation.id}/items", state="refused", limit=2, **after).document
        found += [item["job_id"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert (found, sizes) == ([ids[1], *ids[10:]], [1, 0, 2])


@pytest.mark.parametrize(("name", "value"), [("state", "x"), ("after", "x"), ("limit", 0)])
def test_a_bad_page_of_an_operation_is_named(grace: Program, name: str, value: Any) -> None:
    operation = control.bulk_purge([new_id()], by="ada")
    answer = grace.get(f"bulk/{operation.id}/items", **{name: value})
    assert (answer.status_code, answer.document["error"]["path"]) == (400, name)


def test_every_action_begins(grace: Program) -> None:
    ids = {"ids": [new_id()]}
    careful = {
        "canary": 5,
        "canary_failures": 0.2,
        "canary_timeout": 60,
        "stop_at": 0.3,
        "stop_sample": 5,
        "stop_window": 50,
    }
    for body in (
        {
            "action": "resurrect",
            "where": {"status": "dead", "reason": "Timeout", "since": "2h"},
            "priority": 5,
            **careful,
        },
        {"action": "cancel", "where": {"status": "scheduled"}},
        {"action": "remove", "where": {}},
        {"action": "edit", "where": {"status": "dead"}, "queue": "slow"},
        {"action": "restore", "on_key_conflict": "drop", **ids},
        {"action": "purge", **ids},
    ):
        answer = grace.post("bulk", body)
        assert answer.status_code == 202, answer.content
        assert grace.post(f"bulk/{answer.document['operation']['id']}/cancel").status_code == 200


def test_payloads_are_repaired_by_a_patch_and_the_repaired_resurrected(grace: Program) -> None:
    exact = '{"number":9223372036854775807,"price":"1.10","ratio":0.5,"names":["a"]}'
    broken = make.dead(type="test.every", payload=exact.replace('"1.10"', '"one"'))
    fine = make.dead(type="test.every", payload=exact)
    unfit = make.dead(type="test.every", payload='{"number":"x","price":"one"}')
    patch = '[{"op":"test","path":"/price","value":"one"},{"op":"replace","path":"/price","value":12345678901234.5600}]'
    tried = grace.post("bulk/try-patch", f'{{"where":{{"status":"dead"}},"patch":{patch}}}').document["preview"]
    assert (tried["looked"], tried["changed"], tried["tested_out"], tried["unfit"]) == (3, 1, 1, 1)
    assert [each["path"] for each in tried["refusals"]] == ["$.number"]
    assert [each["id"] for each in tried["examples"]] == [broken.pk]
    begun = grace.post("bulk", f'{{"action":"edit","where":{{"status":"dead"}},"patch":{patch}}}')
    assert begun.status_code == 202, begun.content
    edited = begun.document["operation"]["id"]
    assert control.bulk_run(edited).applied == 1
    after = JobDLQ.objects.get(pk=broken.pk).payload
    assert '"price":"12345678901234.5600"' in after, "digit by digit"
    assert '"number":9223372036854775807' in after
    back = grace.post("bulk", action="resurrect", of=edited)
    assert control.bulk_run(back.document["operation"]["id"]).applied == 1
    assert set(JobDLQ.objects.values_list("pk", flat=True)) == {fine.pk, unfit.pk}
    some = grace.post("jobs/edit", ids=[fine.pk], patch=[{"op": "add", "path": "/names/-", "value": "b"}]).document
    assert (some["applied"], some["refused"]) == ([fine.pk], [])
    assert '"names":["a","b"]' in JobDLQ.objects.get(pk=fine.pk).payload
    again = patch.replace('"one"', '"1.10"')
    both = grace.post("jobs/edit", f'{{"ids":["{fine.pk}","{unfit.pk}"],"patch":{again}}}').document
    assert both["applied"] == [fine.pk]
    assert [(each["id"], each["left_alone"]) for each in both["refused"]] == [(unfit.pk, True)]
    (other,) = grace.post("jobs/edit", ids=[new_id()], priority=3).document["refused"]
    assert other["left_alone"] is False, "it is not there"


def test_values_of_a_patch_are_for_who_may_see_payloads(grace: Program) -> None:
    patch = [{"op": "add", "path": "/name", "value": "PR1VATE"}, {"op": "add", "path": "/token", "value": "S3CRET"}]
    one = grace.post("bulk", action="edit", ids=[new_id()], patch=patch).document["operation"]
    assert "PR1VATE" in one["arguments"]["patch"]
    assert "S3CRET" not in one["arguments"]["patch"]
    viewer = Program(make.operator("view_deck", username="viewer"))
    for answer in (viewer.get(f"bulk/{one['id']}"), viewer.get("bulk")):
        assert answer.status_code == 200
        assert "/token" in answer.content.decode()
        assert "PR1VATE" not in answer.content.decode()


@pytest.mark.parametrize("path", ["", "/counts", "/items"])
def test_there_is_no_such_operation(grace: Program, path: str) -> None:
    assert grace.get(f"bulk/{new_id()}{path}").status_code == 404
    assert grace.get(f"bulk/x{path}").status_code == 404


# -- the house ---------------------------------------------------------------------------------------------------------


def test_health_and_audit(grace: Program) -> None:
    health._cache.clear()
    answer = grace.get("health").document
    assert (answer["status"], answer["findings"][0]["code"]) == ("unhealthy", "no_worker")
    for number in range(5):
        control.pause_queue(f"q{number}", by="ada", reason=ODD[number])
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = grace.get("audit", by="ada", limit=2, since="1d", **after).document
        found += [entry["target"] for entry in page["entries"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == ["q4", "q3", "q2", "q1", "q0"]
    (entry,) = grace.get("audit", target="q2", action="pause_queue").document["entries"]
    assert entry["reason"] == ODD[2]


def test_failures_and_what_people_note(grace: Program) -> None:
    rows = [make.dead(queue="partner", fingerprint="ab" * 16) for _ in range(3)]
    group_of(rows[0], 3)
    (group,) = grace.get("failures", queue="partner", order="last_seen", limit=5).document["groups"]
    assert (group["fingerprint"], group["count"], group["replay_risk"]) == ("ab" * 16, 3, "partly")
    group_of(make.dead(queue="calm", fingerprint="ef" * 16, failure_reason=FailureReason.CANCELLED), 1)
    assert grace.get("failures/" + "ef" * 16).document["group"]["replay_risk"] == "if_started"
    assert grace.get("failures", acknowledged="true").document["groups"] == []
    assert grace.get("failures", reason="Zombie").document["groups"] == []
    assert grace.post(f"failures/{'ab' * 16}/triage", note="known", acknowledged=True).document["applied"] == [
        "ab" * 16
    ]
    one = grace.get(f"failures/{'ab' * 16}").document["group"]
    assert (one["note"], one["acknowledged"], one["acknowledged_by"]) == ("known", True, "grace")
    assert grace.post("jobs/annotate", ids=[rows[0].pk], assignee="bob").document["applied"] == [rows[0].pk]
    assert grace.get(f"jobs/{rows[0].pk}").document["job"]["assignee"] == "bob"
    viewer = Program(make.operator("view_deck", username="viewer"))
    assert viewer.get("failures").document["groups"][0]["message"] is None
    for path in ("failures/x", "failures/%00", f"failures/{'cd' * 16}"):
        assert grace.get(path).status_code == 404


def group_of(row: JobDLQ, count: int) -> None:
    FailureGroup.objects.create(
        series=row.fingerprint, fingerprint=row.fingerprint, queue=row.queue, type=row.type, shard="w",
        reason=row.failure_reason, error_type=row.error_type, message="the message", sample_id=row.pk, count=count,
        total=count, first_seen=row.failed_at, last_seen=row.failed_at,
    )  # fmt: skip


def test_settings(grace: Program) -> None:
    named = {each["name"]: each for each in grace.get("settings").document["settings"]}
    assert named["DECK.LAG_CRITICAL"]["value"] == 10
    assert named["DATABASE"]["fixed"]
    assert grace.post("settings/set", name="DECK.LAG_CRITICAL", value=60, reason="why").document["applied"]
    named = {each["name"]: each for each in grace.get("settings").document["settings"]}
    changed = named["DECK.LAG_CRITICAL"]
    assert (changed["value"], changed["source"], changed["set_by"]) == (60, "operator", "grace")
    assert grace.post("settings/reset", name="DECK.LAG_CRITICAL").document["applied"] == ["DECK.LAG_CRITICAL"]
    for body, path in (
        ({"name": "DECK.LAG_CRITICAL", "value": "many"}, "DECK.LAG_CRITICAL"),
        ({"name": "DECK.NOTHING", "value": 1}, "DECK.NOTHING"),
        ({"name": "DATABASE", "value": "other"}, "DATABASE"),
    ):
        answer = grace.post("settings/set", body)
        assert (answer.status_code, answer.document["error"]["path"]) == (400, path), answer.document


def test_the_description_describes_itself(grace: Program) -> None:
    whole = grace.get("openapi.json").document
    assert whole["openapi"].startswith("3.1")
    assert whole["servers"] == [{"url": "/chokaq/api"}]
    names = [operation["operationId"] for path in whole["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) > 30
    text = json.dumps(whole)
    for reference in set(text.split('"$ref": "')[1:]):
        name = reference.partition('"')[0].rpartition("/")[2]
        assert name in whole["components"]["schemas"]
    for schema in whole["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


# -- what is refused ---------------------------------------------------------------------------------------------------

ID = "01J9Z6T0Q5W9X3V8R2K7M4N1PB"
BAD: list[tuple[str, Any, str | None]] = [
    ("jobs/cancel", {}, "ids"),
    ("jobs/cancel", {"ids": []}, "ids"),
    ("jobs/cancel", {"ids": "x"}, "ids"),
    ("jobs/cancel", {"ids": [ID, 5]}, "ids[1]"),
    ("jobs/cancel", {"ids": ["x" * 65]}, "ids[0]"),
    ("jobs/cancel", {"ids": [ID] * 1_001}, "ids"),
    ("jobs/cancel", {"ids": [ID], "reason": "x" * 2_001}, "reason"),
    ("jobs/cancel", {"ids": [ID], "resaon": ""}, "resaon"),
    ("jobs/cancel", {"ids": [ID], "by": "somebody else"}, "by"),
    ("jobs/resurrect", {"ids": [ID], "priority": 10**9}, "priority"),
    ("jobs/resurrect", {"ids": [ID], "priority": True}, "priority"),
    ("jobs/resurrect", {"ids": [ID], "tags": ["x" * 101]}, "tags[0]"),
    ("jobs/resurrect", {"ids": [ID], "on_key_conflict": "steal"}, "on_key_conflict"),
    ("jobs/edit", {"ids": [ID]}, None),
    ("jobs/edit", {"priority": 1}, "ids"),
    ("jobs/edit", {"ids": [ID], "revisions": {ID: 1}, "priority": 1}, "ids"),
    ("jobs/edit", {"ids": [ID], "queue": "no queue?"}, "queue"),
    ("jobs/edit", {"ids": [ID], "type": "nobody.knows"}, "type"),
    ("jobs/edit", {"revisions": {ID: "x"}, "priority": 1}, "revisions[...]"),
    ("queues/pause", {}, "queue"),
    ("queues/pause", {"queue": "no queue?", "new": True}, "queue"),
    ("queues/pause", {"queue": "a\x00"}, "queue"),
    ("queues/pause", {"queue": "a\x00", "new": True}, "queue"),
    ("queues/set", {"queue": "mail"}, None),
    ("queues/set", {"queue": "mail", "new": True, "max_workers": 0}, "max_workers"),
    ("queues/set", {"queue": "mail", "new": True, "zombie_timeout": 0.1}, "zombie_timeout"),
    ("queues/set", {"queue": "mail", "new": True, "window": "always"}, "window"),
    ("workers/concurrency", {"worker": "w", "concurrency": 0}, "concurrency"),
    ("workers/concurrency", {"worker": "w", "concurrency": 1.5}, "concurrency"),
    ("circuits/open", {"type": "no type?", "new": True}, "type"),
    ("circuits/open", {"type": "a\x00"}, "type"),
    ("failures/x/triage", {"note": "n"}, "fingerprint"),
    ("jobs/annotate", {"ids": [ID]}, None),
    ("jobs/annotate", {"ids": [ID], "acknowledged": "yes"}, "acknowledged"),
    ("bulk", {"action": "resurrect"}, "ids"),
    ("bulk", {"action": "explode", "ids": [ID]}, "action"),
    ("bulk", {"action": "revert", "ids": [ID]}, "action"),
    ("bulk", {"action": "purge", "ids": [ID], "where": {}}, "ids"),
    ("bulk", {"action": "purge", "ids": [ID], "canary": 5}, "canary"),
    ("bulk", {"action": "purge", "where": {"status": "active"}}, "where"),
    ("bulk", {"action": "purge", "where": {"status": "deceased"}}, "where.status"),
    ("bulk", {"action": "purge", "where": {"status": "dead", "since": "soon"}}, "where.since"),
    ("bulk", {"action": "purge", "where": {"status": "dead", "quue": "x"}}, "where.quue"),
    ("bulk", {"action": "purge", "where": {"status": "dead", "queue": "a\x00"}}, "where.queue"),
    ("bulk", {"action": "restore", "where": {"status": "purged"}}, "where"),
    ("bulk", {"action": "edit", "ids": [ID]}, "priority"),
    ("bulk", {"action": "edit", "ids": [ID], "patch": []}, "patch"),
    ("bulk", {"action": "edit", "ids": [ID], "patch": [{"op": "move", "path": "/a"}]}, "patch[0].op"),
    ("bulk", {"action": "edit", "ids": [ID], "patch": [{"op": "add", "path": "a", "value": 1}]}, "patch"),
    ("bulk", {"action": "edit", "ids": [ID], "patch": [{"op": "add", "path": "/a", "value": MASK}]}, "patch"),
    ("bulk", {"action": "purge", "ids": [ID], "patch": [{"op": "remove", "path": "/a"}]}, "patch"),
    ("bulk", {"action": "purge", "of": ID}, "of"),
    ("bulk", {"action": "resurrect", "of": ID, "ids": [ID]}, "ids"),
    ("bulk", {"action": "resurrect", "of": ID}, "of"),
    ("bulk/try-patch", {"ids": [ID], "where": {}, "patch": [{"op": "remove", "path": "/a"}]}, "ids"),
    ("bulk/try-patch", {"ids": [ID], "patch": [{"op": "remove", "path": "/a"}], "sample": 0}, "sample"),
    ("bulk/try-patch", {"where": {"status": "succeeded"}, "patch": [{"op": "remove", "path": "/a"}]}, "where"),
    ("jobs/edit", {"ids": [ID], "payload": {}, "patch": [{"op": "remove", "path": "/a"}]}, "patch"),
    ("bulk", {"action": "resurrect", "ids": [ID], "rate": 0}, "rate"),
    ("bulk", {"action": "resurrect", "ids": [ID], "rate": 10**6}, "rate"),
    ("bulk", {"action": "resurrect", "ids": [ID], "stop_at": 2}, "stop_at"),
    ("bulk", {"action": "resurrect", "ids": [ID], "canary": 0}, "canary"),
    ("jobs/cancel", [], None),
    ("jobs/cancel", "null", None),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "where"), BAD, ids=lambda value: str(value)[:40])
def test_bad_bodies_are_refused_with_their_path(grace: Program, path: str, body: Any, where: str | None) -> None:
    answer = grace.post(path, body)
    assert answer.status_code == 400, answer.content
    assert answer.document["error"]["path"] == where, answer.document
    assert not BulkOperation.objects.exists()
    assert not Queue.objects.exists()
    assert not AuditEntry.objects.exclude(action="issue_token").exists()


@pytest.mark.parametrize(
    ("path", "query", "where"),
    [
        ("jobs", {"status": "deceased"}, "status"),
        ("jobs", {"limit": "0"}, "limit"),
        ("jobs", {"limit": "1001"}, "limit"),
        ("jobs", {"limit": "x"}, "limit"),
        ("jobs", {"after": "x"}, "after"),
        ("jobs", {"queue": "a\x00"}, "queue"),
        ("jobs", {"nonsense": "1"}, "nonsense"),
        ("jobs", {"status": "succeeded", "tag": "x"}, "since"),
        ("jobs", {"status": "active", "reason": "Timeout"}, "reason"),
        ("bulk/preview", {"status": "purged"}, "status"),
        ("bulk", {"state": "x"}, "state"),
        ("bulk", {"by": "a\x00"}, "by"),
        ("audit", {"target": "a\x00"}, "target"),
        ("audit", {"since": "soon"}, "since"),
        ("audit", {"after": "x~y"}, "after"),
        ("audit", {"after": "9999-99-99T00:00:00Z~01J9Z6T0Q5W9X3V8R2K7M4N1PB"}, "after"),
        ("audit", {"after": "0001-01-01T00:00:00+14:00~01J9Z6T0Q5W9X3V8R2K7M4N1PB"}, "after"),
        ("jobs", {"after": "0001-01-01T00:00:00+14:00~01J9Z6T0Q5W9X3V8R2K7M4N1PB", "status": "dead"}, "after"),
        ("audit", {"by": "ada"}, "since"),
        ("audit", {"action": "cancel", "since": "8d"}, "since"),
        ("audit", {"after": "2026-01-01T00:00:00~01J9Z6T0Q5W9X3V8R2K7M4N1PB"}, "after"),
        ("queues", {"name": "a\x00"}, "name"),
        ("circuits", {"all": "maybe"}, "all"),
        ("workers", {"x": "y"}, "x"),
    ],
)
def test_bad_queries_are_refused_with_their_path(grace: Program, path: str, query: dict[str, str], where: str) -> None:
    answer = grace.get(path, **query)
    assert answer.status_code == 400, answer.content
    assert answer.document["error"]["path"] == where, answer.document


@pytest.mark.parametrize("body", ["{", "[1,", b"\xff\xfe", '{"ids":["a"]}}', "", '{"ids":["\\ud800"]}', "[" * 100_000])
def test_what_is_no_json(grace: Program, body: str | bytes) -> None:
    assert grace.post("jobs/cancel", body).status_code == 400


@pytest.mark.parametrize("payload", [b'{"a":"\xff"}', b'"\xff"', b'"\\ud800"', b"[" * 5_000 + b"]" * 5_000])
@pytest.mark.parametrize("path", ["jobs/edit", "jobs/resurrect"])
def test_a_payload_that_is_no_json(grace: Program, path: str, payload: bytes) -> None:
    job = make.dead()
    answer = grace.post(path, b'{"ids":["%s"],"payload":%s}' % (job.pk.encode(), payload))
    assert answer.status_code == 400
    assert answer.document["error"]["code"] == "not_json"


def test_bodies_are_bounded_and_json(grace: Program) -> None:
    large = json.dumps({"ids": [ID], "reason": "x" * 3_000_000})
    assert grace.post("jobs/cancel", large).status_code == 413, "Django's own limit"
    assert grace.post("jobs/cancel", "x" * 4_000_001).status_code == 413
    headers = {"Authorization": f"Bearer {grace.token}"}
    form = grace.client.post("/chokaq/api/jobs/cancel", {"ids": ID}, headers=headers)
    assert form.status_code == 415
    assert form.json()["error"]["path"] is None


@pytest.mark.parametrize("kind", [make.hot, make.archived, make.dead, make.purged])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '["\\ud800"]', "[" * 400 + "]" * 400, '[{"duration_ms": 1e400}]', "NaN", ""]
)
def test_rows_that_no_code_of_ours_wrote(grace: Program, kind: Any, text: str) -> None:
    job = kind(attempt_log=text, tags=text, headers=text, payload=text, type=text[:9] or " ", queue=text[:9] or " ")
    assert grace.get(f"jobs/{job.pk}").status_code == 200
    make.audit_entry(details=text, target=text[:9])
    assert grace.get("audit").status_code == 200
    for status in ("active", "succeeded", "dead", "purged"):
        assert grace.get("jobs", status=status).status_code == 200


def test_a_filter_of_the_api_knows_every_field() -> None:
    assert set(Filter.__struct_fields__) == set(FIELDS)


def test_the_reference_names_every_endpoint() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    for path in described()["paths"]:
        assert f"`{path.removeprefix('/')}`" in text
