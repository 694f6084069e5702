"""The event loop and its process, which serve everything: how busy and late the loop is, and what the process uses."""

import os
from collections.abc import Iterator
from pathlib import Path

from kpybroker.monitoring.metrics.loop_watch import LoopWatch
from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, MetricRow, Table, kafka, known_by
from kpybroker.monitoring.metrics.window import QUANTILE_LABELS, MinuteWindows, quantiles_ms

NS_PER_S = 1_000_000_000

LOOP = Table(
    (),
    (
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
        known_by(NATIVE, COUNTER, "kpybroker_loop_late_seconds_total", "Time by which the event loop came late"),
        known_by(
            NATIVE, COUNTER, "kpybroker_gc_pause_seconds_total", "Time the garbage collector stopped the loop for"
        ),
        known_by(NATIVE, COUNTER, "kpybroker_gc_pauses_total", "Garbage collections"),
        known_by(NATIVE, GAUGE, "kpybroker_memory_anonymous_bytes", "Memory of the process without mapped files"),
    ),
)

LATENESS = Table(
    ("quantile",),
    (
        known_by(
            NATIVE, GAUGE, "kpybroker_loop_lag_seconds", "How late the event loop was: quantile of the last minute"
        ),
        known_by(NATIVE, GAUGE, "kpybroker_gc_pause_seconds", "Pauses by the collector: quantile of the last minute"),
    ),
)


class LoopTables:
    """Reads the counters of the watch."""

    def __init__(self, watch: LoopWatch) -> None:
        self.watch = watch
        self._windows = MinuteWindows()

    def turn(self) -> None:
        """Note that ten seconds have passed."""
        self._windows.turn({"lag": self.watch.lateness, "gc": self.watch.gc_pauses})

    def tables(self) -> Iterator[Table]:
        """The tables."""
        watch = self.watch
        read_bytes, written_bytes = _disk_bytes()
        idle = 1.0 - watch.busy_share
        values = (
            read_bytes,
            written_bytes,
            idle,
            idle,
            watch.late_ns / NS_PER_S,
            watch.gc_ns / NS_PER_S,
            sum(watch.gc_pauses),
            _anonymous_bytes(),
        )
        yield LOOP.with_rows([MetricRow((), values)])
        lag = quantiles_ms(self._windows.recent("lag", watch.lateness))
        pauses = quantiles_ms(self._windows.recent("gc", watch.gc_pauses))
        yield LATENESS.with_rows(
            [
                MetricRow((label,), (late_ms / 1000, pause_ms / 1000))
                for label, late_ms, pause_ms in zip(QUANTILE_LABELS, lag, pauses, strict=True)
            ]
        )


def _disk_bytes() -> tuple[int | None, int | None]:
    """The bytes that this process read from and wrote to disks, where the system counts them (Linux), as Kafka reads
    them."""
    facts = _facts(Path("/proc/self/io"))
    return facts.get("read_bytes"), facts.get("write_bytes")


def _anonymous_bytes() -> int | None:
    """Resident memory that is not a mapped file, and so not page cache; None where the system does not count it."""
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
