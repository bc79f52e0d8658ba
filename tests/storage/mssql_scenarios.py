"""Every operation of the contract, with arguments that reach every statement SQL Server can be sent.

Each scenario gets a worker's storage over the recording driver; ``answer`` prepares what the server says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from chokaq_django.job.failures import FailureReason
from chokaq_django.storage import CircuitAct, ClaimRequest, JobEdit, Lease, NewJob, Outcome, OutcomeKind
from chokaq_django.storage.contract import CircuitPolicy, CircuitReport, LiveRow, QueueRow, RescueAction, WorkerRow

from .mssql_bulk import BULK
from .mssql_recorder import Recorder

Scenario = Callable[[Any, Recorder], object]

AWARE = dt.datetime(2031, 5, 17, 12, 0, 0, 250_000, dt.UTC)
NOW = AWARE.replace(tzinfo=None)  # as the drivers return it
LATER = NOW + dt.timedelta(seconds=30)
ONE, TWO, THREE = (f"01AAAAAAAAAAAAAAAAAAAAAAA{number}" for number in "123")
LEASES = [Lease(ONE, 4), Lease(TWO, 1)]
WORKER = "worker-1"
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


def claim(*, start: bool, strict: bool = False) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        recorder.answer("@limit int", [(None,)], [claimed(ONE)])
        storage.claim(ClaimRequest(WORKER, ["mail", "reports"], 10, start=start, strict=strict))

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


def claim_after_a_lost_answer(storage: Any, recorder: Recorder) -> None:
    recorder.fail("@limit int", lost())
    recorder.answer("@limit int", [(None,)], [claimed(ONE)])
    recorder.answer("@known", [claimed(TWO)])
    storage.claim(ClaimRequest(WORKER, ["mail"], 10))


def advance(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@queues nvarchar(max)", [("mail", 10)])
    recorder.answer("due_at <=", [(NOW, f"{number:026}", 0) for number in range(500)])
    recorder.answer("due_at <=", [(NOW, ONE, 1)])
    recorder.answer("ORDER BY id", [(ONE,)])
    storage.advance(["mail"], ["blocked.v1"], 30.0, 500)


def start(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@held", [(ONE, 2, 1, NOW), (TWO, 0, 0, NOW)])
    storage.start(WORKER, LEASES)


def start_after_a_lost_answer(storage: Any, recorder: Recorder) -> None:
    recorder.fail("@held", lost())
    recorder.answer("@held", [])
    recorder.answer("h.started_at", [(ONE, 1, NOW)])
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
    for table in ("archive", "dlq"):
        recorder.answer("SELECT id, revision FROM", [(ONE, 0), (TWO, 3)])
        storage.trim(table, 86_400.0, 500)
    storage.trim("dlq", 86_400.0, 500, reason=11)
    recorder.answer("MIN(failure_reason)", [(1,)])
    recorder.answer("MIN(failure_reason)", [(7,)])
    recorder.answer("MIN(failure_reason)", [(None,)])
    storage.trim("dlq", 86_400.0, 500, but_reasons=[1, 11])


def trim_buckets(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@deleted", [(7,)])
    storage.trim_buckets(86_400.0, 500)


# -- fleet and control -------------------------------------------------------------------------------------------------


def register(storage: Any, recorder: Recorder) -> None:
    row = WorkerRow(WORKER, "host", 7, "1.0", "[]", 4, 0, "running")
    recorder.answer("OUTPUT inserted.desired_concurrency", [(3, False)])
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
        recorder.answer("SELECT id, queue, idempotency_key", [(ONE, "mail", "k"), (TWO, "mail", "k")])
        recorder.answer("@edited", [(ONE,)])
        if edits.get("on_key_conflict") == "drop":
            recorder.answer("@edited", [(TWO,)])
        storage.resurrect([ONE, TWO, THREE], "ada", **edits)

    return scenario


def remove(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, status FROM chokaq_job_hot", [(ONE, 0), (TWO, 2)])
    storage.remove([ONE, TWO, THREE], "ada", 604_800.0)


def purge(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, queue FROM chokaq_job_dlq", [(ONE, "mail")])
    recorder.answer("SELECT id, queue FROM chokaq_job_archive", [(TWO, "mail")])
    storage.purge([ONE, TWO, THREE], None, None)


def restore(policy: str) -> Scenario:
    def scenario(storage: Any, recorder: Recorder) -> None:
        rows = [(ONE, "hot", "mail", "k", 0), (TWO, "dlq", "mail", "k", None), (THREE, "archive", "mail", None, None)]
        recorder.answer("SELECT id, came_from, queue, idempotency_key, status", rows)
        storage.restore([ONE, TWO, THREE], on_key_conflict=policy)

    return scenario


def run_again(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, queue, idempotency_key, headers", [(ONE, "mail", "k", "{}")])
    storage.run_again([ONE, TWO], "ada", on_key_conflict="drop")


def edit(storage: Any, recorder: Recorder) -> None:
    own = (2, "bob", "mail", "email.send.v1", 10, "[]", 1)
    recorder.answer("FROM chokaq_job_hot", [(ONE, *own, 0)])
    recorder.answer("FROM chokaq_job_dlq", [(TWO, *own)])
    changes = JobEdit(payload="{}", schema_version=2, tags='["a"]', priority=3, queue="new", type="email.send.v2")
    storage.edit({ONE: 2, TWO: None, THREE: 1}, "ada", changes)


def set_circuit(storage: Any, recorder: Recorder) -> None:
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [])
    recorder.answer("@now FROM chokaq_circuit WITH (FORCESEEK, UPDLOCK", [circuit("new.v1", 0)])
    storage.set_circuit("new.v1", CircuitAct.OPEN, "ada")


def expire_trash(storage: Any, recorder: Recorder) -> None:
    recorder.answer("SELECT id, revision FROM", [(ONE, 0), (TWO, 3)])
    storage.expire_trash(500)


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
        "after an answer that was lost": claim_after_a_lost_answer,
    },
    "claim_restricted": {
        "caps, blocked types, probes": claim_restricted,
        "into the buffer": claim_into_the_buffer_past_a_blocked_type,
        "from many queues": claim_from_many_levels_past_a_blocked_type,
    },
    "advance": {"": advance},
    "pending_queues": {"": lambda storage, recorder: storage.pending_queues()},
    "start": {"": start, "after an answer that was lost": start_after_a_lost_answer},
    "settle": {
        "success": settle(K.SUCCEEDED),
        "retry": settle(K.RETRY),
        "snoozed and interrupted: not counted": settle(K.SNOOZED, K.INTERRUPTED),
        "every kind": settle(K.SUCCEEDED, K.RETRY, K.DEAD),
    },
    "settle_conflict": {"a lease lost, a late request to cancel": settle_lost_and_cancelled},
    "release": {"": lambda storage, recorder: storage.release(WORKER, LEASES, 2.5)},
    "heartbeat": {"": lambda storage, recorder: storage.heartbeat(WORKER, LEASES)},
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
    "trim_buckets": {"": trim_buckets},
    "register": {"": register},
    "unregister": {"": lambda storage, recorder: storage.unregister(WORKER)},
    "workers_seen": {"": lambda storage, recorder: storage.workers_seen()},
    "sweep_workers": {"": lambda storage, recorder: storage.sweep_workers(["worker-1", "worker-2"])},
    "queues": {"": lambda storage, recorder: storage.queues()},
    "seed_queue": {
        "": lambda storage, recorder: storage.seed_queue(
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
    "set_circuit": {"": set_circuit},
    "expire_trash": {"": expire_trash},
    "now": {"": now},
    **BULK,
}
