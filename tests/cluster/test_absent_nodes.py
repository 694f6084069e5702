"""A node that is away for less than its session: clients go on knowing it, and nothing is led there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from running_cluster import COMBINED, RunningCluster, cluster_of

from kpybroker.client.client import Client
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.raw_client import RawClient

pytestmark = pytest.mark.slow
LONG = {"broker.session.timeout.ms": "600000"}
"""Longer than any test takes: a node is fenced without it."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with cluster_of(tmp_path, [COMBINED] * 3, LONG) as running:
        yield running
    assert running.failures == []


def listed(cluster: RunningCluster, node_id: int) -> list[int]:
    """The brokers in what a node answers to Metadata."""
    with RawClient(cluster.ports[node_id][0]) as client:
        answer = client.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
    return sorted(each.node_id for each in answer.brokers)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_metadata_go_on_listing_a_node_and_nothing_is_led_there(cluster: RunningCluster, how: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
    gone = cluster.wait_for_isr("t", 3).leader
    getattr(cluster, how)(gone)

    def all_know() -> bool:
        brokers = [node.broker for node in cluster.nodes.values()]
        return all(broker is not None and gone not in broker.alive_brokers for broker in brokers)

    cluster.eventually(all_know, "all knowing that it is gone")
    here = sorted(cluster.nodes)
    for node_id in here:
        with RawClient(cluster.ports[node_id][0]) as client:
            metadata = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
            described = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
        (partition,) = metadata.topics[0].partitions
        assert sorted(each.node_id for each in metadata.brokers) == [1, 2, 3]
        assert partition.leader_id in here
        assert metadata.controller_id in here
        assert partition.offline_replicas == [gone]
        assert sorted(each.broker_id for each in described.brokers) == here
    with Client(cluster.bootstrap_servers) as asking:
        assert [each.node_id for each in asking.nodes()] == here
    cluster.start(gone)
    assert [listed(cluster, node_id) for node_id in (1, 2, 3)] == [[1, 2, 3]] * 3


def test_a_starting_node_lists_the_fenced_brokers(cluster: RunningCluster) -> None:
    cluster.stop(1)
    cluster.stop(2)
    cluster.start(2)
    assert listed(cluster, 2) == [1, 2, 3]
