"""Findings that more than one engine can have, in the same words."""

from __future__ import annotations

from django.core import checks
from django.core.checks import CheckMessage

READ_COMMITTED = "READ COMMITTED"


def wrong_isolation(alias: str, level: str, hint: str) -> CheckMessage:
    """Locks are taken first and rows counted after: a snapshot from before the lock would count wrong."""
    return checks.Error(
        f"the job database {alias!r} runs transactions as {level}; jobs need {READ_COMMITTED}.",
        hint=hint,
        id="chokaq.E004",
    )


def too_old(alias: str, server: str, floor: str, hint: str = "Upgrade it.") -> CheckMessage:
    return checks.Error(
        f"{server} is too old for the job database {alias!r}.",
        hint=f"{floor} or newer is needed. {hint}",
        id="chokaq.E009",
    )


def may_lose(alias: str, setting: str, hint: str) -> CheckMessage:
    """An accepted job must survive the death of everything; with this setting it may not."""
    return checks.Warning(
        f"the server of the job database {alias!r} runs with {setting}: when it crashes, the last jobs that enqueue() "
        "accepted may be gone, and the last outcomes with them.",
        hint=hint,
        id="chokaq.W004",
    )
