"""The replicas of one partition, with those that a reassignment adds and removes (Kafka's ``ReplicaAssignment``)."""

from collections.abc import Iterable
from typing import NamedTuple

BrokerIds = tuple[int, ...]


class ReplicaAssignment(NamedTuple):
    """``replicas`` has all of them: the first one is preferred as the leader."""

    replicas: BrokerIds
    adding: BrokerIds = ()
    removing: BrokerIds = ()

    @property
    def origin(self) -> BrokerIds:
        """The replicas before the reassignment."""
        return without(self.replicas, self.adding)

    @property
    def target(self) -> BrokerIds:
        """The replicas after the reassignment."""
        return without(self.replicas, self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether a reassignment adds or removes replicas."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: BrokerIds) -> "ReplicaAssignment":
        """The assignment while the partition moves to ``target``; another reassignment is replaced."""
        origin = self.origin
        everybody = tuple(dict.fromkeys(target + origin))
        return ReplicaAssignment(everybody, adding=without(everybody, origin), removing=without(everybody, target))

    def without_replica(self, broker_id: int) -> "ReplicaAssignment":
        """The assignment after one replica is gone."""
        gone = (broker_id,)
        return ReplicaAssignment(without(self.replicas, gone), without(self.adding, gone), without(self.removing, gone))


def without(broker_ids: BrokerIds, excluded: Iterable[int]) -> BrokerIds:
    """The ids that are not excluded, in their order."""
    excluded = frozenset(excluded)
    return tuple(each for each in broker_ids if each not in excluded)
