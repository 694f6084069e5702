"""Replication: what this node fetches from others and sends to them, and its lag (Kafka's ReplicaFetcherManager)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, MetricRow, Table, kafka, known_by

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker

_MANAGER_BEAN = "kafka.server:type=ReplicaFetcherManager"
_CLIENT = "Replica"

FETCHERS = Table(
    ("clientId",),
    (
        kafka(
            GAUGE,
            "kafka_server_replicafetchermanager_maxlag",
            "Records that the partition most behind lacks of what is committed",
            f"{_MANAGER_BEAN},name=MaxLag,clientId=Replica",
            confluent_labels=("clientid",),
        ),
        kafka(
            GAUGE,
            "kafka_server_replicafetchermanager_failedpartitionscount",
            "Partitions that are not fetched until the metadata change",
            f"{_MANAGER_BEAN},name=FailedPartitionsCount,clientId=Replica",
            confluent_labels=("clientid",),
        ),
        kafka(
            GAUGE,
            "kafka_server_replicafetchermanager_deadthreadcount",
            "Fetchers that are gone for good: none",
            f"{_MANAGER_BEAN},name=DeadThreadCount,clientId=Replica",
            confluent_labels=("clientid",),
        ),
    ),
)
BYTES = Table(
    (),
    (
        kafka(
            COUNTER,
            "kafka_server_brokertopicmetrics_replicationbytesin_total",
            "Bytes of records fetched from leaders",
            "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec",
            confluent="kafka_server_brokertopicmetrics_replicationbytesinpersec",
        ),
        kafka(
            COUNTER,
            "kafka_server_brokertopicmetrics_replicationbytesout_total",
            "Bytes of records fetched by followers",
            "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec",
            confluent="kafka_server_brokertopicmetrics_replicationbytesoutpersec",
        ),
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_replica_fetch_damaged_total",
            "Answers of leaders with damaged records, which are fetched again",
        ),
    ),
)


def tables(broker: "Broker") -> Iterator[Table]:
    """The tables of replication."""
    fetchers = broker.fetchers
    max_lag, failed = fetchers.state()
    yield FETCHERS.with_rows([MetricRow((_CLIENT,), (max_lag, failed, 0))])
    counted = (fetchers.received_bytes, broker.replicas.bytes_to_followers, fetchers.damaged_answers)
    yield BYTES.with_rows([MetricRow((), counted)])
