"""Options that operators set while everything runs: which, what they may be, who follows them."""

from __future__ import annotations

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chokaq_django import control
from chokaq_django.conf import get_options, override_options, overrides, project_options
from chokaq_django.conf.overridable import OVERRIDABLE
from chokaq_django.job.backoff import Exponential
from chokaq_django.job.envelope import EnvelopeError
from chokaq_django.job.failures import FailureReason
from chokaq_django.models import AuditEntry, Queue, Setting
from chokaq_django.reading import settings as following
from chokaq_django.reading.settings import follow_settings, take_overrides
from chokaq_django.storage import get_storage
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.any_engine]

DAY = 86_400.0


def stored() -> dict[str, Any]:
    return {row.name: json.loads(row.value) for row in Setting.objects.all()}


def view(name: str) -> control.SettingView:
    (found,) = (each for each in control.list_settings() if each.name == name)
    return found


# -- setting -----------------------------------------------------------------------------------------------------------


def test_an_option_is_set_followed_and_reset() -> None:
    answer = control.set_setting("DECK.LAG_WARNING", 7, by="ada", reason="too noisy")
    assert (answer.applied, answer.refused) == (["DECK.LAG_WARNING"], [])
    assert get_options().deck.lag_warning == 5.0, "nothing is committed yet"
    follow_settings(0)
    assert (get_options().deck.lag_warning, project_options().deck.lag_warning) == (7.0, 5.0)
    assert get_options().deck.lag_critical == 10.0
    assert control.reset_setting("DECK.LAG_WARNING", by="bob").applied == ["DECK.LAG_WARNING"]
    follow_settings(0)
    assert get_options() is project_options()


@pytest.mark.django_db(transaction=True)
def test_two_operators_do_not_contradict_each_other_together() -> None:
    """Each of both fits what the other one does not see yet."""

    def second() -> str:
        try:
            return str(control.set_setting("DECK.LAG_CRITICAL", 8, by="bob").applied)
        except EnvelopeError as error:
            return str(error)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            control.set_setting("DECK.LAG_WARNING", 9, by="ada")
            answer = pool.submit(second)
        assert "contradicts the rest" in answer.result(20)
    assert stored() == {"DECK.LAG_WARNING": 9}


@pytest.mark.django_db(transaction=True)
def test_the_process_that_sets_it_follows_at_once() -> None:
    control.set_setting("DECK.LAG_WARNING", 7, by="ada")
    assert get_options().deck.lag_warning == 7.0
    control.reset_setting("DECK.LAG_WARNING", by="ada")
    assert get_options().deck.lag_warning == 5.0


def test_every_act_is_in_the_audit() -> None:
    control.set_setting("RETENTION.TRASH", timedelta(days=2), by="ada", reason="disk is full")
    control.set_setting("RETENTION.TRASH", None, by="bob")
    control.reset_setting("RETENTION.TRASH", by="ada")
    entries = AuditEntry.objects.order_by("at", "id")
    assert [(entry.action, entry.by, entry.target, entry.reason) for entry in entries] == [
        ("set_setting", "ada", "RETENTION.TRASH", "disk is full"),
        ("set_setting", "bob", "RETENTION.TRASH", ""),
        ("reset_setting", "ada", "RETENTION.TRASH", ""),
    ]
    assert [json.loads(entry.details) for entry in entries] == [
        {"from": 7 * DAY, "to": 2 * DAY}, {"from": 2 * DAY, "to": None}, {"from": None, "to": 7 * DAY},
    ]  # fmt: skip


def test_a_reset_says_what_holds_again(settings: Any) -> None:
    settings.CHOKAQ = {"RETENTION": {"DLQ_BY_QUEUE": {"mail": timedelta(days=30)}}}
    put(RETENTION__DLQ_BY_QUEUE__mail="60", RETENTION__DLQ_BY_QUEUE__reports="60", OLD__OPTION="1")
    for name, again in (
        ("RETENTION.DLQ_BY_QUEUE.mail", 30 * DAY), ("RETENTION.DLQ_BY_QUEUE.reports", None), ("OLD.OPTION", None),
    ):  # fmt: skip
        assert control.reset_setting(name, by="ada").applied == [name]
        assert json.loads(AuditEntry.objects.get(target=name).details)["to"] == again


def test_what_changes_nothing_is_refused_and_not_in_the_audit() -> None:
    control.set_setting("CIRCUIT.FAILURES", 9, by="ada")
    again = control.set_setting("CIRCUIT.FAILURES", 9, by="bob")
    never = control.reset_setting("CIRCUIT.BREAK", by="bob")
    assert [(each.id, each.reason) for each in (*again.refused, *never.refused)] == [
        ("CIRCUIT.FAILURES", "It is set to this already."),
        ("CIRCUIT.BREAK", "Nobody has set it: it is what the project's settings say."),
    ]
    assert AuditEntry.objects.count() == 1
    assert Setting.objects.get().updated_by == "ada"


@pytest.mark.parametrize("act", [
    lambda by: control.set_setting("DECK.LAG_WARNING", 7, by=by),
    lambda by: control.reset_setting("DECK.LAG_WARNING", by=by),
])  # fmt: skip
def test_it_needs_the_permission_to_operate(act: Any) -> None:
    Setting.objects.create(name="DECK.LAG_WARNING", value="6", updated_at=timezone.now())
    with pytest.raises(PermissionDenied, match=r"chokaq\.operate"):
        act(make.operator("view_deck", "cancel", "resurrect", "purge", "edit_payload"))
    assert stored() == {"DECK.LAG_WARNING": 6}
    assert act(make.operator("operate", username="bob")).applied


@pytest.mark.parametrize(("name", "value", "held"), [
    ("RETRY.BASE_DELAY", 10, 10.0), ("RETRY.MULTIPLIER", 3, 3.0), ("RETRY.MAX_DELAY", timedelta(hours=2), 7200.0),
    ("RETRY.JITTER", 0, 0.0), ("RETRY.MAX_AGE", None, None), ("CIRCUIT.FAILURES", 3, 3), ("CIRCUIT.WINDOW", 90, 90.0),
    ("CIRCUIT.BREAK", 45, 45.0), ("CIRCUIT.PROBES", 2, 2), ("CIRCUIT.PROBE_TIMEOUT", 5, 5.0),
    ("RETENTION.ARCHIVE", timedelta(days=3), 3 * DAY), ("RETENTION.ARCHIVE", None, None),
    ("RETENTION.ARCHIVE_BY_QUEUE.mail", DAY, DAY), ("RETENTION.ARCHIVE_BY_TYPE.email.send.v1", None, None),
    ("RETENTION.DLQ", DAY, DAY), ("RETENTION.DLQ_BY_QUEUE.mail", DAY, DAY), ("RETENTION.DLQ_BY_TYPE.a.v1", DAY, DAY),
    ("RETENTION.DLQ_BY_REASON.Poison", DAY, DAY), ("RETENTION.TRASH", DAY, DAY), ("RETENTION.BUCKETS", None, None),
    ("HEALTH.LAG_DEGRADED", 7, 7.0), ("HEALTH.LAG_UNHEALTHY", 70, 70.0), ("HEALTH.DEAD_PER_HOUR", None, None),
    ("DECK.LAG_WARNING", 7, 7.0), ("DECK.LAG_CRITICAL", 70, 70.0), ("DECK.BULK_CHUNK", 100, 100),
])  # fmt: skip
def test_what_can_be_set(settings: Any, name: str, value: object, held: object) -> None:
    settings.CHOKAQ = {}
    assert control.set_setting(name, value, by="ada").applied == [name]
    assert stored() == {name: held}
    follow_settings(0)
    assert dict(overrides()) == {name: held}
    shown = view(name)
    assert (shown.value, shown.source, shown.by, shown.fixed, shown.problem) == (held, "operator", "ada", "", "")


def test_nothing_that_can_be_set_was_left_out_here() -> None:
    tried = {
        ".".join(parameters[0].split(".")[:2])
        for mark in test_what_can_be_set.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
        for parameters in mark.args[1]
    }
    assert tried == {f"{section}.{option}" for section, options in OVERRIDABLE.items() for option in options}


def test_values_reach_what_is_made_of_them(settings: Any) -> None:
    settings.CHOKAQ = {}
    control.set_setting("RETRY.BASE_DELAY", 30, by="ada")
    control.set_setting("RETRY.JITTER", 0, by="ada")
    control.set_setting("RETENTION.DLQ_BY_REASON.Expired", None, by="ada")
    control.set_setting("RETENTION.DLQ_BY_QUEUE.mail.v2", DAY, by="ada")
    follow_settings(0)
    options = get_options()
    assert options.retry.backoff == Exponential(30, 2.0, 3600, 0)
    assert options.retention.dlq_by_reason == {FailureReason.EXPIRED: None}
    assert options.retention.dlq_by_queue == {"mail.v2": DAY}


def test_a_reason_has_one_name(settings: Any) -> None:
    settings.CHOKAQ = {**settings.CHOKAQ, "RETENTION": {"DLQ_BY_REASON": {FailureReason.POISON: 5, "zombie": 7}}}
    for name, value in (("poison", 50), ("ZOMBIE", 70), ("Zombie", 71)):
        control.set_setting(f"RETENTION.DLQ_BY_REASON.{name}", value, by="ada")
    assert stored() == {"RETENTION.DLQ_BY_REASON.Poison": 50, "RETENTION.DLQ_BY_REASON.Zombie": 71}
    follow_settings(0)
    assert get_options().retention.dlq_by_reason == {
        FailureReason.EXPIRED: 7 * DAY, FailureReason.POISON: 50, FailureReason.ZOMBIE: 71,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DECK.LAG_WARNING", "soon", "DECK.LAG_WARNING must be a timedelta or a number of seconds, got 'soon'"),
        ("DECK.LAG_WARNING", 0, "must be more than 0, got 0"),
        ("DECK.LAG_WARNING", float("nan"), "must be a finite number of seconds"),
        ("DECK.LAG_WARNING", None, "must be a timedelta or a number of seconds, got None"),
        ("CIRCUIT.FAILURES", 2.5, "CIRCUIT.FAILURES must be an integer, got 2.5"),
        ("CIRCUIT.BREAK", -1, "CIRCUIT.BREAK must be more than 0, got -1"),
        ("RETRY.MULTIPLIER", 0.5, "must be finite and at least 1"),
        ("RETENTION.DLQ_BY_QUEUE.mail", 0, "RETENTION.DLQ_BY_QUEUE.mail must be more than 0, got 0"),
        ("RETENTION.DLQ_BY_QUEUE.a b", 5, "has 'a b', which is no queue name (it must be letters"),
        ("RETENTION.DLQ_BY_REASON.Expird", 5, "is for an unknown failure reason; did you mean 'Expired'?"),
        ("RETENTION.DLQ_BY_QUEUE", 5, "is a set of rules: name one of them, such as RETENTION.DLQ_BY_QUEUE.mail"),
        ("RETENTION.DLQ_BY_QUEUE.", 5, "is a set of rules"),
        ("RETENTION.ARCHIVE_BY_TYPE." + "x" * 230, 5, "is longer than 255 characters"),
        ("DECK.LAG_WARNIN", 5, "is not an option; did you mean 'DECK.LAG_WARNING'?"),
        ("DECK.LAG_WARNING.x", 5, "is not an option"),
        ("lag_warning", 5, "is not an option"),
        ("", 5, "is not an option"),
        ("WORKER.CONCURRENCY", 5, "cannot be changed while everything runs. Workers read it when they start."),
        ("WORKER.POLL_INTERVAL", 5, "cannot be changed while everything runs. Workers read it when they start."),
        ("RECOVERY.WORKER_TIMEOUT", 60, "Workers and those who watch them must agree on it at every moment."),
        ("EXECUTION.HEARTBEAT_MAX", 5, "must agree on it at every moment"),
        ("RETRY.MAX_ATTEMPTS", 5, "It is stored in each job when it is enqueued."),
        ("DECK.TICK", 5, "It is the project's to decide."),
        (
            "QUEUES.mail.MAX_WORKERS",
            5,
            "Workers that start give it to a queue whose limits nobody has set; set_queue changes",
        ),
        ("DATABASE", "other", "cannot be changed while everything runs. Change CHOKAQ in the settings and restart"),
        # contradictions
        ("DECK.LAG_WARNING", 10, "DECK.LAG_WARNING (10 s) must be below DECK.LAG_CRITICAL (10 s)"),
        ("DECK.LAG_CRITICAL", 5, "DECK.LAG_WARNING (5 s) must be below DECK.LAG_CRITICAL (5 s)"),
        ("HEALTH.LAG_DEGRADED", 11, "HEALTH.LAG_DEGRADED (11 s) must be below HEALTH.LAG_UNHEALTHY (10 s)"),
        ("RETRY.MAX_DELAY", 1, "RETRY.MAX_DELAY (1 s) must not be below RETRY.BASE_DELAY (3 s)"),
    ],
)
def test_what_is_refused(settings: Any, name: str, value: object, said: str) -> None:
    settings.CHOKAQ = {}
    with pytest.raises(EnvelopeError) as caught:
        control.set_setting(name, value, by="ada")
    assert said in str(caught.value)
    assert not Setting.objects.exists()
    assert not AuditEntry.objects.exists()


def test_an_edited_queue_has_its_own_limits_and_says_whose_they_are(settings: Any) -> None:
    settings.CHOKAQ = {"QUEUES": {"mail": {"MAX_WORKERS": 2, "EXECUTION_TIMEOUT": 60}, "reports": {"MAX_WORKERS": 3}}}
    control.set_queue("mail", by="ada", max_workers=9)
    Queue.objects.create(name="reports", max_workers=4, updated_at=timezone.now())
    views = {view.name: view for view in control.list_settings() if view.name.startswith("QUEUES.")}
    said = {name: (view.value, view.source, view.project, view.by) for name, view in views.items()}
    assert said == {
        "QUEUES.mail.MAX_WORKERS": (9, "operator", 2, "ada"),
        "QUEUES.mail.EXECUTION_TIMEOUT": (60.0, "project", 60.0, None),
        "QUEUES.reports.MAX_WORKERS": (3, "project", 3, None),
    }


def test_what_is_set_of_others_counts_too() -> None:
    control.set_setting("DECK.LAG_CRITICAL", 100, by="ada")
    control.set_setting("DECK.LAG_WARNING", 50, by="ada")
    with pytest.raises(EnvelopeError, match=r"DECK.LAG_WARNING \(50 s\) must be below DECK.LAG_CRITICAL \(10 s\)"):
        control.reset_setting("DECK.LAG_CRITICAL", by="ada")
    with pytest.raises(EnvelopeError, match=r"DECK.LAG_CRITICAL \(40 s\)"):
        control.set_setting("DECK.LAG_CRITICAL", 40, by="ada")
    control.reset_setting("DECK.LAG_WARNING", by="ada")
    assert control.reset_setting("DECK.LAG_CRITICAL", by="ada").applied


def test_a_preset_says_no_too(settings: Any) -> None:
    settings.CHOKAQ = {"PRESET": "nexjob"}
    with pytest.raises(EnvelopeError, match=r"RETRY\.BASE_DELAY has no effect with the nexjob preset"):
        control.set_setting("RETRY.BASE_DELAY", 5, by="ada")
    assert view("RETENTION.ARCHIVE").source == "preset"


# -- following ---------------------------------------------------------------------------------------------------------


def put(**values: str) -> None:
    for name, text in values.items():
        Setting.objects.create(name=name.replace("__", "."), value=text, updated_at=timezone.now(), updated_by="ada")


def test_what_no_longer_fits_is_left_out_and_said(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The project's settings, or the code, have changed since."""
    put(DECK__LAG_CRITICAL="20", RETENTION__ARCHIVE="60", OLD__OPTION="1", CIRCUIT__BREAK="{")
    settings.CHOKAQ = {"DECK": {"LAG_CRITICAL": 30, "LAG_WARNING": 25}}
    with caplog.at_level(logging.WARNING, "chokaq.settings"):
        for _ in range(2):
            follow_settings(0)
    assert (get_options().deck.lag_warning, get_options().deck.lag_critical) == (25, 30)
    assert get_options().retention.archive == 60
    problems = {each.name: each.problem for each in control.list_settings() if each.problem}
    assert problems == {
        "CIRCUIT.BREAK": "is stored as something that is no JSON",
        "DECK.LAG_CRITICAL": "DECK.LAG_WARNING (25 s) must be below DECK.LAG_CRITICAL (20 s)",
        "OLD.OPTION": "is not an option",
    }
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3, "once each"
    assert any("OLD.OPTION" in text and "is not an option" in text for text in said)


@pytest.mark.parametrize("text", [
    "", "{", '"x"', "[]", '{"a": 1}', "true", "NaN", "-Infinity", "1e400", "-1", "1e300", "9" * 300, "9" * 5_000,
    "[" * 900 + "]" * 900, "[" * 9_000, '"\\ud800"',
])  # fmt: skip
def test_what_nobody_could_have_set_is_left_out_option_by_option(settings: Any, text: str) -> None:
    """Whatever stands in the table: a process goes on, and follows what is right."""
    settings.CHOKAQ = {}
    odd = [
        "RETENTION.DLQ_BY_REASON.Expird",
        "RETENTION.DLQ_BY_QUEUE. b ",
        "RETENTION",
        ".",
        "WORKER.PROCESSES",
        "x" * 255,
    ]
    names = [
        f"{section}.{option}" + {"rules": ".Expired" if "REASON" in option else ".mail"}.get(kind, "")
        for section, options in OVERRIDABLE.items() for option, kind in options.items()
    ]  # fmt: skip
    refused = take_overrides([(name, text) for name in (*names, *odd)] + [("RETENTION.ARCHIVE_BY_TYPE.a.v1", "60")])
    # A multiplier may be as large as a number can be: delays have a limit of their own.
    assert refused.keys() >= {*names, *odd} - {"RETRY.MULTIPLIER"}
    assert dict(overrides()).keys() - {"RETRY.MULTIPLIER"} == {"RETENTION.ARCHIVE_BY_TYPE.a.v1"}


def test_many_that_are_wrong_do_not_hold_a_process_up(settings: Any) -> None:
    settings.CHOKAQ = {}
    rows = [(f"RETENTION.DLQ_BY_QUEUE.q{n}", '"for long"' if n % 5 == 0 else "60") for n in range(1_000)]
    began = time.process_time()
    refused = take_overrides([*rows, ("DECK.LAG_WARNING", "900")])
    assert time.process_time() - began < 2.0
    assert len(refused) == 201
    assert len(overrides()) == 800


def test_two_that_fit_only_together_are_followed_together(settings: Any) -> None:
    """Beside a third one that fits nothing."""
    settings.CHOKAQ = {"DECK": {"LAG_CRITICAL": 30, "LAG_WARNING": 25}}
    put(DECK__LAG_WARNING="9", DECK__LAG_CRITICAL="20", OLD__OPTION="1", HEALTH__LAG_DEGRADED="11")
    follow_settings(0)
    assert dict(overrides()) == {"DECK.LAG_CRITICAL": 20, "DECK.LAG_WARNING": 9}


def test_a_process_looks_once_in_some_seconds() -> None:
    following._known.read_at = float("-inf")
    with CaptureQueriesContext(connection) as queries:
        for _ in range(10):
            follow_settings()
            get_options()
    assert len(queries) == 1


def test_workers_follow_at_their_beat() -> None:
    put(CIRCUIT__FAILURES="9")
    assert get_storage().settings() == [("CIRCUIT.FAILURES", "9")]
    take_overrides(get_storage().settings())
    assert get_options().circuit.failures == 9


def test_nobody_follows_another_projects_mistake(settings: Any) -> None:
    """A wrong CHOKAQ stays an error of its own, whatever is set over it."""
    override_options({"DECK.LAG_WARNING": 7})
    settings.CHOKAQ = {"DECK": {"LAG_WARNING": 7}}
    assert dict(overrides()) == {}
    assert get_options().deck.lag_warning == 7


# -- listing -----------------------------------------------------------------------------------------------------------


def test_every_option_is_listed_with_where_it_comes_from(settings: Any) -> None:
    settings.CHOKAQ = {
        "WORKER": {"CONCURRENCY": 7}, "QUEUES": {"mail": {"MAX_WORKERS": 2, "WINDOW": "22:00-06:00 UTC"}},
        "RETENTION": {"DLQ_BY_QUEUE": {"mail": DAY}}, "MIDDLEWARE": ["a.b"],
    }  # fmt: skip
    put(RETENTION__DLQ_BY_QUEUE__mail="60", RETENTION__DLQ_BY_TYPE__new="70")
    listed = {each.name: each for each in control.list_settings()}

    def of(name: str) -> tuple[object, ...]:
        each = listed[name]
        return each.value, each.source, each.project

    assert of("WORKER.CONCURRENCY") == (7, "project", 7)
    assert of("WORKER.PROCESSES") == (1, "default", 1)
    assert of("MIDDLEWARE") == (["a.b"], "project", ["a.b"])
    assert of("QUEUES.mail.MAX_WORKERS") == (2, "project", 2)
    assert of("QUEUES.mail.WINDOW") == ("22:00-06:00 UTC", "project", "22:00-06:00 UTC")
    assert of("RETENTION.DLQ_BY_QUEUE.mail") == (60, "operator", DAY)
    assert of("RETENTION.DLQ_BY_REASON.Expired") == (7 * DAY, "default", 7 * DAY)
    assert of("RETENTION.DLQ_BY_TYPE.new") == (70, "operator", None)
    assert [name for name, each in listed.items() if each.is_new] == ["RETENTION.DLQ_BY_TYPE.new"]
    assert listed["WORKER.CONCURRENCY"].fixed
    assert not listed["CIRCUIT.BREAK"].fixed
    assert {name.partition(".")[0] for name in listed} >= {"DATABASE", "WORKER", "EXECUTION", "RECOVERY", "DECK"}


def test_an_act_inside_a_transaction_that_is_undone_is_none() -> None:
    with transaction.atomic():
        control.set_setting("DECK.LAG_WARNING", 7, by="ada")
        transaction.set_rollback(True)
    follow_settings(0)
    assert get_options().deck.lag_warning == 5.0
