"""The address of a node's console, which other nodes ask for by DescribeConfigs."""

from typing import Any

import pytest
from console_node import ConsoleNode, console_node

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.assembly.console import url_of
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER, STATIC, DEFAULT = 4, 4, 5
URL = "kpybroker.console.url"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:9404/"),
        ({"kpybroker.http.listener": "10.0.0.2:1"}, "http://10.0.0.2:9404/"),
        ({"kpybroker.http.listener": "[::1]:1"}, "http://[::1]:9404/"),
        ({"kpybroker.http.listener": "0.0.0.0:1"}, "http://kafka-1:9404/"),
        (
            {"kpybroker.http.listener": "0.0.0.0:1", "kpybroker.http.ssl.keystore.location": "/k.pem"},
            "https://kafka-1:9404/",
        ),
        ({"kpybroker.console.url": "https://console.example/"}, "https://console.example/"),
    ],
)
def test_the_address_follows_from_the_second_port_unless_it_is_configured(settings: dict[str, str], url: str) -> None:
    listeners = {"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://kafka-1:9092"}
    assert url_of(BrokerConfig({"log.dirs": "/d", **listeners, **settings}), 9404) == url


def described(node: ConsoleNode, keys: list[str] | None) -> Any:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=keys)
    with node.client as client:
        (result,) = client.call(DescribeConfigsRequest(resources=[resource]), 4).results
    return {each.name: (each.value, each.config_source) for each in result.configs}


def test_a_request_that_names_the_config_gets_the_address_that_is_in_use() -> None:
    with console_node() as node:
        assert described(node, [URL]) == {URL: (f"http://127.0.0.1:{node.node.http_port}/", DEFAULT)}
        assert URL not in described(node, None), "Kafka's tools see no config that is not set"
        assert described(node, ["log.dirs"]).keys() == {"log.dirs"}


def test_a_configured_address_is_marked_as_one() -> None:
    with console_node(kpybroker_console_url="http://localhost:9405/") as node:
        assert described(node, [URL]) == {URL: ("http://localhost:9405/", STATIC)}
        assert described(node, None)[URL] == ("http://localhost:9405/", STATIC)
