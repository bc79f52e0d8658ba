"""Every operation of the contract, with arguments that reach every statement SQL Server can be sent.

Each scenario gets a worker's storage over the recording driver; ``answer`` prepares what the server says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from chokaq_django.job.failures import FailureReason
from chokaq_django.storage import CircuitAct, ClaimRequest, JobEdit, Lease, NewJob, Note, Outcome, OutcomeKind
from chokaq_django.storage.contract import CircuitPolicy, CircuitReport, LiveRow, QueueRow, RescueAction, WorkerRow
from chokaq_django.storage.rollups import TAKEN

from .mssql_bulk import BULK
from .mssql_recorder import Recorder
from .support import rule

Scenario = Callable[[Any, Recorder], object]

AWARE = dt.datetime(2031, 5, 17, 12, 0, 0, 250_000, dt.UTC)
NOW = AWARE.replace(tzinfo=None)  # as the drivers return it
LATER = NOW + dt.timedelta(seconds=30)
ONE, TWO, THREE = (f"01AAAAAAAAAAAAAAAAAAAAAAA{number}" for number in "123")
LEASES = [Lease(ONE, 4), Lease(TWO, 1)]
WORKER = "worker-1"
DEAD = ("mail", "email.send.v1", "f" * 32, 6, "E", NOW)
"""What a dead job counts by."""
POLICY = CircuitPolicy(3, 60, 30, 1, 30)


def job(job_id: str, **columns: Any) -> NewJob:
    return NewJob(**{"id": job_id, "queue": "mail", "type": "email.send.v1", "payload": '{"to":"ada"}', **columns})


def outcome(job_id: str, kind: OutcomeKind, **values: Any) -> Outcome:
    return Outcome(
        **{"id": job_id, "claim_number": 4, "kind": kind, "queue": "mail", "type": "email.send.v1",
           "attempt_log": '["log"]', **values}
    )  # fmt: skip


def live(job_id: str, status: int = 2) -> LiveRow:
    return LiveRow(job_id, 4, status, WORKER, "mail", "email.send.v1", 1, 3, 0, "[]", AWARE, AWARE)


def live_answer(job_id: str, *, cancelled: bool = False) -> tuple[Any, ...]:
    """The row that a rescuer reads."""
    asked = (NOW, "ada") if cancelled else (None, None)
    return (job_id, 4, 2, WORKER, "mail", "email.send.v1", 1, 3, 0, "[]", NOW, NOW, NOW, *asked)


def circuit(type_key: str, state: int) -> tuple[Any, ...]:
    return (type_key, state, 3, NOW, NOW, NOW, "[]", 0, False, NOW)


def claimed(job_id: str) -> tuple[Any, ...]:
    return (job_id, "mail", "email.send.v1", 1, "{}", "[]", 10, 1, 3, 0, 0, 4, 0, None, NOW, NOW, NOW, NOW, None, "{}",
            "[]", 2, NOW)  # fmt: skip


# -- producing ---------------------------------------------------------------------------------------------------------


def enqueue_plain(storage: Any, recorder: Recorder) -> None:
    storage.enqueue([job(ONE, delay=1.5, deadline_after=60)])
    storage.enqueue([job(ONE, run_at=AWARE, created_by="ada"), job(TWO, deadline_at=AWARE)])


def enqueue_keyed(storage: Any, recorder: Recorder) -> None:
    recorder.answer("OUTPUT inserted.id", [(ONE,)])
    recorder.answer("OPENJSON(@keys)", [("b", THREE)])
    storage.enqueue([job(ONE, idempotency_key="a"), job(TWO, idempotency_key="b")])


def enqueue_again(storage: Any, recorder: Recorder) -> None:
    """The first try may have committed."""
    recorder.fail("INSERT INTO chokaq_job_hot", lost())
    recorder.answer("UNION ALL", [])
    storage.enqueue([job(ONE)])


# -- working -----------------------------------------------------------------------------------------------------------


def claim(*, start: bool, strict: bool = False, max_crashes: int | None = None) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        recorder.answer("@limit int", [(None,)], [claimed(ONE)])
        storage.claim(
            ClaimRequest(WORKER, ["mail", "reports"], 10, start=start, strict=strict, max_crashes=max_crashes)
        )

    return scenario


def claim_restricted(storage: Any, recorder: Recorder) -> None:
    """Capped, with one control row missing; a blocked type at the head; a half open circuit with a permit, and one
    that another worker has locked."""
    recorder.answer("FROM chokaq_queue WITH (FORCESEEK, UPDLOCK", [("mail", 3)])
    recorder.answer("COUNT(*)", [("mail", 1)])
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [circuit("half.v1", 2)])
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK) WHERE", [circuit("other.v1", 2)])
    recorder.answer("@queues nvarchar(max)", [("mail", 10)])
    recorder.answer("p.most", [
        (ONE, "mail", "blocked.v1", 10, NOW, None, NOW, LATER), (TWO, "mail", "half.v1", 10, NOW, None, NOW, LATER),
    ])  # fmt: skip
    recorder.answer("@ids nvarchar(max)", [claimed(TWO)])
    recorder.answer("MIN(DATEDIFF_BIG", [(1_500_000,)])
    storage.claim(
        ClaimRequest(
            WORKER, ["mail", "capped"], 2, capped={"mail": 3, "capped": 1}, blocked={"blocked.v1": 20.0},
            probing={"half.v1": (1, 30.0), "other.v1": (1, 30.0)},
        )
    )  # fmt: skip


def claim_into_the_buffer_past_a_blocked_type(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@queues nvarchar(max)", [("mail", 10)])
    recorder.answer("p.most", [(ONE, "mail", "free.v1", 10, NOW, None, NOW, LATER)])
    recorder.answer("@ids nvarchar(max)", [claimed(ONE)])
    recorder.answer("MIN(DATEDIFF_BIG", [(None,)])
    storage.claim(ClaimRequest(WORKER, ["mail"], 2, start=False, blocked={"blocked.v1": 20.0}))


def claim_from_many_levels_past_a_blocked_type(storage: Any, recorder: Recorder) -> None:
    """More rows could be wanted than one statement may lock."""
    recorder.answer("@queues nvarchar(max)", [(f"q{number}", 10) for number in range(40)])
    recorder.answer("SELECT TOP (1000) p.name", [("q3", 10), ("q1", 10), ("q3", 10)])
    recorder.answer("p.most", [(ONE, "q3", "free.v1", 10, NOW, None, NOW, LATER)])
    recorder.answer("@ids nvarchar(max)", [claimed(ONE)])
    recorder.answer("MIN(DATEDIFF_BIG", [(None,)])
    queues = [f"q{number}" for number in range(40)]
    storage.claim(ClaimRequest(WORKER, queues, 2, start=False, blocked={"blocked.v1": 20.0}))
    (locked,) = [sent for sent in recorder.sent if "p.most" in sent.sql and "UPDLOCK" in sent.sql]
    assert locked.params[0].strip() == '[["q3",10,2],["q1",10,1]]'


def claimed_by(storage: Any, recorder: Recorder) -> None:
    recorder.answer("h.worker_id = @worker", [claimed(ONE), claimed(TWO)])
    assert [job.id for job in storage.claimed_by(WORKER)] == [ONE, TWO]


def heartbeat(storage: Any, recorder: Recorder) -> None:
    recorder.answer("UPDATE h SET heartbeat_at", [(ONE, None, None)])
    recorder.answer("NOWAIT", [(TWO, NOW, "ada")])
    reply = storage.heartbeat(WORKER, LEASES)
    assert (reply.lost, reply.cancels, reply.busy) == (set(), {TWO: "ada"}, {TWO})


def advance(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@queues nvarchar(max)", [("mail", 10)])
    recorder.answer("due_at <=", [(NOW, f"{number:026}", 0) for number in range(500)])
    recorder.answer("due_at <=", [(NOW, ONE, 1)])
    recorder.answer("ORDER BY id", [(ONE,)])
    storage.advance(["mail"], ["blocked.v1"], 30.0, 500)


def start(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@held", [(ONE, 2, 1, NOW), (TWO, 0, 0, NOW)])
    storage.start(WORKER, LEASES)


def settle(*kinds: OutcomeKind) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        ids = (ONE, TWO, THREE)[: len(kinds)]
        recorder.answer("@held", [(job_id, False, None) for job_id in ids])
        storage.settle(WORKER, [
            outcome(job_id, kind, reason=FailureReason.TIMEOUT, error_type="E", error_details="why", result="{}",
                    delay=7.5, modified_by="ada")
            for job_id, kind in zip(ids, kinds, strict=True)
        ])  # fmt: skip

    return scenario


def settle_lost_and_cancelled(storage: Any, recorder: Recorder) -> None:
    """Two leases are gone: nothing is written, then the other one is. An operator had asked to stop that one, and one
    that an earlier try has settled."""
    recorder.answer("@held", [(ONE, True, "ada")])
    recorder.answer("@held", [(ONE, True, "ada")])
    recorder.answer("UNION ALL", [(THREE, 4, -1, '["log"]', 1, "bob")])
    for job_id in (ONE, THREE):
        recorder.answer("SELECT id, status, queue, type", [(job_id, 0, "mail", "email.send.v1")])
    three = outcome(THREE, OutcomeKind.RETRY)
    storage.settle(WORKER, [outcome(ONE, OutcomeKind.RETRY), three, outcome(TWO, OutcomeKind.RETRY)])


# -- recovering --------------------------------------------------------------------------------------------------------


def rescue(storage: Any, recorder: Recorder) -> None:
    recorder.answer(
        "cancel_requested_by FROM", [live_answer(ONE), live_answer(TWO), live_answer(THREE, cancelled=True)]
    )
    storage.rescue([
        RescueAction(live(ONE), "pending", "[]", crashed=True, delay=5.0),
        RescueAction(live(TWO), "dlq", "[]", crashed=True, reason=FailureReason.ZOMBIE, error_details="gone"),
        RescueAction(live(THREE), "pending", "[]"),
    ])  # fmt: skip


def expire(storage: Any, recorder: Recorder) -> None:
    recorder.answer("deadline_at IS NOT NULL", [(ONE, "mail", "email.send.v1")])
    storage.expire(500)


def trim(storage: Any, recorder: Recorder) -> None:
    """A whole table, and a queue in which a reason is kept; of the first, one job is being written."""
    for _ in range(2):
        recorder.answer("SELECT @now", [(NOW,)])
    recorder.answer(
        "WITH (INDEX (chokaq_archive_time)", [(ONE, NOW, "mail", "a.v1", -1), (TWO, NOW, "mail", "a.v1", -1)]
    )
    recorder.answer("SELECT id, revision", [(ONE, 3, "mail", "a.v1")])
    assert storage.trim(rule("archive", 86_400.0), 500).removed == 1
    recorder.answer("FROM chokaq_retention_mark", [("", None, "", None)])
    dead = [(ONE, NOW, "mail", "a.v1", 7), (TWO, NOW, "mail", "a.v1", 11)]
    recorder.answer("WITH (INDEX (chokaq_dlq_queue)", dead)
    recorder.answer("SELECT id, revision", [(ONE, 0, "mail", "a.v1", "f" * 32, 7, "E", NOW)])
    assert storage.trim(rule("dlq", 86_400.0, "queue", "mail", failure_reason=[11]), 500).removed == 1


def trim_due(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT @now", [(NOW,)])
    recorder.answer("FROM chokaq_retention_mark", [(rule("archive", 60.0).others, NOW, ONE, NOW)])
    storage.trim_due(rule("archive", 86_400.0, "type", "a.v1"), 100)


def forget_rules(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT name FROM", [("RETENTION.DLQ",), ("RETENTION.DLQ_BY_QUEUE.gone",)])
    storage.forget_rules(["RETENTION.DLQ"])


def roll_up(storage: Any, recorder: Recorder) -> None:
    columns = dict.fromkeys(TAKEN, 0) | {"at": NOW, "series": "a" * 32, "queue": "mail", "type": "email.send.v1"}
    recorder.answer("deleted.at", [tuple(columns.values())])
    storage.roll_up(3_900.0, 500)


def trim_rollups(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@deleted", [(7,)])
    storage.trim_rollups(300, 86_400.0, 500)


# -- fleet and control -------------------------------------------------------------------------------------------------


def register(storage: Any, recorder: Recorder) -> None:
    row = WorkerRow(WORKER, "host", 7, "1.0", "[]", 4, 0, "running", clock_offset=0.25, clock_doubt=0.001)
    recorder.answer("OUTPUT inserted.desired_concurrency", [(3, False)])
    recorder.answer("FROM chokaq_setting", [(0, 2, NOW, NOW)])
    recorder.answer("SELECT @now;", [(NOW,)])
    storage.register(row)
    storage.register(row)


def lead(storage: Any, recorder: Recorder) -> None:
    recorder.answer("UPDATE h SET term", [(0,)])
    storage.lead("rescue", WORKER, 30.0)


def report_circuits(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [])
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [circuit("new.v1", 0)])
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK) WHERE", [])
    storage.report_circuits([
        CircuitReport("new.v1", POLICY, failures=5), CircuitReport("quiet.v1", POLICY, successes=1),
    ])  # fmt: skip


def cancel(storage: Any, recorder: Recorder) -> None:
    rows = [(ONE, 0, "mail", "email.send.v1"), (TWO, 2, "mail", "email.send.v1")]
    recorder.answer("SELECT id, status, queue, type", rows)
    storage.cancel([ONE, TWO, THREE], "ada")


def resurrect(**edits: Any) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        recorder.answer("idempotency_key FROM chokaq_job_dlq", [(ONE, *DEAD, "k"), (TWO, *DEAD, "k")])
        recorder.answer("@edited", [(ONE,)])
        if edits.get("on_key_conflict") == "drop":
            recorder.answer("@edited", [(TWO,)])
        storage.resurrect([ONE, TWO, THREE], "ada", **edits)

    return scenario


def remove(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, status FROM chokaq_job_hot", [(ONE, 0), (TWO, 2)])
    storage.remove([ONE, TWO, THREE], "ada", 604_800.0)


def purge(storage: Any, recorder: Recorder) -> None:
    recorder.answer("failed_at FROM chokaq_job_dlq", [(ONE, *DEAD)])
    recorder.answer("SELECT id, queue FROM chokaq_job_archive", [(TWO, "mail")])
    storage.purge([ONE, TWO, THREE], None, None)


def restore(policy: str) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        rows = [(ONE, None, "hot", "k", 0, "mail", "email.send.v1", None, None, None, None),
                (TWO, THREE, "dlq", "k", None, *DEAD),
                (THREE, None, "archive", None, None, "mail", "email.send.v1", None, None, None, None)]  # fmt: skip
        recorder.answer("SELECT id, operation_id, came_from", rows)
        recorder.answer("MIN(finished_at)", [(NOW,)])
        recorder.answer("MIN(failed_at)", [(NOW,)])
        recorder.answer("WHERE place =", [("RETENTION.ARCHIVE",)])
        storage.restore([ONE, TWO, THREE], on_key_conflict=policy)

    return scenario


def run_again(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, queue, idempotency_key, headers", [(ONE, "mail", "k", "{}")])
    storage.run_again([ONE, TWO], "ada", on_key_conflict="drop")


def edit(storage: Any, recorder: Recorder) -> None:
    own = (2, "bob", "mail", "email.send.v1", 10, "[]", 1)
    recorder.answer("FROM chokaq_job_hot", [(ONE, *own, 0)])
    recorder.answer("FROM chokaq_job_dlq", [(TWO, *own, "f" * 32, 6, "E", NOW)])
    recorder.answer("MIN(failed_at)", [(NOW,)])
    recorder.answer("WHERE place =", [("RETENTION.DLQ",), ("RETENTION.DLQ_BY_QUEUE.mail",)])
    changes = JobEdit(payload="{}", schema_version=2, tags='["a"]', priority=3, queue="new", type="email.send.v2")
    storage.edit({ONE: 2, TWO: None, THREE: 1}, "ada", changes)


def annotate(storage: Any, recorder: Recorder) -> None:
    for note in (Note("n", "ada", True), Note(assignee="", acknowledged=False)):
        recorder.answer("SELECT id, note", [(ONE, "", "bob", NOW)])
        storage.annotate([ONE, TWO], note)


def lock_ahead(storage: Any, recorder: Recorder) -> None:
    storage._joined = lambda: True
    storage.lock_ahead([TWO, ONE], ["hot", "dlq"])


def set_circuit(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [])
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [circuit("new.v1", 0)])
    storage.set_circuit("new.v1", CircuitAct.OPEN, "ada")


def fold_groups(storage: Any, recorder: Recorder) -> None:
    for found in ([("a" * 32,)], [("a" * 32,), ("b" * 32,)]):
        recorder.answer("SELECT series FROM chokaq_failure_group", found)
    rows = [(digest * 32, "f" * 32, "mail", "email.send.v1", f"worker-{digest}", 6, "E", "E: no", ONE, 2, 3, NOW, LATER)
            for digest in "ab"]  # fmt: skip
    recorder.answer("sample_id", rows)
    storage.fold_groups(500)


def trim_groups(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT series FROM chokaq_failure_group", [("a" * 32,)])
    row = ("a" * 32, "f" * 32, "mail", "email.send.v1", "", 6, "E", "E: no", ONE, 0, 3, NOW, LATER)
    recorder.answer("sample_id", [row])
    storage.trim_groups(86_400.0, 500)


def recount_groups(storage: Any, recorder: Recorder) -> None:
    """Jobs without a fingerprint; a group that is not counted, and one whose jobs are gone; a total that is wrong."""
    recorder.answer("UPDATE h SET term", [(1,)])
    recorder.answer("fingerprint IS NULL", [(ONE, 6, "E"), (TWO, 6, None)])
    kind = ("mail", "email.send.v1")
    recorder.answer("HAVING", [("e" * 32, *kind, 2, 2, NOW, LATER, ONE), ("f" * 32, *kind, 0, -1, None, None, None)])
    recorder.answer("SELECT id, failure_reason, error_type, error_details", [(ONE, 6, "E", "E: no", LATER)])
    row = ("a" * 32, "f" * 32, *kind, "worker-1", 6, "E", "E: no", TWO, 2, 3, NOW, LATER)
    recorder.answer("sample_id, count", [row])
    recorder.answer("FROM chokaq_failure_total", [("f" * 32, -1, 2, NOW, LATER)])
    storage.recount_groups()


def expire_trash(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, revision FROM", [(ONE, 0), (TWO, 3)])
    storage.expire_trash(500)


def erase_queue(storage: Any, recorder: Recorder) -> None:
    """A job that was edited; what is folded; counts of each kind; then nothing."""
    recorder.answer("SELECT id FROM chokaq_job_hot", [(ONE,)])
    recorder.answer("SELECT id, revision FROM chokaq_job_hot", [(ONE, 1)])
    recorder.answer("SELECT series FROM chokaq_failure_group", [("z" * 32,)])
    row = ("z" * 32, "f" * 32, "mail", "email.send.v1", "", 6, "E", "E: no", TWO, 2, 3, NOW, LATER)
    recorder.answer("sample_id, count", [row])
    recorder.answer("SELECT at, series", [(NOW, "a" * 32)])
    recorder.answer("SELECT span, at, series", [(60, NOW, "b" * 32)])
    recorder.answer("SELECT series FROM chokaq_counter", [("c" * 32,)])
    while storage.erase_queue("mail", 500):
        pass


def now(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT @now", [(NOW,)])
    storage.now()


def lost() -> BaseException:
    """A connection that broke, as pyodbc tells it."""
    import pyodbc

    text = "[08S01] [Microsoft][ODBC Driver 18 for SQL Server]Communication link failure (0) (SQLExecDirectW)"
    error: BaseException = pyodbc.OperationalError("08S01", text)
    return error


K = OutcomeKind
OPERATIONS: dict[str, dict[str, Scenario]] = {
    "enqueue": {
        "one, then many": enqueue_plain,
        "with keys": enqueue_keyed,
        "a second try": enqueue_again,
    },
    "claim": {
        "and start": claim(start=True),
        "into the buffer": claim(start=False),
        "and start, queues in strict order": claim(start=True, strict=True),
        "into the buffer, queues in strict order": claim(start=False, strict=True),
    },
    "claim_of_what_has_not_crashed": {
        "and start": claim(start=True, max_crashes=0),
        "into the buffer": claim(start=False, max_crashes=2),
        "and start, queues in strict order": claim(start=True, strict=True, max_crashes=0),
        "into the buffer, queues in strict order": claim(start=False, strict=True, max_crashes=2),
    },
    "claim_restricted": {
        "caps, blocked types, probes": claim_restricted,
        "into the buffer": claim_into_the_buffer_past_a_blocked_type,
        "from many queues": claim_from_many_levels_past_a_blocked_type,
    },
    "advance": {"": advance},
    "pending_queues": {"": lambda storage, recorder: storage.pending_queues()},
    "claimed_by": {"": claimed_by},
    "start": {"": start},
    "settle": {
        "success": settle(K.SUCCEEDED),
        "retry": settle(K.RETRY),
        "snoozed and interrupted: not counted": settle(K.SNOOZED, K.INTERRUPTED),
        "every kind": settle(K.SUCCEEDED, K.RETRY, K.DEAD),
    },
    "settle_conflict": {"a lease lost, a late request to cancel": settle_lost_and_cancelled},
    "release": {"": lambda storage, recorder: storage.release(WORKER, LEASES, 2.5)},
    "heartbeat": {"a row is passed over": heartbeat},
    "cancel_requests": {"": lambda storage, recorder: storage.cancel_requests(LEASES)},
    "progress": {
        "": lambda storage, recorder: storage.progress(WORKER, {LEASES[0]: (40, "half 🐙"), LEASES[1]: (50, None)})
    },
    "lead": {"": lead},
    "resign": {"": lambda storage, recorder: storage.resign("rescue", WORKER)},
    "live_rows": {"": lambda storage, recorder: storage.live_rows()},
    "rescue": {"": rescue},
    "expire": {"": expire},
    "trim": {"": trim},
    "trim_due": {"": trim_due},
    "trimmed": {"": lambda storage, recorder: storage.trimmed("RETENTION.TRASH", "", 7)},
    "forget_rules": {"": forget_rules},
    "roll_up": {"": roll_up},
    "trim_rollups": {"": trim_rollups},
    "register": {"": register},
    "unregister": {"": lambda storage, recorder: storage.unregister(WORKER)},
    "workers_seen": {"": lambda storage, recorder: storage.workers_seen()},
    "sweep_workers": {"": lambda storage, recorder: storage.sweep_workers(["worker-1", "worker-2"])},
    "queues": {"": lambda storage, recorder: storage.queues()},
    "settings": {"": lambda storage, recorder: storage.settings()},
    "seed_queue": {
        "": lambda storage, recorder: storage.seed_queue(
            QueueRow("mail", False, True, 3, None, 30.0, (dt.time(8), dt.time(18), "Europe/Berlin"))
        )
    },
    "renew_queue": {
        "": lambda storage, recorder: storage.renew_queue(
            QueueRow("mail", False, True, 3, None, 30.0, (dt.time(8), dt.time(18), "Europe/Berlin"))
        )
    },
    "circuits": {"": lambda storage, recorder: storage.circuits()},
    "report_circuits": {"": report_circuits},
    "cancel": {"": cancel},
    "resurrect": {
        "keys are kept or their jobs stay": resurrect(),
        "edited, keys are dropped": resurrect(payload="{}", priority=3, on_key_conflict="drop"),
    },
    "remove": {"": remove},
    "purge": {"": purge},
    "restore": {"keys are kept or their jobs stay": restore("skip"), "keys are dropped": restore("drop")},
    "run_again": {"keys are dropped": run_again},
    "edit": {"": edit},
    "annotate": {"": annotate},
    "lock_ahead": {"": lock_ahead},
    "set_circuit": {"": set_circuit},
    "expire_trash": {"": expire_trash},
    "erase_queue": {"": erase_queue},
    "fold_groups": {"": fold_groups},
    "trim_groups": {"": trim_groups},
    "group_drift": {"": lambda storage, recorder: storage.group_drift()},
    "recount_groups": {"": recount_groups},
    "now": {"": now},
    **BULK,
}
