"""Offsets of logs, asked of the leaders of their partitions as a client asks: with the viewer's own login."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.client.client import LATEST_TIMESTAMP, Spot
from kpybroker.machines.console.wording import counted
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

MOST_ASKED: Final = 500
"""The partitions of one request: its answer is read in one step of the loop."""
CLIENT: Final = -1
"""The replica id of a client."""


class FoundOffsets(NamedTuple):
    """The offset of each partition, the reason of each that has none, and the reason of each leader that does not
    answer."""

    offsets: dict[Spot, int]
    missing: dict[Spot, str]
    silent: dict[int, str]


class EndsElsewhere(NamedTuple):
    """The ends of partitions that other nodes lead, and a line for each leader that does not answer, and for partitions
    without a leader."""

    ends: Mapping[tuple[str, int], int]
    silent: tuple[str, ...]


async def offsets_at(node: NodeParts, viewer: Viewer, timestamps: Mapping[Spot, int]) -> FoundOffsets:
    """The first offset of each partition at a time, or its start or end; -1 where every record is older."""
    found = FoundOffsets({}, {}, {})
    by_leader: dict[int, list[Spot]] = {}
    async for spot in paced(sorted(timestamps)):
        leader = leader_id(node, spot)
        if leader < 0:
            found.missing[spot] = error_codes.name(error_codes.LEADER_NOT_AVAILABLE)
        else:
            by_leader.setdefault(leader, []).append(spot)
    await asyncio.gather(*(_ask(node, viewer, each, by_leader[each], timestamps, found) for each in by_leader))
    return found


async def ends_led_elsewhere(
    node: NodeParts, viewer: Viewer, spots: Iterable[tuple[str, int]], most: int
) -> EndsElsewhere:
    """The ends of those of these partitions that other nodes lead, of this many at most."""
    here, topics = node.broker.node_id, node.broker.image.topics
    wanted: dict[Spot, int] = {}
    leaderless: set[Spot] = set()
    async for spot in paced(spots):
        leader = leader_id(node, spot)
        if leader >= 0 and leader != here and len(wanted) < most:
            wanted[Spot(*spot)] = LATEST_TIMESTAMP
        elif leader < 0 and spot[0] in topics and len(leaderless) < most and viewer.may_see_topic(spot[0]):
            leaderless.add(Spot(*spot))
    found = await offsets_at(node, viewer, wanted)
    ends = {(spot.topic, spot.partition): end for spot, end in found.offsets.items()}
    lines = [found.silent[leader] for leader in sorted(found.silent)]
    if leaderless:
        more = f" and {counted(len(leaderless) - 1, 'other partition')} have" if len(leaderless) > 1 else " has"
        lines.append(f"{min(leaderless)}{more} no leader")
    return EndsElsewhere(ends, tuple(lines))


def leader_id(node: NodeParts, spot: tuple[str, int]) -> int:
    """The leader of a partition; below 0 where there is none."""
    topic = node.broker.image.topics.get(spot[0])
    partition = None if topic is None else topic.partitions.get(spot[1])
    return -1 if partition is None else partition.leader


def listing(timestamps: Mapping[Spot, int]) -> list[ListOffsetsTopic]:
    """The topics of a ListOffsets request for these partitions."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for spot, timestamp in timestamps.items():
        asked = ListOffsetsPartition(partition_index=spot.partition, timestamp=timestamp)
        topics.setdefault(spot.topic, []).append(asked)
    return [ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()]


async def _ask(
    node: NodeParts,
    viewer: Viewer,
    leader: int,
    spots: Sequence[Spot],
    timestamps: Mapping[Spot, int],
    found: FoundOffsets,
) -> None:
    """Ask one leader for its partitions."""
    for start in range(0, len(spots), MOST_ASKED):
        some = {spot: timestamps[spot] for spot in spots[start : start + MOST_ASKED]}
        request = ListOffsetsRequest(replica_id=CLIENT, topics=listing(some))
        try:
            answer = await node.ask_at(viewer, leader, request)
        except KafkaError as error:
            found.silent[leader] = f"node {leader}: {error.message or error}"
            found.missing.update(dict.fromkeys(spots[start:], found.silent[leader]))
            return
        for topic in answer.topics:
            for each in topic.partitions:
                spot = Spot(topic.name, each.partition_index)
                if each.error_code:
                    found.missing[spot] = error_codes.name(each.error_code)
                else:
                    found.offsets[spot] = each.offset
