"""The rate at which followers that are behind may read from this node (KIP-73): ``leader.replication.throttled.rate``
for the replicas that ``leader.replication.throttled.replicas`` of their topics name. Not here: which followers are
behind."""

from collections.abc import Callable
from typing import Final

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.throttle import ReplicaThrottle

UNLIMITED: Final = 2**63 - 1
EVERY_REPLICA: Final = "*"


class LeaderThrottle:
    """One throttle for all partitions that a node leads."""

    __slots__ = ("_node_id", "_rate", "_throttle")

    def __init__(self, node_id: int, rate: Callable[[], int]) -> None:
        """``rate`` returns bytes per second."""
        self._node_id = node_id
        self._rate = rate
        self._throttle = ReplicaThrottle(rate)

    def covers(self, replica: Replica) -> bool:
        """Whether a topic's configuration names this node's replica, and a rate is set."""
        named = replica.topic.config.leader_throttled_replicas
        if not named or self._rate() >= UNLIMITED:
            return False
        return EVERY_REPLICA in named or f"{replica.index}:{self._node_id}" in named

    def is_used_up(self, now_ms: float) -> bool:
        """Whether nothing may be read right now."""
        return self._throttle.wait_ms(now_ms) > 0

    def count(self, size_bytes: int, now_ms: float) -> None:
        """Count bytes of covered partitions that were sent to followers, including those in sync."""
        self._throttle.count(size_bytes, now_ms)
