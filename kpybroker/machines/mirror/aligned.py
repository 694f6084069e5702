"""Markers of transactions that share a producer id and epoch (before KIP-890), matched with their decisions by
counting.

The count begins at a cut at which the producer was settled: from there on, the n-th marker of the producer in a
partition is of its n-th decision that names the partition. A coordinator that lost its connection writes a marker
again, and a partition may be named without records. Neither has records before it, so a marker without any ends the
count, and the next cut at which the producer is settled begins it again.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from kpybroker.machines.mirror.cuts import HeldMarker, Place, SettledCut


class CountedDecision:
    """A decision of a producer, and the partitions that it names. Two are equal only if they are the same object."""

    __slots__ = ("epoch", "partitions")

    def __init__(self, epoch: int, partitions: frozenset[Place]) -> None:
        self.epoch = epoch
        self.partitions = partitions


class AlignedProducer:
    """The decisions of one producer whose markers are not passed yet. Without an anchor there is no count."""

    def __init__(self, anchor: SettledCut | None) -> None:
        self.anchor = anchor
        self._waiting: dict[Place, deque[CountedDecision]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a decision is known whose marker is not passed."""
        return any(self._waiting.values())

    def decided(self, decision: CountedDecision) -> None:
        """Note a decision."""
        if self.anchor is not None:
            for place in decision.partitions:
                self._waiting.setdefault(place, deque()).append(decision)

    def begin_at(self, cut: SettledCut | None) -> None:
        """Begin to count at a cut, or stop to count."""
        self.anchor = cut
        self._waiting.clear()

    def counts(self, place: Place, offset: int) -> bool:
        """Whether a marker is counted."""
        return self.anchor is not None and offset >= self.anchor.ends.get(place, offset + 1)

    def passed(self, place: Place, marker: HeldMarker) -> None:
        """Note that a marker is passed."""
        waiting = self._waiting.get(place)
        if waiting and self.counts(place, marker.offset):
            waiting.popleft()

    def matches(self, markers: Mapping[Place, list[HeldMarker]]) -> Iterator[tuple[CountedDecision, Place, HeldMarker]]:
        """The decisions with their markers, of those that are not passed yet."""
        for place, found in markers.items():
            counted = (marker for marker in found if self.counts(place, marker.offset))
            for decision, marker in zip(self._waiting.get(place, ()), counted, strict=False):
                if decision.epoch != marker.epoch:
                    break
                yield decision, place, marker
