"""A payload as people read it: each field with the type that the code gives it, and its JSON indented."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ...control import JobView
from ...job.codec import decode, encode
from ...job.containers import ArrayShape, DictShape, RecordShape, TupleShape, UnionShape
from ...job.definition import JobType
from ...job.failures import PayloadError
from ...job.registry import registry
from ...job.shape import Flat, Shape
from ...job.verbatim import Members, Node, Number, kind_of, read, step_of, write
from ...reading.masks import MASK, is_secret, mask_node, mask_text
from ..text import code, page_text, shortened

__all__ = ["JsonShown", "PayloadRow", "PayloadShown", "problem_of", "shape_of", "shown_json", "shown_payload"]

MOST_ROWS = 300
DEEPEST = 12
LONGEST = 1_000
"""Characters of one value in a row; all of it is in the JSON."""
MOST_CHARACTERS = 20_000
"""Characters of all rows together."""


@dataclass(slots=True)
class PayloadRow:
    """One field or item. ``depth``: how far it stands to the right. ``value``: text; empty for what holds others."""

    name: str
    type: str
    value: str = ""
    depth: int = 0
    note: str = ""
    tone: str = ""
    path: str = "$"


@dataclass(slots=True)
class JsonShown:
    """Stored JSON, indented, as HTML. ``hidden``: how many values are masked."""

    block: SafeString | str
    hidden: int = 0


@dataclass(slots=True)
class PayloadShown(JsonShown):
    """``problem``: why the code cannot read it. ``remark``: what else is to be known. ``cut``: there are more rows."""

    rows: list[PayloadRow] = field(default_factory=list)
    cut: bool = False
    problem: str = ""
    remark: str = ""


def shown_payload(job: JobView, *, revealed: bool, all_at: str | None = "") -> PayloadShown:
    """The job's payload; ``revealed``: with the values that are masked otherwise. ``all_at``: see :func:`code`."""
    job_type = registry.get(job.type)
    text = shown_json(job.payload, revealed=revealed, all_at=all_at)
    answer = PayloadShown(text.block, text.hidden)
    stored = job.payload
    if job_type is None:
        answer.remark = _("The code here does not know the type %(type)s: field types are those of JSON.") % {
            "type": job.type
        }
    elif job_type.wants_raw:
        answer.remark = _("A raw job: its handler gets this text as it is.")
    else:
        try:
            record = decode(job_type, stored, job.schema_version)
        except PayloadError as error:
            answer.problem = problem_of(error)
        else:
            if job.schema_version != job_type.schema_version:
                stored = encode(job_type, record)
                versions = {"stored": job.schema_version, "now": job_type.schema_version}
                remark = _("Stored as schema version %(stored)d; the fields are shown lifted to version %(now)d.")
                answer.remark = remark % versions
    try:
        node = read(stored)
        rows = _rows(shape_of(job_type), node if revealed else mask_node(node)[0])
        answer.rows, answer.cut = _first_rows(rows)
    except ValueError:
        answer.problem = answer.problem or _("It is no JSON, or nested too deep to be shown field by field.")
    return answer


def _first_rows(rows: Iterator[PayloadRow]) -> tuple[list[PayloadRow], bool]:
    """As many as one reads, and whether there are more."""
    found: list[PayloadRow] = []
    characters = 0
    for row in rows:
        characters += len(row.value)
        if len(found) == MOST_ROWS or characters > MOST_CHARACTERS:
            return found, True
        found.append(row)
    return found, False


def shown_json(text: str, *, revealed: bool, all_at: str | None = "") -> JsonShown:
    """JSON with its digits as they are; what is none is shown as it is."""
    if not revealed:
        masked = mask_text(text, 2)
        return JsonShown(code(masked.text, all_at), masked.hidden)
    try:
        return JsonShown(code(write(read(text), 2), all_at))
    except ValueError:
        return JsonShown(code(text, all_at))


def problem_of(error: PayloadError) -> str:
    """The path and what is wrong there; a codec's message may quote a value, which a masked field keeps to itself."""
    steps = error.path.replace("[", ".").replace("]", "").replace('"', "").split(".")
    if any(is_secret(step) for step in steps if step):
        return _("%(path)s: the value does not fit.") % {"path": error.path}
    return page_text(error)


def shape_of(job_type: JobType | None) -> RecordShape | None:
    """What the payloads of a type are made of; None where nothing is known of it."""
    if job_type is None or job_type.codec is None:
        return None
    try:
        return job_type.codec.shape
    except PayloadError:  # a class that cannot be stored: a check says so
        return None


# -- rows --------------------------------------------------------------------------------------------------------------


def _rows(shape: Shape | None, node: Node, name: str = "", depth: int = -1, path: str = "$") -> Iterator[PayloadRow]:
    if isinstance(shape, UnionShape):
        kind = shape.name
        shape = shape.option_for(_plain(node))
    else:
        kind = shape.name if shape is not None else kind_of(node)
    holds = isinstance(node, list) and node and depth < DEEPEST
    if depth >= 0:
        row = PayloadRow(name, kind, "" if holds else _value(node), depth, path=path)
        if shape is not None and holds and not _fits(shape, node):
            row.note, row.tone = _("not what the type says"), "bad"
        yield row
    if not holds:
        return
    if isinstance(node, Members):
        yield from _members(shape, node, depth + 1, path)
    else:
        for index, item in enumerate(node):
            yield from _rows(_item_shape(shape, index), item, f"[{index}]", depth + 1, f"{path}[{index}]")


def _members(shape: Shape | None, node: Members, depth: int, path: str) -> Iterator[PayloadRow]:
    known = shape.fields if isinstance(shape, RecordShape) else {}
    there = set(node.names)
    for name, value in node:
        inner = known.get(name) or (shape.value if isinstance(shape, DictShape) else None)
        rows = _rows(inner, value, page_text(name), depth, path + step_of(name))
        first = next(rows)
        if known and name not in known:
            first.note, first.tone, first.type = _("the type has no such field"), "bad", kind_of(value)
        yield first
        yield from rows
    for name, inner in known.items():
        if name not in there:
            note, tone = _absent(shape, name)
            yield PayloadRow(name, inner.name, "", depth, note, tone, path + step_of(name))


def _absent(shape: Any, name: str) -> tuple[str, str]:
    if shape.mapping:
        return (_("missing"), "bad") if name in shape.required else (_("not given"), "quiet")
    optional = {
        each.name
        for each in dataclasses.fields(shape.cls)
        if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    }
    return (_("not given: the type's default"), "quiet") if name in optional else (_("missing"), "bad")


def _item_shape(shape: Shape | None, index: int) -> Shape | None:
    if isinstance(shape, ArrayShape):
        return shape.item
    if isinstance(shape, TupleShape) and index < len(shape.items):
        return shape.items[index]
    return None


def _fits(shape: Shape, node: Node) -> bool:
    """Whether what holds other values is of the kind that the shape says; a scalar's fit is the codec's matter."""
    if isinstance(shape, (RecordShape, DictShape)):
        return isinstance(node, Members)
    if isinstance(shape, (ArrayShape, TupleShape)):
        return not isinstance(node, Members)
    return not isinstance(shape, Flat)


def _plain(node: Node) -> Any:
    """What :meth:`UnionShape.option_for` asks: parsed JSON of this kind."""
    return {} if isinstance(node, Members) else [] if isinstance(node, list) else node


def _value(node: Node) -> str:
    if node == MASK:
        return MASK
    if isinstance(node, str) and not isinstance(node, Number) and node and node == node.strip():
        text = page_text(node)
    else:
        text = write(node)
    return shortened(text, LONGEST)
