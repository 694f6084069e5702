"""Requests by API and version, their errors, and how their time was spent."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, Measure, MetricRow, Table, kafka, known_by
from kpybroker.monitoring.metrics.window import QUANTILE_LABELS, MinuteWindows, quantiles_ms
from kpybroker.runtime.counters import ApiCounters
from kpywire import error_codes
from kpywire.api import API_KEYS

if TYPE_CHECKING:
    from kpybroker.requests.dispatching.dispatcher import Dispatcher

FETCH = "Fetch"
FETCH_CONSUMER = "FetchConsumer"
_BEAN = "kafka.network:type=RequestMetrics"
NS_PER_S = 1_000_000_000


def _per_second(name: str, about: str, native: str = "") -> Measure:
    stem = f"kafka_network_requestmetrics_{name.lower()}"
    bean = f"{_BEAN},name={name}PerSec"
    return kafka(COUNTER, f"{stem}_total", about, bean, confluent=f"{stem}persec", native=native)


REQUESTS = Table(("request", "version"), (_per_second("Requests", "Requests served"),))
ERRORS = Table(("request", "error"), (_per_second("Errors", "Errors in answers; Kafka counts NONE too, we do not"),))

PHASES = (
    ("queue", "RequestQueueTimeMs", "readable, while others were served"),
    ("local", "LocalTimeMs", "being served"),
    ("remote", "RemoteTimeMs", "waiting for records or for a commit"),
    ("waiting", "ResponseQueueTimeMs", "answered, while earlier answers of the connection were due"),
    ("send", "ResponseSendTimeMs", "until the socket had taken the answer"),
    ("total", "TotalTimeMs", "in all"),
)
"""(list of ApiCounters, Kafka's name, what a request did in this time)."""

TIMES = Table(
    ("request", "quantile"),
    tuple(
        kafka(
            GAUGE,
            f"kafka_network_requestmetrics_{name.lower()}",
            f"Milliseconds of a request {about}: quantile of the last minute",
            f"{_BEAN},name={name}",
        )
        for _, name, about in PHASES
    ),
)
COUNTS = Table(
    ("request",),
    (
        *(
            kafka(
                COUNTER,
                f"kafka_network_requestmetrics_{name.lower()}_count",
                f"Requests behind the quantiles of {name}",
                f"{_BEAN},name={name}",
            )
            for _, name, _ in PHASES
        ),
    ),
)

COSTS = Table(
    ("request",),
    (
        known_by(NATIVE, COUNTER, "kpybroker_request_serving_seconds_total", "Time of the loop spent on requests"),
        known_by(NATIVE, COUNTER, "kpybroker_request_bytes_total", "Bytes of requests, without their size"),
        known_by(NATIVE, COUNTER, "kpybroker_response_bytes_total", "Bytes of answers, without their headers"),
        known_by(NATIVE, COUNTER, "kpybroker_request_failures_total", "Requests that ended their connection"),
    ),
)


class RequestTables:
    """Reads the counters of all dispatchers; keeps the windows of their times."""

    def __init__(self, dispatchers: Sequence["Dispatcher"]) -> None:
        self.dispatchers = dispatchers
        self._windows = MinuteWindows()

    def turn(self) -> None:
        """Note that ten seconds have passed."""
        lists: dict[object, Sequence[int]] = {}
        for name, counters in self._used():
            for phase, _, _ in PHASES:
                lists[name, phase] = getattr(counters, phase)
        self._windows.turn(lists)

    def tables(self) -> Iterator[Table | None]:
        """The tables; None is a place to pause."""
        yield REQUESTS.with_rows(list(self._requests()))
        yield ERRORS.with_rows(list(self._errors()))
        quantiles: list[MetricRow] = []
        counts: list[MetricRow] = []
        costs: list[MetricRow] = []
        for name, counters in self._used():
            quantiles += self._quantiles(name, counters)
            counts.append(MetricRow((name,), _counts(counters)))
            costs.append(MetricRow((name,), _costs(counters)))
            yield None
        yield TIMES.with_rows(_with_consumers(quantiles))
        yield COUNTS.with_rows(_with_consumers(counts))
        yield COSTS.with_rows(costs)

    def _used(self) -> Iterator[tuple[str, ApiCounters]]:
        """The counters by name. Each is listed once, since the dispatchers of a node count together."""
        for key, counters in self.dispatchers[0].counters.items():
            if counters.total:
                yield API_KEYS[key].name, counters

    def _requests(self) -> Iterator[MetricRow]:
        sums: dict[tuple[int, int], int] = {}
        for dispatcher in self.dispatchers:
            for which, served in dispatcher.served.items():
                sums[which] = sums.get(which, 0) + served.requests
        for (key, version), requests in sorted(sums.items()):
            yield MetricRow((API_KEYS[key].name, str(version)), (requests,))

    def _errors(self) -> Iterator[MetricRow]:
        for name, counters in self._used():
            by_name: dict[str, int] = {}
            for code, times in sorted(counters.error_codes.items()):
                error = error_codes.name(code)
                by_name[error] = by_name.get(error, 0) + times
            yield from (MetricRow((name, error), (times,)) for error, times in by_name.items())

    def _quantiles(self, name: str, counters: ApiCounters) -> Iterator[MetricRow]:
        answered = sum(self._windows.recent((name, "total"), counters.total))
        columns: list[list[float]] = []
        for phase, _, _ in PHASES:
            recent = self._windows.recent((name, phase), getattr(counters, phase))
            # Who had hardly to wait for anything is not counted there: it took no time.
            columns.append(quantiles_ms(recent, max(0, answered - sum(recent))))
        for number, label in enumerate(QUANTILE_LABELS):
            yield MetricRow((name, label), [round(column[number], 6) for column in columns])


def _counts(counters: ApiCounters) -> list[int]:
    served, answered = sum(counters.local), sum(counters.total)
    return [served, served, *[answered] * 4]


def _costs(counters: ApiCounters) -> list[int | float]:
    return [counters.local_ns / NS_PER_S, counters.request_bytes, counters.response_bytes, counters.failures]


def _with_consumers(rows: Iterable[MetricRow]) -> list[MetricRow]:
    """Add a copy of the fetches of consumers under a name of their own, as Kafka does. On one node all fetches are
    theirs."""
    found: list[MetricRow] = []
    for row in rows:
        found.append(row)
        if row.labels[0] == FETCH:
            found.append(MetricRow((FETCH_CONSUMER, *row.labels[1:]), row.values))
    return found
