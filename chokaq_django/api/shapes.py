"""What several endpoints take and give."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ..control import BulkResult, Copies
from ..control.arguments import KeyConflict
from ..reading.documents import Refusal, refusal
from ..reading.filter_text import FIELDS

__all__ = [
    "Filter",
    "Id",
    "IdsBody",
    "KeyBody",
    "Name",
    "OnKeyConflict",
    "PatchBody",
    "PatchOperation",
    "Raw",
    "Reason",
    "VerbAnswer",
    "filter_text",
    "patch_text",
    "raw_text",
    "told",
]

MOST_IDS = 1_000
Name = Annotated[str, Meta(max_length=255)]
Id = Annotated[str, Meta(max_length=64)]
Reason = Annotated[str, Meta(max_length=2_000, description="Why, for the audit.")]
OnKeyConflict = Annotated[
    KeyConflict,
    Meta(description="When another active job holds the idempotency key: refuse, or go without the key."),
]
Fingerprint = Annotated[str, Meta(max_length=32, description="Of dead jobs; its beginning will do.")]
Raw = msgspec.Raw


class Filter(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which jobs; all that is given must hold. Times are ISO 8601, or so long before now: `15m`, `2h`, `7d`."""

    status: Annotated[str, Meta(max_length=20)] | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    type: Name | UnsetType = UNSET
    reason: Annotated[str, Meta(max_length=40, description="Of dead jobs: a failure reason.")] | UnsetType = UNSET
    fingerprint: Fingerprint | UnsetType = UNSET
    tag: Name | UnsetType = UNSET
    created_by: Name | UnsetType = UNSET
    worker: Name | UnsetType = UNSET
    idempotency_key: Name | UnsetType = UNSET
    concurrency_key: Name | UnsetType = UNSET
    since: Annotated[str, Meta(max_length=40)] | UnsetType = UNSET
    until: Annotated[str, Meta(max_length=40)] | UnsetType = UNSET
    id_prefix: Annotated[str, Meta(max_length=26)] | UnsetType = UNSET


def filter_text(given: Struct) -> dict[str, str]:
    """A filter's fields that were given, by their names."""
    values = {name: getattr(given, name) for name in FIELDS}
    return {name: value for name, value in values.items() if value is not UNSET}


class IdsBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Jobs by id, 1,000 at most; for more there are bulk operations."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=MOST_IDS)]
    reason: Reason = ""


class KeyBody(IdsBody, forbid_unknown_fields=True, kw_only=True):
    """Jobs that may get an idempotency key back."""

    on_key_conflict: OnKeyConflict = "skip"


class PatchOperation(Struct, forbid_unknown_fields=True, kw_only=True):
    """An operation of a JSON Patch (RFC 6902). `path`: a JSON Pointer such as `/lines/0/sku`. `test` must hold of a
    payload, or it stays as it is; with `absent` instead of a value: nothing is there."""

    op: Literal["add", "replace", "remove", "test"]
    path: Annotated[str, Meta(max_length=1_000)]
    value: Raw | UnsetType = UNSET
    absent: bool | UnsetType = UNSET


PatchBody = Annotated[
    list[PatchOperation],
    Meta(min_length=1, max_length=50, description="Changes of each job's own payload. Numbers stay as written."),
]


def patch_text(operations: list[PatchOperation] | UnsetType) -> str | None:
    """The patch as JSON text, its values digit by digit as they stood in the body."""
    if operations is UNSET:
        return None
    return msgspec.json.encode(operations).decode()


class VerbAnswer(TypedDict):
    """What a verb did. `requested`: of a worker, which acts within seconds. Refusals are no errors: one job that cannot
    be acted on never stops the others."""

    applied: list[str]
    requested: list[str]
    refused: list[Refusal]
    new_ids: NotRequired[dict[str, str]]


def told(answer: BulkResult) -> VerbAnswer:
    document: VerbAnswer = {
        "applied": answer.applied,
        "requested": answer.requested,
        "refused": [refusal(each) for each in answer.refused],
    }
    if isinstance(answer, Copies):
        document["new_ids"] = answer.new_ids
    return document


def raw_text(value: msgspec.Raw | UnsetType) -> str | None:
    """A payload as JSON text: what stood in the body, digit by digit, or the text in a string."""
    if value is UNSET:
        return None
    raw = bytes(value)
    return msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()
