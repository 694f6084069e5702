"""The metrics that clients have pushed (KIP-714): by client, and as quantiles over the clients."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kpybroker.machines.telemetry.payload import Labels
from kpybroker.machines.telemetry.series import CLIENT_LABELS, OWN_LABELS, SeriesSample
from kpybroker.monitoring.metrics.table import COUNTER, EVERY, GAUGE, NATIVE, Measure, MetricRow, Name, Table, known_by
from kpywire.uuid import to_string

if TYPE_CHECKING:
    from kpybroker.machines.telemetry.instances import Instance
    from kpybroker.requests.broker import Broker

QUANTILES: Final = (0.5, 0.95, 1.0)
SERIES_PER_PIECE: Final = 200
MOST_LABEL_NAMES: Final = 24
"""The most names of labels that one metric has: every row of a table has a place for each."""
Shown = tuple[Labels, SeriesSample]
"""A series, and the labels that it has from its client."""

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
            MetricRow(
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
    by_name: dict[str, list[Shown]] = defaultdict(list)
    largest: dict[str, list[float]] = defaultdict(list)
    for client in clients:
        own = _labels_of(client)
        of_client: dict[str, float] = {}
        for sample in list(client.series):
            name = sample.key.name
            by_name[name].append((own, sample))
            if not sample.is_counter:
                of_client[name] = max(sample.value, of_client.get(name, sample.value))
        for name, value in of_client.items():
            largest[name].append(value)
        yield None
    for name, samples in by_name.items():
        yield from _of_metric(name, samples)
    yield from _over_clients(largest)


def _over_clients(largest: Mapping[str, list[float]]) -> Iterator[Table | None]:
    """The quantiles of each gauge, of which ``largest`` has the largest value of each client."""
    rows = []
    for name, values in largest.items():
        ordered = sorted(values)
        rows += [MetricRow((name, f"{each:g}"), (ordered[round(each * (len(ordered) - 1))],)) for each in QUANTILES]
        yield None
    yield OVER_CLIENTS.with_rows(rows)


def _labels_of(client: "Instance") -> Labels:
    """The labels that all series of a client have."""
    known = {**client.attributes, "client_instance_id": to_string(client.id)}
    return (*((name, known.get(name) or "") for name in OWN_LABELS), *client.series.client_labels)


def _of_metric(name: str, samples: Sequence[Shown]) -> Iterator[Table | None]:
    """One metric of all clients, with the labels that most of them have for it. A series with another one is left
    out."""
    clients_with: Counter[str] = Counter()
    for start in range(0, len(samples), SERIES_PER_PIECE):
        piece = samples[start : start + SERIES_PER_PIECE]
        of_clients = {(own, label) for own, sample in piece for label, _ in sample.key.labels}
        clients_with.update(label for _, label in of_clients)
        yield None
    more = {label for label, _ in clients_with.most_common(MOST_LABEL_NAMES)}
    labels = (*OWN_LABELS, *CLIENT_LABELS, *sorted(more))
    rows = []
    for start in range(0, len(samples), SERIES_PER_PIECE):
        for own, sample in samples[start : start + SERIES_PER_PIECE]:
            values = dict((*own, *sample.key.labels))
            if len(clients_with) > MOST_LABEL_NAMES and not more.issuperset(label for label, _ in sample.key.labels):
                continue
            rows.append(MetricRow(tuple(values.get(label, "") for label in labels), (sample.value,)))
        yield None
    first = samples[0][1]
    kind = COUNTER if first.is_counter else GAUGE
    about = f"Pushed by clients: {_one_line(first.metric)}"
    yield Table(labels, (Measure(kind, about, {EVERY: Name(name)}),), rows)


def _one_line(text: str) -> str:
    """The text of a client as it may stand in a comment."""
    return "".join(each if each.isprintable() else "?" for each in text).replace("\\", "/")
