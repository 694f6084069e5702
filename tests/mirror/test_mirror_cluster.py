"""A mirror in a cluster of three nodes: its replicas are equal, also after the death of a partition's leader."""

from pathlib import Path
from typing import Any

from two_clusters import client_of

from kpybroker.client import topic_requests
from kpybroker.client.client import Client
from kpybroker.client.mirror_requests import set_mirrors
from kpybroker.machines.mirror.mirror import Mirror
from kpywire.batch import LENGTH_END, parse_header
from support.waiting import eventually
from tests.broker.running_node import start
from tests.cluster.running_cluster import COMBINED, cluster_of
from tests.mirror.test_mirror_node import produce

PARTITIONS = 3


def batches_of(node: Any, index: int) -> list[bytes]:
    """The batches that a node has of a partition."""
    log = node.broker.replicas.find("orders", index).held().log
    found, offset = [], log.log_start_offset
    while offset < log.end.offset:
        data = log.read(offset, 1, log.end, min_one_batch=True).read()
        header = parse_header(data)
        found.append(bytes(data[: header.batch_length + LENGTH_END]))
        offset = header.next_offset
    return found


def test_replicas_of_a_mirror_are_equal_after_the_death_of_a_leader(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    source = start(tmp_path / "source")
    (sources / "dr.properties").write_text(f"bootstrap.servers=127.0.0.1:{source.port}\n")
    with client_of(source) as client:
        topic_requests.create(client, "orders", PARTITIONS, 1, {})
    settings = {"kpybroker.mirror.directory": str(sources), "default.replication.factor": "3"}
    try:
        (tmp_path / "mirror").mkdir()
        with cluster_of(tmp_path / "mirror", [COMBINED] * 3, settings) as cluster:
            with Client(cluster.bootstrap_servers) as client:
                set_mirrors(client, [Mirror("dr", ["orders"])])

            def is_equal() -> bool:
                for index in range(PARTITIONS):
                    there = source.call(lambda index=index: batches_of(source.node, index))
                    here = cluster.call(
                        lambda index=index: [batches_of(node, index) for node in cluster.nodes.values()]
                    )
                    if any(each != there for each in here):
                        return False
                return True

            eventually(lambda: "orders" in next(iter(cluster.nodes.values())).image.topics, "the topic is there")
            for _ in range(3):
                produce(source, "orders", 50)
            eventually(is_equal, "all replicas are equal")
            cluster.kill(cluster.partition("orders").leader)
            produce(source, "orders", 100, enable_idempotence=True)
            eventually(is_equal, "the replicas that are left are equal")
    finally:
        source.stop()
