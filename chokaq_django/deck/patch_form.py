"""Changes of payloads as a form has them: a field each, what becomes of it, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from ..control import PatchPreview
from ..job.containers import RecordShape
from ..job.envelope import EnvelopeError
from ..job.failures import PayloadError
from ..job.patch import Change, PayloadPatch, pointer_of
from ..job.registry import registry
from ..job.verbatim import Members, read, scalar, step_of, write
from ..reading.masks import mask_change, mask_node
from .diff import Diff, side_by_side
from .text import shortened

__all__ = ["MOST_ROWS", "PatchRow", "TrialShown", "known_fields", "patch_of", "patch_words", "rows_of", "trial_shown"]

MOST_ROWS = 20
VALUE_TOLD = 1_000
"""Characters of a value in the words for a change."""
FIELDS_OFFERED = 100
SET, REMOVE = "set", "remove"
ANY, IS, MISSING = "", "is", "missing"
_INDEX = re.compile(r"[0-9]+|-")


@dataclass(slots=True)
class PatchRow:
    """A line of the form, as typed. ``path``: of the field. ``do``: "set" or "remove". ``when``: "", "is" (where it has
    the value ``now``) or "missing". ``error``: what is wrong with the input of this name."""

    number: int
    path: str = ""
    do: str = SET
    value: str = ""
    when: str = ANY
    now: str = ""
    wrong: str = ""
    error: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.path.strip() or self.value.strip() or self.now.strip())

    def changes(self) -> list[Change]:
        """The operations that it stands for; ``EnvelopeError`` for a bad input, which is then marked."""
        try:
            path = pointer_of(self.path)
        except EnvelopeError as error:
            raise self._bad("path", _("the field %(what)s") % {"what": error.message}) from None
        found = []
        if self.when == MISSING:
            found.append(Change("test", path, absent=True))
        elif self.when == IS or self.now.strip():
            found.append(Change("test", path, self._json("now", self.now)))
        if self.do == REMOVE:
            return [*found, Change("remove", path)]
        # An item of a list is put in the place of the one there; to add would put it before.
        op = "replace" if _INDEX.fullmatch(path.rpartition("/")[2]) and not path.endswith("/-") else "add"
        return [*found, Change(op, path, self._json("value", self.value))]

    def _json(self, name: str, text: str) -> Any:
        text = text.strip()
        if not text:
            raise self._bad(name, _("%(path)s: a value is needed, as JSON") % {"path": self.path.strip()})
        try:
            return read(text)
        except ValueError:
            hint = {"path": self.path.strip(), "text": text[:40], "quoted": scalar(text[:40])}
            words = _("%(path)s: %(text)s is no JSON; a text is written in quotes: %(quoted)s")
            raise self._bad(name, words % hint) from None

    def _bad(self, name: str, message: str) -> EnvelopeError:
        self.wrong, self.error = name, message
        return EnvelopeError("patch", message)


def rows_of(form: Mapping[str, str], *, more: int = 0) -> list[PatchRow]:
    """The lines that a form has, and ``more`` empty ones; one at least."""
    rows = []
    for number in range(MOST_ROWS):
        if f"path:{number}" in form:
            texts = {name: form.get(f"{name}:{number}", "") for name in ("path", "value", "now")}
            do, when = form.get(f"do:{number}", SET), form.get(f"when:{number}", ANY)
            row = PatchRow(0, do=do if do == REMOVE else SET, when=when if when in (IS, MISSING) else ANY, **texts)
            rows.append(row)
    rows += [PatchRow(0) for _number in range(more or not rows)]
    for number, row in enumerate(rows[:MOST_ROWS]):
        row.number = number
    return rows[:MOST_ROWS]


def patch_of(rows: Iterable[PatchRow], *, may_see: bool) -> PayloadPatch | None:
    """The patch that the lines ask for, None when all are empty; ``EnvelopeError`` for a bad one."""
    changes = [change for row in rows if not row.is_empty for change in row.changes()]
    if not changes:
        return None
    patch = PayloadPatch.of(PayloadPatch(tuple(changes)).text())
    if patch.asks and not may_see:
        words = _("who may not see payloads can only set fields at the top: anything else tells what is there now")
        raise EnvelopeError("patch", words)
    return patch


def known_fields(types: Iterable[str]) -> list[str]:
    """Paths of the fields that these types have, for an input that offers them."""
    found: dict[str, None] = {}
    for key in types:
        job_type = registry.get(key)
        if job_type is None or job_type.codec is None:
            continue
        try:
            shape = job_type.codec.shape
        except PayloadError:  # a class that cannot be stored: a check says so
            continue
        for name, inner in shape.fields.items():
            path = step_of(name).removeprefix(".")
            found[path] = None
            if isinstance(inner, RecordShape):
                found |= dict.fromkeys(path + step_of(below) for below in inner.fields)
    return list(found)[:FIELDS_OFFERED]


def patch_words(patch: PayloadPatch) -> list[str]:
    """What a patch does, a sentence for each field."""
    said: list[str] = []
    conditions: list[tuple[Change, str]] = []
    for change in patch.changes:
        if change.op == "test":
            condition = _("is missing") if change.absent else _("is %(value)s") % {"value": _value(change)}
            conditions.append((change, condition))
            continue
        if change.op == "remove":
            text = _("remove %(path)s") % {"path": change.told_path}
        else:
            text = _("%(path)s becomes %(value)s") % {"path": change.told_path, "value": _value(change)}
        held = ", ".join(how if test.path == change.path else f"{test.told_path} {how}" for test, how in conditions)
        said.append(_("%(change)s, where it %(condition)s") % {"change": text, "condition": held} if held else text)
        conditions = []
    said += [
        _("only where %(path)s %(condition)s") % {"path": test.told_path, "condition": how} for test, how in conditions
    ]
    return said


def _value(change: Change) -> str:
    return shortened(write(change.value), VALUE_TOLD)


@dataclass(slots=True)
class TrialShown:
    """A preview of a patch as a page shows it. ``examples``: id, type and what changes in the payload."""

    seen: PatchPreview
    examples: list[tuple[str, str, Diff]] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        return any(diff.cut for _, _, diff in self.examples)


def trial_shown(seen: PatchPreview, *, whole: bool = False) -> TrialShown:
    """``whole``: with all of what changes, however long it is."""
    return TrialShown(
        seen, [(each.id, each.type, _difference(each.before, each.after, whole)) for each in seen.examples]
    )


def _difference(before: str, after: str, whole: bool) -> Diff:
    """By fields in the order that they have before, without secrets."""
    old, new = read(before), read(after)
    if isinstance(old, Members) and isinstance(new, Members):
        new = Members(sorted(new, key=lambda item: old.names.index(item[0]) if item[0] in old.names else len(old)))
    return side_by_side(write(mask_node(old)[0], 2), write(mask_change(new, old), 2), whole=whole)
