"""Changes of a payload by RFC 6902 (JSON Patch): ``add``, ``replace``, ``remove``, and ``test`` as the condition.

It works on the text's own numbers (:mod:`.verbatim`), so that what a patch does not name keeps every digit, and no
error of it quotes a stored value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from ..sentence import Sentence
from .envelope import EnvelopeError
from .shape import MAX_DEPTH
from .text import safe_text
from .verbatim import Members, Node, Number, check_depth, parsed, write

__all__ = ["Change", "PatchRefusedError", "PayloadPatch", "pointer_of"]

MOST_CHANGES = 50
MOST_CHARACTERS = 100_000
PATH_TOLD = 200
"""Characters of a path in what is said of a patch: each job that it is not for keeps why."""
OPS = {"add": {"value"}, "replace": {"value"}, "remove": set[str](), "test": {"value", "absent"}}
"""Each with the members that it may have beside ``op`` and ``path``."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPE = re.compile(r"~(?![01])")
_STEP = re.compile(r"\.?(?P<name>[^.\[\]\"/]+)|\[(?P<index>[0-9]+|-)\]|\[(?P<key>\"(?:[^\"\\]|\\.)*\")\]")
_MISSING = object()


class PatchRefusedError(Exception):
    """A payload that a patch is not for. ``path``: a JSON Pointer. ``tested``: a condition of the patch does not hold;
    else there is nothing that could be changed at the path."""

    def __init__(self, path: str, message: str, *, tested: bool) -> None:
        self.path, self.message, self.tested = safe_text(path, PATH_TOLD), message, tested
        super().__init__(self.path, message)

    def __str__(self) -> str:
        return f"{self.path} {self.message}"


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a patch. ``absent``: a test that nothing is there; its value is None then."""

    op: str
    path: str
    value: Node = None
    absent: bool = False

    @property
    def steps(self) -> list[str]:
        return [step.replace("~1", "/").replace("~0", "~") for step in self.path.split("/")[1:]]

    @property
    def asks(self) -> bool:
        """Whether it can be made tells something of what the payload holds. It does not of a member at the top, which
        is added or replaced whatever is there."""
        return self.op != "add" or len(self.steps) > 1 or self.steps[0] == "-" or bool(_INDEX.fullmatch(self.steps[0]))

    @property
    def told_path(self) -> str:
        """The path as it may be stored and shown: names of broken payloads may hold what no engine takes."""
        return safe_text(self.path, PATH_TOLD)

    def node(self) -> Members:
        """As in the JSON of a patch."""
        node = Members([("op", self.op), ("path", self.path)])
        if self.absent:
            node.append(("absent", True))
        elif self.op != "remove":
            node.append(("value", self.value))
        return node


@dataclass(frozen=True, slots=True)
class PayloadPatch:
    """Changes, which are made in their order, all of them or none."""

    changes: tuple[Change, ...]

    @classmethod
    def of(cls, given: PayloadPatch | str | Iterable[Mapping[str, Any]]) -> PayloadPatch:
        """A patch given as JSON text, whose numbers stay as they are written, or as a list of operations.

        ``EnvelopeError`` for what is no patch or a larger one than may be, with the number and path of the bad
        operation. It is bounded before it is read: MOST_CHANGES operations, MOST_CHARACTERS characters as JSON, paths
        and values of MAX_DEPTH levels.
        """
        if isinstance(given, PayloadPatch):
            return given
        try:
            if not isinstance(given, str):
                given = json.dumps(list(islice(given, MOST_CHANGES + 1)), ensure_ascii=False, allow_nan=False)
            _check_length(given)
            node = parsed(given)
        except EnvelopeError:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvelopeError("patch", Sentence("is no JSON: %(error)s", error=safe_text(str(error), 200))) from None
        if not isinstance(node, list) or isinstance(node, Members) or not 1 <= len(node) <= MOST_CHANGES:
            raise EnvelopeError(
                "patch", Sentence("must be a list of 1 to %(most_changes)s operations", most_changes=MOST_CHANGES)
            )
        changes = _changes(node)
        if all(change.op == "test" for change in changes):
            raise EnvelopeError("patch", Sentence("only tests: it must add, replace or remove something"))
        return cls(changes)

    @classmethod
    def stored(cls, text: str) -> PayloadPatch:
        """The patch that :meth:`text` wrote, however long: a mask may be longer than what it hides."""
        return cls(_changes(parsed(text)))

    @property
    def asks(self) -> bool:
        """Whether its answer tells what a payload holds: that something is there, is not, or has some value."""
        return any(change.asks for change in self.changes)

    def writes(self, path: str) -> bool:
        """Whether the path of a codec's error (``$.lines[0].sku``) lies in a value of the patch's own."""
        try:
            steps = Change("test", pointer_of(path)).steps
        except EnvelopeError:  # the whole payload, or a path that names no single field
            return False
        return any(change.op in ("add", "replace") and steps[: len(change.steps)] == change.steps
                   for change in self.changes)  # fmt: skip

    @property
    def outline(self) -> list[str]:
        """What it does where, without values: what may be told to everybody."""
        return [f"{change.op} {change.told_path}" for change in self.changes if change.op != "test"]

    def text(self) -> str:
        """The patch as JSON."""
        return write([change.node() for change in self.changes])

    def apply(self, node: Node) -> Node:
        """The changed tree; what is not on the way to a change is shared with ``node``, which stays as it is.

        ``PatchRefusedError`` when a test does not hold, or there is nothing at a path.
        """
        for change in self.changes:
            if change.op == "test":
                _test(node, change)
            else:
                node = _changed(node, change, change.steps, 0)
        return node


def pointer_of(text: str) -> str:
    """A JSON Pointer for a path as people write it: itself, or a path such as ``amount``, ``$.lines[0].sku`` or
    ``$["a b"]``, as errors of payloads spell them. ``EnvelopeError`` for what is none."""
    text = text.strip()
    if text.startswith("/"):
        return _clean_path(text, text)
    rest = text[1:] if text.startswith(("$.", "$[")) or text == "$" else text
    steps, place = [], 0
    while place < len(rest):
        match = _STEP.match(rest, place)
        if match is None:
            raise EnvelopeError(
                "path",
                Sentence("%(text)s is no path such as currency, lines[0].sku or /a/b", text=repr(safe_text(text, 80))),
            )
        name, index, key = match["name"], match["index"], match["key"]
        try:
            steps.append(name if name is not None else index if index is not None else str(json.loads(key)))
        except ValueError:
            raise EnvelopeError(
                "path", Sentence("%(text)s has a name that is no JSON string", text=repr(safe_text(text, 80)))
            ) from None
        place = match.end()
    if not steps:
        raise EnvelopeError("path", Sentence("is needed, such as currency, lines[0].sku or /a/b"))
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _check_length(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise EnvelopeError(
            "patch",
            Sentence(
                "must have at most %(most_characters)s characters, not %(text)s",
                most_characters=MOST_CHARACTERS,
                text=len(text),
            ),
        )


# -- reading -----------------------------------------------------------------------------------------------------------


def _changes(node: Node) -> tuple[Change, ...]:
    return tuple(_change(number, operation) for number, operation in enumerate(node, 1))


def _change(number: int, node: Node) -> Change:
    where = Sentence("operation %(number)s", number=number)
    if not isinstance(node, Members):
        raise EnvelopeError("patch", Sentence("%(where)s: must be an object with op and path", where=where))
    op, path = node.get("op"), node.get("path")
    if type(op) is not str or op not in OPS:
        raise EnvelopeError("patch", Sentence("%(where)s: op must be one of %(ops)s", where=where, ops=", ".join(OPS)))
    if type(path) is not str:
        raise EnvelopeError("patch", Sentence("%(where)s: path must be a JSON Pointer such as /currency", where=where))
    where = Sentence("operation %(number)s (%(path)s)", number=number, path=safe_text(path, 80))
    _clean_path(path, where, "patch")
    if path.count("/") > MAX_DEPTH:
        raise EnvelopeError(
            "patch", Sentence("%(where)s: a path must have at most %(most)s steps", where=where, most=MAX_DEPTH)
        )
    unknown = sorted(set(node.names) - {"op", "path"} - OPS[op])
    if unknown:
        raise EnvelopeError(
            "patch",
            Sentence(
                "%(where)s: %(op)s takes no %(unknown)s", where=where, op=op, unknown=repr(safe_text(unknown[0], 40))
            ),
        )
    absent = node.get("absent", False)
    if not isinstance(absent, bool):
        raise EnvelopeError("patch", Sentence("%(where)s: absent must be true or false", where=where))
    value = node.get("value", _MISSING)
    if op != "remove" and (value is _MISSING) is not absent:
        if op == "test":
            needed = Sentence("%(where)s: test needs a value, or absent: true, and not both", where=where)
        else:
            needed = Sentence("%(where)s: %(op)s needs a value", where=where, op=op)
        raise EnvelopeError("patch", needed)
    try:
        check_depth(value)
    except ValueError:
        deep = Sentence("%(where)s: its value is nested more than %(most)s levels deep", where=where, most=MAX_DEPTH)
        raise EnvelopeError("patch", deep) from None
    return Change(op, path, None if value is _MISSING else value, absent)


def _clean_path(path: str, where: str, field: str = "path") -> str:
    if not path.startswith("/"):
        raise EnvelopeError(field, Sentence("%(where)s: a path must begin with /, and lead to a field", where=where))
    if _ESCAPE.search(path):
        raise EnvelopeError(field, Sentence("%(where)s: ~ in a path is written ~0, and / in a name ~1", where=where))
    return path


# -- applying ----------------------------------------------------------------------------------------------------------


def _test(node: Node, change: Change) -> None:
    for step in change.steps:
        node = _item(node, step)
    if change.absent:
        if node is not _MISSING:
            raise PatchRefusedError(change.path, "is there", tested=True)
    elif node is _MISSING:
        raise PatchRefusedError(change.path, "is not there", tested=True)
    elif not _same(node, change.value):
        raise PatchRefusedError(change.path, "has another value", tested=True)


def _item(node: Node, step: str) -> Node:
    if isinstance(node, Members):
        return node.get(step, _MISSING)
    if isinstance(node, list) and _INDEX.fullmatch(step) and int(step) < len(node):
        return node[int(step)]
    return _MISSING


def _changed(node: Node, change: Change, steps: list[str], depth: int) -> Node:
    step, last = steps[depth], depth == len(steps) - 1
    if isinstance(node, Members):
        # An object may have a hundred thousand members, and a patch fifty operations on them.
        places = [place for place, (name, _) in enumerate(node) if name == step]
        if last and change.op == "remove" and places:
            return Members(member for member in node if member[0] != step)
        changed = Members(node)
        if last and change.op == "add" and not places:
            changed.append((step, change.value))
            return changed
        if places and not (last and change.op == "remove"):
            new = change.value if last else _changed(node[places[-1]][1], change, steps, depth + 1)
            for place in places:
                changed[place] = (step, new)
            return changed
    elif isinstance(node, list):
        if last and change.op == "add" and (step == "-" or (_INDEX.fullmatch(step) and int(step) <= len(node))):
            index = len(node) if step == "-" else int(step)
            return [*node[:index], change.value, *node[index:]]
        if _INDEX.fullmatch(step) and int(step) < len(node):
            index = int(step)
            if last and change.op == "remove":
                return [*node[:index], *node[index + 1 :]]
            new = change.value if last else _changed(node[index], change, steps, depth + 1)
            return [*node[:index], new, *node[index + 1 :]]
    missing = "/" + "/".join(change.path.split("/")[1 : depth + 2])
    raise PatchRefusedError(missing, "is not there", tested=False)


def _same(one: Node, other: Node) -> bool:
    """Whether two trees are the same JSON: numbers by their values, members in any order."""
    if isinstance(one, Number) or isinstance(other, Number):
        return isinstance(one, Number) and isinstance(other, Number) and _same_number(one, other)
    if isinstance(one, Members) or isinstance(other, Members):
        if not (isinstance(one, Members) and isinstance(other, Members)):
            return False
        ones, others = dict(one), dict(other)
        return ones.keys() == others.keys() and all(_same(value, others[name]) for name, value in ones.items())
    if isinstance(one, list) or isinstance(other, list):
        both = isinstance(one, list) and isinstance(other, list) and len(one) == len(other)
        return both and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _same_number(one: Number, other: Number) -> bool:
    try:
        return str(one) == str(other) or Decimal(one) == Decimal(other)
    except ArithmeticError:  # an exponent beyond all measure
        return False
