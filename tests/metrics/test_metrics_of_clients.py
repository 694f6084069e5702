"""The metrics that clients push (KIP-714) are in a scrape: by client, and as quantiles over the clients."""

from collections.abc import Iterator

import pytest
from scraped_node import Scrape, scraped_node

from kpybroker.monitoring.metrics.telemetry import MOST_LABEL_NAMES
from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.uuid import ZERO_UUID
from support.otlp import SUM, Metric, metrics_data
from support.raw_client import RawClient
from support.raw_requests import CLIENT_METRICS, SET, incremental_alteration
from support.waiting import eventually

LATENCY = "kafka_client_consumer_latency_avg"
LATENCIES = (1.0, 2.0, 40.0)


def push(client: RawClient, *metrics: Metric) -> None:
    """Push metrics as a client of the group ``readers``."""
    client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"), 3)
    answer = client.call(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
    request = PushTelemetryRequest(
        client_instance_id=answer.client_instance_id,
        subscription_id=answer.subscription_id,
        metrics=metrics_data(metrics, {"group_id": "readers"}),
    )
    assert client.call(request, 0).error_code == error_codes.NONE


def value(scrape: Scrape, name: str, **labels: str) -> float:
    """The value of the one series that has these labels among others."""
    (found,) = [each for known, each in scrape.samples[name].items() if labels.items() <= dict(known).items()]
    return found


def is_subscribed(client: RawClient) -> bool:
    answer = client.call(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
    return list(answer.requested_metrics) == ["*"]


@pytest.fixture(scope="module")
def scrape() -> Iterator[Scrape]:
    with scraped_node(kpybroker_metrics_static_labels="topic_owner=me") as node:
        clients = [RawClient(node.port, client_id=f"reader-{number}") for number in range(3)]
        subscription = (CLIENT_METRICS, "all", [("metrics", SET, "*")])
        clients[0].call(incremental_alteration(subscription), 1)
        eventually(lambda: is_subscribed(clients[0]), "the subscription")
        for client, latency in zip(clients, LATENCIES, strict=True):
            points = [({"node-id": "1", "topic_owner": "x"}, latency), ({"node-id": "2"}, 0.5)]
            push(
                client,
                Metric("org.apache.kafka.consumer.latency.avg", points),
                Metric('weird "name"\n{', [({}, 1)]),
                Metric(
                    "many", [({f"l{client.client_id}{each}": "x"}, 1) for each in range(100)] + [({"usual": "x"}, 1)]
                ),
                Metric("org.apache.kafka.consumer.records.total", [({}, 7)], SUM),
            )
        yield node.scrape()
        for client in clients:
            client.sock.close()


def test_a_gauge_is_shown_by_client(scrape: Scrape) -> None:
    found = value(scrape, LATENCY, client_id="reader-2", node_id="1", exported_topic_owner="x")
    assert found == LATENCIES[2]
    described = value(
        scrape, LATENCY, client_id="reader-1", node_id="2", group_id="readers", client_software_name="raw"
    )
    assert described == 0.5


def test_a_counter_is_shown_by_client(scrape: Scrape) -> None:
    assert scrape.labelled("kafka_client_consumer_records_total", "client_id") == {
        f"reader-{number}": 7 for number in range(3)
    }


def test_any_name_is_one_that_prometheus_takes(scrape: Scrape) -> None:
    assert len(scrape.labelled("kafka_client_weird__name___", "client_id")) == 3


def test_gauges_are_shown_over_the_clients_which_count_once_each(scrape: Scrape) -> None:
    found = [value(scrape, "kpybroker_client_metric", metric=LATENCY, quantile=each) for each in ("0.5", "0.95", "1")]
    assert found == [2.0, 40.0, 40.0]


def test_pushes_are_counted(scrape: Scrape) -> None:
    assert value(scrape, "kpybroker_client_metrics_pushes_total") == 3
    assert value(scrape, "kpybroker_client_metrics_instances") >= 3


def test_the_names_of_labels_are_bounded_by_what_most_clients_have(scrape: Scrape) -> None:
    names = {name for labels in scrape.samples["kafka_client_many"] for name, _ in labels}
    assert "usual" in names
    assert len([name for name in names if name.startswith("lreader")]) == MOST_LABEL_NAMES - 1
