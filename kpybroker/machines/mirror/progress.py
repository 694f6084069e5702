"""The progress log of mirrors: what its records mean, and what all brokers and commands conclude from them.

Each value is a JSON array, its first element the kind. The topic has one partition, so all read the same order:

- ``begin``: a broker begins to find the places of a mirror, and wants reports with its token.
- ``want``: whether it wants to hear of partitions that hold no markers, too.
- ``report``: the state of partitions at their leaders.
- ``places``: places that have grown. All of one record belong together.
- ``cut``: these topics are cut at the places known by then. Later ones count no more.
- ``done``: a partition is cut, in all of its replicas in sync.
- ``forget``: a topic is no mirror any more.
- ``state``: why partitions wait, for people.

Two brokers may both think for a moment that they find the places. Each finds consistent ones, and so are the larger
ones of both.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport, Place

TOPIC: Final = "__kpybroker_mirrors"
BEGIN: Final = "begin"
WANT: Final = "want"
REPORT: Final = "report"
PLACES: Final = "places"
CUT: Final = "cut"
DONE: Final = "done"
FORGET: Final = "forget"
STATE: Final = "state"


class Finder(NamedTuple):
    """A broker that finds the places of a mirror."""

    token: str
    holds: bool
    """Whether leaders hold markers back. If not, nothing is known of the source's transactions."""


class CutPart(NamedTuple):
    """A partition that a failover has cut."""

    end: int
    records: int
    """The offsets that were cut off."""


class MirrorWords(NamedTuple):
    """The state of a mirror in words."""

    problem: str = ""
    waits: Mapping[Place, str] = {}


class PartReport(NamedTuple):
    """A leader's report of one partition."""

    place: Place
    report: LeaderReport


def _text(kind: str, *fields: object) -> bytes:
    return json.dumps([kind, *fields], separators=(",", ":")).encode()


def begin(mirror: str, finder: Finder) -> bytes:
    """A record that begins."""
    return _text(BEGIN, mirror, finder.token, finder.holds)


def want(mirror: str, is_wanted: bool) -> bytes:  # noqa: FBT001
    """A record that asks for all reports, or only for those with markers."""
    return _text(WANT, mirror, is_wanted)


def report(mirror: str, token: str, parts: Iterable[PartReport]) -> bytes:
    """A record with reports."""
    rows = []
    for (topic_id, index), each in parts:
        markers = [[offset, producer, epoch, int(is_empty)] for offset, producer, epoch, is_empty in each.markers]
        rows.append([topic_id.hex(), index, each.leader_epoch, each.first, each.listed_to, each.replicated, markers])
    return _text(REPORT, mirror, token, rows)


def places(found: Mapping[Place, int]) -> bytes:
    """A record with places."""
    return _text(PLACES, [[topic_id.hex(), index, offset] for (topic_id, index), offset in found.items()])


def cut(topics: Iterable[bytes]) -> bytes:
    """A record that cuts topics."""
    return _text(CUT, [each.hex() for each in topics])


def done(place: Place, part: CutPart) -> bytes:
    """A record of a partition that is cut."""
    return _text(DONE, place[0].hex(), place[1], part.end, part.records)


def forget(topic_id: bytes) -> bytes:
    """A record by which nothing is known of a topic."""
    return _text(FORGET, topic_id.hex())


def state(mirror: str, words: MirrorWords) -> bytes:
    """A record for people."""
    rows = [[topic_id.hex(), index, text] for (topic_id, index), text in words.waits.items()]
    return _text(STATE, mirror, words.problem, rows)


class Progress:
    """The conclusions from all records so far."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Know nothing."""
        self.places: dict[Place, int] = {}
        """The consistent place of each partition that has one."""
        self.cut: set[bytes] = set()
        """The topics that a failover cuts, by their ids."""
        self.done: dict[Place, CutPart] = {}
        self.finders: dict[str, Finder] = {}
        self.reported: dict[str, set[Place]] = {}
        """The partitions that the finder has had a report of. No later leader may show more than the one before."""
        self.wanted: dict[str, bool] = {}
        self.words: dict[str, MirrorWords] = {}

    def apply(self, value: bytes) -> tuple[str, str, list[PartReport]] | None:
        """Take over a record. Return the mirror, the token and the parts of a report. What is not readable, since
        somebody else wrote it, is passed over."""
        try:
            kind, *fields = json.loads(value)
            if kind == REPORT:
                mirror, token, rows = fields
                parts = [_part(row) for row in rows]
                if mirror in self.finders and self.finders[mirror].token == token:
                    self.reported.setdefault(mirror, set()).update(each.place for each in parts)
                return mirror, token, parts
            self._apply(kind, fields)
        except (ValueError, TypeError, LookupError, RecursionError):
            pass
        return None

    def _apply(self, kind: str, fields: list[Any]) -> None:
        if kind == PLACES:
            for topic, index, offset in fields[0]:
                place = bytes.fromhex(topic), index
                if place[0] not in self.cut:
                    self.places[place] = max(offset, self.places.get(place, 0))
        elif kind == CUT:
            self.cut.update(map(bytes.fromhex, fields[0]))
        elif kind == DONE:
            self.done[bytes.fromhex(fields[0]), fields[1]] = CutPart(fields[2], fields[3])
        elif kind == FORGET:
            self._forget(bytes.fromhex(fields[0]))
        elif kind == BEGIN:
            finder = Finder(fields[1], fields[2])
            if self.finders.get(fields[0]) != finder:
                self.reported.pop(fields[0], None)
            self.finders[fields[0]] = finder
        elif kind == WANT:
            self.wanted[fields[0]] = fields[1]
        elif kind == STATE:
            waits = {(bytes.fromhex(topic), index): text for topic, index, text in fields[2]}
            self.words[fields[0]] = MirrorWords(fields[1], waits)

    def _forget(self, topic_id: bytes) -> None:
        self.cut.discard(topic_id)
        for found in (self.places, self.done):
            for place in [each for each in found if each[0] == topic_id]:
                del found[place]

    def records(self) -> list[bytes]:
        """Records from which the same is concluded: what was written before them is not needed any more."""
        return [
            *(begin(mirror, finder) for mirror, finder in self.finders.items()),
            *(want(mirror, is_wanted) for mirror, is_wanted in self.wanted.items()),
            *([places(self.places)] if self.places else []),
            *([cut(sorted(self.cut))] if self.cut else []),
            *(done(place, part) for place, part in self.done.items()),
            *(state(mirror, words) for mirror, words in self.words.items()),
        ]


def _part(row: list[Any]) -> PartReport:
    topic, index, epoch, first, listed_to, replicated, markers = row
    held = tuple(HeldMarker(at, producer, its_epoch, bool(is_empty)) for at, producer, its_epoch, is_empty in markers)
    return PartReport((bytes.fromhex(topic), index), LeaderReport(epoch, first, listed_to, replicated, held))
