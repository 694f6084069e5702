"""One consistent place in every mirrored partition: each transaction of the source is whole below it, or absent.

The leaders here report the COMMIT markers that their logs hold and that are replicated. Of the source two things are
known: decisions of transactions that alone have their producer id and epoch (KIP-890), and cuts: ends of all
partitions, with the transactions that were not settled when these were taken (`kpybroker.machines.mirror.decisions`).
A marker may be passed where

- its decision is known, and every partition of it that is mirrored holds its marker, or
- it lies below a cut that every partition has reached, and its producer was settled at that cut. The same holds for
  all markers of the producer below the cut, which therefore are passed together. Nothing has to be known of them, so
  this also serves for transactions before KIP-890, for repeated markers, and for a backlog whose decisions are
  compacted.

A marker that must wait holds back all that follows it in its partition, and so the fellows of what follows: the
result is the largest set of markers in which none lacks a fellow.

A partition without a place is being copied for the first time. It gets one where a cut is reached at which all that
lies before its first held marker is settled.

Invariant: places only grow, and all of one `advance` belong together.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final

from kpybroker.machines.mirror.aligned import AlignedProducer, CountedDecision
from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport, Place, SettledCut
from kpybroker.machines.mirror.decisions import CommitDecision, Epochs

MOST_CUTS: Final = 32
AT_ONCE: Final = 100
MOST_DECISIONS: Final = 100_000
NO_END: Final = -1


class _MirroredCopy:
    """A partition here, as far as its leader has reported it."""

    __slots__ = ("after", "base", "joins_at", "leader_epoch", "listed_to", "markers", "replicated", "unsettled")

    def __init__(self, report: LeaderReport, after: int) -> None:
        self.leader_epoch = report.leader_epoch
        self.listed_to = report.first
        self.replicated = report.replicated
        self.markers: list[HeldMarker] = []
        self.base = report.first
        """All markers from here on were listed since the leaders' reports began."""
        self.after = after
        """Only cuts with later numbers were begun since this leader holds markers back."""
        self.unsettled: dict[int, Epochs] | None = None
        """The transactions that may lie before the first held marker; None before the first such cut is reached."""
        self.joins_at: SettledCut | None = None

    def take(self, report: LeaderReport) -> list[HeldMarker]:
        """Continue with a report. Return the markers that are new."""
        new = [each for each in report.markers if each.offset >= self.listed_to]
        self.markers += new
        self.listed_to = max(self.listed_to, report.listed_to)
        self.replicated = max(self.replicated, report.replicated)
        return new


class _MarkerGroup:
    """Markers that are passed together or not at all."""

    __slots__ = ("firsts", "lasts")

    def __init__(self, lasts: dict[Place, int]) -> None:
        self.lasts = lasts
        """The last marker of it in each partition."""
        self.firsts: dict[Place, int] = {}
        """The first marker in each partition that relies on it."""


class Wholeness:
    """The places of one mirror's partitions."""

    def __init__(self, places: Mapping[Place, int]) -> None:
        """``places`` are those that were published before."""
        self.places = dict(places)
        self._copies: dict[Place, _MirroredCopy] = {}
        self._decisions: dict[tuple[int, int], tuple[frozenset[Place], int]] = {}
        self._cuts: list[SettledCut] = []
        self._aligned: dict[int, AlignedProducer] = {}
        """The producers whose transactions share an epoch, and have been seen since the last cut that may anchor."""
        self._latest_cut: SettledCut | None = None
        self._number = 0
        self._blocked: dict[Place, HeldMarker] = {}
        """The marker that holds each partition back, since the last `advance`."""

    @property
    def is_waiting(self) -> bool:
        """Whether a marker is held back, or a partition has no place yet: only then cuts are of any use."""
        return any(copy.markers or place not in self.places for place, copy in self._copies.items())

    # What is here

    def report(self, place: Place, report: LeaderReport) -> bool:
        """Take over a leader's report. Return whether it fits: one of a leader that went before does not, nor one that
        does not continue the last."""
        copy = self._copies.get(place)
        if copy is not None and report.leader_epoch < copy.leader_epoch:
            return False
        if copy is None or report.leader_epoch > copy.leader_epoch:
            base = None if copy is None or place not in self.places else copy.base
            if copy is not None and base is None:
                self._unalign()  # markers may be missing between both leaders' reports
            copy = self._copies[place] = _MirroredCopy(report, self._number)
            copy.base = report.first if base is None else base
        elif report.first > copy.listed_to:
            del self._copies[place]
            self._unalign()
            return False
        for marker in copy.take(report):
            aligned = self._aligned.get(marker.producer_id)
            if marker.is_empty and aligned is not None and aligned.counts(place, marker.offset):
                aligned.begin_at(None)
        return True

    def _unalign(self) -> None:
        """Count no markers any more, before a later cut."""
        self._aligned.clear()
        self._latest_cut = None

    def forget(self, gone: Iterable[Place]) -> None:
        """Leave partitions out that are not mirrored any more."""
        for place in gone:
            self.places.pop(place, None)
            self._copies.pop(place, None)

    def end_of(self, place: Place) -> int:
        """The end of a partition that its source does not have any more: nothing follows what is reported."""
        copy = self._copies.get(place)
        return 0 if copy is None else copy.listed_to

    # What is known of the source

    def begin_cut(self) -> int:
        """The number of a cut that is begun now."""
        self._number += 1
        return self._number

    def decided(self, decision: CommitDecision, partitions: frozenset[Place]) -> None:
        """Note a decision. ``partitions`` are those of it that are mirrored."""
        if not decision.has_own_epoch:
            aligned = self._aligned.get(decision.producer_id)
            if aligned is None:
                anchor = self._latest_cut
                is_settled = anchor is not None and decision.producer_id not in anchor.unsettled
                aligned = self._aligned[decision.producer_id] = AlignedProducer(anchor if is_settled else None)
            aligned.decided(CountedDecision(decision.epoch, partitions))
            return
        self._decisions[decision.producer_id, decision.epoch] = partitions, self._number
        if len(self._decisions) > MOST_DECISIONS:
            del self._decisions[next(iter(self._decisions))]

    def cut(self, cut: SettledCut) -> None:
        """Note a cut. Their ends grow."""
        self._cuts.append(cut)
        self._latest_cut = cut
        for producer_id, aligned in list(self._aligned.items()):
            if producer_id not in cut.unsettled:
                if not aligned.is_waiting:
                    del self._aligned[producer_id]  # it would begin at this cut
                elif aligned.anchor is None:
                    aligned.begin_at(cut)
        if len(self._cuts) > MOST_CUTS:
            del self._cuts[1:-1:2]

    # The places

    def advance(self) -> dict[Place, int]:
        """Find the places again. Return those that have grown, or are new."""
        work = self.advancing()
        while True:
            try:
                next(work)
            except StopIteration as found:
                grown: dict[Place, int] = found.value
                return grown

    def advancing(self) -> Generator[None, None, dict[Place, int]]:
        """Do the same as `advance` in pieces, between which no reports and no cuts may arrive."""
        reached = []
        for cut in self._cuts:
            if self._is_reached(cut):
                reached.append(cut)
            yield
        tops = yield from self._tops(reached)
        found = {place: top for place, top in tops.items() if place in self.places}
        passed: dict[int, bool] = {}
        for cut in reached:
            passed[cut.number] = all(top >= cut.ends.get(place, top) for place, top in tops.items())
            yield
        for number, (place, copy) in enumerate(self._copies.items()):
            if place not in self.places and self._joins(copy, reached, passed):
                found[place] = tops[place]
            if number % AT_ONCE == 0:
                yield
        for cut in self._cuts:
            if not cut.unsettled and self._is_replicated(cut):  # whole as it stands, whatever the markers are
                for place, copy in self._copies.items():
                    if place in found or (place not in self.places and cut.number > copy.after):
                        found[place] = max(found.get(place, 0), cut.ends[place])
                yield
        grown = {place: offset for place, offset in found.items() if offset > self.places.get(place, NO_END)}
        self.places.update(grown)
        for place in grown:
            copy = self._copies[place]
            if self.places[place] > copy.listed_to:
                self._unalign()
            for marker in copy.markers:
                if marker.offset < self.places[place] and marker.producer_id in self._aligned:
                    self._aligned[marker.producer_id].passed(place, marker)
            copy.markers = [each for each in copy.markers if each.offset >= self.places[place]]
            copy.listed_to = max(copy.listed_to, self.places[place])
        yield from self._forget_passed(tops)
        return grown

    def _is_reached(self, cut: SettledCut) -> bool:
        """Whether every partition has reached a cut, those whose leader has not reported among them."""
        return self._all_reported() and all(
            copy.listed_to >= cut.ends.get(place, copy.listed_to + 1) for place, copy in self._copies.items()
        )

    def _is_replicated(self, cut: SettledCut) -> bool:
        return self._all_reported() and all(
            copy.replicated >= cut.ends.get(place, copy.replicated + 1) for place, copy in self._copies.items()
        )

    def _all_reported(self) -> bool:
        return self.places.keys() <= self._copies.keys()

    def _tops(self, reached: list[SettledCut]) -> Generator[None, None, dict[Place, int]]:
        """How far each partition gets."""
        tops = {place: copy.listed_to for place, copy in self._copies.items()}
        groups = yield from self._groups(reached)
        self._blocked = {}
        lowered: list[Place] = []

        def lower(place: Place, offset: int) -> None:
            if offset < tops[place]:
                tops[place] = offset
                lowered.append(place)

        relied: dict[Place, list[_MarkerGroup]] = {}
        for place, copy in self._copies.items():
            for marker in copy.markers:
                group = groups.get((place, marker.offset))
                if group is None:
                    lower(place, marker.offset)
                    break
        for group in {id(group): group for group in groups.values()}.values():
            for place in group.lasts:
                relied.setdefault(place, []).append(group)
        done: set[int] = set()
        while lowered:
            yield
            place = lowered.pop()
            for group in relied.get(place, ()):
                if id(group) not in done and group.lasts[place] >= tops[place]:
                    done.add(id(group))
                    for other, first in group.firsts.items():
                        lower(other, first)
        yield
        for place, copy in self._copies.items():
            blocked = next((each for each in copy.markers if each.offset == tops[place]), None)
            if blocked is not None:
                self._blocked[place] = blocked
        return tops

    def _groups(self, reached: list[SettledCut]) -> Generator[None, None, dict[tuple[Place, int], _MarkerGroup]]:
        """The group that each marker relies on. Those that rely on nothing known are missing."""
        by_producer: dict[int, list[tuple[Place, HeldMarker]]] = {}
        for place, copy in self._copies.items():
            for marker in copy.markers:
                by_producer.setdefault(marker.producer_id, []).append((place, marker))
        found: dict[tuple[Place, int], _MarkerGroup] = {}
        for producer_id, markers in by_producer.items():
            yield
            groups: dict[int, _MarkerGroup] = {}
            counted = self._counted(producer_id, markers)
            for place, marker in markers:
                group = counted.get((place, marker.offset)) or groups.get(~marker.epoch)
                if group is None and (producer_id, marker.epoch) in self._decisions:
                    group = self._whole(producer_id, marker.epoch, markers)
                for cut in reached if group is None else ():
                    if marker.offset < cut.ends[place] and cut.settles(producer_id, marker.epoch):
                        group = groups.get(cut.number) or _MarkerGroup(_lasts(markers, cut))
                        groups[cut.number] = group
                        break
                else:
                    if group is not None and (place, marker.offset) not in counted:
                        groups[~marker.epoch] = group
                if group is not None:
                    found[place, marker.offset] = group
                    group.firsts.setdefault(place, marker.offset)
        return found

    def _counted(
        self, producer_id: int, markers: list[tuple[Place, HeldMarker]]
    ) -> dict[tuple[Place, int], _MarkerGroup]:
        """The markers that are matched by counting, in the groups of their transactions, if none is missing there."""
        aligned = self._aligned.get(producer_id)
        if aligned is None or aligned.anchor is None:
            return {}
        by_place: dict[Place, list[HeldMarker]] = {}
        for place, marker in markers:
            if self._copies[place].base <= aligned.anchor.ends.get(place, -1):
                by_place.setdefault(place, []).append(marker)
        there: dict[CountedDecision, dict[Place, int]] = {}
        for decision, place, marker in aligned.matches(by_place):
            there.setdefault(decision, {})[place] = marker.offset
        found: dict[tuple[Place, int], _MarkerGroup] = {}
        for decision, lasts in there.items():
            if all(place in lasts for place in decision.partitions if self._is_held(place)):
                group = _MarkerGroup(lasts)
                found |= dict.fromkeys(lasts.items(), group)
        return found

    def _is_held(self, place: Place) -> bool:
        return place in self._copies or place in self.places

    def _whole(self, producer_id: int, epoch: int, markers: list[tuple[Place, HeldMarker]]) -> _MarkerGroup | None:
        """The markers of a decision, if none is missing."""
        there = {place: marker.offset for place, marker in markers if marker.epoch == epoch}
        return _MarkerGroup(there) if all(place in there for place in self._needed(producer_id, epoch)) else None

    def _needed(self, producer_id: int, epoch: int) -> list[Place]:
        """The partitions of a decision that hold markers back."""
        partitions, _ = self._decisions.get((producer_id, epoch), (frozenset(), 0))
        return sorted(filter(self._is_held, partitions))

    def _joins(self, copy: _MirroredCopy, reached: list[SettledCut], passed: Mapping[int, bool]) -> bool:
        """Whether a partition without a place gets one: all that lies before its held markers is whole everywhere."""
        for cut in reached:
            if cut.number <= copy.after or (copy.joins_at is not None and cut.number <= copy.joins_at.number):
                continue
            if copy.unsettled is None:
                copy.unsettled, copy.joins_at = dict(cut.unsettled), cut
            elif copy.unsettled:
                copy.joins_at = cut
                for producer_id, epochs in list(copy.unsettled.items()):
                    if cut.settles(producer_id, epochs.last):
                        del copy.unsettled[producer_id]
            elif copy.joins_at is not None and copy.joins_at.number not in passed:
                copy.joins_at = cut  # in place of one that is forgotten
        return copy.unsettled == {} and copy.joins_at is not None and passed.get(copy.joins_at.number, False)

    def _forget_passed(self, tops: Mapping[Place, int]) -> Iterator[None]:
        """Forget cuts that every partition has passed, and the decisions from before them."""
        last = None
        for cut in self._cuts:
            yield
            if all(place in cut.ends and top >= cut.ends[place] for place, top in tops.items()):
                last = cut
        yield
        if last is None or any(place not in self.places for place in self._copies):
            return
        self._cuts = [cut for cut in self._cuts if cut.number > last.number]
        for key, (_, number) in list(self._decisions.items()):
            if number >= last.number - 1:
                break
            if last.settles(*key):
                del self._decisions[key]

    # Words

    def waits(self) -> dict[Place, tuple[HeldMarker, Place | None]]:
        """The marker that each partition waits before, and a partition that lacks its fellow, if that is known."""
        found: dict[Place, tuple[HeldMarker, Place | None]] = {}
        for place, marker in self._blocked.items():
            needed = self._needed(marker.producer_id, marker.epoch)
            found[place] = marker, next((each for each in needed if not self._holds(each, marker)), None)
        return found

    def _holds(self, place: Place, marker: HeldMarker) -> bool:
        copy = self._copies.get(place)
        wanted = marker.producer_id, marker.epoch
        return copy is not None and any((each.producer_id, each.epoch) == wanted for each in copy.markers)


def _lasts(markers: Iterable[tuple[Place, HeldMarker]], cut: SettledCut) -> dict[Place, int]:
    """The last marker in each partition that lies below a cut, and is settled at it."""
    return {
        place: marker.offset
        for place, marker in markers
        if marker.offset < cut.ends[place] and cut.settles(marker.producer_id, marker.epoch)
    }
