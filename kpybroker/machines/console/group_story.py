"""The story of a group's rebalances in words. Equal events that come again and again are one line. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kpybroker.machines.groups import stories
from kpybroker.machines.groups.stories import Event

_WORDS: Final = {
    stories.JOINED: "joined",
    stories.REJOINED: "asked for a rebalance",
    stories.LEFT: "left",
    stories.SILENT: "sent no heartbeat in time and was removed",
    stories.LATE_JOIN: "did not rejoin in time and was removed",
    stories.LATE_SYNC: "did not sync in time and was removed",
    stories.LATE_REVOKE: "did not give up its partitions or tasks in time and was removed",
    stories.FENCED: "is at another epoch and has to join again",
}
_OF_THE_GROUP: Final = {
    stories.REBALANCE: "a rebalance began",
    stories.GENERATION: "a new generation",
    stories.ASSIGNED: "a new assignment",
}
LEAST_ROUNDS: Final = 3
"""The rounds of equal events from which on they are one line."""
LONGEST_ROUND: Final = 8


@dataclass(frozen=True, slots=True)
class StoryRow:
    """An event in the life of the group, or equal rounds of events that follow each other."""

    timestamp_ms: int
    """The time of the event, or of the last one."""
    text: str
    after_s: float | None
    """For a new generation: how long the rebalance took."""
    times: int = 1
    every_s: float | None = None
    """For several rounds: the time from one to the next, and that of the first event."""
    first_ms: int | None = None
    events: int = 1
    """The events that this line stands for."""


class _StoryLine(NamedTuple):
    """An event with its line, and with the words that it shares with others of its kind."""

    row: StoryRow
    label: str
    words: str


def story_of(events: Sequence[Event]) -> tuple[StoryRow, ...]:
    """The story in words, the latest first."""
    lines = _in_words(events)
    rows: list[StoryRow] = []
    place = 0
    while place < len(lines):
        length, rounds = _rounds_at(lines, place)
        if rounds < LEAST_ROUNDS:
            rows.append(lines[place].row)
            place += 1
        else:
            rows.append(_one_line(lines[place : place + length * rounds], length, rounds))
            place += length * rounds
    return tuple(reversed(rows))


def _rounds_at(lines: Sequence[_StoryLine], place: int) -> tuple[int, int]:
    """The length of the shortest round that begins here and comes again most, and how often it comes."""
    kinds = [each[1:] for each in lines[place:]]
    best = 1, 1
    for length in range(1, min(LONGEST_ROUND, len(kinds) // LEAST_ROUNDS) + 1):
        rounds = 1
        while kinds[rounds * length : (rounds + 1) * length] == kinds[:length]:
            rounds += 1
        if rounds >= LEAST_ROUNDS and rounds * length > best[0] * best[1]:
            best = length, rounds
    return best


def _one_line(lines: Sequence[_StoryLine], length: int, rounds: int) -> StoryRow:
    """The line for several rounds: what the members did, or without any, what the group did."""
    words: list[str] = []
    label = ""
    of_members = [each for each in lines[:length] if each.label]
    for each in of_members or lines[:length]:
        words.append(each.words if each.label == label else f"{each.label} {each.words}")
        label = each.label
    first_ms, last_ms = lines[0].row.timestamp_ms, lines[-1].row.timestamp_ms
    every_s = (lines[-length].row.timestamp_ms - first_ms) / (rounds - 1) / 1000
    return StoryRow(last_ms, ", ".join(words), None, rounds, every_s, first_ms, len(lines))


def _in_words(events: Sequence[Event]) -> list[_StoryLine]:
    lines: list[_StoryLine] = []
    began_ms: int | None = None
    last_joined = ""
    for event in events:
        after_s, label, words = None, "", _OF_THE_GROUP.get(event.what, "")
        if event.what == stories.REBALANCE:
            began_ms, last_joined = event.timestamp_ms, ""
        if event.what in _WORDS:
            label, words = member_label(event), _WORDS[event.what]
            if event.what in (stories.JOINED, stories.REJOINED):
                last_joined = label
        if event.what == stories.GENERATION:
            text = f"generation {event.detail}"
            if began_ms is not None:
                after_s = (event.timestamp_ms - began_ms) / 1000
                if last_joined and after_s >= 1:
                    text += f"; the last new member was {last_joined}"
            began_ms = None
        elif event.what == stories.ASSIGNED:
            text = f"assignment of epoch {event.detail}"
        else:
            text = f"{label} {words}".strip() + (f": {event.detail}" if event.detail else "")
        lines.append(_StoryLine(StoryRow(event.timestamp_ms, text, after_s), label, words))
    return lines


def member_label(event: Event) -> str:
    """The member of an event."""
    return f"{event.client_id or 'a client without an id'} at {event.client_host.removeprefix('/')}"
