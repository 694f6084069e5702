"""The leases on segments: how many there are, and how much they hold."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import GAUGE, NATIVE, MetricRow, Table, known_by

if TYPE_CHECKING:
    from kpybroker.hosts.leases.leases import Leases

LEASES = Table(
    (),
    (
        known_by(NATIVE, GAUGE, "kpybroker_leases", "Leases of programs that read the files of logs"),
        known_by(NATIVE, GAUGE, "kpybroker_lent_segments", "Segments that are lent; each holds its space until then"),
    ),
)


def tables(leases: "Leases") -> Iterator[Table]:
    """The table of leases."""
    yield LEASES.with_rows([MetricRow((), (len(leases), leases.segments))])
