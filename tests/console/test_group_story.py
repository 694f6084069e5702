"""The story of a group in words: equal rounds of events are one line, and nothing else is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.console.group_story import LEAST_ROUNDS, StoryRow, story_of
from kpybroker.machines.groups import stories
from kpybroker.machines.groups.stories import Event

ANN = ("a-1", "ann", "/10.0.0.1")
KINDS = (
    stories.JOINED,
    stories.LEFT,
    stories.SILENT,
    stories.FENCED,
    stories.REBALANCE,
    stories.GENERATION,
    stories.ASSIGNED,
)
OF_THE_GROUP = (stories.REBALANCE, stories.GENERATION, stories.ASSIGNED)


def crash_loop(rounds: int, every_ms: int = 6_000) -> list[Event]:
    """A member that joins, gets a generation and is removed, again and again, with another id each time."""
    return [
        event
        for number in range(rounds)
        for event in (
            Event(1_000 + number * every_ms, stories.JOINED, f"a-{number}", "ann", "/10.0.0.1"),
            Event(1_100 + number * every_ms, stories.GENERATION, detail=str(number)),
            Event(5_000 + number * every_ms, stories.SILENT, f"a-{number}", "ann", "/10.0.0.1"),
        )
    ]


def test_the_rounds_of_a_crash_loop_are_one_line() -> None:
    (row,) = story_of(crash_loop(17))
    assert row == StoryRow(
        5_000 + 16 * 6_000,
        "ann at 10.0.0.1 joined, sent no heartbeat in time and was removed",
        None,
        17,
        6.0,
        1_000,
        51,
    )


def test_what_comes_before_and_behind_a_loop_keeps_its_own_lines() -> None:
    bob = ("b-1", "bob", "/10.0.0.2")
    events = [Event(10, stories.JOINED, *bob), *crash_loop(5), Event(99_000, stories.LEFT, *bob)]
    rows = story_of(events)
    assert [(each.text, each.times) for each in rows[::2]] == [
        ("bob at 10.0.0.2 left", 1),
        ("bob at 10.0.0.2 joined", 1),
    ]
    assert rows[1].times == 5


@pytest.mark.parametrize("rounds", [1, LEAST_ROUNDS - 1])
def test_a_few_rounds_have_a_line_each(rounds: int) -> None:
    rows = story_of(crash_loop(rounds))
    assert len(rows) == 3 * rounds
    assert {each.times for each in rows} == {1}


def test_members_of_one_round_are_named_where_they_change() -> None:
    bob = ("b-1", "bob", "/10.0.0.2")
    events = [
        event
        for at in (0, 10, 20)
        for event in (Event(at, stories.JOINED, *ANN), Event(at, stories.LEFT, *ANN), Event(at, stories.LEFT, *bob))
    ]
    (row,) = story_of(events)
    assert row.text == "ann at 10.0.0.1 joined, left, bob at 10.0.0.2 left"


def test_rounds_of_the_group_alone_say_what_it_did() -> None:
    kinds = (stories.REBALANCE, stories.GENERATION)
    (row,) = story_of([Event(at * 1_000, kind) for at in range(4) for kind in kinds])
    assert (row.text, row.times, row.events) == ("a rebalance began, a new generation", 4, 8)


MEMBERS = st.sampled_from([ANN, ("b-1", "bob", "/10.0.0.2")])


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Events in order, of few kinds and members, so that rounds are frequent."""
    made = []
    at_ms = 0
    for _ in range(draw(st.integers(0, stories.MOST_EVENTS))):
        at_ms += draw(st.integers(0, 5_000))
        kind = draw(st.sampled_from(KINDS))
        made.append(Event(at_ms, kind, *(("", "", "") if kind in OF_THE_GROUP else draw(MEMBERS))))
    return made


@given(histories())
def test_every_event_is_in_one_line_in_the_order_of_time(events: list[Event]) -> None:
    rows = story_of(events)
    assert sum(each.events for each in rows) == len(events)
    ends = [each.timestamp_ms for each in rows]
    assert ends == sorted(ends, reverse=True)
    for each in rows:
        assert each.times == 1 or each.times >= LEAST_ROUNDS
        assert (each.first_ms is None) == (each.times == 1)
        if each.first_ms is not None and each.every_s is not None:
            assert each.first_ms + each.every_s * 1000 * (each.times - 1) <= each.timestamp_ms + 1e-6


@given(st.integers(LEAST_ROUNDS, 20), st.lists(st.sampled_from(KINDS), min_size=1, max_size=8, unique=True))
def test_rounds_of_any_length_are_one_line(rounds: int, kinds: list[str]) -> None:
    events = [
        Event(number * 100 + place, kind, *(("", "", "") if kind in OF_THE_GROUP else ANN))
        for number in range(rounds)
        for place, kind in enumerate(kinds)
    ]
    (row,) = story_of(events)
    assert (row.times, row.every_s) == (rounds, 0.1)
