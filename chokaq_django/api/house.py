"""Health, the audit and the settings."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta, Struct

from .. import control
from ..health import check
from ..reading.acts import acts_from, list_acts
from ..reading.documents import AuditDocument, audit_document, instant
from .endpoint import Call, Endpoint
from .shapes import Name, Reason, VerbAnswer, told

__all__ = ["ENDPOINTS"]


class FindingDocument(TypedDict):
    """One thing that is not well. `code` is stable, `target` what it is about: a queue, a worker, a type."""

    check: str
    code: str
    state: str
    message: str
    hint: str
    target: str
    value: float | None


class HealthAnswer(TypedDict):
    """Do jobs get done? `status` and each check: `healthy`, `degraded`, `unhealthy`; a check that could not be made is
    `unknown`."""

    as_of: str | None
    status: str
    checks: dict[str, str]
    findings: list[FindingDocument]


class AuditQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """`target`: a job id, queue, worker id, type or operation id."""

    target: Name | None = None
    by: Name | None = None
    action: Annotated[str, Meta(max_length=50)] | None = None
    since: Annotated[str, Meta(max_length=40)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 50
    after: Annotated[str, Meta(max_length=80, description="`next` of the page before.")] | None = None


class AuditList(TypedDict):
    """Newest first."""

    as_of: str
    entries: list[AuditDocument]
    next: str | None


class SettingDocument(TypedDict):
    """An option. `value`, and `project`, which holds without an operator: plain data, times in seconds. `source`:
    `default`, `preset`, `project`, `operator`. `fixed`: why it cannot be set while everything runs; empty when it can.
    `problem`: why what an operator has set is not followed."""

    name: str
    value: Any
    source: str
    project: Any
    fixed: str
    problem: str
    set_by: str | None
    set_at: str | None


class SettingList(TypedDict):
    settings: list[SettingDocument]


class SetBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`name` with dots, such as `DECK.LAG_WARNING` or `RETENTION.DLQ_BY_REASON.Expired`; times are seconds."""

    name: Name
    value: Any
    reason: Reason = ""


class ResetBody(Struct, forbid_unknown_fields=True, kw_only=True):
    name: Name
    reason: Reason = ""


def _settings(call: Call) -> SettingList:
    documents: list[SettingDocument] = [
        {"name": view.name, "value": view.value, "source": view.source, "project": view.project, "fixed": view.fixed,
         "problem": view.problem, "set_by": view.by, "set_at": instant(view.at)}
        for view in control.list_settings()
    ]  # fmt: skip
    return {"settings": documents}


def _set(call: Call) -> VerbAnswer:
    return told(control.set_setting(call.body.name, call.body.value, by=call.user, reason=call.body.reason))


def _reset(call: Call) -> VerbAnswer:
    return told(control.reset_setting(call.body.name, by=call.user, reason=call.body.reason))


def _health(call: Call) -> HealthAnswer:
    report = check()
    findings: list[FindingDocument] = [finding.document() for finding in report.findings]  # type: ignore[misc]
    status, as_of = report.state.label, instant(report.as_of)
    return {"as_of": as_of, "status": status, "checks": report.checks(), "findings": findings}


def _audit(call: Call) -> AuditList:
    query = call.query
    named = {name: getattr(query, name) or "" for name in ("target", "by", "action", "since")}
    page = list_acts(acts_from(named, call.now), limit=query.limit, after=query.after)
    return {
        "as_of": instant(call.now) or "",
        "entries": [audit_document(entry, may_see=call.may("view_payload")) for entry in page.rows],
        "next": page.next,
    }


ENDPOINTS = (
    Endpoint("getHealth", "GET", "health", "Do jobs get done? Findings with what to do.", _health, HealthAnswer),
    Endpoint("listSettings", "GET", "settings", "Options, and what operators have set.", _settings, SettingList),
    Endpoint("setSetting", "POST", "settings/set", "Set an option over the project's settings.", _set, VerbAnswer,
             body=SetBody, needs="chokaq.operate"),
    Endpoint("resetSetting", "POST", "settings/reset", "Have an option be what the project says.", _reset, VerbAnswer,
             body=ResetBody, needs="chokaq.operate"),
    Endpoint("listAudit", "GET", "audit", "Who did what, when and why.", _audit, AuditList, query=AuditQuery),
)  # fmt: skip
