"""The port of metrics when the usual one is taken, and the line when there are no metrics."""

import asyncio
import socket
from typing import Any

import pytest
from scraped_node import scraped_node

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.monitoring.metrics import monitoring
from kpybroker.monitoring.metrics.pages import Pages
from kpybroker.runtime.http.server import HttpServer
from oracle import has_ipv6_loopback


@pytest.fixture
def taken() -> Any:
    """A port that somebody else has."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


def test_a_second_broker_takes_another_port(taken: int) -> None:
    async def listen() -> int | None:
        second = monitoring.Monitoring(BrokerConfig.load(None, {"kpybroker.http.first.port": str(taken)}))
        await second.listen()
        await second.stop()
        return second.port

    assert asyncio.run(listen()) not in (None, taken)


def test_a_port_that_was_asked_for_must_be_had(taken: int) -> None:
    refused = pytest.raises(StartRefused, match=rf"cannot serve metrics on 127\.0\.0\.1:{taken}: .*in use")
    with refused, scraped_node(kpybroker_http_listener=f"127.0.0.1:{taken}"):
        pass


@pytest.mark.skipif(not has_ipv6_loopback(), reason="::1 cannot be listened on here")
def test_a_port_is_found_at_an_address_of_either_kind() -> None:
    with scraped_node(kpybroker_http_listener="[::1]:0") as node:
        assert node.node.http_port


def test_only_a_failing_scrape_is_answered_with_an_error() -> None:
    async def broken() -> list[bytes]:
        raise RuntimeError("broken")

    async def ask(path: str) -> bytes:
        server = HttpServer(Pages(lambda: None, broken, lambda _request: True).routes)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await server.stop()
        return answer

    assert b" 500 " in asyncio.run(ask("/metrics"))
    assert b" 200 " in asyncio.run(ask("/live"))


def test_concurrent_scrapes_get_the_same_page() -> None:
    with scraped_node() as node:
        node.scrape()
        exposition = node.node._monitoring._exposition  # type: ignore[union-attr]
        assert exposition is not None

        async def both() -> tuple[list[bytes], list[bytes]]:
            one, two = await asyncio.gather(exposition.text(), exposition.text())
            return one, two

        one, two = node.run(both())
        assert one is two


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("namespace", "is not name=value"),
        ("__name__=x", "is not name=value"),
        ("a-b=c", "is not name=value"),
        ("topic=x", "the label topic exists already"),
        ("a=1,a=2", "the label a exists already"),
    ],
)
def test_labels_that_metrics_cannot_have_are_refused(labels: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig.load(None, {"kpybroker.metrics.static.labels": labels})


def test_an_unknown_metrics_dialect_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kpybroker\.metrics\.dialects"):
        BrokerConfig.load(None, {"kpybroker.metrics.dialects": "strimzi,jmx"})
