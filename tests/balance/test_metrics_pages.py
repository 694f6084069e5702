"""The pages of Prometheus texts of ``--metrics``: what consumers read of a topic, and how long producers wait."""

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from kpybroker.cli import main
from kpybroker.cli.metrics_pages import MetricsPages
from kpybroker.testing import Broker
from oracle import free_port
from support.waiting import eventually


def test_traffic_of_consumers_and_latency_of_producers_are_read() -> None:
    port = free_port()
    with Broker({"kpybroker.http.listener": f"127.0.0.1:{port}"}) as broker:
        broker.create_topic("orders", partitions=2)
        broker.produce("orders", *(["x" * 1000] * 20))
        client = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        client.subscribe(["orders"])
        eventually(lambda: client.poll(0.2) is not None, "a record")
        pages = MetricsPages([("127.0.0.1", port)])
        broker.produce("orders", *(["x" * 1000] * 20))
        eventually(lambda: client.poll(0.2) is not None and pages.sent().get("orders", 0.0) > 0, "traffic of consumers")
        assert eventually(pages.latency_ms, "a latency of producers") > 0
        client.close()


def test_a_page_that_does_not_answer_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    pages = MetricsPages([("127.0.0.1", free_port())])
    assert pages.sent() == {}
    assert pages.latency_ms() is None
    assert capsys.readouterr().err.count("No metrics from 127.0.0.1:") == 1


@pytest.mark.parametrize("url", ["ftp://", "http://host:port/metrics", "host:9404/other"])
def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    result = CliRunner().invoke(main, ["balance", "plan", "--metrics", url])
    assert result.exit_code == click.UsageError.exit_code
    assert "is not such as http://HOST:9404/metrics" in result.output
