"""``chokaq token``."""

from __future__ import annotations

import pytest

from chokaq_django.api.tokens import user_of
from chokaq_django.models import AuditEntry
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db


def test_a_token_for_a_program(chokaq: Run) -> None:
    user = make.operator("view_deck", "operate", username="deploy")
    answer = chokaq("token", "deploy", "--days", "90", "--by", "root", "--reason", "ticket 42")
    assert (answer.code, len(answer.lines)) == (0, 1)
    assert user_of(answer.lines[0]) == user
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.by, entry.reason) == ("issue_token", "deploy", "root", "ticket 42")
    document = chokaq("token", "deploy", "--json").json
    assert (document["user"], document["days"]) == ("deploy", 30)
    assert user_of(document["token"]) == user


def test_no_token_for_whom_the_api_refuses(chokaq: Run) -> None:
    make.operator("operate", username="nothing")
    make.operator("view_deck", username="outsider", is_staff=False)
    make.operator("view_deck", username="gone", is_active=False)
    for name in ("nothing", "outsider", "gone", "nobody", "\udcff", "\x00"):
        answer = chokaq("token", name)
        assert (answer.code, answer.out) == (2, "")
    make.operator("view_deck", username="deploy")
    for days in ("0", "-1", "367", "x"):
        assert chokaq("token", "deploy", "--days", days).error
    assert not AuditEntry.objects.exists()
