"""Many connections that owe nothing send a batch that takes long, all at once: short requests do not wait for them."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from attacker import Attacker, create_topic
from held_loop import METADATA_VERSION, TOPIC, HonestClient
from watched import WatchedBroker

from kpywire.compression import GZIP
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

PRODUCE_VERSION = 9
CONNECTIONS = 60
GREETINGS = 4
"""The short requests after which a connection owes nothing."""
VALUE_BYTES = 1_000_000
"""Checked on the event loop, in a millisecond or two."""
MOST_S = 0.03
BURSTS = 5
"""The bursts of which the best counts: on a busy machine the loop's turns end late."""


@pytest.fixture
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    with WatchedBroker({}, directory=tmp_path_factory.mktemp("burst")) as broker:
        yield broker
        assert broker.is_alive, broker.tail()


def test_short_requests_are_answered_before_a_burst_of_produced_batches(target: WatchedBroker) -> None:
    assert target.pid is not None
    batch = build_batch([Record(timestamp=1, value=bytes(VALUE_BYTES))], codec=GZIP)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
    with ExitStack() as stack:
        clients = [stack.enter_context(Attacker(target.port, timeout_s=60)) for _ in range(CONNECTIONS)]
        create_topic(clients[0], TOPIC)
        create_topic(clients[0], "t")
        for client in clients:
            for _ in range(GREETINGS):
                client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), METADATA_VERSION)
        clients[0].call(request, PRODUCE_VERSION)  # the first of a kind is served in steps
        honest = stack.enter_context(HonestClient(target.port, target.pid))
        held_s = min(_held_s(target.pid, honest, clients, request) for _ in range(BURSTS))
    assert held_s < MOST_S, f"a short request waited for {held_s:.3f} s of the loop's work"


def _held_s(pid: int, honest: HonestClient, clients: list[Attacker], request: ProduceRequest) -> float:
    """The longest time that an honest request waited while all clients sent this one at once."""
    time.sleep(0.5)
    honest.most_s()
    os.kill(pid, signal.SIGSTOP)  # so that one turn finds all of them
    for client in clients:
        client.send(request, PRODUCE_VERSION)
    os.kill(pid, signal.SIGCONT)
    for client in clients:
        client.read_frame()
    return honest.most_s()
