"""Pushes a node's metrics to an OpenTelemetry collector: OTLP over HTTP, Protobuf, the names of the node's dialects.

Off unless ``kpybroker.otlp.endpoint`` is set; the extra ``otlp`` has the messages. Requests are built on the loop in
slices, as a scrape is, and serialized, compressed and sent in a thread, at most `POINTS_PER_REQUEST` values at a time.
A collector that is away costs one log line, and the values until it is back: nothing is queued.
"""

import asyncio
import gzip
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from kpybroker import __version__
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import OTLP_ENDPOINT, OTLP_HEADERS, OTLP_INTERVAL_MS
from kpybroker.machines.config_def import Password
from kpybroker.monitoring.metrics.static_labels import static_labels
from kpybroker.monitoring.metrics.table import COUNTER, Measure, MetricRow, Name, Table, names_of

if TYPE_CHECKING:
    from kpybroker.monitoring.metrics.exposition import Exposition

log = logging.getLogger("kpybroker.otlp")

USUAL_PATH: Final = "/v1/metrics"
POINTS_PER_REQUEST: Final = 5_000
ROWS_PER_SLICE: Final = 200
SLICE_NS: Final = 2_000_000
PAUSE_S: Final = 0.002
TIMEOUT_S: Final = 10.0
_CUMULATIVE: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


class Pusher:
    """Pushes the metrics of one node, at once and then at every interval, until it is closed."""

    def __init__(self, config: BrokerConfig, exposition: "Exposition") -> None:
        self._exposition = exposition
        self._dialects: Sequence[str] = config["kpybroker.metrics.dialects"]
        self._interval_s: float = config[OTLP_INTERVAL_MS] / 1000
        self._resource = {
            "service.name": "kpybroker",
            "service.version": __version__,
            "service.instance.id": str(config.node_id),
            **static_labels(config["kpybroker.metrics.static.labels"]),
        }
        self._post = OtlpCollector(config[OTLP_ENDPOINT], _headers(config[OTLP_HEADERS])).post
        self._started_ns = time.time_ns()
        self._is_away = False
        self._task = asyncio.ensure_future(self._run())

    def close(self) -> None:
        """Stop pushing."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            async with self._exposition.reading:
                bodies = [await asyncio.to_thread(_body, request) async for request in self._requests()]
            refusal: str | None = None
            for body in bodies:
                refusal = await asyncio.to_thread(self._post, body)
                if refusal is not None:
                    break
            self._tell(refusal)
            await asyncio.sleep(self._interval_s)

    def _tell(self, refusal: str | None) -> None:
        if refusal is not None and not self._is_away:
            log.warning("Metrics cannot be pushed to the collector: %s", refusal)
        if refusal is None and self._is_away:
            log.info("Metrics are pushed to the collector again")
        self._is_away = refusal is not None

    async def _requests(self) -> AsyncIterator[ExportMetricsServiceRequest]:
        """The metrics in requests of bounded size, made in slices."""
        now_ns = time.time_ns()
        request, points = self._empty(), 0
        began_ns = perf_counter_ns()
        written: set[str] = set()
        for table in await self._exposition.tables():
            if table is None:
                await asyncio.sleep(PAUSE_S)
                began_ns = perf_counter_ns()
                continue
            for column, measure in enumerate(table.measures):
                for name in names_of(measure, self._dialects):
                    if name.text in written:
                        continue
                    written.add(name.text)
                    for rows in _slices(table.rows):
                        points += self._add(request, measure, name, table, rows, column, now_ns)
                        if perf_counter_ns() - began_ns >= SLICE_NS:
                            await asyncio.sleep(PAUSE_S)
                            began_ns = perf_counter_ns()
                        if points >= POINTS_PER_REQUEST:
                            yield request
                            request, points = self._empty(), 0
        yield request

    def _empty(self) -> ExportMetricsServiceRequest:
        request = ExportMetricsServiceRequest()
        resource = request.resource_metrics.add()
        for key, value in self._resource.items():
            resource.resource.attributes.add(key=key).value.string_value = value
        resource.scope_metrics.add().scope.name = "kpybroker"
        return request

    def _add(
        self,
        request: ExportMetricsServiceRequest,
        measure: Measure,
        name: Name,
        table: Table,
        rows: Sequence[MetricRow],
        column: int,
        now_ns: int,
    ) -> int:
        """Add a slice of a column as a metric; return the number of its values."""
        metric = request.resource_metrics[0].scope_metrics[0].metrics.add(name=name.text, description=measure.help)
        if measure.kind == COUNTER:
            metric.sum.aggregation_temporality = _CUMULATIVE
            metric.sum.is_monotonic = True
            points = metric.sum.data_points
        else:
            points = metric.gauge.data_points
        labels = table.labels if name.labels is None else name.labels
        for row in rows:
            value = row.values[column]
            if value is None:
                continue
            point = points.add(time_unix_nano=now_ns, as_double=value * name.scale)
            if measure.kind == COUNTER:
                point.start_time_unix_nano = self._started_ns
            for label, text in zip(labels, row.labels, strict=True):
                if text:
                    point.attributes.add(key=label).value.string_value = text
        return len(points)


class OtlpCollector:
    """An address that takes OTLP over HTTP."""

    def __init__(self, endpoint: str, headers: dict[str, str]) -> None:
        url = urlsplit(endpoint)
        self._connect: Callable[..., HTTPConnection] = HTTPSConnection if url.scheme == "https" else HTTPConnection
        self._host, self._port = url.hostname or "", url.port
        self._path = url.path if url.path not in ("", "/") else USUAL_PATH
        fixed = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        self._headers = {**headers, **fixed}

    def post(self, body: bytes) -> str | None:
        """Send a request, in a thread. Return the reason if it was not taken."""
        connection = self._connect(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            answer.read(1 << 16)
            return None if 200 <= answer.status < 300 else f"it answers {answer.status} {answer.reason}"[:200]
        except (OSError, HTTPException) as error:
            return str(error) or type(error).__name__
        except ValueError:
            return "kpybroker.otlp.headers has what HTTP does not allow in a header"
        finally:
            connection.close()


def _body(request: ExportMetricsServiceRequest) -> bytes:
    return gzip.compress(request.SerializeToString(), 1)


def _headers(value: Password | None) -> dict[str, str]:
    """The headers of ``name=value,name=value``."""
    pairs = (entry.partition("=") for entry in ("" if value is None else value.value).split(",") if entry.strip())
    return {name.strip(): text.strip() for name, _, text in pairs}


def _slices(rows: Sequence[MetricRow]) -> Iterator[Sequence[MetricRow]]:
    return (rows[start : start + ROWS_PER_SLICE] for start in range(0, len(rows), ROWS_PER_SLICE))
