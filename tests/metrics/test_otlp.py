"""Metrics pushed by OTLP: a collector gets what a scrape shows, and a broker whose collector is away goes on."""

import gzip
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from scraped_node import scraped_node

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.monitoring.metrics import monitoring, otlp
from support.raw_client import RawClient
from support.raw_requests import append, create
from support.waiting import eventually

SECRET = "Bearer planted-secret"
Points = dict[str, dict[tuple[tuple[str, str], ...], float]]


class ReceivingCollector:
    """Takes pushes, and answers with a status."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append(ExportMetricsServiceRequest.FromString(gzip.decompress(body)))
                collector.headers.append(dict(self.headers))
                collector.paths.append(self.path)
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def points(self) -> Points:
        found: Points = {}
        for request in list(self.requests):
            for metric in request.resource_metrics[0].scope_metrics[0].metrics:
                points = metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points
                for point in points:
                    labels = tuple(sorted((each.key, each.value.string_value) for each in point.attributes))
                    found.setdefault(metric.name, {})[labels] = point.as_double
        return found

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[ReceivingCollector]:
    receiving = ReceivingCollector()
    yield receiving
    receiving.close()


def settings(collector: ReceivingCollector, **more: str) -> dict[str, str]:
    return {"kpybroker_otlp_endpoint": collector.endpoint, "kpybroker_otlp_interval_ms": "1000", **more}


def test_a_collector_gets_what_a_scrape_shows(collector: ReceivingCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "POINTS_PER_REQUEST", 50)
    labels = {"kpybroker_metrics_static_labels": "env=test", "kpybroker_otlp_headers": f"Authorization={SECRET}"}
    with scraped_node(**settings(collector, **labels)) as node, RawClient(node.port) as client:
        create(client, "flights", 2)
        append(client, "flights", 1_000)
        name = "kafka_server_brokertopicmetrics_messagesin_total"
        eventually(lambda: collector.points().get(name, {}).get((("topic", "flights"),)) == 1, "the record is counted")
        shown = set(node.scrape().samples)
        eventually(lambda: shown <= collector.points().keys(), "all that a scrape shows is pushed")
    pushed = collector.points()
    assert pushed["kafka_topic_partitions"][(("topic", "flights"),)] == 2
    assert len(collector.requests) > 2
    assert set(collector.paths) == {"/v1/metrics"}
    assert collector.headers[0]["Authorization"] == SECRET
    (resource,) = collector.requests[0].resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes.items() >= {"service.name": "kpybroker", "service.instance.id": "1", "env": "test"}.items()
    metrics = [m for each in collector.requests for m in each.resource_metrics[0].scope_metrics[0].metrics]
    (counter, *_) = [metric for metric in metrics if metric.name == name]
    assert counter.sum.is_monotonic
    assert 0 < counter.sum.data_points[0].start_time_unix_nano <= counter.sum.data_points[0].time_unix_nano


def test_a_collector_that_refuses_costs_one_line_without_the_headers(
    collector: ReceivingCollector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 503
    caplog.set_level(logging.INFO, "kpybroker.otlp")
    with scraped_node(**settings(collector, kpybroker_otlp_headers=f"Authorization={SECRET}")) as node:
        eventually(lambda: len(collector.requests) >= 2, "it is tried again")
        collector.status = 200
        eventually(lambda: "again" in caplog.text, "it is taken again")
        with RawClient(node.port) as client:
            create(client, "goes-on")
    assert caplog.text.count("cannot be pushed") == 1
    assert "503" in caplog.text
    assert SECRET not in caplog.text


def test_a_header_that_http_does_not_allow_is_named_and_not_shown() -> None:
    collector = otlp.OtlpCollector("http://127.0.0.1:1", {"Authorization": f"{SECRET}\nx: y"})
    refusal = collector.post(b"")
    assert refusal is not None
    assert "planted" not in refusal


@pytest.mark.parametrize("endpoint", ["collector:4317", "ftp://a/b", "http://", "http://ada:secret@a/v1/metrics"])
def test_an_endpoint_that_is_no_url_is_refused_without_its_login(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"kpybroker\.otlp\.endpoint must be empty or http") as refused:
        BrokerConfig.load(None, {"kpybroker.otlp.endpoint": endpoint})
    assert "secret" not in str(refused.value)


def test_a_node_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "find_spec", lambda _name: None)
    with (
        pytest.raises(StartRefused, match=r"pip install 'kpybroker\[otlp\]'"),
        scraped_node(kpybroker_otlp_endpoint="http://127.0.0.1:1"),
    ):
        pass
