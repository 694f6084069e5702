"""Throughput of topics, sizes and offsets of partitions, and the sums over the whole node.

They are read in slices, between which the loop serves clients, so the rows of one scrape are not of one instant.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.monitoring.metrics.table import (
    COUNTER,
    GAUGE,
    KAFKA_EXPORTER,
    KAFKA_LAG_EXPORTER,
    NATIVE,
    Measure,
    MetricRow,
    Table,
    Value,
    kafka,
    known_by,
)

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker

REPLICAS_PER_SLICE = 200
OF_LEADERS = 7
"""The number of measures that only leaders have, the last ones of a partition. A follower would only repeat them."""
_LOG_BEAN = "kafka.log:type=Log"
_PARTITION_BEAN = "kafka.cluster:type=Partition"
_MANAGER_BEAN = "kafka.server:type=ReplicaManager"


def _per_second(name: str, about: str) -> Measure:
    stem = f"kafka_server_brokertopicmetrics_{name.lower()}"
    bean = f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec"
    return kafka(COUNTER, f"{stem}_total", about, bean, confluent=f"{stem}persec")


TOPICS = Table(
    ("topic",),
    (
        _per_second("BytesIn", "Bytes of record batches produced"),
        _per_second("BytesOut", "Bytes of record batches fetched"),
        _per_second("MessagesIn", "Records produced"),
        _per_second("TotalProduceRequests", "Partitions produced to, over all requests"),
        _per_second("TotalFetchRequests", "Partitions answered for, over all fetches"),
        _per_second("FailedProduceRequests", "Partitions that a produce failed for"),
        _per_second("FailedFetchRequests", "Partitions that a fetch failed for, with an error Kafka does not expect"),
    ),
)
"""The throughput of topics. The row without a topic is the sum over all, including deleted ones and those without a row
of their own."""

TOPIC_PARTITIONS = Table(
    ("topic",), (known_by(KAFKA_EXPORTER, GAUGE, "kafka_topic_partitions", "Partitions of the topic"),)
)

PARTITIONS = Table(
    ("topic", "partition"),
    (
        kafka(GAUGE, "kafka_log_log_size", "Bytes of the log's segments", f"{_LOG_BEAN},name=Size"),
        kafka(GAUGE, "kafka_log_log_logstartoffset", "First offset", f"{_LOG_BEAN},name=LogStartOffset"),
        kafka(GAUGE, "kafka_log_log_logendoffset", "Offset of the next record", f"{_LOG_BEAN},name=LogEndOffset"),
        kafka(GAUGE, "kafka_log_log_numlogsegments", "Segments of the log", f"{_LOG_BEAN},name=NumLogSegments"),
        kafka(
            GAUGE,
            "kafka_cluster_partition_underreplicated",
            "1 if replicas are missing from the ISR",
            f"{_PARTITION_BEAN},name=UnderReplicated",
        ),
        kafka(
            GAUGE,
            "kafka_cluster_partition_underminisr",
            "1 if the ISR is smaller than min.insync.replicas",
            f"{_PARTITION_BEAN},name=UnderMinIsr",
        ),
        kafka(
            GAUGE,
            "kafka_cluster_partition_atminisr",
            "1 if the ISR is as small as min.insync.replicas allows",
            f"{_PARTITION_BEAN},name=AtMinIsr",
        ),
        kafka(
            GAUGE,
            "kafka_cluster_partition_replicascount",
            "Replicas, on the leader",
            f"{_PARTITION_BEAN},name=ReplicasCount",
        ),
        kafka(
            GAUGE,
            "kafka_cluster_partition_insyncreplicascount",
            "Replicas in sync, on the leader",
            f"{_PARTITION_BEAN},name=InSyncReplicasCount",
        ),
        kafka(
            GAUGE,
            "kafka_cluster_partition_laststableoffsetlag",
            "Records between the last stable offset and the high watermark",
            f"{_PARTITION_BEAN},name=LastStableOffsetLag",
        ),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_topic_partition_current_offset", "High watermark"),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_topic_partition_oldest_offset", "First offset"),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_topic_partition_in_sync_replica", "Replicas in sync"),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_topic_partition_leader", "The leader's broker id"),
        known_by(
            KAFKA_EXPORTER,
            GAUGE,
            "kafka_topic_partition_leader_is_preferred",
            "1 if the leader is the first replica",
        ),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_topic_partition_replicas", "Replicas"),
        known_by(
            KAFKA_EXPORTER,
            GAUGE,
            "kafka_topic_partition_under_replicated_partition",
            "1 if replicas are missing from the ISR",
        ),
    ),
)
"""The partitions of logs that were used since the start. The others are opened within
``log.retention.check.interval.ms``."""

OF_LAG_EXPORTER = Table(
    ("cluster_name", "topic", "partition"),
    (
        known_by(KAFKA_LAG_EXPORTER, GAUGE, "kafka_partition_latest_offset", "High watermark"),
        known_by(KAFKA_LAG_EXPORTER, GAUGE, "kafka_partition_earliest_offset", "First offset"),
    ),
)

NODE = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_server_replicamanager_partitioncount",
            "Partitions held",
            f"{_MANAGER_BEAN},name=PartitionCount",
        ),
        kafka(GAUGE, "kafka_server_replicamanager_leadercount", "Partitions led", f"{_MANAGER_BEAN},name=LeaderCount"),
        kafka(
            GAUGE,
            "kafka_server_replicamanager_underreplicatedpartitions",
            "Partitions led whose ISR lacks replicas",
            f"{_MANAGER_BEAN},name=UnderReplicatedPartitions",
        ),
        kafka(
            GAUGE,
            "kafka_server_replicamanager_underminisrpartitioncount",
            "Partitions led whose ISR is too small for acks=all",
            f"{_MANAGER_BEAN},name=UnderMinIsrPartitionCount",
        ),
        kafka(
            GAUGE,
            "kafka_server_replicamanager_atminisrpartitioncount",
            "Partitions led whose ISR must not become smaller",
            f"{_MANAGER_BEAN},name=AtMinIsrPartitionCount",
        ),
        kafka(
            GAUGE,
            "kafka_server_replicamanager_offlinereplicacount",
            "Partitions whose log directory failed",
            f"{_MANAGER_BEAN},name=OfflineReplicaCount",
        ),
        kafka(
            GAUGE,
            "kafka_server_replicamanager_reassigningpartitions",
            "Partitions led that are being reassigned",
            f"{_MANAGER_BEAN},name=ReassigningPartitions",
        ),
        *(
            kafka(
                COUNTER,
                f"kafka_server_replicamanager_{name.lower()}_total",
                about,
                f"{_MANAGER_BEAN},name={name}PerSec",
                confluent=f"kafka_server_replicamanager_{name.lower()}persec",
            )
            for name, about in (
                ("IsrShrinks", "How often an ISR became smaller, of partitions led here"),
                ("IsrExpands", "How often an ISR became larger, of partitions led here"),
                ("FailedIsrUpdates", "How often the controller refused a change of an ISR"),
            )
        ),
        known_by(NATIVE, GAUGE, "kpybroker_partitions_left_out", "Partitions beyond kpybroker.metrics.max.partitions"),
    ),
)


class PartitionTables:
    """Reads topics and partitions of a broker. Remembers the counters of topics that were deleted."""

    def __init__(self, broker: "Broker", most_partitions: int) -> None:
        """``most_partitions`` have series of their own, in the order in which they came to this node. All are in the
        sums."""
        self.broker = broker
        self.most_partitions = most_partitions
        self._seen: dict[bytes, tuple[int, ...]] = {}
        self._gone = [0] * len(TOPICS.measures)

    def tables(self) -> Iterator[Table | None]:
        """The tables; None is a place to pause."""
        topics = list(self.broker.replicas.topics.values())
        yield from self._topics(topics)
        yield from self._partitions(topics)

    def _topics(self, topics: list[HeldTopic]) -> Iterator[Table | None]:
        counted = {topic.id: _counted(topic) for topic in topics}
        for topic_id, last in self._seen.items():
            if topic_id not in counted:
                self._gone = [before + value for before, value in zip(self._gone, last, strict=True)]
        self._seen = counted
        yield None
        sums = [sum(column) for column in zip(self._gone, *counted.values(), strict=True)]
        shown = self._shown(topics)
        yield TOPICS.with_rows(
            [MetricRow(("",), sums), *(MetricRow((topic.name,), counted[topic.id]) for topic in shown)]
        )
        image = self.broker.image.topics
        sizes = [
            MetricRow((topic.name,), (len(image[topic.name].partitions),)) for topic in shown if topic.name in image
        ]
        yield TOPIC_PARTITIONS.with_rows(sizes)

    def _shown(self, topics: list[HeldTopic]) -> list[HeldTopic]:
        room, shown = self.most_partitions, []
        for topic in topics:
            room -= len(topic.replicas)
            if room < 0:
                break
            shown.append(topic)
        return shown

    def _partitions(self, topics: list[HeldTopic]) -> Iterator[Table | None]:
        node_id = self.broker.node_id
        rows: list[MetricRow] = []
        ends: list[MetricRow] = []
        cluster = self.broker.image.cluster_id
        held = led = under = too_few = just_enough = offline = reassigning = 0
        for topic in topics:
            for replica in list(topic.replicas.values()):
                held += 1
                if held % REPLICAS_PER_SLICE == 0:
                    yield None
                offline += replica.offline
                partition = replica.partition
                if partition.leader == node_id:
                    led += 1
                    reassigning += partition.is_reassigning
                    missing, below, at = _in_sync(replica)
                    under += missing
                    too_few += below
                    just_enough += at
                if held <= self.most_partitions:
                    values = _values(replica, node_id)
                    if values is not None:
                        labels = (topic.name, str(replica.index))
                        rows.append(MetricRow(labels, values))
                        ends.append(MetricRow((cluster, *labels), values[-OF_LEADERS:][:2]))
        yield PARTITIONS.with_rows(rows)
        yield OF_LAG_EXPORTER.with_rows(ends)
        left_out = max(0, held - self.most_partitions)
        keeper = self.broker.in_sync
        changes = (keeper.shrinks, keeper.expands, keeper.failures)
        counts = (held, led, under, too_few, just_enough, offline, reassigning, *changes, left_out)
        yield NODE.with_rows([MetricRow((), counts)])


def _counted(topic: HeldTopic) -> tuple[int, ...]:
    return (
        topic.bytes_in,
        topic.bytes_out,
        topic.records_in,
        topic.produces,
        topic.fetches,
        topic.failed_produces,
        topic.failed_fetches,
    )


def _in_sync(replica: Replica) -> tuple[bool, bool, bool]:
    """(under replicated, below min.insync.replicas, exactly at it), as the partition's leader sees it."""
    partition, leader = replica.partition, replica.leader
    in_sync, replicas = len(partition.isr if leader is None else leader.isr), len(partition.replicas)
    # A topic with fewer replicas than the minimum needs them all (KIP-966).
    wanted = min(replica.topic.config.min_insync_replicas, replicas)
    # Replicas that are being added are not missed yet.
    return in_sync < replicas - len(partition.adding_replicas), in_sync < wanted, in_sync == wanted


def _values(replica: Replica, node_id: int) -> tuple[Value, ...] | None:
    leader, role = replica.leader, replica.role
    if role is None or replica.offline:
        return None
    log, partition = role.log, replica.partition
    start, high_watermark = log.log_start_offset, role.high_watermark.offset
    of_log = log.size, start, log.end.offset, len(log.segments)
    if leader is None:
        return *of_log, 0, 0, 0, 0, 0, high_watermark - role.last_stable_offset().offset, *[None] * OF_LEADERS
    missing, below, at = _in_sync(replica)
    replicas, in_sync = len(partition.replicas), len(leader.isr)
    return (
        *of_log,
        int(missing),
        int(below),
        int(at),
        replicas,
        in_sync,
        high_watermark - leader.last_stable_offset().offset,
        high_watermark,
        start,
        in_sync,
        partition.leader,
        int(partition.replicas[0] == node_id),
        replicas,
        int(missing),
    )
