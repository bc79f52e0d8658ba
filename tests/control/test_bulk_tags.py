"""A tag in a filter means the same in a list, in a preview and in the set of an operation."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from chokaq_django import control
from chokaq_django.control import JobFilter
from chokaq_django.job.envelope import clean_tags
from chokaq_django.models import BulkItem, BulkOperation, JobDLQ
from chokaq_django.storage import get_storage
from tests import factories as make

pytestmark = pytest.mark.django_db

TAGS = some.text('",\\[] aA%_u0{é\n\x01😀', min_size=1, max_size=4).filter(lambda tag: tag.strip() == tag)
LISTS = some.lists(TAGS, max_size=4)
EXAMPLES = 60


def found_by(tag: str) -> dict[str, set[int]]:
    """Numbers of the dead jobs that each way to ask finds; their priorities are their numbers."""
    where = JobFilter(status="dead", queue="mail", tag=tag)
    numbers = dict(JobDLQ.objects.values_list("id", "priority"))
    operation = control.bulk_purge(where=where, by="ada", hold=True)
    for _ in range(2):
        get_storage().bulk_step(operation.id)
    frozen = BulkItem.objects.filter(operation_id=operation.id).values_list("job_id", flat=True)
    listed = {job.priority for job in control.list_jobs(where).jobs}
    assert control.bulk_preview(where).total == len(listed)
    return {"list": listed, "frozen": {numbers[job_id] for job_id in frozen}}


def check(tags: list[list[str]], tag: str) -> None:
    for model in (BulkItem, BulkOperation, JobDLQ):
        model._default_manager.all().delete()
    for number, each in enumerate(tags):
        make.dead(priority=number, tags=clean_tags(each))
    expected = {number for number, each in enumerate(tags) if tag in each}
    assert found_by(tag) == {"list": expected, "frozen": expected}


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(some.lists(LISTS, min_size=1, max_size=4), some.data())
@example([["a", "b"]], None).via("the comma between two tags")
def test_any_tag(tags: list[list[str]], data: some.DataObject | None) -> None:
    there = sorted({tag for each in tags for tag in each})
    wanted = "," if data is None else data.draw(some.sampled_from(there) | TAGS if there else TAGS)
    check(tags, wanted)


@pytest.mark.parametrize(
    "tag", [",", '"', "\\", '\\"', '"a"', '","', ',"', "[", "]", "[]", "a", "A", "%", "_", "\\u0041", "a\nb", "n", "é"]
)
def test_what_looks_like_the_ends_of_a_tag(tag: str) -> None:
    tags = [
        ["a", "b"], [","], [",", "b"], ["a", ","], ["a", ",", "b"], ["a,", ",b"], ["a,", "]b"], ["[", "]"],
        ['x",', "]"], ['x"a"y'], ['x"a'], ["\\", "a"], ["a\\", ",b"], ["a\\"], ['\\"'], ['","'], ['a","b'], ["A", "n"],
        ["\\n"], ["\\u0041"], ["a\nb"], ["[]"], ["%"], ["_", "e\u0301"], [], ['"', ","], [',"', "x"],
    ]  # fmt: skip
    check(tags, tag)
