"""A program that asks the JSON API, and checks every answer against the API's own description."""

from __future__ import annotations

import datetime as dt
import functools
import json
from typing import Any

import jsonschema
from django.contrib.auth.models import User
from django.test import Client

from chokaq_django.api.openapi import description
from chokaq_django.api.routes import ENDPOINTS
from chokaq_django.api.tokens import issue

API = "/chokaq/api/"


@functools.cache
def described() -> dict[str, Any]:
    return description(ENDPOINTS, API)


class Program:
    """Asks with the token of a user, or with none."""

    def __init__(self, user: User | None = None, *, token: str | None = None, client: Client | None = None) -> None:
        self.client = client or Client()
        self.token = token
        if user is not None:
            self.token = issue(user, dt.timedelta(days=1), by="test")

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, query)

    def post(self, path: str, body: Any = None, **named: Any) -> Any:
        return self.ask("POST", path, named if body is None else body)

    def ask(self, method: str, path: str, data: Any = None, **more: Any) -> Any:
        """The response; ``document`` is its JSON."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        if method == "GET":
            response: Any = self.client.get(API + path, data or {}, headers=headers, **more)
        else:
            body = data if isinstance(data, str | bytes) else json.dumps(data if data is not None else {})
            response = self.client.generic(method, API + path, body, content_type="application/json", headers=headers)
        response.document = json.loads(response.content)
        check(method, path, response)
        return response


def check(method: str, path: str, response: Any) -> None:
    """The answer is what the description says of it."""
    assert response.headers["Content-Type"] == "application/json"
    whole = described()
    operation = next((each for each in _operations(method) if _fits(each[0], path)), None)
    if operation is None or response.status_code == 405:
        assert response.status_code in (401, 403, 404, 405), response.status_code
        schema: Any = {"$ref": "#/components/schemas/ErrorDocument"}
    else:
        answers = operation[1]["responses"]
        assert str(response.status_code) in answers, (path, response.status_code, response.content[:500])
        schema = answers[str(response.status_code)]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": whole["components"]}).validate(response.document)


def _operations(method: str) -> list[tuple[str, Any]]:
    found = [(path, item[method.lower()]) for path, item in described()["paths"].items() if method.lower() in item]
    return sorted(found, key=lambda each: "{" in each[0])


def _fits(pattern: str, path: str) -> bool:
    wanted, given = pattern.strip("/").split("/"), path.split("/")
    return len(wanted) == len(given) and all(a == b or a.startswith("{") for a, b in zip(wanted, given, strict=True))
