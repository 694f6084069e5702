"""The events that a controller handles one after the other (Kafka's ``ControllerEvent``), and their watches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.requests import TopicPartition


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """``/controller`` was created, deleted or changed: there may be another controller, or none."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """The list of brokers has changed."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    """The registration of a broker has changed."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The list of topics has changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """The assignment of a topic has changed."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """The list of topics to be deleted has changed."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """Leaders of old versions have changed ISRs."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """Brokers have lost directories."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """An old tool asks for reassignments."""


@dataclass(frozen=True, slots=True)
class ZkReplicaLeaderElection:
    """An old tool asks for elections of preferred leaders."""


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """It is time to look whether leaders are where they should be."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    """Unclean elections were allowed: for one topic, or by the node's own configs if ``topic`` is None."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    """A broker answered LeaderAndIsr."""

    broker_id: int
    error: int
    errors: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived:
    """A broker answered a StopReplica, which deletes these replicas."""

    broker_id: int
    error: int
    errors: Mapping[TopicPartition, int]


Event = (
    ControllerChange
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | IsrChangeNotification
    | LogDirEventNotification
    | ZkPartitionReassignment
    | ZkReplicaLeaderElection
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | LeaderAndIsrResponseReceived
    | TopicDeletionStopReplicaResponseReceived
)

_WATCHED: Final[Mapping[str, Event]] = {
    paths.CONTROLLER: ControllerChange(),
    paths.BROKER_IDS: BrokerChange(),
    paths.TOPICS: TopicChange(),
    paths.DELETE_TOPICS: TopicDeletion(),
    paths.ISR_CHANGES: IsrChangeNotification(),
    paths.LOG_DIR_EVENTS: LogDirEventNotification(),
    paths.REASSIGN_PARTITIONS: ZkPartitionReassignment(),
    paths.PREFERRED_ELECTION: ZkReplicaLeaderElection(),
}


def event_of(path: str) -> Event | None:
    """The event that a change of the znode at ``path`` causes. None where the controller has no watch."""
    known = _WATCHED.get(path)
    if known is not None:
        return known
    parent, _, name = path.rpartition("/")
    if parent == paths.BROKER_IDS and name.isdecimal():
        return BrokerModifications(int(name))
    if parent == paths.TOPICS:
        return PartitionModifications(name)
    return None
