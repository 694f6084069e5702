"""The partitions whose replicas move to other brokers, how far they are, and the throttles of replication. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Partition

MOST_MOVES: Final = 100
"""The most moves that are listed; the others are counted."""
THROTTLES: Final = {
    BROKER_RESOURCE: (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ),
    TOPIC_RESOURCE: ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
}
"""The configs that slow replication down, by the type of their resource."""
KINDS: Final = {BROKER_RESOURCE: "broker", TOPIC_RESOURCE: "topic"}

LogSizes = Mapping[tuple[int, str, int], int]
"""The bytes of a log by node, topic and partition."""


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition that moves."""

    topic: str
    partition: int
    leader: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    total_bytes: int | None
    """The bytes of all new replicas when they are complete; None while a node has not answered."""
    left_bytes: int | None
    left_s: float | None
    """The time that the rest takes at the present rate; None while that is unknown."""


@dataclass(frozen=True, slots=True)
class ThrottleRow:
    """A config that slows replication down."""

    kind: str
    """``broker`` or ``topic``."""
    name: str
    """The id of the broker, empty for all brokers; or the name of the topic."""
    config: str
    value: str


def is_moving(partition: Partition) -> bool:
    """Whether replicas of a partition come or go."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def left_of(topic: str, index: int, partition: Partition, sizes: LogSizes) -> tuple[int | None, int | None]:
    """The bytes that all new replicas of a partition will have, and those that they lack. Both are estimates by the
    sizes of logs, since the leader appends and deletes in the meantime."""
    whole = sizes.get((partition.leader, topic, index))
    new = [each for each in partition.adding_replicas if each != partition.leader]
    if whole is None:
        return None, None
    left = 0
    for replica in new:
        if replica not in partition.isr:
            copied = sizes.get((replica, topic, index))
            if copied is None:
                return whole * len(new), None
            left += max(0, whole - copied)
    return whole * len(new), left


def throttles_of(configs: Mapping[tuple[int, str], Mapping[str, str]]) -> Iterator[ThrottleRow | None]:
    """The throttles that are set in these configs; None for each resource, to pace a walk over many."""
    for (kind, name), values in list(configs.items()):
        yield None
        for config in THROTTLES.get(kind, ()):
            value = values.get(config)
            if value:
                yield ThrottleRow(KINDS[kind], name, config, value)
