"""Clients by the requests for metadata that they send, so that ``kpybroker doctor`` can find one that never pauses."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpybroker.monitoring.metrics.table import COUNTER, NATIVE, MetricRow, Table, known_by

if TYPE_CHECKING:
    from kpybroker.runtime.calls.askers import Askers

MOST_SHOWN: Final = 20
"""The most clients with a series of their own: those that asked most often."""

METADATA_REQUESTS = Table(
    ("client_host", "client_id"),
    (
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_client_metadata_requests_total",
            "Metadata requests of a client, of those with the most",
        ),
    ),
)


def tables(askers: "Askers") -> Iterator[Table]:
    """The table of the clients that asked most often."""
    most = sorted(askers.known.items(), key=lambda each: -each[1].requests)[:MOST_SHOWN]
    yield METADATA_REQUESTS.with_rows([MetricRow(caller, (asker.requests,)) for caller, asker in most])
