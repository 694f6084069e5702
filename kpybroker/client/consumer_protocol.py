"""The messages that consumers of a classic group exchange through the coordinator: subscriptions and assignments. Pure.

The bytes are Kafka's ConsumerProtocol: a version i16, then the message of that version; a newer version is read as the
newest known one. ``assign_ranges`` is Kafka's RangeAssignor.
"""

from collections.abc import Iterable, Mapping
from struct import Struct

from kpybroker.client.client import Spot
from kpywire.codec import decode, encode
from kpywire.errors import Malformed
from kpywire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kpywire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

PROTOCOL_TYPE = "consumer"
RANGE = "range"
NEWEST = 3
_VERSION = Struct(">h")


def subscription(topics: Iterable[str]) -> bytes:
    """The subscription that a member sends when it joins."""
    return _VERSION.pack(0) + encode(ConsumerProtocolSubscription(topics=sorted(topics)), 0)


def subscribed_topics(data: bytes) -> list[str]:
    """The topics that a member subscribes to. Malformed if the bytes are not a subscription."""
    topics: list[str] = decode(ConsumerProtocolSubscription, _version(data), data, 2).topics
    return topics


def assignment(spots: Iterable[Spot]) -> bytes:
    """The assignment that the leader gives a member."""
    topics: dict[str, list[int]] = {}
    for spot in sorted(spots):
        topics.setdefault(spot.topic, []).append(spot.partition)
    assigned = [AssignedTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    return _VERSION.pack(0) + encode(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)


def assigned_spots(data: bytes) -> tuple[Spot, ...] | None:
    """The partitions of a member; none for no bytes, None for bytes that are not an assignment."""
    if not data:
        return ()
    try:
        found = decode(ConsumerProtocolAssignment, _version(data), data, 2)
    except Malformed:
        return None
    return tuple(sorted(Spot(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions))


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise Malformed("a message of the consumer protocol is cut off")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise Malformed(f"version {version} of the consumer protocol")
    return min(version, NEWEST)


def assign_ranges(subscribed: Mapping[str, Iterable[str]], partitions: Mapping[str, int]) -> dict[str, list[Spot]]:
    """The partitions of each member: of every topic consecutive ones, the first members taking one more if need be.

    ``subscribed`` maps member ids to topics, ``partitions`` topics to their number of partitions. Members are ordered
    by their ids. Every partition of a subscribed topic has exactly one owner.
    """
    owned: dict[str, list[Spot]] = {member: [] for member in subscribed}
    for topic, count in sorted(partitions.items()):
        members = sorted(member for member, topics in subscribed.items() if topic in topics)
        first = 0
        for position, member in enumerate(members):
            share = count // len(members) + (position < count % len(members))
            owned[member] += [Spot(topic, index) for index in range(first, first + share)]
            first += share
    return owned
