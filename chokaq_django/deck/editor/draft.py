"""What somebody is making of a job: as it is typed, whether it fits, and what would change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from ...control import JobView
from ...control.payloads import fitting
from ...job.codec import decode, encode
from ...job.containers import RecordShape
from ...job.definition import JobType
from ...job.envelope import EnvelopeError, clean_priority, clean_queue, clean_tags
from ...job.failures import PayloadError
from ...job.registry import registry
from ...job.verbatim import Members, Node, read, write
from ...reading.masks import mask_change, mask_node, mask_text, unmask
from ...sentence import in_words
from ..diff import Diff, side_by_side
from ..inspector.payload import problem_of, shape_of
from ..text import page_text
from .fields import ABSENT, Field, Unread, build
from .places import field_at, list_at
from .posted import read_form
from .typed import known_type, line_ends, read_tags, tag_lines, whole_number

__all__ = ["Draft"]

FIELDS, JSON, RAW, NONE = "fields", "json", "raw", "none"
"""How the payload is shown: an input each, as JSON, as the text of a raw job, or not at all."""


@dataclass(slots=True)
class Draft:
    """``queue``, ``priority``, ``tags`` and ``type`` as typed. ``payload``: a tree, or text that nobody could read;
    secrets in it are masked, unless somebody asked for them. ``errors``: an input's name, or a path in the payload, to
    what is wrong there.
    """

    job: JobView
    view: str
    type: str
    queue: str
    priority: str
    tags: str
    revision: int
    payload: Node = None
    stored: Node = None
    """The payload that is there now, as the type reads it, with its secrets."""
    errors: dict[str, list[str]] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    """What is different, in the words of ``control.edit``; known once it was checked."""

    # -- where it comes from ------------------------------------------------------------------------------------------

    @classmethod
    def of_job(cls, job: JobView, view: str, *, may_see: bool) -> Draft:
        """The job as it is."""
        draft = cls(job, view, job.type, job.queue, str(job.priority), tag_lines(job.tags), job.revision)
        draft._settle(may_see)
        draft.payload = draft._masked()
        return draft

    @classmethod
    def of_form(cls, job: JobView, form: Mapping[str, str], *, may_see: bool) -> Draft:
        """What a form says of the job."""
        revision = form.get("revision", "")
        draft = cls(
            job,
            form.get("view", FIELDS),
            form.get("type", "").strip(),
            form.get("queue", ""),
            form.get("priority", ""),
            form.get("tags", ""),
            int(revision) if revision.isdecimal() and len(revision) < 10 else -1,
        )
        draft._settle(may_see)
        draft._read_payload(form)
        return draft

    @property
    def job_type(self) -> JobType | None:
        return registry.get(self.type)

    @property
    def shape(self) -> RecordShape | None:
        return shape_of(self.job_type)

    def _settle(self, may_see: bool) -> None:
        """How the payload can be shown, and what is stored."""
        job_type = self.job_type
        if not may_see or job_type is None:
            self.view = NONE
        elif job_type.wants_raw:
            self.view, self.stored = RAW, self.job.payload
        elif self.shape is None:
            self.view = NONE
        else:
            if self.view not in (FIELDS, JSON):
                self.view = FIELDS
            self.stored = _tree(self._lifted(job_type))
            if not isinstance(self.stored, Members):
                self.view = JSON

    def _lifted(self, job_type: JobType) -> str:
        """The stored payload, lifted to the type's schema version where it has an older one and fits."""
        if self.job.schema_version == job_type.schema_version:
            return self.job.payload
        try:
            return encode(job_type, decode(job_type, self.job.payload, self.job.schema_version))
        except PayloadError:
            return self.job.payload

    def _masked(self) -> Node:
        if self.view == RAW:
            return mask_text(self.stored).text
        return self.stored if isinstance(self.stored, Unread) else mask_node(self.stored)[0]

    def _read_payload(self, form: Mapping[str, str]) -> None:
        if self.view == NONE:
            return
        if self.view == RAW:
            self.payload = line_ends(form.get("raw:$", ""), self.job.payload)
        elif "json:$" in form:
            self.payload = _tree(form["json:$"].replace("\r\n", "\n"))
            if isinstance(self.payload, Unread):
                self._wrong("$", _("It is no JSON: %(error)s") % {"error": _why_not_json(form["json:$"])})
        else:
            # The inputs are those of the type that the form was made of, which may be changed in the same form.
            shape = shape_of(registry.get(form.get("form_type") or self.type))
            self.payload, errors = (self.stored, {}) if shape is None else read_form(shape, form)
            for path, message in errors.items():
                self._wrong(path, message)

    def _wrong(self, place: str, message: str) -> None:
        self.errors.setdefault(place, []).append(message)

    # -- how it is shown ----------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The payload as JSON, or as a raw job has it."""
        if isinstance(self.payload, str) and (self.view == RAW or isinstance(self.payload, Unread)):
            return str(self.payload)
        return write(self.payload, 2)

    def fields(self) -> list[Field]:
        """The inputs of the payload with what is wrong at each; call it once, for the errors that find no input stay
        in :attr:`errors` under their paths."""
        if self.view != FIELDS or self.shape is None:
            return []
        fields = build(self.shape, self.payload)
        for path in [path for path in self.errors if path.startswith("$")]:
            target = field_at(fields, path)
            if target is not None:
                shown = [text if path == target.path else f"{path}: {text}" for text in self.errors.pop(path)]
                target.errors += shown
        return fields

    @property
    def masked(self) -> int:
        """How many values of the payload stand masked in the form."""
        if self.view == RAW:
            return mask_text(str(self.stored)).hidden
        return 0 if isinstance(self.stored, Unread) else mask_node(self.stored)[1]

    @property
    def dropped(self) -> list[str]:
        """Names in the payload that the type does not have: no input shows them, and the form leaves them out."""
        if self.view != FIELDS or self.shape is None or not isinstance(self.stored, Members):
            return []
        return [name for name in self.stored.names if name not in self.shape.fields]

    # -- what is done to it -------------------------------------------------------------------------------------------

    def reveal(self) -> None:
        """Put the secrets in their places."""
        try:
            self.payload = self.stored if self.view == RAW else unmask(self.payload, self.stored)
        except LookupError as error:
            self._wrong(str(error.args[0]), _("nothing is stored here that a mask could stand for"))

    def look(self) -> None:
        """Say what is wrong with the payload as it is stored."""
        job_type = self.job_type
        if self.view in (FIELDS, JSON) and job_type is not None and job_type.codec is not None:
            text = self.job.payload if isinstance(self.stored, Unread) else write(self.stored)
            for problem in job_type.codec.problems(text):
                self._wrong(problem.path, _without_path(problem))

    def add_item(self, path: str) -> None:
        """An empty item at the end of the list there."""
        place = list_at(self.payload, self.shape, path)
        if place is not None:
            items, item = place
            items.append(Members() if isinstance(item, RecordShape) else ABSENT)

    def check(self) -> bool:
        """Whether all of it fits; fills :attr:`changes`."""
        self.changes = {}
        for name, read_it, now in (
            ("queue", clean_queue, self.job.queue),
            ("priority", lambda text: clean_priority(whole_number(text)), self.job.priority),
            ("tags", lambda text: json.loads(clean_tags(read_tags(text))), list(self.job.tags)),
            ("type", known_type, self.job.type),
        ):
            try:
                value = read_it(getattr(self, name))
            except EnvelopeError as error:
                self._wrong(name, in_words(error.message))
            else:
                if value != now:
                    self.changes[name] = value
        if self.view != NONE and "type" not in self.errors:
            self._check_payload()
        return not self.errors

    def _check_payload(self) -> None:
        if any(path.startswith("$") for path in self.errors):
            return
        try:
            text = self._whole_text()
            if self._is_untouched(text) and self.changes and "type" not in self.changes:
                return  # what does not fit may stay so while something else is put right
        except LookupError as error:
            self._wrong(str(error.args[0]), _("nothing is stored here that a mask could stand for"))
            return
        job_type = self.job_type
        for problem in job_type.codec.problems(text) if job_type is not None and job_type.codec else ():
            self._wrong(problem.path, _without_path(problem))
        if any(path.startswith("$") for path in self.errors):
            return
        try:
            fitted = fitting(self.type, text)
        except PayloadError as error:
            self._wrong(error.path, _without_path(error))
            return
        if not self._is_untouched(text) and fitted != (self.job.payload, self.job.schema_version):
            self.changes["payload"] = fitted[0]

    def _is_untouched(self, text: str) -> bool:
        """Whether the payload is what was shown: that the type would write it otherwise is nobody's edit."""
        if self.view == RAW:
            return text == self.job.payload
        if isinstance(self.stored, Unread):
            return False
        if self.view == FIELDS:  # in which an object's members have their order from the type
            return bool(json.loads(text, parse_float=str) == json.loads(write(self.stored), parse_float=str))
        return text == write(self.stored)

    def _whole_text(self) -> str:
        """The payload with its secrets."""
        if self.view == RAW:
            return str(self.payload)
        return write(unmask(self.payload, self.stored))

    def diff(self, *, whole: bool = False) -> Diff | None:
        """The payload as it is stored beside what is to be stored; secrets only say whether they are others."""
        new = self.changes.get("payload")
        if new is None:
            return None
        if self.view == RAW:
            return side_by_side(mask_text(self.job.payload).text, mask_text(new).text, whole=whole)
        before, after = _tree(self.job.payload), _tree(new)
        old = mask_text(self.job.payload, 2).text
        return side_by_side(old, write(mask_change(after, before), 2), whole=whole)

    def others(self) -> list[tuple[str, str, str]]:
        """Name, what is, and what is to be, of what changes beside the payload."""
        now = {"queue": self.job.queue, "priority": self.job.priority, "type": self.job.type}
        told = [(name, str(now[name]), str(self.changes[name])) for name in now if name in self.changes]
        if "tags" in self.changes:
            told.append(("tags", ", ".join(map(page_text, self.job.tags)), ", ".join(self.changes["tags"])))
        return told


# -- text and trees ----------------------------------------------------------------------------------------------------


def _tree(text: str) -> Node:
    try:
        return read(text)
    except ValueError:
        return Unread(text, as_json=True)


def _why_not_json(text: str) -> str:
    try:
        read(text)
    except ValueError as error:
        return str(error)
    return ""


def _without_path(error: PayloadError) -> str:
    return problem_of(error).removeprefix(f"{error.path}: ")
