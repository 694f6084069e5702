"""Logs with damaged batches, as far as clients have read them: readers get CORRUPT_MESSAGE."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpybroker.monitoring.metrics.table import GAUGE, NATIVE, MetricRow, Table, known_by

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker

LOGS_PER_SLICE: Final = 200
MOST_SHOWN: Final = 50
"""The most logs with a series of their own."""

DAMAGED = Table(
    ("topic", "partition", "logDirectory"),
    (
        known_by(
            NATIVE,
            GAUGE,
            "kpybroker_log_damaged_places",
            "Places in a log where a reader met a damaged batch; the command line's check says more",
        ),
    ),
)


def tables(broker: "Broker") -> Iterator[Table | None]:
    """The tables of damage; None is a place to pause."""
    rows: list[MetricRow] = []
    for directory in broker.replicas.directories:
        for number, log in enumerate(list(directory.logs.values())):
            places = sum([each.checks.damaged_places for each in log.segments if each.checks is not None])
            if places and len(rows) < MOST_SHOWN:
                rows.append(MetricRow((log.topic, str(log.partition), directory.path), (places,)))
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                yield None
    yield DAMAGED.with_rows(rows)
