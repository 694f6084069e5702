"""The requests of ``kpybroker groups`` about share groups: their start offsets read and set."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpywire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kpywire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)

SHARE: Final = "share"


class Start(NamedTuple):
    """The first record that a group is not done with, and how many records are left; None if that is not known."""

    offset: int
    left_records: int | None


def start_offsets(client: Client, name: str) -> dict[Spot, Start]:
    """The start offsets of all partitions in which the group has begun to read."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])

    def attempt() -> dict[Spot, Start]:
        (group,) = client.call_coordinator(name, request).groups
        raise_for(group.error_code, f"group {name}", group.error_message)
        starts = {}
        for topic in group.topics:
            for each in topic.partitions:
                spot = Spot(topic.topic_name, each.partition_index)
                raise_for(each.error_code, f"start offset of {spot}", each.error_message)
                if each.start_offset >= 0:
                    starts[spot] = Start(each.start_offset, each.lag if each.lag >= 0 else None)
        return dict(sorted(starts.items()))

    return client.retrying(attempt)


def set_start_offsets(client: Client, name: str, offsets: Mapping[Spot, int]) -> None:
    """Set start offsets of an empty group. Raises KafkaError."""
    request = start_request(name, offsets)

    def attempt() -> None:
        answer = client.call_coordinator(name, request)
        raise_for(answer.error_code, f"group {name}", answer.error_message)
        for topic in answer.responses:
            for each in topic.partitions:
                spot = Spot(topic.topic_name, each.partition_index)
                raise_for(each.error_code, f"start offset of {spot}", each.error_message)

    client.retrying(attempt)


def start_request(name: str, offsets: Mapping[Spot, int]) -> AlterShareGroupOffsetsRequest:
    """The request that sets start offsets of an empty group, which it makes if there is none."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for spot, offset in offsets.items():
        part = AlterShareGroupOffsetsRequestPartition(partition_index=spot.partition, start_offset=offset)
        topics.setdefault(spot.topic, []).append(part)
    return AlterShareGroupOffsetsRequest(
        group_id=name,
        topics=[
            AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=each) for topic, each in topics.items()
        ],
    )
