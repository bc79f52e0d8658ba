"""What a browser is told of a topic, and that whatever it missed, it ends with the newest state."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chokaq_django.deck.feed.changes import GONE, TopicState

Section = dict[str, Any]


def keyed(rows: dict[str, Any], as_of: float = 1.0, more: int = 0) -> Section:
    return {"as_of": as_of, "more": more, "order": list(rows), "rows": rows}


def topic(**sections: Section) -> TopicState:
    state = TopicState("overview")
    state.update(sections, 1.0)
    return state


class Screen:
    """A browser, as ``docs/reference/deck-feed.md`` tells it to behave."""

    def __init__(self) -> None:
        self.seq: int | None = None
        self.sections: dict[str, Section] = {}
        self.console: list[str] = []

    def take(self, messages: list[dict[str, Any]]) -> None:
        for message in copy.deepcopy(messages):
            if message["type"] == "snapshot":
                self.sections = message["sections"]
            else:
                assert message["base"] == self.seq, "a gap"
                if message["type"] == "event":
                    self.console += [event["id"] for event in message["events"]]
                else:
                    for name, section in message["sections"].items():
                        self._merge(name, section)
            self.seq = message["seq"]

    def _merge(self, name: str, section: Section) -> None:
        if "rows" not in section or section.pop("whole", False):
            self.sections[name] = section
            return
        old = self.sections.setdefault(name, {"rows": {}, "order": []})
        for key in section.pop("gone"):
            old["rows"].pop(key, None)  # it may have come and gone between
        rows = {**old["rows"], **section.pop("rows")}
        self.sections[name] = {**old, **section, "rows": rows}

    def shown(self) -> dict[str, Any]:
        """The sections without the times at which they were read."""
        return {
            name: {key: value for key, value in one.items() if key != "as_of"} for name, one in self.sections.items()
        }


def test_nothing_new_is_nothing_to_tell() -> None:
    state = topic(tiles={"as_of": 1.0, "pending": 3}, queues=keyed({"mail": {"due": 1}}))
    seq = state.seq
    assert not state.update({"tiles": {"as_of": 2.0, "pending": 3}, "queues": keyed({"mail": {"due": 1}}, 2.0)}, 2.0)
    assert state.seq == seq
    assert state.since(seq) == []
    assert state.snapshot()["sections"]["tiles"]["as_of"] == 2.0, "but whoever asks for all of it sees how fresh it is"


def test_a_delta_has_what_has_changed_and_nothing_else() -> None:
    state = topic(
        tiles={"as_of": 1.0, "pending": 3},
        fleet=keyed({"w1": {"busy": 1}}),
        queues=keyed({"mail": {"due": 1}, "old": {"due": 0}, "zoo": {"due": 5}}),
    )
    base = state.seq
    queues = keyed({"mail": {"due": 2}, "new": {"due": 0}, "zoo": {"due": 5}}, 2.0)
    assert state.update(
        {"tiles": {"as_of": 2.0, "pending": 3}, "fleet": keyed({"w1": {"busy": 1}}, 2.0), "queues": queues}, 2.0
    )
    (delta,) = state.since(base)
    assert delta == {
        "type": "delta",
        "topic": "overview",
        "base": base,
        "seq": base + 1,
        "at": 2.0,
        "sections": {
            "queues": {
                "as_of": 2.0,
                "rows": {"mail": {"due": 2}, "new": {"due": 0}},
                "gone": ["old"],
                "order": ["mail", "new", "zoo"],
            }
        },
    }


def test_whoever_is_behind_gets_one_delta_over_all_that_happened() -> None:
    state = topic(queues=keyed({"mail": {"due": 0}}))
    base = state.seq
    for due in range(1, 51):
        state.update({"queues": keyed({"mail": {"due": due}})}, due)
    (delta,) = state.since(base)
    assert (delta["base"], delta["seq"]) == (base, base + 50)
    assert delta["sections"]["queues"]["rows"] == {"mail": {"due": 50}}


def test_an_unknown_state_is_answered_by_all_of_it() -> None:
    state = TopicState("overview", first=1_000_000)
    for due in range(3):
        state.update({"queues": keyed({"mail": {"due": due}})}, due)
    for base in (0, 7, 1_000_000, state.seq + 1):
        (snapshot,) = state.since(base)
        assert snapshot["type"] == "snapshot"


def test_a_section_is_told_whole_to_whoever_missed_what_is_forgotten() -> None:
    state = topic(matrix=keyed({"first": {"n": 0}}))
    base = state.seq
    for number in range(GONE + 10):
        state.update({"matrix": keyed({f"job-{number}": {"n": number}})}, number)
    (delta,) = state.since(base)
    section = delta["sections"]["matrix"]
    assert section["whole"] is True
    assert list(section["rows"]) == [f"job-{GONE + 9}"]
    screen = Screen()
    screen.seq, screen.sections = base, {"matrix": keyed({"first": {"n": 0}})}
    screen.take([delta])
    assert screen.shown()["matrix"]["rows"] == {f"job-{GONE + 9}": {"n": GONE + 9}}


def events(*names: str) -> Section:
    return {"as_of": 1.0, "rows": [{"id": name} for name in names]}


def test_a_happening_is_told_once_and_oldest_first() -> None:
    screen, state = Screen(), topic(events=events("b", "a"))
    screen.take([state.snapshot()])
    assert [event["id"] for event in screen.sections["events"]["rows"]] == ["b", "a"]
    state.update({"events": events("d", "c", "b")}, 2.0)
    screen.take(state.since(screen.seq or 0))
    assert screen.console == ["c", "d"]
    assert not state.update({"events": events("d", "c")}, 3.0), "what falls out is no news"
    state.update({"events": events("e", "d", "c")}, 4.0)
    screen.take(state.since(screen.seq or 0))
    assert screen.console == ["c", "d", "e"]


rows = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2), max_size=6)
looks = st.lists(
    st.tuples(rows, st.integers(0, 1), st.integers(0, 2), st.booleans(), st.booleans()), min_size=1, max_size=30
)


@given(looks)
def test_a_browser_that_misses_states_ends_with_the_newest(
    steps: list[tuple[dict[str, int], int, int, bool, bool]],
) -> None:
    state, screen = TopicState("overview", first=5_000_000), Screen()
    for number, (found, more, pending, reverse, listens) in enumerate(steps):
        ordered = dict(sorted(found.items(), reverse=reverse))
        section = keyed({key: {"n": value} for key, value in ordered.items()}, number, more)
        state.update({"queues": section, "tiles": {"as_of": number, "pending": pending}}, number)
        if listens:
            screen.take([state.snapshot()] if screen.seq is None else state.since(screen.seq))
            assert screen.shown() == {
                "queues": {"more": more, "order": list(ordered), "rows": section["rows"]},
                "tiles": {"pending": pending},
            }
