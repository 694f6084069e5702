"""Share groups of a mirror: they start where those of the source do, and never beyond what is mirrored."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from two_clusters import TwoClusters, client_of, two_clusters

from kpybroker.client import share_group_requests
from kpybroker.client.client import LATEST_TIMESTAMP, Spot
from kpybroker.client.mirrored_groups import carry_over
from kpybroker.machines.errors import KafkaError
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.mirror.test_mirror_node import create, produce

ORDERS = Spot("m-shared", 0)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path) as made:
        create(made.source, "m-shared")
        produce(made.source, "m-shared", 9)
        yield made


def start_at(node: RunningNode, offset: int) -> None:
    with client_of(node) as client:
        share_group_requests.set_start_offsets(client, "sharing", {ORDERS: offset})


def start_of(node: RunningNode) -> int:
    with client_of(node) as client:
        try:
            return share_group_requests.start_offsets(client, "sharing")[ORDERS].offset
        except (KafkaError, KeyError):
            return -1


def test_a_share_group_follows_its_start_offset_at_the_source(clusters: TwoClusters) -> None:
    start_at(clusters.source, 4)
    clusters.create_mirror("dr:m-*")
    eventually(lambda: start_of(clusters.mirror) == 4, "the group is carried over")
    start_at(clusters.source, 7)
    eventually(lambda: start_of(clusters.mirror) == 7, "the group follows")


def test_a_failover_carries_share_groups_up_to_what_is_mirrored(clusters: TwoClusters) -> None:
    create(clusters.mirror, "m-shared")
    produce(clusters.mirror, "m-shared", 6)
    start_at(clusters.source, 8)
    with client_of(clusters.mirror) as client, client_of(clusters.source) as source:
        assert carry_over(client, source, client.list_offsets({ORDERS: LATEST_TIMESTAMP})) == []
    assert start_of(clusters.mirror) == 6
