"""Every request is counted once, whichever way it is served: alone, with others behind it, in steps, late or never."""

from collections.abc import Callable
from functools import partial

import pytest
from scraped_node import ScrapedNode, fetch_of, scraped_node

from kpybroker.runtime.counters import ApiCounters
from kpywire import api
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from kpywire.uuid import ZERO_UUID
from support.raw_client import RawClient
from support.raw_requests import append, create
from support.waiting import becomes

FETCH_VERSION, METADATA_VERSION, PRODUCE_VERSION = 12, 12, 9
Ways = list[tuple[int, int]]
"""The (API key, number) of the requests that were sent."""


def alone(client: RawClient) -> Ways:
    for _ in range(5):
        client.call(fetch_of("t", 0), FETCH_VERSION)
    return [(api.FETCH, 5)]


def pipelined(client: RawClient) -> Ways:
    client.sock.sendall(b"".join(client.frame(fetch_of("t", 0), FETCH_VERSION) for _ in range(40)))
    for _ in range(40):
        client.receive(api.FETCH, FETCH_VERSION)
    return [(api.FETCH, 40)]


def in_steps(client: RawClient) -> Ways:
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(500)]
    for _ in range(3):
        client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), METADATA_VERSION)
    return [(api.METADATA, 3)]


def late(client: RawClient) -> Ways:
    for _ in range(3):
        client.call(fetch_of("t", 1, wait_ms=20), FETCH_VERSION)
    return [(api.FETCH, 3)]


def without_an_answer(client: RawClient) -> Ways:
    part = PartitionProduceData(index=0, records=build_batch([Record(timestamp=1, value=b"v")]))
    topic = TopicProduceData(name="t", topic_id=ZERO_UUID, partition_data=[part])
    for _ in range(4):
        client.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[topic]), PRODUCE_VERSION)
    client.call(fetch_of("t", 0), FETCH_VERSION)
    return [(api.PRODUCE, 4), (api.FETCH, 1)]


@pytest.mark.parametrize("way", [alone, pipelined, in_steps, late, without_an_answer])
def test_a_request_is_counted_once_whichever_way_it_is_served(way: Callable[[RawClient], Ways]) -> None:
    with scraped_node() as node, RawClient(node.port) as client:
        create(client, "t", 1)
        append(client, "t", 1_000)
        before = {key: counted(node, key) for key in (api.FETCH, api.METADATA, api.PRODUCE)}
        for key, number in way(client):
            wanted = tuple(count + number for count in before[key])
            # The last byte of an answer is here before its request is counted.
            becomes(partial(counted, node, key), wanted)


def counted(node: ScrapedNode, api_key: int) -> tuple[int, int]:
    """The requests of a key that were served, and those that were served and done."""

    def count() -> tuple[int, int]:
        assert node.node.broker is not None
        counters: ApiCounters = node.node.dispatcher.counters[api_key]
        return sum(counters.local), sum(counters.total)

    result: tuple[int, int] = node.call(count)
    return result
