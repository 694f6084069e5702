"""Share groups on this node: sessions, acknowledgements, and the records in flight (KIP-932)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpybroker.metrics.table import COUNTER, GAUGE, NATIVE, Row, Table, kafka, known_by
from kpybroker.metrics.window import QUANTILE_LABELS, Windows, quantiles_ms

if TYPE_CHECKING:
    from kpybroker.broker import Broker

PARTITIONS_PER_PIECE: Final = 200
_SESSIONS = "kafka.server:type=ShareSessionCache"
_PARTITION = "kafka.server:type=SharePartitionMetrics"
_LOAD_TIME = "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs"

SESSIONS = Table(
    (),
    (
        kafka(GAUGE, "kafka_server_sharesessioncache_sharesessionscount", "Share sessions", _SESSIONS),
        kafka(GAUGE, "kafka_server_sharesessioncache_sharepartitionscount", "Partitions of share sessions", _SESSIONS),
        kafka(
            COUNTER,
            "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total",
            "Records whose acquisition locks have ended",
            _PARTITION,
            confluent="kafka_server_sharepartitionmetrics_acquisitionlocktimeoutpersec",
        ),
        known_by(NATIVE, COUNTER, "kpybroker_share_partition_loads_total", "Share partitions that were loaded"),
        known_by(NATIVE, COUNTER, "kpybroker_share_partition_load_seconds_total", "Time until they were loaded"),
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_partitionloadtimems_count",
            "Share partitions behind the quantiles of PartitionLoadTimeMs",
            _LOAD_TIME,
        ),
    ),
)
LOADS = Table(
    ("quantile",),
    (
        kafka(
            GAUGE,
            "kafka_server_sharegroupmetrics_partitionloadtimems",
            "Milliseconds until a share partition was loaded: quantile of the last minute",
            _LOAD_TIME,
        ),
    ),
)
ACKNOWLEDGEMENTS = Table(
    ("ackType",),
    (
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_recordacknowledgements_total",
            "Records that members have acknowledged",
            "kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec",
            confluent="kafka_server_sharegroupmetrics_recordacknowledgementspersec",
        ),
    ),
)
IN_FLIGHT = Table(
    ("group", "topic", "partition"),
    (
        kafka(
            GAUGE,
            "kafka_server_sharepartitionmetrics_inflightmessagecount",
            "Records between the start and the end offset of a share partition",
            f"{_PARTITION},name=InFlightMessageCount",
        ),
        kafka(
            GAUGE,
            "kafka_server_sharepartitionmetrics_inflightbatchcount",
            "Batches of these records",
            f"{_PARTITION},name=InFlightBatchCount",
        ),
    ),
)


class ShareTables:
    """Reads the counters of share groups."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self._windows = Windows()

    def turn(self) -> None:
        """Note that ten seconds have passed."""
        if self.broker.has_share_leader:
            self._windows.turn({"loads": self.broker.share_leader.metrics.load_times})

    def tables(self) -> Iterator[Table | None]:
        """The tables, once a member of a share group has read here. None is a place to pause."""
        if not self.broker.has_share_leader:
            return
        from kpybroker.serving.share.metrics import TYPES

        leader = self.broker.share_leader
        counted, sessions = leader.metrics, leader.sessions
        loads, load_s = counted.loads, counted.load_ms / 1000
        values = (len(sessions), sessions.partitions, counted.lock_timeouts, loads, load_s, loads)
        yield SESSIONS.with_rows([Row((), values)])
        times = quantiles_ms(self._windows.recent("loads", counted.load_times))
        yield LOADS.with_rows([Row((label,), (ms,)) for label, ms in zip(QUANTILE_LABELS, times, strict=True)])
        yield ACKNOWLEDGEMENTS.with_rows(
            [Row((name,), (count,)) for name, count in zip(TYPES, counted.acknowledged, strict=True)]
        )
        rows = []
        for number, led in enumerate(list(leader.led.values())):
            partition = led.partition
            labels = (led.key.group_id, led.replica.topic.name, str(led.key.partition))
            rows.append(Row(labels, (partition.in_flight_count, partition.batch_count)))
            if number % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield None
        yield IN_FLIGHT.with_rows(rows)
