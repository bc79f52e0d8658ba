"""Patches as edits: the new payload of each job out of the one it has."""

from __future__ import annotations

from collections.abc import Callable

from ..job.failures import PayloadError
from ..job.patch import PatchRefusedError, PayloadPatch
from ..job.repair import repaired
from ..job.text import safe_text
from ..sentence import Sentence, stored
from .contract import NotRenewedError, Renew, StoredPayload

__all__ = ["patching", "why_not"]

_UNCHANGED = Sentence(stored("The patch changes nothing in its payload."))
_REFUSED = {
    "is there": stored("Not for this job: %(path)s is there."),
    "is not there": stored("Not for this job: %(path)s is not there."),
    "has another value": stored("Not for this job: %(path)s has another value."),
}
"""By what a test found."""
_NOT_MADE = stored("The patch cannot be made: %(path)s is not there.")
_UNFIT = stored("The payload would not fit: %(error)s")
# Of a payload that who reads this may not see.
_TESTED_OUT = Sentence(stored("Not for this job: a condition of the patch does not hold."))
_NOT_MADE_HERE = Sentence(stored("The patch cannot be made in this payload."))
_UNFIT_ELSEWHERE = Sentence(stored("The payload would not fit, elsewhere than where the patch writes."))
QUOTED = 2_000
"""Characters of what a codec says, which each refused job has."""


def patching(patch: PayloadPatch, *, sees: bool, quotes: Callable[[str], bool], tells: bool) -> Renew:
    """What an edit does with a patch. ``sees``: whether who reads a refusal may see payloads. ``quotes``: whether it
    may say what a codec says of the value at this path, and not the path alone. ``tells``: whether a payload that is so
    already is refused, which says what it holds; else it counts as changed."""

    def renew(job: StoredPayload) -> tuple[str, int]:
        try:
            done = repaired(patch, job.type, job.text, job.schema_version, check_all=not tells)
        except (PatchRefusedError, PayloadError) as error:
            blind = None if sees else patch
            why = why_not(error, quotes=quotes(error.path), blind=blind)
            not_meant = isinstance(error, PatchRefusedError) and error.tested
            raise NotRenewedError(why, left_alone=not_meant) from None
        if tells and not done.changed:
            raise NotRenewedError(_UNCHANGED, left_alone=True)
        return done.text, done.schema_version

    return renew


def why_not(
    error: PatchRefusedError | PayloadError, *, quotes: bool, blind: PayloadPatch | None = None
) -> str:  # fmt: skip
    """A refusal as people read it. ``blind``: the patch, where who reads it may not see payloads: that is told no path
    but of a value that the patch itself writes."""
    if isinstance(error, PatchRefusedError):
        if blind is not None:
            return _TESTED_OUT if error.tested else _NOT_MADE_HERE
        return Sentence(_REFUSED[error.message] if error.tested else _NOT_MADE, path=error.path)
    if blind is not None and not blind.writes(error.path):
        return _UNFIT_ELSEWHERE
    return Sentence(_UNFIT, error=safe_text(str(error), QUOTED) if quotes else error.plain_path)
