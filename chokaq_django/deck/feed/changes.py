"""One topic's newest state, and what has changed in it since any earlier one that is still remembered."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TopicState"]

GONE = 1_000
"""Rows that have gone and are remembered, by section: whoever is further behind gets the section whole."""

Section = dict[str, Any]
Message = dict[str, Any]


@dataclass(slots=True)
class _Part:
    """One section. Numbers are the topic's ``seq`` at which something became as it is."""

    plain: Section = field(default_factory=dict)
    """What is not a row, the time of reading left out."""
    as_of: float | None = None
    changed: int = 0
    plain_changed: int = 0
    rows: dict[str, Section] | None = None
    row_changed: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    order_changed: int = 0
    gone: OrderedDict[str, int] = field(default_factory=OrderedDict)
    whole_since: int = 0
    """A client that has an older state than this needs all of it: what has gone since is not known any more."""

    def update(self, new: Section, seq: int) -> bool:
        """Take the new state; whether anything but the time of reading is new."""
        self.as_of = new.get("as_of")
        plain = {key: value for key, value in new.items() if key not in ("as_of", "rows", "order")}
        changed = plain != self.plain
        if changed:
            self.plain, self.plain_changed = plain, seq
        rows = new.get("rows")
        if isinstance(rows, dict):
            changed = self._update_rows(rows, new["order"], seq) or changed
        if changed:
            self.changed = seq
        return changed

    def _update_rows(self, rows: dict[str, Section], order: list[str], seq: int) -> bool:
        old = self.rows or {}
        changed = self.rows is None
        for key, row in rows.items():
            if old.get(key) != row:
                self.row_changed[key] = seq
                self.gone.pop(key, None)
                changed = True
        for key in old.keys() - rows.keys():
            del self.row_changed[key]
            self.gone[key] = seq
            changed = True
        while len(self.gone) > GONE:
            _, self.whole_since = self.gone.popitem(last=False)
        if order != self.order:
            self.order, self.order_changed, changed = order, seq, True
        self.rows = rows
        return changed

    def whole(self) -> Section:
        found = dict(self.plain) if self.as_of is None else {"as_of": self.as_of, **self.plain}
        return found if self.rows is None else {**found, "rows": self.rows, "order": self.order}

    def since(self, base: int) -> Section:
        """What is new since the state ``base``."""
        if self.rows is None:
            return self.whole()
        if base < self.whole_since:
            return {**self.whole(), "whole": True}
        found: Section = {
            "as_of": self.as_of,
            "rows": {key: self.rows[key] for key, changed in self.row_changed.items() if changed > base},
            "gone": [key for key, seq in self.gone.items() if seq > base],
        }
        if self.plain_changed > base:
            found |= self.plain
        if self.order_changed > base:
            found["order"] = self.order
        return found


class TopicState:
    """Counts its states in ``seq``, from ``first`` on, which is none yet. For one thread at a time.

    States of a topic that was forgotten meanwhile are told from these by their numbers, when ``first`` is beyond them.
    """

    def __init__(self, topic: str, first: int = 0) -> None:
        self.topic = topic
        self.first = self.seq = first
        self.at = 0.0
        self._parts: dict[str, _Part] = {}
        self._happenings: list[Section] | None = None
        self._told: dict[str, int] = {}
        """Ids of these happenings, and the state with which each came."""

    def update(self, sections: dict[str, Section], at: float) -> bool:
        """Take a new look at all sections; whether anything has changed."""
        self.at = at
        seq = self.seq + 1
        changed = self.seq == self.first
        for name, section in sections.items():
            if name == "events":
                changed = self._update_events(section, seq) or changed
            else:
                changed = self._parts.setdefault(name, _Part()).update(section, seq) or changed
        if changed:
            self.seq = seq
        return changed

    def _update_events(self, section: Section, seq: int) -> bool:
        self._happenings = section["rows"]
        told, self._told = self._told, {row["id"]: seq for row in section["rows"]}
        # What has fallen out of the newest ones is forgotten; should it come back, browsers know it by its id.
        self._told |= {name: since for name, since in told.items() if name in self._told}
        return self._told.keys() - told.keys() != set()

    def snapshot(self) -> Message:
        """All of it, as a message."""
        sections = {name: part.whole() for name, part in self._parts.items()}
        if self._happenings is not None:
            sections["events"] = {"as_of": self.at, "rows": self._happenings}
        return {"type": "snapshot", "topic": self.topic, "seq": self.seq, "at": self.at, "sections": sections}

    def since(self, base: int) -> list[Message]:
        """What a client needs that has the state ``base``: messages, none when there is nothing new."""
        if base == self.seq:
            return []
        if not self.first < base < self.seq:
            return [self.snapshot()]
        messages: list[Message] = []
        common = {"topic": self.topic, "seq": self.seq, "at": self.at}
        sections = {name: part.since(base) for name, part in self._parts.items() if part.changed > base}
        if sections:
            messages.append({"type": "delta", **common, "base": base, "sections": sections})
        events = [row for row in reversed(self._happenings or ()) if self._told[row["id"]] > base]
        if events:
            # It follows the delta, if there is one.
            messages.append({"type": "event", **common, "base": self.seq if sections else base, "events": events})
        return messages
