"""Positions of a stream as JSON, in the form of Spark's Kafka source: ``{topic: {partition: offset}}``. Pure.

Beside the topics stand their ids, under a name that no topic can have: a topic that was deleted and created again has
another id.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.scan.errors import OffsetsLost, ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Spot, shown

IDS: Final = "topic ids"

Json = dict[str, Any]


class StreamPositions(NamedTuple):
    """The next offset of each partition, and the ids of their topics."""

    offsets: Mapping[Spot, int]
    ids: Mapping[str, bytes]

    def to_json(self) -> Json:
        found: Json = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        return found | {IDS: {topic: base64.b64encode(self.ids[topic]).decode() for topic in sorted(found)}}


def from_json(found: Mapping[str, Any]) -> StreamPositions:
    """The positions that `StreamPositions.to_json` wrote, or Spark's Kafka source. Raises ScanError."""
    try:
        ids = {str(topic): base64.b64decode(text, validate=True) for topic, text in found.get(IDS, {}).items()}
        offsets = {
            (topic, int(partition)): int(offset)
            for topic, each in found.items()
            if topic != IDS
            for partition, offset in each.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ScanError(f"these are no offsets of a Kafka source: {str(found)[:200]}") from None
    return StreamPositions(offsets, ids)


def made_again(start: StreamPositions, end: StreamPositions) -> set[str]:
    """The topics that have another id in ``end``."""
    return {topic for topic, known in start.ids.items() if topic in end.ids and end.ids[topic] != known}


def at_least(positions: StreamPositions, other: StreamPositions) -> StreamPositions:
    """These positions, where no partition of the same topic lies before the other's."""
    return _with_others(positions, other, max)


def at_most(positions: StreamPositions, other: StreamPositions) -> StreamPositions:
    """These positions, where no partition of the same topic lies behind the other's."""
    return _with_others(positions, other, min)


def _with_others(
    positions: StreamPositions, other: StreamPositions, choose: Callable[[int, int], int]
) -> StreamPositions:
    again = made_again(positions, other)
    return positions._replace(
        offsets={
            spot: choose(offset, other.offsets.get(spot, offset)) if spot[0] not in again else offset
            for spot, offset in positions.offsets.items()
        }
    )


def begin(start: StreamPositions, end: StreamPositions, firsts: Mapping[Spot, int]) -> dict[Spot, int]:
    """The offset at which each partition of ``end`` is read: that of ``start``; for a new partition, or one of a topic
    that was created again, its first offset."""
    again = made_again(start, end)
    return {
        spot: start.offsets[spot] if spot in start.offsets and spot[0] not in again else firsts[spot]
        for spot in end.offsets
    }


def unknown(start: StreamPositions, end: StreamPositions) -> set[Spot]:
    """The partitions of ``end`` whose first offsets `begin` needs."""
    again = made_again(start, end)
    return {spot for spot in end.offsets if spot not in start.offsets or spot[0] in again}


def losses(start: StreamPositions, end: StreamPositions, firsts: Mapping[Spot, int]) -> Iterable[OffsetsLost]:
    """The losses between two positions: records that cannot be read any more."""
    again = made_again(start, end)
    gone = sorted(spot for spot in start.offsets if spot not in end.offsets)
    if gone:
        yield OffsetsLost(f"Partitions {shown(gone)} have been deleted.", "PARTITIONS_DELETED")
    for spot, offset in sorted(start.offsets.items()):
        now = end.offsets.get(spot, offset)
        if spot[0] in again:
            yield OffsetsLost(
                "PARTITION_OFFSET_CHANGED",
                f"Topic {spot[0]} was deleted and created again: partition {shown([spot])} offset was changed from "
                f"{offset} to {now}.",
            )
        elif now < offset:
            text = f"Partition {shown([spot])} offset was changed from {offset} to {now}."
            yield OffsetsLost(text, "PARTITION_OFFSET_CHANGED")
    for spot in sorted(end.offsets):
        if spot not in start.offsets and firsts.get(spot, 0) > 0:
            text = f"Added partition {shown([spot])} starts from {firsts[spot]} instead of 0."
            yield OffsetsLost(text, "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO")


def ranges(starts: Mapping[Spot, int], end: StreamPositions) -> list[OffsetRange]:
    """The ranges between the starts and ``end``."""
    return [
        OffsetRange(topic, end.ids[topic], partition, starts[topic, partition], offset)
        for (topic, partition), offset in sorted(end.offsets.items())
        if starts[topic, partition] < offset
    ]
