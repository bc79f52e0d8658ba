"""The description of the API, made of what the endpoints check and answer: it cannot say anything else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .. import __version__
from .endpoint import Endpoint, Nothing
from .errors import ErrorDocument

__all__ = ["description"]

_ANY = {
    400: "What was sent is wrong.",
    401: "Nobody is logged in, or the token is not valid.",
    403: "The user lacks a permission, or the CSRF token is missing.",
    503: "The job database does not answer.",
}
_SOME = {
    404: "There is no such thing.",
    409: "It does not apply to the operation as it is.",
    413: "The body is too large.",
    415: "The body is not JSON.",
}
_REFERENCE = "#/components/schemas/{name}"


def description(endpoints: Sequence[Endpoint], server: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document. ``server``: where the API is."""
    types = [ErrorDocument, *_types(endpoints)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        address = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", endpoint.path)
        paths.setdefault(address, {})[endpoint.method.lower()] = _operation(endpoint, schema_of, components)
    used = _used(paths, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "chokaq-django",
            "version": __version__,
            "summary": "The operator's verbs as a JSON API.",
            "description": "Every address needs a member of the staff with the permission chokaq.view_deck; what else "
            "is needed stands with each. Refused jobs are part of an answer and no error.",
        },
        "servers": [{"url": server.rstrip("/") or "/"}],
        "security": [{"token": []}, {"session": []}],
        "tags": [{"name": name} for name in dict.fromkeys(_tag(endpoint) for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "From `manage.py chokaq token USER`."},
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "sessionid",
                    "description": "Django's session; what changes something needs the header X-CSRFToken too.",
                },
            },
            "schemas": used,
        },
    }  # fmt: skip


def _types(endpoints: Iterable[Endpoint]) -> list[Any]:
    found: dict[str, Any] = {}
    for endpoint in endpoints:
        for each in (endpoint.answer, endpoint.body, endpoint.query):
            if each is not None:
                found.setdefault(repr(each), each)
    found.pop(repr(ErrorDocument), None)
    return list(found.values())


def _tag(endpoint: Endpoint) -> str:
    return endpoint.path.partition("/")[0].partition(".")[0]


def _operation(endpoint: Endpoint, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [_tag(endpoint)],
        "parameters": [*_path_parameters(endpoint.path), *_query_parameters(endpoint, schema_of, components)],
        "responses": {
            str(endpoint.status): {
                "description": "What was found or done.",
                "content": {"application/json": {"schema": schema_of[repr(endpoint.answer)]}},
            },
            **{str(status): _refusal(text) for status, text in _ANY.items()},
            **{str(status): _refusal(_SOME[status]) for status in endpoint.errors},
        },
    }
    if endpoint.needs:
        operation["description"] = f"Needs {endpoint.needs}."
    if endpoint.body is not None:
        schema = schema_of[repr(endpoint.body)]
        resolved = components[schema["$ref"].rpartition("/")[2]]
        operation["requestBody"] = {
            "required": bool(resolved.get("required")),
            "content": {"application/json": {"schema": schema}},
        }
        operation["responses"] |= {str(status): _refusal(_SOME[status]) for status in (413, 415)}
    return operation


def _refusal(text: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name="ErrorDocument")}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"<(?:\w+:)?(\w+)>", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(
    endpoint: Endpoint, schema_of: dict[str, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if endpoint.query is Nothing:
        return []
    whole = components[schema_of[repr(endpoint.query)]["$ref"].rpartition("/")[2]]
    return [
        {"name": name, "in": "query", "required": name in whole.get("required", ()), "schema": schema}
        for name, schema in whole["properties"].items()
    ]


def _used(paths: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The schemas that something refers to: those of queries became parameters."""
    found: dict[str, Any] = {}
    waiting = [paths]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            if name in components and name not in found:
                found[name] = components[name]
                waiting.append(components[name])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return dict(sorted((name, _on_one_line(schema)) for name, schema in found.items()))


def _on_one_line(schema: dict[str, Any]) -> dict[str, Any]:
    """A description comes from a docstring, whose lines are of the source."""
    if "description" in schema:
        schema = {**schema, "description": " ".join(schema["description"].split())}
    return schema
