"""The editor: from a form to a payload and back without a digit lost, and what it refuses, shows and keeps."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.test import Client
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chokaq_django import control
from chokaq_django.control.payloads import fitting
from chokaq_django.deck.editor.fields import build
from chokaq_django.deck.editor.posted import read_form
from chokaq_django.job.codec import encode
from chokaq_django.job.registry import registry
from chokaq_django.job.verbatim import read, write
from chokaq_django.models import AuditEntry, JobBase, JobDLQ, JobHot, JobStatus, PayloadVersion
from chokaq_django.reading.masks import MASK
from tests import factories as make
from tests.payloads import Colour, EveryJob, Extra, Line, Node, SecretiveJob

from .pages import edit_page, inline_code, job_page, messages_of

pytestmark = pytest.mark.django_db

EVERY = {
    "number": 9_223_372_036_854_775_807, "price": "19.90", "name": "Ada", "ratio": 0.5, "express": False,
    "nothing": None, "data": "AAE=", "key": "00000000-0000-0000-0000-000000000000", "day": "2026-01-31",
    "at": "2026-01-31T12:00:00Z", "clock": "23:59:00", "span": "PT300S", "colour": "red", "size": "S",
    "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}], "names": ["x", "y"], "pair": [1, "one"], "who": None,
    "either": 1, "counts": {"a": 1}, "anything": [1.50], "main": {"sku": "m", "count": 1}, "node": None,
    "extra": {"must": 1},
}  # fmt: skip


class _Form(HTMLParser):
    """What a browser sends when nothing is touched: names and values of the inputs that are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, str] = {}
        self.buttons: list[tuple[str, str]] = []
        self._inside = ""
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        name = named.get("name", "")
        if tag == "input" and name and (named.get("type") not in ("checkbox", "submit") or "checked" in named):
            self.sent[name] = named.get("value", "on")
        elif tag == "button" and name:
            self.buttons.append((name, named.get("value", "")))
        elif tag == "textarea" and name:
            self._inside, self.sent[name] = name, ""
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and ("selected" in named or self._select not in self.sent):
            self.sent[self._select] = named["value"]

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.sent[self._inside] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._inside:
            # The first line end behind the tag is none; what is sent has both signs.
            text = self.sent[self._inside].removeprefix("\n")
            self.sent[self._inside], self._inside = text.replace("\n", "\r\n"), ""
        elif tag == "select":
            self._select = ""


def form_of(response: HttpResponse) -> dict[str, str]:
    assert response.status_code == 200, response
    html = response.content.decode()
    assert inline_code(html) == []
    _, _, rest = html.partition('enctype="multipart/form-data"')
    parser = _Form()
    parser.feed("<form " + rest.partition("</form>")[0])
    return parser.sent


def opened(client: Client, job: JobBase, **query: str) -> dict[str, str]:
    """The form of the job, as it is sent untouched."""
    return form_of(client.get(edit_page(job), query))  # type: ignore[arg-type]


def press(client: Client, job: JobBase, form: dict[str, str], act: str = "check", **typed: str) -> Any:
    return client.post(edit_page(job), {**form, **typed, "act": act})


def saved(client: Client, job: JobBase, form: dict[str, str], act: str = "save", **typed: str) -> Any:
    """Both steps: check, then the button on the comparison."""
    compared = press(client, job, form, **typed)
    assert "diff" in compared.context, errors_of(compared)
    return client.post(edit_page(job), {**form_of(compared), "act": act}, follow=True)


def text_of(response: Any) -> str:
    """The words of the page, without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def errors_of(response: Any) -> dict[str, list[str]]:
    """What is wrong, by the path of the input that says so; what no input says is under its own path."""
    found = dict(response.context["draft"].errors)

    def look(fields: Any) -> None:
        for field in fields:
            if field.errors:
                found[field.path] = field.errors
            look(field.children)

    look(response.context.get("fields") or [])
    return found


# -- round trips -------------------------------------------------------------------------------------------------------


def test_a_form_that_nobody_touches_says_what_is_stored(deck: Client) -> None:
    job = make.hot(type="test.every", payload=json.dumps(EVERY))
    response = press(deck, job, opened(deck, job))
    assert errors_of(response) == {}
    assert messages_of(response) == ["Nothing is different from what is stored."]
    assert press(deck, job, opened(deck, job, view="json")).context["draft"].changes == {}


def test_every_kind_of_field_has_an_input_of_its_own(deck: Client) -> None:
    form = opened(deck, make.hot(type="test.every", payload=json.dumps(EVERY)))
    shown = {name.removeprefix("$."): value for name, value in form.items() if name.startswith("$")}
    assert shown.items() >= {
        "number": "9223372036854775807", "price": "19.90", "ratio": "0.5", "express": "false", "colour": '"red"',
        "lines[1].sku": "b", "lines[1].count": "2", "names[0]": "x", "pair[0]": "1", "main.sku": "m", "extra.must": "1",
        "at": "2026-01-31T12:00:00Z", "span": "PT300S", "data": "AAE=",
    }.items()  # fmt: skip
    assert (form["null:$.who"], form["absent:$.extra.may"]) == ("1", "1")
    assert form["json:$.either"] == "1"
    assert json.loads(form["json:$.counts"]) == {"a": 1}
    assert "1.5" in form["json:$.anything"]


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
LINES = st.builds(Line, NAMES, st.integers())
NODES = st.recursive(st.builds(Node, NAMES), lambda below: st.builds(Node, NAMES, below), max_leaves=4)
TIMES = st.times().map(lambda time: time.replace(fold=0))
JOBS = st.builds(
    EveryJob, number=st.integers(-(2**70), 2**70), price=st.decimals(allow_nan=False, allow_infinity=False), name=NAMES,
    ratio=st.floats(allow_nan=False, allow_infinity=False), express=st.booleans(), data=st.binary(max_size=5),
    key=st.uuids(), day=st.dates(), at=st.datetimes(timezones=st.just(dt.UTC)), clock=TIMES,
    span=st.timedeltas(dt.timedelta(-99), dt.timedelta(99)), colour=st.sampled_from(Colour),
    size=st.sampled_from(["S", "M", 3]), lines=st.lists(LINES, max_size=3), names=st.lists(NAMES, max_size=3),
    pair=st.tuples(st.integers(), NAMES), who=st.none() | NAMES, either=st.integers() | NAMES,
    counts=st.dictionaries(NAMES, st.integers(), max_size=2), main=st.none() | LINES, node=st.none() | NODES,
    extra=st.fixed_dictionaries({"must": st.integers()}, optional={"may": NAMES}).map(lambda made: Extra(**made)),
    anything=st.recursive(st.none() | st.booleans() | st.integers() | NAMES, lambda below: st.lists(below, max_size=2)),
)  # fmt: skip


@hypothesis_settings(max_examples=25)
@given(job=JOBS)
def test_whatever_a_job_holds_comes_back_as_it_was(job: EveryJob) -> None:
    job_type = registry.for_class(EveryJob)
    text = encode(job_type, job)
    assert job_type.codec is not None
    fields = build(job_type.codec.shape, read(text))
    html = "".join(render_to_string("chokaq/deck/job_edit_field.html", {"field": field}) for field in fields)
    parser = _Form()
    parser.feed(html)
    node, errors = read_form(job_type.codec.shape, parser.sent)
    assert errors == {}
    assert job_type.codec.decode(fitting("test.every", write(node))[0]) == job


def test_the_payload_story(deck: Client) -> None:
    """A wrong type is refused with its path; the largest integer and a decimal are unharmed; the difference is shown;
    the edit is in the audit; the old payload is kept."""
    job = make.dead(type="test.every", payload=json.dumps({**EVERY, "price": "0.10", "number": 1}))
    form = opened(deck, job)
    refused = press(deck, job, form, **{"$.number": "12x", "$.lines[1].count": "many"})
    assert errors_of(refused) == {
        "$.number": ["expected a whole number, got “12x”"],
        "$.lines[1].count": ["expected a whole number, got “many”"],
    }
    assert form_of(refused)["$.number"] == "12x", "what was typed is still there"
    typed = {"$.number": str(2**63 - 1), "$.price": "12345678901234567890.10", "$.lines[0].sku": "c", "reason": "typo"}
    compared = press(deck, job, form_of(refused), **{**typed, "$.lines[1].count": "2"})
    text = text_of(compared)
    assert "removed: &quot;number&quot;: 1" in text
    assert f"added: &quot;number&quot;: {2**63 - 1}" in text
    assert "added: &quot;price&quot;: &quot;12345678901234567890.10&quot;" in text
    assert not AuditEntry.objects.exists()
    response = deck.post(edit_page(job), {**form_of(compared), "act": "save"}, follow=True)
    assert response.redirect_chain == [(job_page(job), 302)]
    assert messages_of(response) == ["Edited: 1."]
    row = JobDLQ.objects.get()
    assert json.loads(row.payload) == {
        **EVERY, "number": 2**63 - 1, "price": "12345678901234567890.10", "anything": [1.5],
        "lines": [{"sku": "c", "count": 1}, {"sku": "b", "count": 2}],
    }  # fmt: skip
    assert (row.revision, row.modified_by) == (1, "grace")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.reason, json.loads(entry.details)) == ("edit", "typo", {"revision": 1, "payload": True})
    assert json.loads(PayloadVersion.objects.get().payload)["number"] == 1


def test_the_whole_of_it_as_json(deck: Client) -> None:
    job = make.hot(type="test.every", payload=json.dumps(EVERY))
    form = opened(deck, job, view="json")
    assert '"number": 9223372036854775807' in form["json:$"]
    for text, path in (
        (form["json:$"].replace("9223372036854775807", '"x"'), "$.number"),
        (form["json:$"].replace('"sku": "b"', '"sku": 5'), "$.lines[1].sku"),
        (form["json:$"].replace('"name"', '"nmae"'), "$.nmae"),
        (form["json:$"].replace('"a": 1', '"a": 1.5'), '$.counts["a"]'),
        (form["json:$"].replace('"a": 1', '"a": NaN'), "$"),
        ("{", "$"),
        ("[]", "$"),
        ("", "$"),
        ("[" * 100_000, "$"),
    ):
        refused = press(deck, job, form, **{"json:$": text})
        assert set(errors_of(refused)) == {path}, text[:80]
        assert form_of(refused)["json:$"].replace("\r\n", "\n") == text.replace("\r\n", "\n")
    done = saved(deck, job, form, **{"json:$": form["json:$"].replace("9223372036854775807", str(2**64))})
    assert messages_of(done) == ["Edited: 1."]
    assert f'"number":{2**64},' in JobHot.objects.get().payload


def test_all_that_is_wrong_is_said_at_once(deck: Client) -> None:
    job = make.dead(type="test.every", payload=json.dumps({**EVERY, "nmae": 1}))
    form = opened(deck, job)
    wrong = {"$.day": "tomorrow", "$.price": "cheap", "$.key": "no", "json:$.counts": '{"a":"x"}', "$.at": "",
             "json:$.anything": "{", "$.ratio": "1,5", "queue": "two words", "priority": "high", "type": "no.such",
             "tags": "x" * 101}  # fmt: skip
    found = errors_of(press(deck, job, form, **{**wrong, "type": "test.every"}))
    assert set(found) == {"$.anything", "$.ratio", "queue", "priority", "tags"}, "what no input can be read into"
    readable = {**wrong, "$.ratio": "1.5", "json:$.anything": "1", "type": "test.every"}
    found = errors_of(press(deck, job, form, **readable))
    assert set(found) == {"$.day", "$.price", "$.key", "$.counts", "$.at", "queue", "priority", "tags"}
    assert found["$.counts"] == ['$.counts["a"]: Expected `int`, got `str`']
    assert "type" in errors_of(press(deck, job, form, **wrong))


# -- odd payloads ------------------------------------------------------------------------------------------------------


def test_a_broken_payload_opens_with_what_is_wrong_at_its_field(deck: Client) -> None:
    broken = {**EVERY, "number": "12", "day": None, "colour": "blue", "lines": {"sku": "a"}, "nmae": 1}
    del broken["extra"]
    job = make.dead(type="test.every", payload=json.dumps(broken))
    response = deck.get(edit_page(job))
    found = errors_of(response)
    assert set(found) == {"$.number", "$.day", "$.colour", "$.lines", "$.nmae"}
    html = response.content.decode()
    assert '<code class="chokaq-key">nmae</code>' in html
    form = form_of(response)  # type: ignore[arg-type]
    assert (form["$.number"], form["$.colour"]) == ("12", '"blue"')
    typed = {"$.day": "2026-02-01", "$.colour": '"green"', "json:$.lines": "[]"}
    done = saved(deck, job, form, "save_and_resurrect", **typed)
    assert messages_of(done) == ["Edited: 1.", "Resurrected: 1. Pending again, attempts counted afresh."]
    payload = json.loads(JobHot.objects.get().payload)
    assert (payload["number"], payload["colour"], payload["lines"]) == (12, "green", [])
    assert "nmae" not in payload


def test_something_else_can_be_put_right_while_the_payload_does_not_fit(deck: Client) -> None:
    job = make.dead(type="test.note", payload='{"name":{"a":5}}')
    response = saved(deck, job, opened(deck, job), priority="70", tags="a\nb", queue="other")
    assert messages_of(response) == ["Edited: 1."]
    row = JobDLQ.objects.get()
    assert (row.payload, row.priority, row.tags, row.queue) == ('{"name":{"a":5}}', 70, '["a","b"]', "other")


def test_what_is_no_json_is_edited_as_text(deck: Client) -> None:
    job = make.dead(type="test.note", payload="{broken <json")
    form = opened(deck, job)
    assert form["json:$"] == "{broken <json"
    assert set(errors_of(press(deck, job, form))) == {"$"}
    saved(deck, job, form, **{"json:$": '{"name":"whole"}'})
    assert JobDLQ.objects.get().payload == '{"name":"whole"}'


def test_an_old_payload_is_lifted_by_a_dry_run(deck: Client) -> None:
    job = make.hot(type="test.lifted", schema_version=1, payload='{"name":"Ada Lovelace"}')
    form = opened(deck, job)
    assert (form["$.first"], form["$.last"]) == ("Ada", "Lovelace")
    assert press(deck, job, form).context["draft"].changes == {}, "to look is not to edit"
    compared = press(deck, job, form, **{"$.last": "Byron"})
    text = text_of(compared)
    assert "removed: &quot;name&quot;: &quot;Ada Lovelace&quot;" in text
    saved(deck, job, form, **{"$.last": "Byron"})
    row = JobHot.objects.get()
    assert (row.schema_version, row.payload) == (2, '{"first":"Ada","last":"Byron"}')
    newer = make.hot(type="test.lifted", schema_version=9, payload='{"first":"a","last":"b"}')
    assert deck.get(edit_page(newer)).status_code == 200


@pytest.mark.parametrize("payload", ["null", "5", '"text"', "[1]", "", "[" * 900 + "]" * 900, "{}", '{"name":null}'])
def test_any_payload_opens(deck: Client, payload: str) -> None:
    for type_key in ("test.note", "test.every", "no.such.type", "legacy.any"):
        job = make.dead(type=type_key, payload=payload)
        for view in ("fields", "json", "nonsense"):
            form = opened(deck, job, view=view)
            assert press(deck, job, form).status_code == 200


def test_a_type_that_nobody_knows_keeps_its_payload(deck: Client) -> None:
    job = make.dead(type="no.such.type", payload='{"a":1}')
    response = deck.get(edit_page(job))
    assert "does not know this type" in response.content.decode()
    form = form_of(response)  # type: ignore[arg-type]
    assert "type" in errors_of(press(deck, job, form, queue="other"))  # it must become one that is known
    compared = press(deck, job, form, type="test.note", **{"json:$": '{"name":"x"}'})
    saved_form = form_of(compared) if "diff" in compared.context else {}
    assert saved_form["json:$"] is not None
    done = deck.post(edit_page(job), {**saved_form, "act": "save"}, follow=True)
    assert messages_of(done) == ["Edited: 1."]
    assert (JobDLQ.objects.get().type, JobDLQ.objects.get().payload) == ("test.note", '{"name":"x"}')


def test_a_raw_job_is_edited_as_the_text_it_is(deck: Client) -> None:
    job = make.dead(type="legacy.thing", payload="line one\nline two <b>")
    form = opened(deck, job)
    assert form["raw:$"] == "line one\r\nline two <b>"
    assert press(deck, job, form).context["draft"].changes == {}
    saved(deck, job, form, **{"raw:$": "line one\r\nline 2"})
    assert JobDLQ.objects.get().payload == "line one\nline 2"


def test_texts_that_a_browser_would_change_are_edited_as_json(deck: Client) -> None:
    job = make.hot(payload=json.dumps({"name": "a\r\nb"}))
    form = opened(deck, job)
    assert form["json:$.name"] == '"a\\r\\nb"'
    assert press(deck, job, form).context["draft"].changes == {}
    for name in ("\nstarts", " blank ", "two\nlines", "x" * 200, "tab\t", "\u2028", "👩‍🚀"):
        job = make.hot(payload=json.dumps({"name": name}))
        assert press(deck, job, opened(deck, job)).context["draft"].changes == {}, repr(name)


def test_a_large_payload_becomes_a_form_that_django_takes(deck: Client) -> None:
    lines = [{"sku": str(n), "count": n} for n in range(50)]
    many = {**EVERY, "lines": lines, "names": [str(n) for n in range(50)], "counts": {str(n): n for n in range(20_000)}}
    job = make.hot(type="test.every", payload=json.dumps(many))
    form = opened(deck, job)
    assert len(form) < 1_000
    assert press(deck, job, form).context["draft"].changes == {}


# -- lists, null, absence ----------------------------------------------------------------------------------------------


def test_items_come_and_go(deck: Client) -> None:
    job = make.hot(type="test.every", payload=json.dumps(EVERY))
    form = opened(deck, job)
    more = form_of(deck.post(edit_page(job), {**form, "add": "$.lines", "remove:$.lines[0]": "1"}))  # type: ignore[arg-type]
    assert (more["$.lines[0].sku"], more["$.lines[1].sku"]) == ("b", "")
    more = form_of(deck.post(edit_page(job), {**more, "add": "$.names", "$.lines[1].sku": "new"}))  # type: ignore[arg-type]
    assert more["$.names[2]"] == ""
    assert set(errors_of(press(deck, job, more, **{"$.lines[1].count": "x"}))) == {"$.lines[1].count"}
    saved(deck, job, more, **{"$.lines[1].count": "7", "$.names[2]": "z", "remove:$.names[0]": "1"})
    payload = json.loads(JobHot.objects.get().payload)
    assert payload["lines"] == [{"sku": "b", "count": 2}, {"sku": "new", "count": 7}]
    assert payload["names"] == ["y", "z"]
    for odd in ("$.nothing", "$.lines[9]", "$", "", "$.counts", "x", "$.pair"):
        assert deck.post(edit_page(job), {**opened(deck, job), "add": odd}).status_code == 200


def test_null_and_what_is_left_out(deck: Client) -> None:
    job = make.hot(type="test.every", payload=json.dumps(EVERY))
    form = opened(deck, job)
    typed = press(deck, job, form, **{"$.who": "Grace", "$.extra.may": "x"})
    assert typed.context["draft"].payload.get("who") == "Grace", "a text that was typed counts, whatever the tick says"
    saved(deck, job, form, **{"$.who": "Grace", "$.extra.may": "x"})
    payload = json.loads(JobHot.objects.get().payload)
    assert (payload["who"], payload["extra"]) == ("Grace", {"must": 1, "may": "x"})
    form = opened(deck, job)
    saved(deck, job, form, **{"null:$.who": "1", "absent:$.extra.may": "1"})
    payload = json.loads(JobHot.objects.get().payload)
    assert (payload["who"], payload["extra"]) == (None, {"must": 1})
    assert "$.number" in errors_of(press(deck, job, form, **{"absent:$.number": "1"}))


def test_what_is_left_out_stays_so(deck: Client) -> None:
    """Nothing but what somebody changed is written down."""
    job = make.hot(type="test.every", payload='{"number":1}')
    form = opened(deck, job)
    assert press(deck, job, form).context["draft"].changes == {}
    compared = press(deck, job, form, **{"$.name": "Ada"})
    assert write(compared.context["draft"].payload) == '{"number":1,"name":"Ada"}'


def test_switching_between_fields_and_json_keeps_what_is_typed(deck: Client) -> None:
    job = make.hot(type="test.every", payload=json.dumps(EVERY))
    form = opened(deck, job)
    as_json = form_of(press(deck, job, form, "as_json", **{"$.number": "7", "queue": "other"}))
    assert '"number": 7,' in as_json["json:$"]
    assert as_json["queue"] == "other"
    back = form_of(press(deck, job, as_json, "as_fields"))
    assert (back["$.number"], back["queue"]) == ("7", "other")
    stuck = press(deck, job, form, "as_json", **{"$.number": "x"})
    assert errors_of(stuck) == {"$.number": ["expected a whole number, got “x”"]}
    stuck = press(deck, job, as_json, "as_fields", **{"json:$": "{"})
    assert form_of(stuck)["json:$"] == "{"


# -- type, queue, priority, tags ---------------------------------------------------------------------------------------


def test_another_type_must_take_the_payload(deck: Client) -> None:
    job = make.dead(type="test.note", payload='{"name":"x"}')
    form = opened(deck, job)
    assert set(errors_of(press(deck, job, form, type="test.sleep"))) == {"$.seconds"}
    alias = make.hot(type="test.every", payload=json.dumps(EVERY))
    done = saved(deck, alias, opened(deck, alias), type="test.every.old")
    assert messages_of(done) == ["Edited: 1."]
    row = JobHot.objects.get(pk=alias.pk)
    assert (row.type, json.loads(row.payload)) == ("test.every.old", EVERY)


def test_tags_of_any_kind_survive(deck: Client) -> None:
    for tags in ([], ["a", "b c", "ü,"], ["two\nlines", "x"], ["[odd"]):
        job = make.hot(tags=json.dumps(tags))
        assert press(deck, job, opened(deck, job)).context["draft"].changes == {}, tags
    response = saved(deck, job, opened(deck, job), tags=" one \r\n\r\ntwo\r\none")
    assert messages_of(response) == ["Edited: 1."]
    assert json.loads(JobHot.objects.get(pk=job.pk).tags) == ["one", "two"]


# -- who else edits, who may -------------------------------------------------------------------------------------------


def test_the_second_of_two_editors_is_told_what_changed(deck: Client) -> None:
    job = make.hot(payload='{"name":"mine"}')
    form = opened(deck, job)
    compared = press(deck, job, form, **{"$.name": "from grace"})
    control.edit(job.pk, by="bob", payload={"name": "from bob"}, priority=70)
    response = deck.post(edit_page(job), {**form_of(compared), "act": "save"})
    html = response.content.decode()
    text = text_of(response)
    assert "The job was changed meanwhile" in text
    assert "bob: priority 10 -&gt; 70, a new payload." in text
    assert "added: &quot;name&quot;: &quot;from bob&quot;" in text
    assert 'value="save"' not in html
    assert JobHot.objects.get().payload == '{"name":"from bob"}'
    again = deck.post(edit_page(job), {**form_of(response), "rebase": "1"})  # type: ignore[arg-type]
    assert "removed: &quot;name&quot;: &quot;from bob&quot;" in text_of(again)
    done = deck.post(edit_page(job), {**form_of(again), "act": "save"}, follow=True)  # type: ignore[arg-type]
    assert messages_of(done) == ["Edited: 1."]
    row = JobHot.objects.get()
    assert (row.payload, row.priority, row.revision) == ('{"name":"from grace"}', 10, 2)


def test_what_is_not_edited_any_more_says_so(deck: Client) -> None:
    job = make.hot()
    form = opened(deck, job)
    JobHot.objects.filter(pk=job.pk).update(status=JobStatus.PROCESSING)
    response = deck.post(edit_page(job), {**form, "act": "save", "queue": "x"}, follow=True)
    assert response.redirect_chain == [(job_page(job), 302)]
    assert "Of active jobs only waiting ones are edited" in messages_of(response)[0]
    assert "Of active jobs only waiting ones are edited" in deck.get(edit_page(job)).content.decode()
    assert JobHot.objects.get().queue == "mail"
    assert deck.get(edit_page(make.archived())).status_code == 200
    assert deck.get(edit_page("01AAAAAAAAAAAAAAAAAAAAAAAA")).status_code == 404
    assert deck.post(edit_page("nonsense"), {"act": "save"}).status_code == 404


def client_of(*permissions: str) -> Client:
    client = Client()
    client.force_login(make.operator(*permissions, username=f"user-{User.objects.count()}"))
    return client


def test_the_permission_is_asked_for_at_each_step(deck: Client) -> None:
    job = make.dead()
    form = opened(deck, job)
    for client in (
        client_of("view_deck", "view_payload", "resurrect"),
        client_of("edit_payload", "view_payload", "resurrect"),
    ):
        assert client.get(edit_page(job)).status_code == 403
        for act in ("check", "save", "save_and_resurrect", "reveal", "as_json"):
            assert press(client, job, form, act, queue="other").status_code == 403
    editor = client_of("view_deck", "view_payload", "edit_payload")
    compared = press(editor, job, opened(editor, job), queue="other")
    assert 'value="save_and_resurrect"' not in compared.content.decode()
    assert press(editor, job, form_of(compared), "save_and_resurrect").status_code == 403
    assert JobDLQ.objects.get().queue == "mail", "nothing was saved either"
    assert Client(enforce_csrf_checks=True).post(edit_page(job), form).status_code in (302, 403)


def test_who_may_not_see_payloads_edits_around_them() -> None:
    client = client_of("view_deck", "edit_payload", "resurrect")
    job = make.dead(payload='{"name":"SECRET"}')
    response = client.get(edit_page(job))
    assert "SECRET" not in response.content.decode()
    assert "Hidden: seeing it needs the permission" in response.content.decode()
    form = form_of(response)  # type: ignore[arg-type]
    compared = press(client, job, form, queue="other", **{"json:$": '{"name":"guess"}', "$.name": "guess"})
    assert compared.context["draft"].changes == {"queue": "other"}
    done = client.post(edit_page(job), {**form_of(compared), "act": "save"}, follow=True)
    assert messages_of(done) == ["Edited: 1."]
    assert JobDLQ.objects.get().payload == '{"name":"SECRET"}'
    assert press(client, job, form, "reveal").status_code == 403
    control.edit(job.pk, by="bob", payload={"name": "SECRET-2"})
    assert "SECRET" not in press(client, job, form).content.decode()


# -- masked values -----------------------------------------------------------------------------------------------------

SECRETIVE = '{"token":"red","password":"S3CRET","user":"ada"}'


@pytest.mark.parametrize("view", ["fields", "json"])
def test_masked_values_stay_what_they_are(deck: Client, view: str) -> None:
    job = make.hot(type="test.secretive", payload=SECRETIVE)
    form = opened(deck, job, view=view)
    assert "S3CRET" not in str(form)
    typed = {"$.user": "bob"} if view == "fields" else {"json:$": form["json:$"].replace("ada", "bob")}
    compared = press(deck, job, form, **typed)
    assert "S3CRET" not in compared.content.decode()
    deck.post(edit_page(job), {**form_of(compared), "act": "save"})
    assert json.loads(JobHot.objects.get().payload) == {"token": "red", "password": "S3CRET", "user": "bob"}


def test_masked_values_can_be_replaced_and_shown(deck: Client) -> None:
    job = make.hot(type="test.secretive", payload=SECRETIVE)
    form = opened(deck, job)
    compared = press(deck, job, form, **{"$.password": "other", "$.user": "bob"})
    html = compared.content.decode()
    assert "(another one)" in html
    assert "S3CRET" not in html
    revealed = press(deck, job, form, "reveal", **{"$.user": "bob", "reason": "why"})
    shown = form_of(revealed)
    assert (shown["$.password"], shown["$.token"], shown["$.user"]) == ("S3CRET", '"red"', "bob")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.reason) == ("reveal", job.pk, "why")
    saved(deck, job, shown, **{"$.password": "new"})
    assert json.loads(JobHot.objects.get().payload) == {"token": "red", "password": "new", "user": "bob"}


def test_a_mask_for_which_nothing_is_stored_is_refused(deck: Client) -> None:
    job = make.hot(type="test.every", payload=json.dumps({**EVERY, "anything": {"a": {"secret": "S3CRET"}}}))
    form = opened(deck, job)
    assert "S3CRET" not in str(form)
    moved = press(deck, job, form, **{"json:$.anything": form["json:$.anything"].replace('"a"', '"b"')})
    assert errors_of(moved) == {
        "$.anything": ["$.anything.b.secret: nothing is stored here that a mask could stand for"]
    }
    assert SecretiveJob(token=Colour.RED).password == ""


SENDERS = [{"user": "ada", "password": "S-ADA"}, {"user": "bob", "password": "S-BOB"}]


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ([{"user": "bob", "password": MASK}], [SENDERS[1]]),
        ([{"user": "bob", "password": MASK}, {"user": "ada", "password": MASK}], [SENDERS[1], SENDERS[0]]),
        ([{"user": "bob", "password": MASK}, {"user": "eve", "password": "new"}],
         [SENDERS[1], {"user": "eve", "password": "new"}]),
        ([{"user": "ada", "password": MASK}, {"user": "rob", "password": MASK}],
         [SENDERS[0], {"user": "rob", "password": "S-BOB"}]),
        ([*({**each, "password": MASK} for each in SENDERS), {"user": "eve", "password": ""}],
         [*SENDERS, {"user": "eve", "password": ""}]),
    ],
)  # fmt: skip
def test_the_secret_of_one_item_never_comes_into_another(deck: Client, typed: Any, kept: Any) -> None:
    job = make.hot(type="test.every", payload=json.dumps({**EVERY, "anything": SENDERS}))
    form = opened(deck, job)
    saved(deck, job, form, **{"json:$.anything": json.dumps(typed, ensure_ascii=False), "$.name": "Eve"})
    assert json.loads(JobHot.objects.get().payload)["anything"] == kept


@pytest.mark.parametrize(
    ("stored", "typed"),
    [
        (SENDERS, [{"user": "rob", "password": MASK}]),  # whose is it?
        ([{"password": "A"}, {"password": "B"}], [{"password": MASK}]),
    ],
)
def test_a_mask_that_could_stand_for_several_is_refused(deck: Client, stored: Any, typed: Any) -> None:
    job = make.hot(type="test.every", payload=json.dumps({**EVERY, "anything": stored}))
    form = opened(deck, job)
    answer = press(deck, job, form, **{"json:$.anything": json.dumps(typed, ensure_ascii=False)})
    assert "$.anything[0].password: nothing is stored here" in str(errors_of(answer))


# -- text --------------------------------------------------------------------------------------------------------------

XSS = """<script>alert(1)</script>'"><img src=x onerror=alert(2)></textarea></pre>"""


def test_scripts_in_data_are_text(deck: Client) -> None:
    job = make.dead(
        type="test.every", queue=XSS, tags=json.dumps([XSS]),
        payload=json.dumps({**EVERY, "name": XSS, "counts": {XSS: 1}, "anything": XSS, XSS: 1, "colour": XSS,
                            "lines": [{"sku": XSS, XSS: XSS}]}),
    )  # fmt: skip
    for view in ("fields", "json"):
        form = opened(deck, job, view=view)
        pages = [deck.get(edit_page(job), {"view": view}), press(deck, job, form, reason=XSS, type=XSS, priority=XSS)]
        pages.append(press(deck, job, form, queue="x", **{"json:$": json.dumps({**EVERY, "name": XSS})}))
        for page in pages:
            html = page.content.decode()
            assert inline_code(html) == []
            assert "<script>alert" not in html
            assert "<img src=x" not in html


def test_the_form_says_what_it_wants_to_those_who_do_not_see_it(deck: Client) -> None:
    job = make.dead(type="test.every", payload=json.dumps({**EVERY, "number": "x"}))
    html = deck.get(edit_page(job)).content.decode()
    ids = set(re.findall(r' id="([^"]+)"', html))
    for target in re.findall(r'<label for="([^"]+)"', html):
        assert target in ids
    assert 'aria-invalid="true" aria-describedby="field-$.number-error"' in " ".join(html.split())
    assert "field-$.number-error" in ids


def test_values_have_their_python_types_when_the_job_runs() -> None:
    """What the editor stores is what the type's own decoder reads."""
    text, _ = fitting("test.every", json.dumps(EVERY))
    job_type = registry.get("test.every")
    assert job_type is not None
    assert job_type.codec is not None
    job = job_type.codec.decode(text)
    assert (job.number, job.price, job.key) == (2**63 - 1, Decimal("19.90"), UUID(int=0))
