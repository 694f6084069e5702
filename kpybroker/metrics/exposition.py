"""The broker's counters as Prometheus metrics, in the names that Kafka's JMX exporter gives them (Strimzi's form).

The broker counts in plain integers; they are turned into metrics only when somebody asks.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kpywire.api import API_KEYS

if TYPE_CHECKING:
    from kpybroker.broker import Broker

NANOSECONDS_PER_MS = 1_000_000
Rendering = Callable[[], tuple[str, bytes]]
"""Makes (content type, text) of what was read. For a thread: of thousands of partitions it takes long."""
Exposition = Callable[[str], Rendering]


class TopicCounters(NamedTuple):
    """What one topic has counted."""

    name: str
    bytes_in: int
    bytes_out: int
    records_in: int


class LogSize(NamedTuple):
    """How far the log of one partition reaches."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_bytes: int


def exposition_of(broker: "Broker") -> Exposition:
    """A function that, given an Accept header, reads the counters and says how to render them."""
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    PlatformCollector(registry=process)
    GCCollector(registry=process)

    def expose(accept: str) -> Rendering:
        encode, content_type = choose_encoder(accept)
        moment = Moment(broker, process)
        return lambda: (content_type, encode(moment))

    return expose


class Moment(Collector):
    """One broker's counters as they were when this was made; ``process`` has what any process has."""

    def __init__(self, broker: "Broker", process: Collector) -> None:
        self.process = process
        self.topics = [
            TopicCounters(topic.name, topic.bytes_in, topic.bytes_out, topic.records_in)
            for topic in broker.replicas.topics.values()
        ]
        self.logs = [
            LogSize(replica.topic.name, replica.index, log.log_start_offset, log.log_end_offset, log.size)
            for replica in broker.replicas
            if (log := replica.log) is not None and log.is_open
        ]
        self.few = [*_requests(broker), *_node(broker)]

    def collect(self) -> Iterable[Metric]:
        yield from self._topics()
        yield from self._partitions()
        yield from self.few
        yield from self.process.collect()

    def _topics(self) -> Iterator[Metric]:
        families = {
            "bytes_in": CounterMetricFamily(
                "kafka_server_brokertopicmetrics_bytesin", "Bytes of records produced", labels=["topic"]
            ),
            "bytes_out": CounterMetricFamily(
                "kafka_server_brokertopicmetrics_bytesout", "Bytes of records fetched", labels=["topic"]
            ),
            "records_in": CounterMetricFamily(
                "kafka_server_brokertopicmetrics_messagesin", "Records produced", labels=["topic"]
            ),
        }
        for topic in self.topics:
            for attribute, family in families.items():
                family.add_metric([topic.name], getattr(topic, attribute))
        yield from families.values()

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset", labels=labels)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Offset of the next record", labels=labels)
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes on disk", labels=labels)
        for log in self.logs:
            values = [log.topic, str(log.partition)]
            start.add_metric(values, log.start_offset)
            end.add_metric(values, log.end_offset)
            size.add_metric(values, log.size_bytes)
        yield from (start, end, size)


def _requests(broker: "Broker") -> Iterator[Metric]:
    requests = CounterMetricFamily("kafka_network_requestmetrics_requests", "Requests", labels=["request"])
    errors = CounterMetricFamily(
        "kafka_network_requestmetrics_errors", "Requests that ended their connection", labels=["request"]
    )
    local = CounterMetricFamily(
        "kafka_network_requestmetrics_localtimems", "Milliseconds spent serving requests", labels=["request"]
    )
    for key, counters in broker.dispatcher.counters.items():
        name = [API_KEYS[key].name]
        requests.add_metric(name, sum(counters.local))
        errors.add_metric(name, counters.failures)
        local.add_metric(name, counters.local_ns / NANOSECONDS_PER_MS)
    yield from (requests, errors, local)


def _node(broker: "Broker") -> Iterator[Metric]:
    held = list(broker.replicas)
    yield GaugeMetricFamily("kafka_server_replicamanager_partitioncount", "Partitions held", len(held))
    led = sum(replica.partition.leader == broker.node_id for replica in held)
    yield GaugeMetricFamily("kafka_server_replicamanager_leadercount", "Partitions led", led)
    offline = len(broker.replicas.directories.failed_paths)
    yield GaugeMetricFamily("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed", offline)
    yield GaugeMetricFamily("kafka_server_kafkaserver_brokerstate", "Kafka's broker state", broker.lifecycle.state)
    yield GaugeMetricFamily(
        "kafka_server_socket_server_metrics_connection_count", "Open connections", len(broker.server.connections)
    )
    yield GaugeMetricFamily(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions",
        len(broker.fetch_sessions.sessions),
    )
