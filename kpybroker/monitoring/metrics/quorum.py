"""The cluster as its controllers see it, and this node's own place in the quorum."""

from collections import deque
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.raft.local_state import LocalState
from kpybroker.monitoring.metrics.table import (
    COUNTER,
    GAUGE,
    NATIVE,
    STRIMZI,
    UNTYPED,
    Measure,
    MetricRow,
    Name,
    Table,
    kafka,
    known_by,
)
from kpybroker.monitoring.metrics.window import SLICES

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.controller_role import ControllerRole

PARTITIONS_PER_SLICE: Final = 1000
_CONTROLLER: Final = "kafka.controller:type=KafkaController"
_RAFT: Final = "kafka.server:type=raft-metrics"

CONTROLLER = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1 where the active controller is",
            f"{_CONTROLLER},name=ActiveControllerCount",
        ),
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_globaltopiccount",
            "Topics of the cluster",
            f"{_CONTROLLER},name=GlobalTopicCount",
        ),
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_globalpartitioncount",
            "Partitions of the cluster",
            f"{_CONTROLLER},name=GlobalPartitionCount",
        ),
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_offlinepartitionscount",
            "Partitions without a leader",
            f"{_CONTROLLER},name=OfflinePartitionsCount",
        ),
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
            "Partitions that the first replica does not lead",
            f"{_CONTROLLER},name=PreferredReplicaImbalanceCount",
        ),
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_activebrokercount",
            "Brokers that are alive",
            f"{_CONTROLLER},name=ActiveBrokerCount",
        ),
        kafka(
            GAUGE,
            "kafka_controller_kafkacontroller_fencedbrokercount",
            "Brokers that are registered and not alive",
            f"{_CONTROLLER},name=FencedBrokerCount",
        ),
        kafka(
            COUNTER,
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Elections of a leader that may lack records, since this node started; counted by controllers",
            "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
            confluent="kafka_controller_controllerstats_uncleanleaderelectionspersec",
        ),
        kafka(
            GAUGE,
            "kafka_server_brokermetadatametrics_last_applied_record_offset",
            "Offset of the last metadata record that this broker has applied",
            "kafka.server:type=broker-metadata-metrics",
        ),
    ),
)


def _raft(name: str, about: str) -> Measure:
    return kafka(GAUGE, f"kafka_server_raftmetrics_{name}", about, _RAFT, confluent=f"kafka_server_raft_metrics_{name}")


QUORUM = Table(
    (),
    (
        _raft("current_leader", "The quorum's leader; -1 if this node knows of none"),
        _raft("current_epoch", "The quorum's epoch"),
        _raft("current_vote", "The candidate that this node voted for in this epoch; -1 for none"),
        _raft("high_watermark", "End of what is committed of the metadata log, as far as this node knows"),
        _raft("log_end_offset", "End of the metadata log on this node"),
        _raft("append_records_rate", "Records a second that this node wrote as the leader, of the last minute"),
        _raft("fetch_records_rate", "Records a second that this node took from a leader, of the last minute"),
    ),
)
EARLY = Table(
    (),
    (
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_controller_early_fencings_total",
            "Brokers that this controller fenced before their sessions ended, since this node started",
        ),
    ),
)
STATE = Table(
    ("current_state",),
    (
        Measure(
            UNTYPED,
            "1: what this node is in the quorum (leader, candidate, prospective, follower, observer, unattached)",
            {STRIMZI: Name("kafka_server_raftmetrics_current_state")},
            _RAFT,
        ),
    ),
)


class Growth(NamedTuple):
    """The growth of the metadata log on this node up to a moment: records appended as leader, and fetched ones."""

    at_s: float
    appended: int
    fetched: int


class QuorumTables:
    """Reads the controller's view, and follows the metadata log."""

    def __init__(self, role: "Broker | ControllerRole") -> None:
        self.role = role
        self._next_offset = role.controller.local_state.next_offset
        self._last = Growth(monotonic(), 0, 0)
        self._looks = deque([self._last], maxlen=SLICES)

    def turn(self) -> None:
        """Note that ten seconds have passed."""
        self._looks.append(self._grown(self.role.controller.local_state))

    def tables(self) -> Iterator[Table | None]:
        """The tables; None is a place to pause."""
        yield from self._cluster()
        state = self.role.controller.local_state
        since, now = self._looks[0], self._grown(state)
        passed_s = max(now.at_s - since.at_s, 1e-3)
        values = (
            state.leader_id,
            state.epoch,
            state.voted_id,
            state.high_watermark,
            state.next_offset,
            (now.appended - since.appended) / passed_s,
            (now.fetched - since.fetched) / passed_s,
        )
        yield QUORUM.with_rows([MetricRow((), values)])
        yield EARLY.with_rows([MetricRow((), (state.early_fencings,))])
        yield STATE.with_rows([MetricRow((state.role,), (1,))])

    def _grown(self, state: LocalState) -> Growth:
        """The growth of the log since this node has been watched. A truncation is no growth."""
        last = self._last
        grown = max(0, state.next_offset - self._next_offset)
        self._next_offset = state.next_offset
        appended, fetched = (grown, 0) if state.is_leader else (0, grown)
        self._last = Growth(monotonic(), last.appended + appended, last.fetched + fetched)
        return self._last

    def _cluster(self) -> Iterator[Table | None]:
        image = self.role.image
        topics = partitions = leaderless = unpreferred = 0
        for topic in list(image.topics.values()):
            topics += 1
            for partition in list(topic.partitions.values()):
                partitions += 1
                leaderless += partition.leader < 0
                unpreferred += partition.leader != partition.replicas[0]
                if partitions % PARTITIONS_PER_SLICE == 0:
                    yield None
        brokers = image.brokers.values()
        fenced = sum(each.fenced for each in brokers)
        active = int(self.role.controller.controller_id == self.role.node_id)
        unclean, applied = self.role.unclean_elections, image.next_offset - 1
        alive = len(brokers) - fenced
        values = (active, topics, partitions, leaderless, unpreferred, alive, fenced, unclean, applied)
        yield CONTROLLER.with_rows([MetricRow((), values)])
