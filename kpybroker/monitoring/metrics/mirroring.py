"""The mirrors of a broker: how many partitions it feeds, how far behind their sources they are, and what it fetched."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, MetricRow, Table, known_by

if TYPE_CHECKING:
    from kpybroker.hosts.mirror.mirrors import Mirrors

FED_PARTITIONS = Table(
    ("mirror",),
    (
        known_by(
            NATIVE, GAUGE, "kpybroker_mirror_source_reached", "1 while the source's metadata can be read, 0 otherwise"
        ),
        known_by(NATIVE, GAUGE, "kpybroker_mirror_partitions", "Partitions that this broker fetches from the source"),
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_mirror_failed_partitions",
            "Those that wait for an operator; the log says why",
        ),
        known_by(NATIVE, GAUGE, "kpybroker_mirror_lag_records", "Records that the partition that is most behind lacks"),
        known_by(NATIVE, COUNTER, "kpybroker_mirror_bytes_total", "Bytes of records fetched from the source"),
    ),
)


HELD_PARTITIONS = Table(
    (),
    (
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_mirror_held_markers",
            "COMMIT markers of sources that this broker's leaders hold back, until all partitions have theirs",
        ),
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_mirror_partitions_without_place",
            "Partitions led here in which a failover may tear transactions",
        ),
    ),
)


def tables(mirrors: "Mirrors | None") -> Iterator[Table]:
    """The table of mirrors; none on a broker without."""
    if mirrors is not None:
        yield FED_PARTITIONS.with_rows([MetricRow((each.mirror.name,), tuple(each.figures())) for each in mirrors])
        yield HELD_PARTITIONS.with_rows([MetricRow((), tuple(mirrors.shown.held.figures))])
