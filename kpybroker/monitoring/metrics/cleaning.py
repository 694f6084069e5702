"""Compaction: how dirty logs are, and what cleaners did and failed to do (Kafka's LogCleaner and LogCleanerManager)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import GAUGE, MetricRow, Table, kafka

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker

_CLEANER_BEAN = "kafka.log:type=LogCleaner"
_STATE_BEAN = "kafka.log:type=LogCleanerManager"

CLEANERS = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_log_logcleaner_cleaner_recopy_percent",
            "Share of what the last passes read that they wrote again",
            f"{_CLEANER_BEAN},name=cleaner-recopy-percent",
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleaner_max_buffer_utilization_percent",
            "How full the map of keys was in the last passes",
            f"{_CLEANER_BEAN},name=max-buffer-utilization-percent",
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleaner_max_clean_time_secs",
            "How long the longest of the last passes took",
            f"{_CLEANER_BEAN},name=max-clean-time-secs",
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleaner_max_compaction_delay_secs",
            "By how much a log has passed its max.compaction.lag.ms",
            f"{_CLEANER_BEAN},name=max-compaction-delay-secs",
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleaner_deadthreadcount",
            "Cleaners that are gone for good: none, each pass gets one that works",
            f"{_CLEANER_BEAN},name=DeadThreadCount",
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleanermanager_max_dirty_percent",
            "How much of the dirtiest log has not been compacted",
            f"{_STATE_BEAN},name=max-dirty-percent",
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleanermanager_time_since_last_run_ms",
            "Milliseconds since logs were last checked",
            f"{_STATE_BEAN},name=time-since-last-run-ms",
        ),
    ),
)

UNCLEANABLE = Table(
    ("logDirectory",),
    (
        kafka(
            GAUGE,
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Logs that a cleaner has failed on and that are left as they are",
            f"{_STATE_BEAN},name=uncleanable-partitions-count",
            confluent_labels=("logdirectory",),
        ),
        kafka(
            GAUGE,
            "kafka_log_logcleanermanager_uncleanable_bytes",
            "Bytes of these logs that should be compacted",
            f"{_STATE_BEAN},name=uncleanable-bytes",
            confluent_labels=("logdirectory",),
        ),
    ),
)


def tables(broker: "Broker") -> Iterator[Table]:
    """The tables of compaction."""
    compaction = broker.compaction
    figures, passes = compaction.figures, compaction.figures.last_passes
    read, written = sum(each.bytes_read for each in passes), sum(each.bytes_written for each in passes)
    values = (
        100 * written / max(read, 1),
        100 * max([each.map_utilization for each in passes], default=0.0),
        max([each.elapsed_ms for each in passes], default=0.0) / 1000,
        figures.max_delay_ms / 1000,
        0,
        100 * figures.max_dirty_ratio,
        broker.scheduler.now_ms() - figures.last_run_ms,
    )
    yield CLEANERS.with_rows([MetricRow((), tuple(int(value) for value in values))])
    rows = []
    for directory in broker.replicas.directories:
        failed = [each.dirty_bytes for found, each in compaction.uncleanable.items() if found.directory is directory]
        rows.append(MetricRow((directory.path,), (len(failed), sum(failed))))
    yield UNCLEANABLE.with_rows(rows)
