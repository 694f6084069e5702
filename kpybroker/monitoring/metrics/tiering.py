"""Tiered storage: copies, reads and deletions by topic, what is not copied yet, and why (KIP-405, KIP-956, KIP-963)."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpybroker.machines.remote_log.copying import Wait
from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, Measure, MetricRow, Table, kafka, known_by

if TYPE_CHECKING:
    from kpybroker.hosts.remote_log.figures import TierState, TierView

STATES_PER_SLICE: Final = 200
_TOPIC_BEAN = "kafka.server:type=BrokerTopicMetrics"
_MANAGER_BEAN = "kafka.log.remote:type=RemoteLogManager"
_POOL_BEAN = "kafka.log.remote:type=RemoteStorageThreadPool"
_THROTTLE_BEAN = "kafka.server:type=RemoteLogManager"

# In the order of TopicTierFigures.counts.
_COUNTED: Final = (
    ("BuildRemoteLogAuxStateErrors", "Replicas that could not be made to begin in the middle of a log"),
    ("BuildRemoteLogAuxStateRequests", "Times that a replica was to begin in the middle of a log"),
    ("RemoteCopyBytes", "Bytes of log files that were copied to the store"),
    ("RemoteCopyRequests", "Copies of segments that began"),
    ("RemoteCopyErrors", "Copies of segments that failed"),
    ("RemoteDeleteErrors", "Deletions of segments that failed"),
    ("RemoteDeleteRequests", "Deletions of segments that began"),
    ("RemoteFetchErrors", "Reads from the store that failed"),
    ("RemoteFetchBytes", "Bytes of record batches that clients got from the store"),
    ("RemoteFetchRequests", "Reads from the store for clients"),
)


def _per_second(name: str, about: str) -> Measure:
    stem = f"kafka_server_brokertopicmetrics_{name.lower()}"
    return kafka(COUNTER, f"{stem}_total", about, f"{_TOPIC_BEAN},name={name}PerSec", confluent=f"{stem}persec")


def _of_topic(name: str, about: str) -> Measure:
    return kafka(GAUGE, f"kafka_server_brokertopicmetrics_{name.lower()}", about, f"{_TOPIC_BEAN},name={name}")


TOPIC_COUNTS = Table(("topic",), tuple(_per_second(name, about) for name, about in _COUNTED))
"""The row without a topic is the sum over all, also deleted ones."""

TOPIC_SIZES = Table(
    ("topic",),
    (
        _of_topic("RemoteCopyLagBytes", "Bytes of closed segments that are not copied yet, of partitions led here"),
        _of_topic("RemoteCopyLagSegments", "Closed segments that are not copied yet, of partitions led here"),
        _of_topic("RemoteDeleteLagBytes", "Bytes of segments in the store that retention has given up"),
        _of_topic("RemoteDeleteLagSegments", "Segments in the store that retention has given up"),
        _of_topic("RemoteLogSizeBytes", "Bytes of segments in the store, of partitions led here"),
        _of_topic("RemoteLogMetadataCount", "Segments in the store, of partitions led here"),
        _of_topic("RemoteLogSizeComputationTime", "Milliseconds that the last computation of the size took"),
    ),
)
"""The row without a topic is the sum over all."""

WAITS = Table(
    ("state",),
    (
        known_by(
            NATIVE, GAUGE, "kpybroker_remote_copy_partitions", "Partitions led here, by the reason why no copy begins"
        ),
    ),
)

NODE = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_log_remote_remotestoragethreadpool_remotelogreadertaskqueuesize",
            "Reads from the store that wait for a thread",
            f"{_POOL_BEAN},name=RemoteLogReaderTaskQueueSize",
        ),
        kafka(
            GAUGE,
            "kafka_log_remote_remotestoragethreadpool_remotelogreaderavgidle_percent",
            "Share of the threads for reads that do nothing",
            f"{_POOL_BEAN},name=RemoteLogReaderAvgIdlePercent",
        ),
        kafka(
            GAUGE,
            "kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidle_percent",
            "Share of the threads for copies and deletions that do nothing",
            f"{_MANAGER_BEAN},name=RemoteLogManagerTasksAvgIdlePercent",
        ),
        kafka(
            COUNTER,
            "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count",
            "Reads from the store that have ended",
            f"{_MANAGER_BEAN},name=RemoteLogReaderFetchRateAndTimeMs",
        ),
        known_by(NATIVE, COUNTER, "kpybroker_remote_read_seconds_total", "Time that these reads took"),
        kafka(
            COUNTER,
            "kafka_server_delayedremotefetchmetrics_expires_total",
            "Fetches that were answered because the store had taken as long as it may",
            "kafka.server:type=DelayedRemoteFetchMetrics,name=ExpiresPerSec",
            confluent="kafka_server_delayedremotefetchmetrics_expirespersec",
        ),
        *(
            kafka(
                GAUGE,
                f"kafka_server_remotelogmanager_remote_{kind}_throttle_time_{short}",
                f"Milliseconds that the quota made {what} wait lately, {how}",
                f"{_THROTTLE_BEAN},name=remote-{kind}-throttle-time-{short}",
            )
            for kind, what in (("copy", "copies"), ("fetch", "reads"))
            for short, how in (("avg", "on average"), ("max", "at most"))
        ),
        known_by(NATIVE, GAUGE, "kpybroker_remote_copies_unfinished", "Copies that began and have not ended"),
        known_by(NATIVE, GAUGE, "kpybroker_remote_store_failing", "1 if the last call to the store failed"),
    ),
)
LIST_OFFSETS = Table(
    ("topic", "partition"),
    (
        kafka(
            COUNTER,
            "kafka_server_delayedremotelistoffsetsmetrics_expires_total",
            "Lookups of offsets in the store that took too long",
            "kafka.server:type=DelayedRemoteListOffsetsMetrics,name=ExpiresPerSec",
            confluent="kafka_server_delayedremotelistoffsetsmetrics_expirespersec",
        ),
    ),
)


def tables(remote_log: "TierView") -> Iterator[Table | None]:
    """The tables; None is a place to pause."""
    figures = remote_log.figures
    counts = [MetricRow((topic,), values) for topic, values in figures.by_topic()]
    yield TOPIC_COUNTS.with_rows([MetricRow(("",), figures.sums()), *counts])
    sizes: dict[str, list[int]] = {}
    waits: Counter[Wait] = Counter()
    unfinished = 0
    for number, state in enumerate(remote_log.states(), 1):
        for topic in (state.topic, ""):
            before = sizes.get(topic)
            values = _sizes(state)
            sizes[topic] = values if before is None else [one + two for one, two in zip(before, values, strict=True)]
        if state.wait is not None:
            waits[state.wait] += 1
        unfinished += state.unfinished
        if number % STATES_PER_SLICE == 0:
            yield None
    yield TOPIC_SIZES.with_rows([MetricRow((topic,), values) for topic, values in sorted(sizes.items())])
    yield WAITS.with_rows([MetricRow((wait.name,), (waits[wait],)) for wait in Wait])
    yield NODE.with_rows([MetricRow((), _of_node(remote_log, unfinished))])
    expired = [(spot.rpartition("-"), times) for spot, times in sorted(figures.expired_list_offsets.items())]
    yield LIST_OFFSETS.with_rows([MetricRow((topic, index), (times,)) for (topic, _, index), times in expired])


def _sizes(state: "TierState") -> list[int]:
    return [*state.copy_lag, *state.delete_lag, state.remote_bytes, state.segments, state.size_computation_ms]


def _of_node(remote_log: "TierView", unfinished: int) -> tuple[int | float, ...]:
    figures = remote_log.figures
    return (
        figures.readers.waiting,
        figures.readers.idle_share,
        figures.managers.idle_share,
        figures.read_ms.count,
        figures.read_ms.total_ms / 1_000,
        figures.expired_fetches,
        *remote_log.throttle_times(),
        unfinished,
        int(bool(remote_log.store_error)),
    )
