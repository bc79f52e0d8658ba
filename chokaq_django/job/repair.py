"""A stored payload, patched and then checked by the codec that will read it."""

from __future__ import annotations

from dataclasses import dataclass

from .codec import decode, encode, lifted
from .failures import PayloadError
from .patch import PayloadPatch
from .registry import registry
from .verbatim import check_depth, read, write

__all__ = ["Repaired", "repaired"]


@dataclass(frozen=True, slots=True)
class Repaired:
    """``text`` and ``schema_version``: what is to be stored. ``before``: the payload as the patch found it, as JSON
    text. ``changed``: whether the patch changed anything in it."""

    text: str
    schema_version: int
    before: str
    changed: bool


def repaired(
    patch: PayloadPatch, key: str, text: str, schema_version: int, *, check_all: bool = False
) -> Repaired:  # fmt: skip
    """What a patch makes of the stored payload of a job of the type ``key``.

    A payload of an older schema version is lifted first, so that paths are those of the code; one that a migration
    cannot read is patched as it is stored, and lifted then. ``PatchRefusedError`` when the patch is not for it,
    ``PayloadError`` with the path when the outcome does not fit the type. A payload that the patch leaves as it is need
    not fit, unless ``check_all``: then nothing tells it apart from one that is changed.
    """
    job_type = registry.get(key)
    if job_type is None:
        raise PayloadError("$", f"no code here knows the type {key!r}, so nothing can check a payload for it")
    version = job_type.schema_version
    try:
        lifted_text = lifted(job_type, text, schema_version)
    except PayloadError:
        lifted_text, version = text, schema_version
    try:
        node = read(lifted_text)
    except ValueError as error:
        raise PayloadError("$", f"not valid JSON: {error}") from None
    new = patch.apply(node)
    try:
        check_depth(new)
    except ValueError as error:
        raise PayloadError("$", str(error)) from None
    before, after = write(node), write(new)
    changed = before != after
    if not (changed or check_all):
        return Repaired(text, schema_version, before, changed)
    if job_type.codec is not None:
        after = encode(job_type, decode(job_type, after, version))
    else:
        after = encode(job_type, after)
    return Repaired(after, job_type.schema_version, before, changed)
