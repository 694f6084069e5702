"""The broker as a whole: its state, fetch sessions and log directories, and which brokers are alive."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, KAFKA_EXPORTER, MetricRow, Table, kafka, known_by

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker

BROKER = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_server_kafkaserver_brokerstate",
            "Kafka's broker state: 3 serves clients",
            "kafka.server:type=KafkaServer,name=BrokerState",
        ),
        kafka(
            GAUGE,
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that failed",
            "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        ),
        kafka(
            GAUGE,
            "kafka_server_fetchsessioncache_numincrementalfetchsessions",
            "Fetch sessions",
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
        ),
        kafka(
            GAUGE,
            "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
            "Partitions in fetch sessions",
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
        ),
        kafka(
            COUNTER,
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
            "Fetch sessions that made room for others",
            "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
            confluent="kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec",
        ),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_brokers", "Brokers of the cluster that are alive"),
    ),
)

BROKER_INFO = Table(
    ("id", "address"), (known_by(KAFKA_EXPORTER, GAUGE, "kafka_broker_info", "1 for each broker that is alive"),)
)


def tables(broker: "Broker") -> Iterator[Table]:
    """The tables of the broker as a whole."""
    sessions = broker.fetch_sessions
    values = (
        int(broker.lifecycle.state),
        len(broker.replicas.directories.failed_paths),
        len(sessions.sessions),
        sessions.partitions,
        sessions.evictions,
        len(broker.alive_brokers),
    )
    yield BROKER.with_rows([MetricRow((), values)])
    alive = [node for node in broker.image.brokers.values() if not node.fenced]
    addresses = [
        (str(node.id), f"{each.host}:{each.port}") for node in alive for each in list(node.listeners.values())[:1]
    ]
    yield BROKER_INFO.with_rows([MetricRow(labels, (1,)) for labels in addresses])
