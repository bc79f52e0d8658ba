"""What a patch would do to jobs, as it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["PatchExample", "PatchPreview", "PatchRefusal"]


@dataclass(frozen=True, slots=True)
class PatchRefusal:
    """A job that would stay as it is. ``path``: where its payload is at fault; ``$`` to who may not see payloads, but
    where the patch writes."""

    id: str
    type: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class PatchExample:
    """A payload before and after, as JSON text. It is whole: secrets are masked by whoever shows it."""

    id: str
    type: str
    before: str
    after: str


@dataclass(slots=True)
class PatchPreview:
    """What a patch would do, in numbers of jobs.

    ``looked``: those that it was tried on, the oldest of the set; ``complete``: whether these are all. Of them would be
    ``changed``; and would stay as they are: ``tested_out``, in which a test of the patch does not hold; ``unchanged``,
    which are so already; ``unfit``, in which there is nothing to change at a path, or whose new payload would not fit
    its type; and ``elsewhere``, which are neither waiting nor dead. To who may not see payloads, and of a patch that
    sets a masked value to anybody, what is so already is ``changed`` too. ``refusals`` has the first of the unfit, of
    each reason one before there is a second; ``examples`` is empty for who may not see payloads.
    """

    looked: int = 0
    complete: bool = True
    changed: int = 0
    tested_out: int = 0
    unchanged: int = 0
    unfit: int = 0
    elsewhere: int = 0
    refusals: list[PatchRefusal] = field(default_factory=list)
    examples: list[PatchExample] = field(default_factory=list)
