"""A cluster in ZooKeeper mode migrates to KRaft under load (KIP-866): brokers and controllers of both programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from support.migration_clusters import Controller, KafkaController, Load, MigratingCluster
from support.zookeeper_clients import create, create_soon, is_in_sync, partitions_of, soon
from support.zookeeper_clusters import KafkaOnZooKeeper, KpyOnZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

KPY, KAFKA = KpyOnZooKeeper, KafkaOnZooKeeper
MIXES: dict[str, tuple[dict[int, Any], type[Controller], tuple[int, ...]]] = {
    "kpybroker": ({1: KPY, 2: KPY, 3: KPY}, Controller, (3000,)),
    "kpybroker with three controllers": ({1: KPY, 2: KPY, 3: KPY}, Controller, (3000, 3001, 3002)),
    "Apache Kafka's brokers": ({1: KAFKA, 2: KAFKA}, Controller, (3000,)),
    "brokers of both": ({1: KAFKA, 2: KPY}, Controller, (3000,)),
    "Apache Kafka's controller": ({1: KPY, 2: KPY}, KafkaController, (3000,)),
}


@pytest.mark.parametrize("mix", MIXES)
def test_a_cluster_migrates_under_load(mix: str, tmp_path: Path) -> None:
    brokers, controller_of, quorum = MIXES[mix]
    with MigratingCluster(tmp_path, brokers, controller_of, quorum) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        create(admin, "load", 4, replicas=2)
        create(admin, "before", 2, replicas=2, retention_ms="7200000")
        create(admin, "doomed", 2, replicas=2)
        soon(lambda: all(is_in_sync(admin, each) for each in ("load", "before", "doomed")))
        assert cluster.status()["phase"] == "in_zookeeper"
        with Load(cluster.access, "load", 4) as load:
            soon(lambda: len(load.seen) > 100)
            cluster.start_controllers()
            assert cluster.wait_for("prepared")["left"]
            for broker_id in brokers:
                cluster.enable(broker_id)
                soon(lambda: is_in_sync(admin, "load"))
            cluster.wait_for("dual_write")
            change_something(cluster, admin)
            if len(quorum) > 1:
                fail_over(cluster, admin)
            before = len(load.seen)
            for broker_id in brokers:
                cluster.to_kraft(broker_id)
                soon(lambda: is_in_sync(admin, "load"))
            soon(lambda: len(load.seen) > before + 100)
            assert cluster.status()["facts"]["brokers in ZooKeeper mode"] == []
            create_soon(admin, "hybrid")
            soon(lambda: is_in_sync(admin, "hybrid"))
            soon(lambda: in_tree(cluster, "/brokers/topics/hybrid/partitions/1/state"))
            cluster.finalise()
            if controller_of is Controller:
                cluster.wait_for("finalised")
            create_soon(admin, "after")
            soon(lambda: is_in_sync(admin, "after"))
            assert not in_tree(cluster, "/brokers/topics/after")
        assert load.judge() > 1_000
        assert retention(admin, "before") == "3600000"


def in_tree(cluster: MigratingCluster, path: str) -> Any:
    tree = cluster.tree()
    try:
        return tree.get(path) if tree.exists(path) else None
    finally:
        tree.stop()
        tree.close()


def retention(admin: AdminClient, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    described = next(iter(admin.describe_configs([resource]).values())).result(10)
    return str(described["retention.ms"].value)


def holds(directory: Path, topic: str) -> bool:
    """Whether there are logs of a topic. Those that are renamed are deleted later."""
    return any(each.name.startswith(f"{topic}-") and not each.name.endswith("-delete") for each in directory.iterdir())


def change_something(cluster: MigratingCluster, admin: AdminClient) -> None:
    """Topics, configs and a deletion, while ZooKeeper is kept up."""
    create_soon(admin, "during")
    soon(lambda: is_in_sync(admin, "during"))
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "before", incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(30)
    soon(lambda: retention(admin, "before") == "3600000")
    admin.delete_topics(["doomed"])["doomed"].result(30)
    soon(lambda: "doomed" not in admin.list_topics(timeout=10).topics)
    soon(lambda: in_tree(cluster, "/brokers/topics/doomed") is None)
    soon(lambda: in_tree(cluster, "/brokers/topics/during/partitions/0/state"))
    data, _ = soon(lambda: in_tree(cluster, "/config/topics/before"))
    assert json.loads(data)["config"]["retention.ms"] == "3600000"
    for broker in cluster.brokers.values():
        soon(lambda broker=broker: not holds(broker.data, "doomed"))
    assert len(partitions_of(admin, "during")) == 2


def fail_over(cluster: MigratingCluster, admin: AdminClient) -> None:
    """The active controller is killed; the next one continues to write into ZooKeeper."""
    data, _ = in_tree(cluster, "/controller")
    killed = cluster.controllers[json.loads(data)["brokerid"]]
    killed.kill()
    soon(lambda: json.loads(in_tree(cluster, "/controller")[0])["brokerid"] != killed.node_id)
    create_soon(admin, "second")
    soon(lambda: is_in_sync(admin, "second"))
    soon(lambda: in_tree(cluster, "/brokers/topics/second/partitions/1/state"))
    killed.start()


@pytest.mark.parametrize("program", [KPY, KAFKA])
def test_the_way_back_from_dual_write(program: Any, tmp_path: Path) -> None:
    """Nothing is lost, and the controller in ZooKeeper can change what the KRaft controller wrote (KAFKA-20488)."""
    with MigratingCluster(tmp_path, {1: program, 2: program}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        create(admin, "load", 4, replicas=2)
        soon(lambda: is_in_sync(admin, "load"))
        with Load(cluster.access, "load", 4) as load:
            cluster.start_controllers()
            for broker_id in (1, 2):
                cluster.enable(broker_id)
                soon(lambda: is_in_sync(admin, "load"))
            cluster.wait_for("dual_write")
            create_soon(admin, "during")
            cluster.to_kraft(2)
            soon(lambda: is_in_sync(admin, "load"))
            cluster.to_zookeeper(2)
            soon(lambda: is_in_sync(admin, "load"))
            assert cluster.leave_controllers() in (1, 2)
            create_soon(admin, "back")
            soon(lambda: is_in_sync(admin, "back"))
            for broker_id in (1, 2):
                cluster.to_zookeeper(broker_id, takes_part=False)
                soon(lambda: is_in_sync(admin, "load") and is_in_sync(admin, "during"))
            create_soon(admin, "after")
            soon(lambda: is_in_sync(admin, "after"))
        assert load.judge() > 100
        assert cluster.status()["phase"] == "in_zookeeper"
