"""What a patch would do to jobs, tried on some of them: nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..conf import get_options
from ..job.envelope import EnvelopeError
from ..job.failures import PayloadError
from ..job.patch import PatchRefusedError, PayloadPatch
from ..job.repair import repaired
from ..models import JobBase, JobDLQ, JobHot, JobStatus
from ..reading.limits import clean_limit
from ..reading.listing import MOST_LISTED, list_jobs
from ..reading.patch_previews import PatchExample, PatchPreview, PatchRefusal
from ..reading.selection import JobFilter, clean_where
from ..sentence import Sentence, shown
from ..storage import BulkResult
from ..storage.engine import chunks
from ..storage.patching import why_not
from .acts import Operator, authorised, clean_ids
from .patience import Patience
from .payloads import Patch, clean_patch, may_quote, may_see_payloads, may_tell, patch_permissions

__all__ = ["preview_patch"]

MOST_LOOKED_AT = 10_000
TOLD = 10
"""Refusals and examples of a preview at most."""
AT_ONCE = 50
"""Payloads in memory at a time."""
LONGEST = 5.0
"""Seconds that somebody waits for an answer: a payload of a megabyte takes a third of one."""
PLACES = ("hot", "dlq")


def preview_patch(
    patch: Patch, ids: Iterable[str] | None = None, *, where: JobFilter | None = None, by: str | Operator,
    sample: int = 1_000, examples: int = 3,
) -> PatchPreview:  # fmt: skip
    """Try a patch on up to ``sample`` (10,000 at most) of the jobs named, or of those that a filter finds, the oldest
    first, for about five seconds. Needs ``chokaq.edit_payload``, and ``chokaq.view_payload`` where the patch does more
    than set fields at the top.

    What a codec says of a value is told to those who may see payloads, and never of a masked field; where a payload
    does not fit to others only where the patch itself writes.
    """
    changes = clean_patch(patch)
    authorised(by, "edit_payload", *patch_permissions(changes))
    if (ids is None) is (where is None):
        raise EnvelopeError("ids", Sentence("or where must name the jobs, and not both"))
    clean_limit(sample, MOST_LOOKED_AT, "sample")
    clean_limit(examples, TOLD, "examples", least=0)
    if where is not None and clean_where(where).place not in PLACES:
        fits = Sentence(
            "must be of waiting or dead jobs, and these, with status %(status)s, are in %(place)s",
            status=shown(where.status), place=where.place,
        )  # fmt: skip
        raise EnvelopeError("where", fits)
    if where is not None:
        chosen, complete = _of_filter(where, sample + 1)
    else:
        chosen, complete = clean_ids(ids or (), BulkResult())[: sample + 1], True
    answer = PatchPreview()
    _Trial(changes, answer, by, examples).run(chosen[:sample])
    answer.complete = complete and answer.looked == len(chosen)
    return answer


def _of_filter(where: JobFilter, most: int) -> tuple[list[str], bool]:
    """The oldest jobs that the filter finds, up to so many; whether there was time to look for them all."""
    found: list[str] = []
    patience, after = Patience(LONGEST), None
    while not patience.over:
        patience.begin()
        page = list_jobs(where, limit=min(MOST_LISTED, most - len(found)), after=after, oldest_first=True)
        found += [job.id for job in page.jobs]
        after = page.next
        if after is None or len(found) >= most:
            return found, True
    return found, False


class _Trial:
    def __init__(self, patch: PayloadPatch, answer: PatchPreview, by: str | Operator, examples: int) -> None:
        self._patch, self._answer = patch, answer
        self._may_see, self._tells = may_see_payloads(by), may_tell(patch, by)
        self._examples = examples if self._may_see else 0
        self._reasons: dict[tuple[str, str, str], list[PatchRefusal]] = {}

    def run(self, ids: Sequence[str]) -> None:
        answer, patience = self._answer, Patience(LONGEST)
        for row in _rows(ids):
            if patience.over:
                break
            patience.begin()
            answer.looked += 1
            if row is None:
                answer.elsewhere += 1
            else:
                self._try(*row)
        answer.refusals = self._first_refusals()

    def _try(self, job_id: str, key: str, text: str, version: int) -> None:
        answer = self._answer
        try:
            done = repaired(self._patch, key, text, version, check_all=not self._tells)
        except PatchRefusedError as error:
            if error.tested:
                answer.tested_out += 1
            else:
                self._refuse(job_id, key, error, quotes=False)
        except PayloadError as error:
            self._refuse(job_id, key, error, quotes=may_quote(error.path, may_see=self._may_see))
        else:
            if self._tells and not done.changed:
                answer.unchanged += 1
                return
            answer.changed += 1
            if len(answer.examples) < self._examples:
                answer.examples.append(PatchExample(job_id, key, done.before, done.text))

    def _refuse(self, job_id: str, key: str, error: PatchRefusedError | PayloadError, *, quotes: bool) -> None:
        blind = None if self._may_see else self._patch
        path = error.path if blind is None or blind.writes(error.path) else "$"
        reason = why_not(error, quotes=quotes, blind=blind)
        self._answer.unfit += 1
        alike = self._reasons.setdefault((key, path, reason), []) if len(self._reasons) < TOLD else []
        if len(alike) < TOLD:
            alike.append(PatchRefusal(job_id, key, path, reason))

    def _first_refusals(self) -> list[PatchRefusal]:
        kinds = list(self._reasons.values())
        turns = [kind[turn] for turn in range(TOLD) for kind in kinds if turn < len(kind)]
        return turns[:TOLD]


def _rows(ids: Sequence[str]) -> Iterator[tuple[str, str, str, int] | None]:
    """Id, type, payload and schema version of each; None for one that cannot be edited."""
    alias = get_options().database
    models: tuple[tuple[type[JobBase], dict[str, object]], ...] = (
        (JobDLQ, {}),
        (JobHot, {"status": JobStatus.PENDING}),
    )
    for part in chunks(ids, AT_ONCE):
        found = {}
        for model, more in models:
            rows = model._default_manager.using(alias).filter(pk__in=part, **more)
            for row in rows.values_list("pk", "type", "payload", "schema_version"):
                found[row[0]] = row
        yield from (found.get(job_id) for job_id in part)
