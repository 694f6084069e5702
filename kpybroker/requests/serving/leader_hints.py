"""The leader of a partition, for a client that asked the wrong broker: it saves a Metadata request (KIP-951)."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from kpybroker.requests.serving.context import Context
from kpywire import error_codes

PRODUCE_FROM: Final = 10
FETCH_FROM: Final = 16
AFTER_PRODUCE: Final = frozenset({error_codes.NOT_LEADER_OR_FOLLOWER})
AFTER_FETCH: Final = frozenset({error_codes.NOT_LEADER_OR_FOLLOWER, error_codes.FENCED_LEADER_EPOCH})
"""The errors of Fetch that come with a hint."""

Made = TypeVar("Made")


class LeaderAddress(NamedTuple):
    """The address of a leader, on the listener by which the client came."""

    node_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeader(NamedTuple):
    """A partition's leader. ``leader_id`` and ``leader_epoch`` are -1 for an unknown partition; ``node`` is None while
    the leader is fenced, or does not have this listener."""

    leader_id: int
    leader_epoch: int
    node: LeaderAddress | None


def current_leader(broker: Context, topic: str | bytes, index: int, listener_name: str) -> CurrentLeader:
    """The leader of a partition in the newest metadata."""
    image = broker.image
    known = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
    partition = None if known is None else known.partitions.get(index)
    if partition is None:
        return CurrentLeader(-1, -1, None)
    leader = image.brokers.get(partition.leader)
    point = None if leader is None or leader.fenced else leader.listeners.get(listener_name)
    node = None if leader is None or point is None else LeaderAddress(leader.id, point.host, point.port, leader.rack)
    return CurrentLeader(partition.leader, partition.leader_epoch, node)


def node_endpoints(nodes: dict[int, LeaderAddress], endpoint: Callable[..., Made]) -> list[Made]:
    """The nodes as elements of a response; ``endpoint`` is the response's class for them."""
    return [endpoint(**node._asdict()) for node in nodes.values()]
