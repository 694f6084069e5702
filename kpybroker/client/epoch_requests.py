"""The leader epochs of partitions, as their leaders know them (OffsetForLeaderEpoch, KIP-320). Errors as KafkaError."""

from collections.abc import Mapping

from kpybroker.client.client import Client, Spot, raise_for
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

EpochHistory = list[tuple[int, int]]
"""(epoch, first offset), both ascending."""


def epoch_histories(client: Client, starts: Mapping[Spot, int]) -> dict[Spot, EpochHistory]:
    """The epochs of each partition, from that of the record at its offset in ``starts`` on; none where the leader knows
    no epochs. Raises KafkaError."""
    return client.retrying(lambda: _histories(client, starts))


def diverged_from(client: Client, last: Mapping[Spot, tuple[int, int]]) -> dict[Spot, int]:
    """The offsets at which the logs of leaders leave those that end with this leader epoch at this offset; only where
    the leader does not have all of it. Raises KafkaError."""

    def attempt() -> dict[Spot, tuple[int, int]]:
        leaders = {spot: leader_epoch(client, spot) for spot in last}
        return epoch_ends(client, {spot: epoch for spot, (epoch, _) in last.items()}, leaders)

    known = client.retrying(attempt) if last else {}
    return {spot: end for spot, (epoch, end) in known.items() if epoch >= 0 and end < last[spot][1]}


def _histories(client: Client, starts: Mapping[Spot, int]) -> dict[Spot, EpochHistory]:
    leaders = {spot: leader_epoch(client, spot) for spot in starts}
    newest = epoch_ends(client, leaders, leaders)
    found: dict[Spot, EpochHistory] = {spot: [] for spot in starts}
    last = {spot: epoch for spot, (epoch, _) in newest.items() if epoch >= 0}
    while last:
        # The end of what came before an epoch is where it begins.
        before = epoch_ends(client, {spot: epoch - 1 for spot, epoch in last.items() if epoch}, leaders)
        following = {}
        for spot, epoch in last.items():
            earlier, first_offset = before.get(spot, (-1, 0))
            found[spot].append((epoch, max(first_offset, 0)))
            if first_offset > starts[spot] and 0 <= earlier < epoch:
                following[spot] = earlier
        last = following
    return {spot: epochs[::-1] for spot, epochs in found.items()}


def leader_epoch(client: Client, spot: Spot) -> int:
    """The epoch of the leader of a partition, by the metadata that are known."""
    return next(
        each.leader_epoch for each in client.topic(spot.topic).partitions if each.partition_index == spot.partition
    )


def epoch_ends(client: Client, epochs: Mapping[Spot, int], leaders: Mapping[Spot, int]) -> dict[Spot, tuple[int, int]]:
    """The largest epoch of each partition up to one, and where it ends. Leaders of other epochs than ``leaders`` answer
    with an error."""
    found = {}
    for node_id, spots in client.by_leader(epochs).items():
        topics: dict[str, OffsetForLeaderTopic] = {}
        for spot in spots:
            topic = topics.setdefault(spot.topic, OffsetForLeaderTopic(topic=spot.topic, partitions=[]))
            asked = OffsetForLeaderPartition(
                partition=spot.partition, current_leader_epoch=leaders[spot], leader_epoch=epochs[spot]
            )
            topic.partitions.append(asked)
        answer = client.call_node(node_id, OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values())))
        for answered in answer.topics:
            for each in answered.partitions:
                spot = Spot(answered.topic, each.partition)
                raise_for(each.error_code, f"partition {spot}")
                found[spot] = (each.leader_epoch, each.end_offset)
    return found
