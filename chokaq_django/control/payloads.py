"""New payloads for stored jobs: given as a job, a dict or JSON text, checked by the codec that will read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..job.codec import decode, encode
from ..job.failures import PayloadError
from ..job.registry import registry

__all__ = ["check_payload", "fits", "fitting"]


def check_payload(payload: object) -> None:
    """``UnregisteredJobError`` for what can be nobody's payload."""
    if not isinstance(payload, str | Mapping):
        registry.for_class(type(payload))


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
        return payload
    try:
        return json.dumps(payload, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError("$", f"not JSON: {error}") from None


def fits(key: str, text: str, schema_version: int) -> None:
    """``PayloadError`` when stored text is no payload of the type ``key``."""
    job_type = registry.get(key)
    if job_type is None:
        raise PayloadError("$", f"no code here knows the type {key!r}, so nothing can check a payload for it")
    decode(job_type, text, schema_version)
