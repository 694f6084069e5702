"""A live cluster with tiered storage changes from one program to the other node by node, and back, under load."""

import time
from pathlib import Path
from typing import Final

import pytest

from failover.faults import wait_until_replicated
from failover.run import PARTITIONS, TOPIC
from support.clusters import Cluster
from support.raw_client import connect
from support.special_timestamps import EARLIEST_LOCAL, LATEST_TIERED
from support.upgrade_load import IN_TRANSACTIONS, Load, assert_nothing_lost, create_topics
from support.waiting import eventually
from tiered.filling import alter
from tiered.nodes import BESIDE, PATIENCE_S, hand_over, store_of, tiered_cluster
from tiered.reading import offset, to_leader
from tiered.store import start_offsets, stored

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1800)]

SIZE: Final = 3
CONFIGS: Final = {"remote_storage_enable": "true", "segment_ms": "1000", "local_retention_bytes": "1"}
CALM_S: Final = 2.0


def tier(cluster: Cluster) -> None:
    """Let both topics be tiered, in segments of a second."""
    with connect(cluster.nodes[1].bootstrap_servers) as raw:
        for topic in (TOPIC, IN_TRANSACTIONS):
            alter(raw, topic, **CONFIGS)


def has_tiered(cluster: Cluster, count: int) -> bool:
    """Whether each partition has this number of segments more in the store alone."""
    for partition in range(PARTITIONS):
        with to_leader(cluster, TOPIC, partition) as raw:
            if offset(raw, TOPIC, EARLIEST_LOCAL, partition) == 0:
                return False
        if len(start_offsets(store_of(cluster.nodes[1].directory.parent), TOPIC, partition)) < count:
            return False
    return True


def replace(cluster: Cluster, node_id: int, program: str) -> None:
    """Stop a node and start the other program in its place, while no file of the store is written again."""
    store = store_of(cluster.nodes[node_id].directory.parent)
    cluster.nodes[node_id].stop()
    before = stored(store)
    hand_over(cluster, node_id, program).start()
    wait_until_replicated(cluster, SIZE, PATIENCE_S)
    copied = len(start_offsets(store, TOPIC))
    eventually(lambda: has_tiered(cluster, 1) and len(start_offsets(store, TOPIC)) > copied, "another copy", PATIENCE_S)
    after = stored(store)
    assert {path: after.get(path) for path in before} == before


def test_clients_notice_nothing_of_nodes_that_are_replaced(tiered_target: str, tmp_path: Path) -> None:
    with tiered_cluster(BESIDE[tiered_target], tmp_path, SIZE) as cluster:
        create_topics(cluster)
        tier(cluster)
        load = Load(cluster.access)
        load.start()
        try:
            eventually(lambda: load.is_under_way and has_tiered(cluster, 2), "copies", PATIENCE_S)
            for program in (tiered_target, BESIDE[tiered_target]):
                for node_id in cluster.nodes:
                    replace(cluster, node_id, program)
            time.sleep(CALM_S)
        finally:
            load.stop()
        assert_nothing_lost(load, cluster.access)
        for partition in range(PARTITIONS):
            with to_leader(cluster, TOPIC, partition) as raw:
                assert offset(raw, TOPIC, LATEST_TIERED, partition) > 0
