"""New payloads for stored jobs: given as a job, a dict or JSON text, checked by the codec that will read them; or as
changes of what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..conf import get_options
from ..job.codec import decode, encode
from ..job.definition import UnregisteredJobError
from ..job.envelope import EnvelopeError
from ..job.failures import PayloadError, PayloadTooLarge
from ..job.patch import Change, PayloadPatch, pointer_of
from ..job.registry import registry
from ..reading.masks import MASK, is_secret, mask_node
from ..sentence import Sentence
from .acts import Operator

__all__ = [
    "Patch",
    "check_payload",
    "clean_patch",
    "fits",
    "fitting",
    "may_quote",
    "may_see_payloads",
    "may_tell",
    "patch_permissions",
]

BLANKS = 2
"""How many times MAX_PAYLOAD_BYTES a given text may have: as it is stored it has no blanks between its parts."""

Patch = PayloadPatch | str | Iterable[Mapping[str, Any]]
"""Changes of a payload as they may be given: see :func:`clean_patch`."""


def clean_patch(patch: Patch) -> PayloadPatch:
    """The changes that JSON text or a list of operations asks for, by RFC 6902: ``add``, ``replace`` and ``remove``
    with a ``path`` (JSON Pointer), and ``test``, which must hold of a payload that is to be changed. A ``test`` with
    ``"absent": true`` instead of a value holds where nothing is. ``EnvelopeError`` for what is no patch, and for one
    with a mask in it: it was copied from where a secret is hidden. A masked value is not to be guessed either: whoever
    may see it reveals it, which is audited."""
    changes = PayloadPatch.of(patch)
    if MASK in changes.text():
        raise EnvelopeError("patch", Sentence("has a value that was masked where it was copied from"))
    for change in changes.changes:
        if change.op == "test" and change.value not in (None, "") and _is_masked(change):
            why = Sentence(
                "tests the masked value at %(path)s: only whether it is null, empty or absent", path=change.path
            )
            raise EnvelopeError("patch", why)
    return changes


def _is_masked(change: Change) -> bool:
    """Whether it is of a value that is masked wherever payloads are shown, or of one with such a value in it."""
    return any(map(is_secret, change.steps)) or mask_node(change.value)[1] > 0


def patch_permissions(patch: PayloadPatch | None) -> tuple[str, ...]:
    """What a patch needs beside the permission to edit: whether it can be made tells what a payload holds."""
    return ("view_payload",) if patch is not None and patch.asks else ()


def may_see_payloads(by: str | Operator) -> bool:
    return isinstance(by, str) or by.has_perm("chokaq.view_payload")


def may_tell(patch: PayloadPatch, by: str | Operator) -> bool:
    """Whether what is so already is told apart from what the patch changes."""
    return may_see_payloads(by) and not any(map(_is_masked, patch.changes))


def may_quote(path: str, *, may_see: bool) -> bool:
    """Whether what a codec says of the value at the path of an error may be told: to those who ``may_see`` payloads,
    and never of a masked field."""
    if path == "$" or not may_see:
        return may_see
    try:
        steps = Change("test", pointer_of(path)).steps
    except EnvelopeError:  # a path that names no single field
        return False
    return not any(map(is_secret, steps))


def check_payload(payload: object) -> None:
    """``EnvelopeError`` for what can be nobody's payload."""
    if not isinstance(payload, str | Mapping):
        try:
            registry.for_class(type(payload))
        except UnregisteredJobError as error:
            why = Sentence("must be a job, a dict or JSON text: %(why)s", why=str(error))
            raise EnvelopeError("payload", why) from None


def fitting(key: str, payload: object) -> tuple[str, int]:
    """Payload text for the type ``key`` and its schema version; ``PayloadError`` when the payload does not fit it."""
    job_type = registry.get(key)
    if job_type is None:
        raise PayloadError("$", f"no code here knows the type {key!r}, so nothing can check a payload for it")
    if isinstance(payload, str | Mapping):
        record = decode(job_type, _json_text(payload), job_type.schema_version)
    else:
        record = payload
        given = registry.for_class(type(payload))
        if given is not job_type:
            raise PayloadError("$", f"it is a {given.key}, the job is a {key}")
    return encode(job_type, record), job_type.schema_version


def _json_text(payload: str | Mapping[Any, Any]) -> str:
    if isinstance(payload, str):
        text = payload
    else:
        try:
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError("$", f"not JSON: {error}") from None
    limit = get_options().max_payload_bytes
    if len(text) > BLANKS * limit:  # before anything is read of it
        raise PayloadTooLarge(len(text), limit)
    return text


def fits(key: str, text: str, schema_version: int) -> None:
    """``PayloadError`` when stored text is no payload of the type ``key``."""
    job_type = registry.get(key)
    if job_type is None:
        raise PayloadError("$", f"no code here knows the type {key!r}, so nothing can check a payload for it")
    decode(job_type, text, schema_version)
