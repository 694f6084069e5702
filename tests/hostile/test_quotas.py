"""Clients above their quotas cost nothing while they wait, whatever they do, and tables about them are bounded."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from attacker import Attacker, create_topic, produce_request
from test_floods import batch_of
from watched import WatchedBroker

from kpywire import api
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest
from support.quota_requests import Names, set_quotas

TOPIC = "above-quota"
VERSION = 9
MIB = 1024 * 1024
LARGEST_TIME_MS = 2**31 - 1


@pytest.fixture(scope="module", autouse=True)
def _topic(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        create_topic(client, TOPIC)


@contextmanager
def quota(port: int, names: Names, **quotas: float) -> Iterator[None]:
    """Quotas of an entity while this lasts."""
    with Attacker(port) as admin:
        set_quotas(admin, names, **quotas)
        try:
            yield
        finally:
            set_quotas(admin, names, **dict.fromkeys(quotas))


def throttled(client: Attacker, size: int) -> int:
    """Produce this much, and return the time that the client has to wait."""
    answer = client.call(produce_request(TOPIC, batch_of(size)), VERSION)
    return int(answer.throttle_time_ms)


def test_muted_clients_cost_no_processor_time_whatever_they_send(target: WatchedBroker) -> None:
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)])
        ],
    )
    with quota(target.port, {"client-id": "muted"}, producer_byte_rate=1), ExitStack() as opened:
        clients = [opened.enter_context(Attacker(target.port, client_id="muted")) for _ in range(100)]
        for client in clients:
            assert throttled(client, 1_000) > 10_000
        for client in clients:  # what they send from now on waits in the socket
            client.sock.sendall(client.frame(MetadataRequest(topics=None), 9) * 50 + client.frame(fetch, 12) * 50)
        time.sleep(0.3)
        before = target.cpu_s()
        for _ in range(10):
            for client in clients:
                client.sock.sendall(client.frame(MetadataRequest(topics=[]), 9))
            time.sleep(0.05)
        assert target.cpu_s() - before < 0.4, "the broker is busy with clients that wait"
        with Attacker(target.port, client_id="other") as other:
            assert throttled(other, 1_000) == 0
        for client in clients:
            client.vanish()


def test_a_tiny_quota_and_a_large_request_are_capped_and_the_connection_still_closes(target: WatchedBroker) -> None:
    with quota(target.port, {"client-id": "tiny"}, producer_byte_rate=1):
        with Attacker(target.port, client_id="tiny") as client:
            assert throttled(client, 30 * MIB) == LARGEST_TIME_MS
        with Attacker(target.port, client_id="tiny") as client:
            assert throttled(client, 10) == LARGEST_TIME_MS, "another connection does not help"


def test_client_ids_by_the_thousand_hold_bounded_memory_however_long_they_are(
    target: WatchedBroker, rounds: int
) -> None:
    """1 500 ids of 30 000 characters are 45 MB, each used once."""
    count = 1_500 * min(rounds, 10)
    with quota(target.port, {"client-id": None}, request_percentage=1e12), Attacker(target.port) as client:
        before = target.memory_bytes()
        for number in range(count):
            client.client_id = f"{number:06}{'x' * 30_000}"
            client.send(MetadataRequest(topics=[]), 9)
            client.receive(api.METADATA, 9)
        assert target.memory_bytes() - before < 24 * MIB
