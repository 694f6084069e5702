"""The node as a whole: its state, sessions, log directories, loop and memory."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kpybroker.metrics.loop_watch import LoopWatch
from kpybroker.metrics.table import (
    COUNTER,
    GAUGE,
    KAFKA_EXPORTER,
    NATIVE,
    Row,
    Table,
    Value,
    kafka,
    known_by,
)
from kpybroker.metrics.window import QUANTILE_LABELS, Windows, quantiles_ms

if TYPE_CHECKING:
    from kpybroker.broker import Broker

NS_PER_S = 1_000_000_000

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
            "kafka_server_kafkaserver_linux_disk_read_bytes",
            "Bytes this process has read from disks",
            "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
        ),
        kafka(
            GAUGE,
            "kafka_server_kafkaserver_linux_disk_write_bytes",
            "Bytes this process has written to disks",
            "kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
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
        kafka(
            GAUGE,
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "Share of the last minute that the event loop had nothing to do",
            "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
            confluent="kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
        ),
        kafka(
            GAUGE,
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "The same: one loop does both",
            "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
            confluent="kafka_network_socketserver_networkprocessoravgidlepercent",
        ),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_brokers", "Brokers of the cluster that are alive"),
        known_by(NATIVE, COUNTER, "kpybroker_loop_late_seconds_total", "Time by which the event loop came late"),
        known_by(
            NATIVE, COUNTER, "kpybroker_gc_pause_seconds_total", "Time the garbage collector stopped the loop for"
        ),
        known_by(NATIVE, COUNTER, "kpybroker_gc_pauses_total", "Garbage collections"),
        known_by(NATIVE, GAUGE, "kpybroker_memory_anonymous_bytes", "Memory of the process without mapped files"),
    ),
)

BROKER_INFO = Table(
    ("id", "address"), (known_by(KAFKA_EXPORTER, GAUGE, "kafka_broker_info", "1 for each broker that is alive"),)
)

LOOP = Table(
    ("quantile",),
    (
        known_by(
            NATIVE, GAUGE, "kpybroker_loop_lag_seconds", "How late the event loop was: quantile of the last minute"
        ),
        known_by(NATIVE, GAUGE, "kpybroker_gc_pause_seconds", "Pauses by the collector: quantile of the last minute"),
    ),
)


class NodeTables:
    """Reads what there is one of."""

    def __init__(self, broker: "Broker", watch: LoopWatch) -> None:
        self.broker = broker
        self.watch = watch
        self._windows = Windows()

    def turn(self) -> None:
        """Ten seconds have passed."""
        self._windows.turn({"lag": self.watch.lateness, "gc": self.watch.gc_pauses})

    def tables(self) -> Iterator[Table | None]:
        """The tables; None is a place to pause."""
        broker, watch = self.broker, self.watch
        yield BROKER.with_rows([Row((), self._node())])
        alive = [node for node in broker.image.brokers.values() if not node.fenced]
        addresses = [
            (str(node.id), f"{each.host}:{each.port}") for node in alive for each in list(node.listeners.values())[:1]
        ]
        yield BROKER_INFO.with_rows([Row(labels, (1,)) for labels in addresses])
        lag = quantiles_ms(self._windows.recent("lag", watch.lateness))
        pauses = quantiles_ms(self._windows.recent("gc", watch.gc_pauses))
        yield LOOP.with_rows(
            [
                Row((label,), (late_ms / 1000, pause_ms / 1000))
                for label, late_ms, pause_ms in zip(QUANTILE_LABELS, lag, pauses, strict=True)
            ]
        )

    def _node(self) -> tuple[Value, ...]:
        broker, watch, sessions = self.broker, self.watch, self.broker.fetch_sessions
        read_bytes, written_bytes = _disk_bytes()
        idle = 1.0 - watch.busy_share
        return (
            int(broker.lifecycle.state),
            read_bytes,
            written_bytes,
            len(broker.replicas.directories.failed_paths),
            len(sessions.sessions),
            sessions.partitions,
            sessions.evictions,
            idle,
            idle,
            len(broker.alive_brokers),
            watch.late_ns / NS_PER_S,
            watch.gc_ns / NS_PER_S,
            sum(watch.gc_pauses),
            _anonymous_bytes(),
        )


def _disk_bytes() -> tuple[int | None, int | None]:
    """What this process had read from and written to disks, where the system tells (Linux), as Kafka reads it."""
    facts = _facts(Path("/proc/self/io"))
    return facts.get("read_bytes"), facts.get("write_bytes")


def _anonymous_bytes() -> int | None:
    """Resident memory that is no mapped file and so no page cache; None where the system does not tell."""
    kilobytes = _facts(Path("/proc/self/status")).get("RssAnon")
    return None if kilobytes is None else kilobytes * 1024


def _facts(path: Path) -> dict[str, int]:
    if os.name != "posix":
        return {}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name: int(words[0]) for name, _, rest in pairs if (words := rest.split()) and words[0].isdigit()}
