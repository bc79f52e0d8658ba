"""``chokaq edit --set``: one field of the payloads of many jobs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from chokaq_django import Job, control
from chokaq_django.job.ids import new_id
from chokaq_django.models import BulkOperation, JobDLQ, PayloadVersion
from tests import factories as make

from .conftest import Run

pytestmark = pytest.mark.django_db

WHERE = ("--where-value", 'currency="EURO"')
SET = ("--set", 'currency="EUR"')
ALL = ("edit", "--status", "dead", "--type", "cli.pay")


class PayJob(Job, type="cli.pay"):
    order: int
    currency: str
    lines: list[int]
    token: str = ""


def pay(order: object, currency: str = "EURO", **more: object) -> str:
    payload = {"order": order, "currency": currency, "lines": [1, 2], **more}
    return str(make.dead(type="cli.pay", payload=json.dumps(payload)).pk)


def payloads() -> list[dict[str, object]]:
    return [json.loads(row.payload) for row in JobDLQ.objects.order_by("pk")]


def test_a_field_where_it_is_another(chokaq: Run) -> None:
    ids = [pay(1), pay(2), pay(3, "USD")]
    answer = chokaq(*ALL, *WHERE, *SET, "--yes", "--by", "ada")
    assert (answer.code, "2 edited." in answer.out) == (0, True), answer
    assert "1 left alone:" in answer.out
    assert "/currency has another value" in answer.out
    assert [each["currency"] for each in payloads()] == ["EUR", "EUR", "USD"]
    assert set(PayloadVersion.objects.values_list("job_id", flat=True)) == set(ids[:2])


def test_nothing_left_to_repair_is_no_failure(chokaq: Run) -> None:
    pay(1, "EUR")
    for how in ((), ("--background",)):
        assert chokaq(*ALL, *WHERE, *SET, "--dry-run", *how).code == 4
    document = chokaq(*ALL, *WHERE, *SET, "--yes", "--json")
    assert (document.code, document.json["refused"], document.json["left_alone"]) == (4, 1, 1)
    assert [each["left_alone"] for each in document.json["refusals"]] == [True]
    assert chokaq(*ALL, *SET, "--yes").code == 4, "it is so already"
    chokaq(*ALL, *WHERE, *SET, "--background", "--detach", "--yes")
    assert chokaq("bulk", "run", BulkOperation.objects.get().pk).code == 4
    pay(2)
    chokaq(*ALL, *WHERE, *SET, "--background", "--detach", "--yes")
    assert chokaq("bulk", "run", BulkOperation.objects.latest("pk").pk).code == 0
    pay("x")
    assert chokaq(*ALL, *WHERE, *SET, "--dry-run").code == 1
    assert chokaq(*ALL, *WHERE, *SET, "--yes").code == 1, "one would not fit its type"


def test_what_is_left_alone_is_not_called_refused(chokaq: Run) -> None:
    """In the words of the Deck, in the answer of an act and in that of an operation."""
    pay(1), pay(2, "USD"), pay(3, "EUR")
    chokaq(*ALL, *WHERE, *SET, "--background", "--detach", "--yes")
    view = control.bulk_run(BulkOperation.objects.get().pk)
    assert (view.applied, view.left_alone, view.refused) == (1, 2, 0), view
    shown = chokaq("bulk", "show", view.id)
    assert "2 left alone: the condition does not hold, or they are so already." in shown.out
    assert "refused:" not in shown.out
    document = chokaq("bulk", "show", view.id, "--left-alone", "--json").json
    assert (document["operation"]["left_alone"], document["operation"]["refusals"]) == (2, [])
    assert [each["reason"] for each in document["all_left_alone"]] == [
        "Not for this job: a condition of the patch does not hold."
    ] * 2
    assert control.bulk_reasons(view.id) == []
    assert control.bulk_reasons(view.id, left_alone=True) == [(document["all_left_alone"][0]["reason"], 2)]


def test_several_changes_in_their_order(chokaq: Run) -> None:
    job = pay(1, note="x")
    given = ("--set", "lines[1]=7", "--remove", "/note", "--where-missing", "token", "--set", 'token="t"')
    assert chokaq("edit", job, *given).code == 0
    assert payloads() == [{"order": 1, "currency": "EURO", "lines": [1, 7], "token": "t"}]
    assert chokaq("edit", job, "--where-missing", "token", "--set", 'token="u"').code == 4


def test_a_dry_run_says_what_would_become_of_them(chokaq: Run) -> None:
    bad, ids = pay("x"), [pay(2, token="S3CRET"), pay(3, "USD")]
    for more in ((), ("--background",)):
        answer = chokaq(*ALL, *WHERE, *SET, "--dry-run", *more)
        assert answer.code == 1, "one would be refused"
        assert "Tried on all of them: 1 would change." in answer.out
        assert "1 stay as they are: a condition does not hold." in answer.out
        assert f"{bad}  The payload would not fit: $.order" in answer.out
        assert f"{ids[0]}:" in answer.out
        assert "S3CRET" not in answer.out
        document = chokaq(*ALL, *WHERE, *SET, "--dry-run", "--json", *more).json["patch"]
        assert (document["changed"], document["unfit"], document["tested_out"]) == (1, 1, 1)
        assert json.loads(document["examples"][0]["after"])["currency"] == "EUR"
    assert not PayloadVersion.objects.exists()
    assert not BulkOperation.objects.exists()


def test_in_the_background(chokaq: Run) -> None:
    pay(1)
    answer = chokaq(*ALL, *WHERE, *SET, "--priority", "3", "--background", "--detach", "--yes", "--json")
    assert answer.code == 0
    [change] = json.loads(answer.json["operation"]["arguments"]["patch"])[1:]
    assert change == {"op": "add", "path": "/currency", "value": "EUR"}
    assert chokaq("bulk", "run", BulkOperation.objects.get().pk).code == 0
    assert JobDLQ.objects.get().priority == 3
    assert payloads()[0]["currency"] == "EUR"


def test_one_that_is_refused_stands_out_of_the_many_that_are_left_alone(chokaq: Run) -> None:
    for number in range(4):
        pay(number, "USD")
    bad = pay("x")
    chokaq(*ALL, *WHERE, *SET, "--background", "--detach", "--yes")
    answer = chokaq("bulk", "run", BulkOperation.objects.get().pk)
    assert (answer.code, "1 refused:" in answer.out, "4 left alone:" in answer.out) == (1, True, True)
    assert f"{bad}  The payload would not fit" in answer.out


@pytest.mark.parametrize("given", ["itself", "file", "-"])
def test_a_json_patch(chokaq: Run, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = pay(1)
    text = '[{"op":"replace","path":"/currency","value":"EUR"}]'
    (tmp_path / "patch.json").write_text(text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    said = {"itself": text, "file": f"@{tmp_path}/patch.json", "-": "-"}[given]
    assert chokaq("edit", job, "--patch", said).code == 0
    assert payloads()[0]["currency"] == "EUR"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--set", "currency=EUR"), "a text is in quotes: currency='\"EUR\"'"),
        (("--set", "currency"), "say FIELD=JSON"),
        (("--set", "currency="), "nothing is no JSON"),
        (("--set", "a..b=1"), "is no path"),
        (("--remove", ""), "the field is needed"),
        (("--where-value", "a=1"), "say what is to change"),
        (("--set", "a=1", "--patch", "[]"), "Say --patch, or fields"),
        (("--set", "a=1", "--payload", "{}"), "--payload is the whole payload"),
        (("--patch", "[]"), "The patch must be a list of 1 to 50"),
        (("--patch", "@/no/such/file"), "No such file"),
        (("--patch", '[{"op":"move","path":"/a"}]'), "op must be one of"),
        ((), "What is to change? Say --set, --remove, --patch,"),
    ],
)
def test_what_is_no_change(chokaq: Run, given: tuple[str, ...], said: str) -> None:
    answer = chokaq("edit", new_id(), *given)
    assert (answer.code, said in " ".join(answer.error.split())) == (2, True), answer


def test_of_a_group_of_failures_dead_jobs_are_meant(chokaq: Run) -> None:
    one, other = pay(1), pay(2)
    JobDLQ.objects.filter(pk=one).update(fingerprint="ab" * 16)
    assert chokaq("edit", "--fingerprint", "abababab", *WHERE, *SET, "--yes").code == 0
    assert [each["currency"] for each in payloads()] == ["EUR", "EURO"]
    assert chokaq("edit", "--fingerprint", "abababab", "--status", "pending", *SET).code == 2
    assert JobDLQ.objects.get(pk=other).revision == 0
