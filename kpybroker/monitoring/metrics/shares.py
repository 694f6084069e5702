"""Share groups on this node: sessions, acknowledgements, and the records in flight (KIP-932)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, MetricRow, Table, kafka, known_by
from kpybroker.monitoring.metrics.window import QUANTILE_LABELS, MinuteWindows, quantiles_ms, quantiles_of

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.serving.share.metrics import GroupReads

PARTITIONS_PER_PIECE: Final = 200
GROUPS_PER_PIECE: Final = 50
_LOADS = "loads"
_SESSIONS = "kafka.server:type=ShareSessionCache"
_PARTITION = "kafka.server:type=SharePartitionMetrics"
_LOAD_TIME = "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs"
_ACQUIRE_TIME = "kafka.server:type=ShareGroupMetrics,name=TopicPartitionsAcquireTimeMs"
_FETCH_RATIO = "kafka.server:type=ShareGroupMetrics,name=RequestTopicPartitionsFetchRatio"
_BATCH_SIZE = f"{_PARTITION},name=InFlightBatchMessageCount"

SESSIONS = Table(
    (),
    (
        kafka(GAUGE, "kafka_server_sharesessioncache_sharesessionscount", "Share sessions", _SESSIONS),
        kafka(GAUGE, "kafka_server_sharesessioncache_sharepartitionscount", "Partitions of share sessions", _SESSIONS),
        kafka(
            COUNTER,
            "kafka_server_delayedsharefetchmetrics_expires_total",
            "Share fetches that were answered because they had waited for as long as they may",
            "kafka.server:type=DelayedShareFetchMetrics,name=ExpiresPerSec",
            confluent="kafka_server_delayedsharefetchmetrics_expirespersec",
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
READS = Table(
    ("group",),
    (
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_topicpartitionsacquiretimems_count",
            "Times behind the quantiles of TopicPartitionsAcquireTimeMs",
            _ACQUIRE_TIME,
        ),
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio_count",
            "Answered share fetches",
            _FETCH_RATIO,
        ),
        kafka(
            COUNTER,
            "kafka_server_sharepartitionmetrics_inflightbatchmessagecount_count",
            "Batches that were acquired for the first time; of all partitions of a group together",
            _BATCH_SIZE,
        ),
    ),
)
READ_QUANTILES = Table(
    ("group", "quantile"),
    (
        kafka(
            GAUGE,
            "kafka_server_sharegroupmetrics_topicpartitionsacquiretimems",
            "Milliseconds until a share fetch found a partition to acquire records from: quantile of the last minute",
            _ACQUIRE_TIME,
        ),
        kafka(
            GAUGE,
            "kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio",
            "Percent of the partitions of a share fetch from which records could be acquired: quantile of the last "
            "minute",
            _FETCH_RATIO,
        ),
        kafka(
            GAUGE,
            "kafka_server_sharepartitionmetrics_inflightbatchmessagecount",
            "Records of a batch when it was acquired first: quantile of the last minute, of all partitions of a group "
            "together",
            _BATCH_SIZE,
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
DEAD_LETTERS = Table(
    ("group",),
    (
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total",
            "Records that were written to the dead-letter topic of a group; one that was written twice counts twice",
            "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueRecordCount",
            confluent="kafka_server_sharegroupmetrics_deadletterqueuerecordcount",
        ),
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total",
            "Ranges of records that were produced to it, each attempt",
            "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueTotalProduceRequestsPerSec",
            confluent="kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequestspersec",
        ),
        kafka(
            COUNTER,
            "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total",
            "Ranges of records that could not be produced, after all attempts",
            "kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueFailedProduceRequestsPerSec",
            confluent="kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequestspersec",
        ),
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_share_dead_letters_given_up_total",
            "Records that were archived without a dead letter, since its topic does not allow it or cannot be written",
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
        kafka(
            COUNTER,
            "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total",
            "Records whose acquisition locks have ended",
            f"{_PARTITION},name=AcquisitionLockTimeoutPerSec",
            confluent="kafka_server_sharepartitionmetrics_acquisitionlocktimeoutpersec",
        ),
    ),
)


class ShareTables:
    """Reads the counters of share groups."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self._windows = MinuteWindows()

    def turn(self) -> None:
        """Note that ten seconds have passed."""
        if self.broker.has_share_leader:
            counted = self.broker.share_leader.metrics
            lists: dict[object, Sequence[int]] = {_LOADS: counted.load_times}
            for group_id, reads in counted.groups.items():
                lists[_ACQUIRE_TIME, group_id] = reads.acquire_times
                lists[_FETCH_RATIO, group_id] = reads.fetch_ratios
                lists[_BATCH_SIZE, group_id] = reads.batch_sizes
            self._windows.turn(lists)

    def tables(self) -> Iterator[Table | None]:
        """The tables, once a member of a share group has read here. None is a place to pause."""
        if not self.broker.has_share_leader:
            return
        from kpybroker.requests.serving.share.metrics import TYPES

        leader = self.broker.share_leader
        counted, sessions = leader.metrics, leader.sessions
        loads, load_s = counted.loads, counted.load_ms / 1000
        values = (len(sessions), sessions.partitions, counted.expired, loads, load_s, loads)
        yield SESSIONS.with_rows([MetricRow((), values)])
        times = quantiles_ms(self._windows.recent(_LOADS, counted.load_times))
        yield LOADS.with_rows([MetricRow((label,), (ms,)) for label, ms in zip(QUANTILE_LABELS, times, strict=True)])
        yield ACKNOWLEDGEMENTS.with_rows(
            [MetricRow((name,), (count,)) for name, count in list(zip(TYPES, counted.acknowledged, strict=True))[1:]]
        )
        yield from self._reads(counted.groups)
        rows = []
        for number, (group_id, letters) in enumerate(list(counted.dead_letters.items()), 1):
            rows.append(MetricRow((group_id,), (letters.written, letters.produced, letters.failed, letters.given_up)))
            if number % GROUPS_PER_PIECE == 0:
                yield None
        yield DEAD_LETTERS.with_rows(rows)
        rows = []
        for number, led in enumerate(list(leader.led.values())):
            partition = led.partition
            labels = (led.key.group_id, led.replica.topic.name, str(led.key.partition))
            rows.append(MetricRow(labels, (partition.in_flight_count, partition.batch_count, led.lock_timeouts)))
            if number % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield None
        yield IN_FLIGHT.with_rows(rows)

    def _reads(self, groups: "Mapping[str, GroupReads]") -> Iterator[Table | None]:
        counts, quantiles, recent = [], [], self._windows.recent
        for number, (group_id, reads) in enumerate(list(groups.items()), 1):
            counts.append(MetricRow((group_id,), (reads.looks, reads.fetches, reads.batches)))
            columns = (
                quantiles_ms(recent((_ACQUIRE_TIME, group_id), reads.acquire_times)),
                quantiles_of(recent((_FETCH_RATIO, group_id), reads.fetch_ratios)),
                quantiles_ms(recent((_BATCH_SIZE, group_id), reads.batch_sizes)),
            )
            labelled = zip(QUANTILE_LABELS, *columns, strict=True)
            quantiles += [MetricRow((group_id, label), values) for label, *values in labelled]
            if number % GROUPS_PER_PIECE == 0:
                yield None
        yield READS.with_rows(counts)
        yield READ_QUANTILES.with_rows(quantiles)
