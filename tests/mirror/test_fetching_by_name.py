"""A mirror whose id is made up, as of a source that gave its topics ids later, fetches by name and compares first."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_clusters import TwoClusters, batches, client_of, two_clusters

from kpybroker.client import offset_requests, topic_requests
from kpybroker.client.client import Spot
from kpybroker.hosts.mirror.running_mirror import RunningMirror
from kpybroker.machines.metadata.mirror_configs import LEADER_EPOCH, SOURCE, TOPIC_ID
from kpybroker.machines.mirror.ids import made_up_id
from kpywire.uuid import to_string
from oracle import free_port
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start
from tests.mirror.test_mirror_node import create, kpybroker, produce


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[TwoClusters]:
    """A source, and its mirror of ``orders`` with an id that is made up."""
    with two_clusters(tmp_path, {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}) as made:
        made.create_mirror("dr:orders")
        with client_of(made.mirror) as client:
            configs = {SOURCE: "dr", TOPIC_ID: to_string(made_up_id(os.urandom)), LEADER_EPOCH: "1000"}
            topic_requests.create(client, "orders", 1, 1, configs)
        create(made.source, "orders")
        yield made


def running(clusters: TwoClusters) -> RunningMirror:
    (found,) = clusters.mirror.node.broker.mirrors or ()
    return found


def is_by_name(clusters: TwoClusters) -> bool:
    return [place.feed.by_name for place in running(clusters)._places.values()] == [True]


def again(clusters: TwoClusters, directory: Path) -> RunningNode:
    """Stop the source and start it again at its port."""
    port = clusters.source.port
    clusters.source.call_async(clusters.source.node.stop)
    return start(directory / "source", listeners=f"PLAINTEXT://127.0.0.1:{port}")


def test_topics_are_fetched_by_name(clusters: TwoClusters) -> None:
    produce(clusters.source, "orders", 50, enable_idempotence=True)
    clusters.wait_for("orders")
    assert batches(clusters.mirror, "orders", 0) == batches(clusters.source, "orders", 0)
    assert is_by_name(clusters)
    with client_of(clusters.source) as client:
        offset_requests.delete_records(client, {Spot("orders", 0): 17})
    produce(clusters.source, "orders", 3)
    clusters.wait_for("orders")


def test_a_mirror_that_was_overtaken_goes_on_where_the_source_begins(clusters: TwoClusters) -> None:
    produce(clusters.source, "orders", 10)
    clusters.wait_for("orders")
    kpybroker(clusters, "stop", "dr")
    produce(clusters.source, "orders", 20)
    with client_of(clusters.source) as client:
        offset_requests.delete_records(client, {Spot("orders", 0): 25})
    kpybroker(clusters, "create", "dr", "--topics", "orders")
    clusters.wait_for("orders")


def test_partitions_are_compared_again_after_a_restart_of_the_source(clusters: TwoClusters, tmp_path: Path) -> None:
    produce(clusters.source, "orders", 10)
    clusters.wait_for("orders")
    node = again(clusters, tmp_path)
    try:
        produce(node, "orders", 10)
        clusters._replace(source=node).wait_for("orders")
        assert batches(clusters.mirror, "orders", 0) == batches(node, "orders", 0)
        assert is_by_name(clusters)
    finally:
        node.stop()


def test_a_source_that_lost_records_in_a_later_epoch_is_followed(clusters: TwoClusters, tmp_path: Path) -> None:
    """The last batches are gone, and others of a later epoch are in their place, as after an unclean election."""
    for _ in range(4):
        produce(clusters.source, "orders", 5)
    clusters.wait_for("orders")
    log = clusters.source.node.broker.replicas.find("orders", 0).held().log
    clusters.source.call(lambda: log.truncate_to(10, 0))
    node = again(clusters, tmp_path)
    try:
        produce(node, "orders", 3)
        clusters._replace(source=node).wait_for("orders")
        assert batches(clusters.mirror, "orders", 0) == batches(node, "orders", 0)
    finally:
        node.stop()


@pytest.mark.parametrize("records", [3, 10, 25])
def test_a_topic_that_was_created_again_is_left_as_it_was(clusters: TwoClusters, records: int) -> None:
    produce(clusters.source, "orders", 10)
    clusters.wait_for("orders")
    before = batches(clusters.mirror, "orders", 0)
    with client_of(clusters.source) as client:
        topic_requests.delete(client, "orders")
    create(clusters.source, "orders")
    produce(clusters.source, "orders", records, compression_type="gzip")
    mirror = running(clusters)
    eventually(lambda: mirror.figures().failed == 1, "the topic is not fed")
    assert batches(clusters.mirror, "orders", 0) == before
