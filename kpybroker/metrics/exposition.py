"""The broker's counters as Prometheus metrics, in the names that Kafka's JMX exporter gives them (Strimzi's form).

The broker counts in plain integers; they are turned into metrics only when somebody asks.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kpywire.api import API_KEYS

if TYPE_CHECKING:
    from kpybroker.broker import Broker

NANOSECONDS_PER_MS = 1_000_000
Exposition = Callable[[str], tuple[str, bytes]]


def exposition_of(broker: "Broker") -> Exposition:
    """A function from an Accept header to (content type, metrics text)."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)

    def expose(accept: str) -> tuple[str, bytes]:
        encode, content_type = choose_encoder(accept)
        return content_type, encode(registry)

    return expose


class BrokerCollector(Collector):
    """Reads one broker's counters at each scrape."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker

    def collect(self) -> Iterable[Metric]:
        yield from self._topics()
        yield from self._requests()
        yield from self._partitions()
        yield from self._node()

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
        for topic in self.broker.replicas.topics.values():
            for attribute, family in families.items():
                family.add_metric([topic.name], getattr(topic, attribute))
        yield from families.values()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("kafka_network_requestmetrics_requests", "Requests", labels=["request"])
        errors = CounterMetricFamily(
            "kafka_network_requestmetrics_errors", "Requests that ended their connection", labels=["request"]
        )
        local = CounterMetricFamily(
            "kafka_network_requestmetrics_localtimems", "Milliseconds spent serving requests", labels=["request"]
        )
        for key, counters in self.broker.dispatcher.counters.items():
            name = [API_KEYS[key].name]
            requests.add_metric(name, counters.requests)
            errors.add_metric(name, counters.errors)
            local.add_metric(name, counters.local_time_ns / NANOSECONDS_PER_MS)
        yield from (requests, errors, local)

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset", labels=labels)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Offset of the next record", labels=labels)
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes on disk", labels=labels)
        for replica in self.broker.replicas:
            log = replica.log
            if log is not None and log.is_open:
                values = [replica.topic.name, str(replica.index)]
                start.add_metric(values, log.log_start_offset)
                end.add_metric(values, log.log_end_offset)
                size.add_metric(values, log.size)
        yield from (start, end, size)

    def _node(self) -> Iterator[Metric]:
        broker = self.broker
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
