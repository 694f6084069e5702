"""Clients are asked for their metrics and push them (KIP-714): kpybroker, and an Apache Kafka with a receiver."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import StartBroker
from kpywire import api, error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kpywire.messages.push_telemetry import PushTelemetryRequest
from kpywire.uuid import ZERO_UUID
from oracle import RECEIVER, BrokerProcess
from oracle.jars import compile_java, jvm
from support.otlp import Metric, metrics_data
from support.raw_client import RawClient, connect
from support.raw_requests import CLIENT_METRICS, DELETE, SET, append, create, incremental_alteration
from support.waiting import eventually

JAVA = Path(__file__).resolve().parents[1] / "java"
RECORDS = 25
WANTED = "org.apache.kafka."


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker that receives metrics."""
    return start_broker(**{name.replace(".", "_"): value for name, value in RECEIVER.items()})


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with connect(broker.bootstrap_servers) as connected:
        yield connected


def ask(client: RawClient, instance_id: bytes = ZERO_UUID) -> GetTelemetrySubscriptionsResponse:
    answer: GetTelemetrySubscriptionsResponse = client.call(
        GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0
    )
    return answer


def subscribe(client: RawClient, *configs: tuple[str, int, str | None]) -> None:
    answer = client.call(incremental_alteration((CLIENT_METRICS, "subscribed", list(configs))), 1)
    assert [each.error_code for each in answer.responses] == [error_codes.NONE]


def keys_of(client: RawClient) -> set[int]:
    answer = client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    return {each.api_key for each in answer.api_keys}


def test_no_metrics_are_requested_without_a_subscription(client: RawClient) -> None:
    answer = ask(client)
    assert (answer.error_code, list(answer.requested_metrics)) == (error_codes.NONE, [])
    assert answer.push_interval_ms == 300_000
    assert answer.client_instance_id != ZERO_UUID


def test_a_client_hears_at_once_of_a_change(client: RawClient) -> None:
    instance_id = ask(client).client_instance_id
    assert ask(client, instance_id).error_code == error_codes.THROTTLING_QUOTA_EXCEEDED
    subscribe(client, ("metrics", SET, f"{WANTED},{WANTED}consumer"), ("interval.ms", SET, "1000"))
    eventually(lambda: ask(client, instance_id).error_code == error_codes.NONE, "the subscription is in force")
    subscribe(client, ("metrics", DELETE, None), ("interval.ms", DELETE, None))
    eventually(lambda: ask(client, instance_id).error_code == error_codes.NONE, "the subscription is gone")


def test_an_instance_ends_with_its_connection(broker: BrokerProcess) -> None:
    with connect(broker.bootstrap_servers) as first:
        instance_id = ask(first).client_instance_id
        assert ask(first, instance_id).error_code == error_codes.THROTTLING_QUOTA_EXCEEDED
    with connect(broker.bootstrap_servers) as second:
        eventually(lambda: ask(second, instance_id).error_code == error_codes.NONE, "the instance is forgotten")


def test_a_push_is_taken(client: RawClient) -> None:
    answer = ask(client)
    push = PushTelemetryRequest(
        client_instance_id=answer.client_instance_id,
        subscription_id=answer.subscription_id,
        metrics=metrics_data([Metric("org.apache.kafka.a", [({}, 1)])]),
    )
    assert client.call(push, 0).error_code == error_codes.NONE
    assert client.call(push, 0).error_code == error_codes.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.java
def test_javas_consumer_pushes_and_closes(broker: BrokerProcess, client: RawClient) -> None:
    """Its id is one of the broker's, and its last push does not hold it up."""
    subscribe(client, ("metrics", SET, WANTED), ("interval.ms", SET, "200"))
    create(client, "measured")
    now_ms = int(time.time() * 1000)  # older records would expire while a slow machine compiles
    append(client, "measured", *range(now_ms, now_ms + RECORDS))
    machine = jvm(compile_java(JAVA / "MeasuredConsumer.java"), heap="128m")
    arguments = [broker.bootstrap_servers, "measured", "g", str(RECORDS), "1"]
    finished = subprocess.run(
        [*machine, "MeasuredConsumer", *arguments],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    instance_id, closed = finished.stdout.split()[-2:]
    assert (len(instance_id), closed) == (22, "closed")


def test_a_broker_without_a_receiver_lists_neither_api_and_answers_both(start_broker: StartBroker) -> None:
    """Apache Kafka has none unless a plug-in brings one; kpybroker's is switched off."""
    broker = start_broker(kpybroker_client_metrics_max_series="0")
    with connect(broker.bootstrap_servers) as client:
        assert not {api.GET_TELEMETRY_SUBSCRIPTIONS, api.PUSH_TELEMETRY} & keys_of(client)
        answer = ask(client)
        push = PushTelemetryRequest(
            client_instance_id=answer.client_instance_id, subscription_id=answer.subscription_id, metrics=b"\xff"
        )
        assert client.call(push, 0).error_code == error_codes.NONE, "nobody opens it"


def test_a_broker_with_a_receiver_lists_both_once_there_is_a_subscription(client: RawClient) -> None:
    subscribe(client, ("metrics", SET, WANTED))
    both = {api.GET_TELEMETRY_SUBSCRIPTIONS, api.PUSH_TELEMETRY}
    eventually(lambda: both <= keys_of(client), "both are listed")


def test_librdkafka_logs_nothing_at_its_start_without_a_subscription(bootstrap_servers: str) -> None:
    program = """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": SERVERS, "log_level": 7})
producer.list_topics(timeout=30)
"""
    command = [sys.executable, "-c", program.replace("SERVERS", repr(bootstrap_servers))]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert finished.stderr == ""
