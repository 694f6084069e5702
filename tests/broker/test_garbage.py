"""Garbage of requests goes at once: a collector that has much to find stops the event loop while it does."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from running_node import RunningNode, start

from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.machines.fetch.session import CachedPartition, FetchSession
from kpybroker.requests.server.connection import Connection
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest
from kpywire.uuid import ZERO_UUID
from support.raw_client import RawClient
from support.waiting import eventually

PARTITIONS = 5


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path)
    yield running
    running.stop()


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alive(*classes: type) -> int:
    return sum(isinstance(each, classes) for each in gc.get_objects())


def fetch(client: RawClient, max_wait_ms: int, session_epoch: int = -1) -> int:
    """The session's id."""
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in range(PARTITIONS)]
    topics = [FetchTopic(topic="t", partitions=wanted)]
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, session_id=0, session_epoch=session_epoch, topics=topics
    )
    answer = client.call(request, 12)
    assert answer.error_code == error_codes.NONE
    return int(answer.session_id)


def create(client: RawClient) -> None:
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)


@pytest.mark.parametrize("max_wait_ms", [0, 20])
def test_a_fetch_without_a_session_leaves_nothing_to_collect(node: RunningNode, max_wait_ms: int) -> None:
    with RawClient(node.port) as client:
        create(client)
        fetch(client, max_wait_ms)  # a connection may know what it read last
        with no_collector():
            before = node.call(lambda: alive(FetchSession, CachedPartition))
            for _ in range(10):
                assert fetch(client, max_wait_ms) == 0
            assert node.call(lambda: alive(FetchSession, CachedPartition)) <= before
            assert fetch(client, max_wait_ms, session_epoch=0) > 0
            assert node.call(lambda: alive(FetchSession, CachedPartition)) > PARTITIONS


def test_a_session_does_not_keep_a_topic_that_is_deleted(node: RunningNode) -> None:
    with RawClient(node.port) as client:
        create(client)
        assert fetch(client, 0, session_epoch=0) > 0
        with no_collector():
            assert node.call(lambda: alive(Replica, HeldTopic)) == PARTITIONS + 1
            topics = [DeleteTopicState(name="t", topic_id=ZERO_UUID)]
            client.call(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
            eventually(lambda: node.call(lambda: alive(Replica, HeldTopic)) == 0)


def test_a_connection_that_is_closed_leaves_nothing_to_collect(node: RunningNode) -> None:
    with RawClient(node.port) as first, no_collector():
        first.call(MetadataRequest(topics=None), 12)
        before = node.call(lambda: alive(Connection))
        for _ in range(10):
            with RawClient(node.port) as visitor:
                visitor.call(MetadataRequest(topics=None), 12)
        for _ in range(3):  # the node sees that they are gone before it answers a later request
            first.call(MetadataRequest(topics=None), 12)
        assert node.call(lambda: alive(Connection)) == before
