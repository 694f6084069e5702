"""The embedded protocol of consumers, which the coordinator reads and writes for classic members of consumer groups.

(Kafka: ``ConsumerProtocol``.)
"""

from collections.abc import Iterable
from typing import Any

from kpybroker.machines.groups.consumer.member import Partitions
from kpybroker.machines.groups.epochs.java_order import in_hash_order, uuid_hash
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire.codec import decode, encode
from kpywire.errors import Malformed
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from kpywire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

NEWEST = 3
_VERSION_BYTES = 2


def version_of(data: bytes) -> int:
    """The version that embedded bytes begin with. Raises Malformed."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise Malformed("an embedded protocol without a version")
    return min(version, NEWEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Read the topics that a member subscribes to, and the partitions that it has. Raises Malformed."""
    return decode(ConsumerProtocolSubscription, version_of(data), data, _VERSION_BYTES)


def read_assignment(data: bytes) -> tuple[dict[str, list[int]], bytes]:
    """The partitions by topic that a member has, and the data of its assignor. Raises Malformed."""
    assignment = decode(ConsumerProtocolAssignment, version_of(data), data, _VERSION_BYTES)
    return {each.topic: each.partitions for each in assignment.assigned_partitions}, assignment.user_data or b""


def owned_by(subscription: ConsumerProtocolSubscription, topics: TopicView) -> list[Any]:
    """The partitions that a member says it has, by the ids of topics that exist."""
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topics.by_name[each.topic].id, partitions=each.partitions)
        for each in subscription.owned_partitions or ()
        if each.topic in topics.by_name
    ]


def write_assignment(assigned: Partitions, version: int, topics: TopicView) -> bytes:
    """The partitions of a member in the version of its subscription. Topics that are gone are left out."""
    parts = [
        TopicPartition(topic=topics.by_id[topic_id].name, partitions=sorted(assigned[topic_id]))
        for topic_id in in_hash_order(list(assigned), uuid_hash)
        if topic_id in topics.by_id
    ]
    body = encode(ConsumerProtocolAssignment(assigned_partitions=parts, user_data=None), version)
    return version.to_bytes(_VERSION_BYTES, "big") + body


def names_of(protocols: Iterable[tuple[str, bytes]]) -> list[str]:
    """The names of protocols."""
    return [name for name, _ in protocols]
