"""Patches as they may be shown: without the values that are masked by the names of their fields."""

from __future__ import annotations

from dataclasses import replace

from ..job.patch import Change, PayloadPatch
from .masks import MASK, is_secret, mask_node

__all__ = ["shown_patch"]


def shown_patch(patch: PayloadPatch, *, values: bool = True) -> PayloadPatch:
    """The patch without its secrets; without ``values``, without any: for who may not see payloads."""
    return PayloadPatch(tuple(_shown(change, values) for change in patch.changes))


def _shown(change: Change, values: bool) -> Change:
    if change.op == "remove" or change.absent:
        return change
    if not values or (change.value not in (None, "") and any(map(is_secret, change.steps))):
        return replace(change, value=MASK)
    return replace(change, value=mask_node(change.value)[0])
