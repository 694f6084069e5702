"""Failback to a cluster of three nodes, and a fork of one of them."""

from pathlib import Path

import confluent_kafka
from click.testing import CliRunner
from test_mirror_cluster import batches_of
from test_rehearsal import free_pair, started
from two_clusters import batches

from kpybroker.cli.mirror import command
from kpybroker.client import topic_requests
from kpybroker.client.client import LATEST_TIMESTAMP, Client, Spot
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start
from tests.cluster.running_cluster import COMBINED, RunningCluster, cluster_of
from tests.mirror.test_mirror_node import produce, values

ORDERS = ("--topics", "orders*")


def run(server: str, *arguments: str) -> str:
    """The output of ``kpybroker mirror``."""
    done = CliRunner().invoke(command, [*arguments, "--bootstrap-server", server])
    assert done.exit_code == 0, done.output
    return done.output


def write(cluster: RunningCluster, count: int, text: bytes) -> None:
    """Produce to all three partitions, to all replicas."""
    made = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(count):
        made.produce("orders", value=text + b" %d" % number, partition=number % 3)
    assert made.flush(30) == 0


def wait_until_equal(cluster: RunningCluster, other: RunningNode) -> None:
    def is_equal() -> bool:
        for index in range(3):
            wanted = batches(other, "orders", index)
            here = cluster.call(lambda index=index: [batches_of(node, index) for node in cluster.nodes.values()])
            if any(each != wanted for each in here):
                return False
        return True

    eventually(is_equal, "all replicas are equal to the other cluster's")


def test_all_replicas_are_cut_after_the_export_and_a_node_of_the_cluster_is_forked(tmp_path: Path) -> None:
    for name in ("to-a", "to-b", "a"):
        (tmp_path / name).mkdir()
    settings = {"kpybroker.mirror.directory": str(tmp_path / "to-b"), "default.replication.factor": "3"}
    b = start(tmp_path / "b", **{"kpybroker.mirror.directory": str(tmp_path / "to-a")})
    try:
        with cluster_of(tmp_path / "a", [COMBINED] * 3, settings) as a:
            to_a, to_b = (tmp_path / name / "dr.properties" for name in ("to-a", "to-b"))
            to_a.write_text(f"bootstrap.servers={a.bootstrap_servers}\n")
            to_b.write_text(f"bootstrap.servers=127.0.0.1:{b.port}\n")
            with Client(a.bootstrap_servers) as client:
                topic_requests.create(client, "orders", 3, 3, {})
            write(a, 30, b"common")
            run(f"127.0.0.1:{b.port}", "create", "dr", *ORDERS)
            eventually(lambda: "orders" in b.node.image.topics, "the topic is there")
            wait_until_equal(a, b)
            run(f"127.0.0.1:{b.port}", "failover", "dr", "--now")
            write(a, 12, b"only a")
            produce(b, "orders", 20)
            output = run(a.bootstrap_servers, "create", "dr", *ORDERS, "--adopt", "--source", str(to_b))
            assert sum(line.startswith("orders ") for line in output.splitlines()) == 3
            wait_until_equal(a, b)
            with Client(a.bootstrap_servers) as client:
                (name,) = (each for each in client.topic_names() if each.startswith("orders.diverged-"))
                ends = client.list_offsets({Spot(name, index): LATEST_TIMESTAMP for index in range(3)})
            assert list(ends.values()) == [4, 4, 4]
            fork = tmp_path / "fork"
            arguments = ("rehearse", "dr", "--directory", str(fork), "--port", str(free_pair()))
            run(a.bootstrap_servers, *arguments, "--log-dirs", str(tmp_path / "a" / "2"))
            node = started(fork / "logs-1")
            try:
                produce(node, "orders", 2)
                assert len(values(node, "orders")) == len(values(b, "orders")) + 2
            finally:
                node.stop()
            wait_until_equal(a, b)
    finally:
        b.stop()
