"""What the kinds of outcomes have in common, for the settles of all engines."""

from __future__ import annotations

from .contract import OutcomeKind

UNSTARTED = frozenset({OutcomeKind.EXPIRED, OutcomeKind.UNSTARTED_DEAD})
"""Expect a Fetched row; all others a Processing one."""
DEAD = UNSTARTED | {OutcomeKind.DEAD}
"""Go to the DLQ."""
GIVES_ATTEMPT_BACK = frozenset({OutcomeKind.SNOOZED, OutcomeKind.INTERRUPTED})
