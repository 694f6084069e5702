"""The metrics that clients have pushed (KIP-714): by client, and as quantiles over the clients."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kpybroker.metrics.table import COUNTER, EVERY, GAUGE, NATIVE, Measure, Name, Row, Table, known_by
from kpybroker.telemetry.series import CLIENT_LABELS, OWN_LABELS, Sample
from kpywire.uuid import to_string

if TYPE_CHECKING:
    from kpybroker.broker import Broker
    from kpybroker.telemetry.instances import Instance

QUANTILES: Final = (0.5, 0.95, 1.0)
SERIES_PER_PIECE: Final = 500

RECEIVER = Table(
    (),
    (
        known_by(NATIVE, GAUGE, "kpybroker_client_metrics_instances", "Clients that have asked for their subscription"),
        known_by(NATIVE, COUNTER, "kpybroker_client_metrics_pushes_total", "Pushes of clients that were taken"),
        known_by(
            NATIVE, COUNTER, "kpybroker_client_metrics_invalid_total", "Pushes with a payload that could not be read"
        ),
        known_by(
            NATIVE, COUNTER, "kpybroker_client_metrics_throttled_total", "Requests before the push interval was over"
        ),
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_client_metrics_unknown_subscriptions_total",
            "Pushes for a subscription that is no longer the client's",
        ),
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_client_metrics_left_out_total",
            "Values of clients over a bound (kpybroker.client.metrics.max.series)",
        ),
    ),
)
OVER_CLIENTS = Table(
    ("metric", "quantile"),
    (known_by(NATIVE, GAUGE, "kpybroker_client_metric", "A gauge that clients have pushed, over all clients"),),
)
"""Each client counts once, with its largest value."""


def tables(broker: "Broker") -> Iterator[Table | None]:
    """The tables, once a client has asked for its subscription. None is a place to pause."""
    if not broker.has_telemetry:
        return
    receiver, now_ms = broker.telemetry, broker.scheduler.monotonic_ms()
    clients = receiver.shown(now_ms)
    counts = receiver.counts
    yield RECEIVER.with_rows(
        [
            Row(
                (),
                (
                    len(receiver.instances),
                    counts.pushes,
                    counts.invalid_payloads,
                    counts.throttled,
                    counts.unknown_subscriptions,
                    counts.values_left_out,
                ),
            )
        ]
    )
    by_name: dict[str, list[tuple[tuple[tuple[str, str], ...], Sample]]] = defaultdict(list)
    largest: dict[str, list[float]] = defaultdict(list)
    number = 0
    for client in clients:
        own = _labels_of(client)
        of_client: dict[str, float] = {}
        for sample in list(client.series):
            name = sample.key.name
            by_name[name].append((own, sample))
            if not sample.is_counter:
                of_client[name] = max(sample.value, of_client.get(name, sample.value))
            number += 1
            if number % SERIES_PER_PIECE == 0:
                yield None
        for name, value in of_client.items():
            largest[name].append(value)
    for name, samples in sorted(by_name.items()):
        yield _table_of(name, samples)
        yield None
    yield OVER_CLIENTS.with_rows(
        [
            Row((name, f"{quantile:g}"), (values[round(quantile * (len(values) - 1))],))
            for name, values in ((name, sorted(each)) for name, each in sorted(largest.items()))
            for quantile in QUANTILES
        ]
    )


def _labels_of(client: "Instance") -> tuple[tuple[str, str], ...]:
    """The labels that all series of a client have."""
    known = {**client.attributes, "client_instance_id": to_string(client.id)}
    return (*((name, known.get(name) or "") for name in OWN_LABELS), *client.series.client_labels)


def _table_of(name: str, samples: list[tuple[tuple[tuple[str, str], ...], Sample]]) -> Table:
    """One metric of all clients, with every label that one of them has for it."""
    more = sorted({label for _, sample in samples for label, _ in sample.key.labels})
    labels = (*OWN_LABELS, *CLIENT_LABELS, *more)
    first = samples[0][1]
    measure = Measure(
        COUNTER if first.is_counter else GAUGE, f"Pushed by clients: {_one_line(first.metric)}", {EVERY: Name(name)}
    )
    rows = []
    for own, sample in samples:
        values = dict((*own, *sample.key.labels))
        rows.append(Row(tuple(values.get(label, "") for label in labels), (sample.value,)))
    return Table(labels, (measure,), rows)


def _one_line(text: str) -> str:
    """The text of a client as it may stand in a comment."""
    return "".join(each if each.isprintable() else "?" for each in text).replace("\\", "/")
