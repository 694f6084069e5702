"""The audit of a cluster of three: every replica by Fetch and by its files, while it works and after."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.clusters import PROGRAMS, Cluster
from support.waiting import eventually

TOPIC = "audited"
KPYBROKER = Path(sys.executable).with_name("kpybroker")
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip(f"{target} is no program that clusters are made of")
    properties = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "2"}
    with Cluster(PROGRAMS[target], tmp_path_factory.mktemp("cluster"), properties=properties) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        configs = {"segment.bytes": "1048576"}
        (made,) = admin.create_topics([NewTopic(TOPIC, 3, 3, config=configs)]).values()
        made.result(PATIENCE_S)
        yield cluster


def write(cluster: Cluster, name: str, transactions: int) -> None:
    """Transactions over all partitions, every third of them aborted."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    for number in range(transactions):
        producer.begin_transaction()
        for partition in range(3):
            for _ in range(20):
                producer.produce(TOPIC, bytes(1000), b"%d" % number, partition=partition)
        if number % 3:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)


def audit(*words: str) -> dict[str, Any]:
    run = subprocess.run([KPYBROKER, "audit", "--json", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_every_replica_is_equal_by_fetch_and_by_files_also_after_a_death(cluster: Cluster, tmp_path: Path) -> None:
    homes = [str(node.directory / "data") for node in cluster.nodes.values()]
    write(cluster, "a", 12)
    cluster.nodes[3].kill()
    write(cluster, "b", 12)
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def in_sync() -> bool:
        partitions = admin.list_topics(TOPIC, PATIENCE_S).topics[TOPIC].partitions.values()
        return all(len(each.isrs) == 3 for each in partitions)

    eventually(in_sync, "all replicas in sync", PATIENCE_S)
    summary = str(tmp_path / "summary.json")
    by_fetch = audit("-b", cluster.bootstrap_servers, "--all-replicas", "--summary", summary)
    assert by_fetch["compared"] == by_fetch["equal"] == by_fetch["partitions"]
    assert by_fetch["most_replicas"] == 3
    assert by_fetch["whole_transactions"] == 24
    by_files = audit(*homes)
    assert by_files["torn_transactions"] == 0
    write(cluster, "c", 3)
    later = audit("-b", cluster.bootstrap_servers, "--all-replicas", "--since", summary)
    assert later["records"] > by_fetch["records"]
    cluster.stop()
    stopped = audit(*homes)
    assert stopped["compared"] == stopped["equal"] == stopped["partitions"]
    assert stopped["whole_transactions"] == 27
    mine = [stopped["roots"][f"broker {node}/{TOPIC}-0"] for node in (1, 2, 3)]
    assert mine[0] == mine[1] == mine[2]
