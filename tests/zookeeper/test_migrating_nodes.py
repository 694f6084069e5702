"""A whole migration in this process: a broker in ZooKeeper mode, a KRaft controller, and a simulated ZooKeeper."""

import asyncio
import random
import re
from typing import Any

import pytest
from asking import play
from reigning import Asker
from simulated import InMemory, SimulatedZooKeeper
from test_zookeeper_node import CONFIGS

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peers import connect_over
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.machines.metadata.image import MIGRATION, POST_MIGRATION, PRE_MIGRATION
from kpybroker.machines.zookeeper.client.operations import Create, Delete
from kpybroker.machines.zookeeper.migration.driver import MigrationDriverState
from kpybroker.machines.zookeeper.tree import cluster, controller, paths
from kpybroker.machines.zookeeper.tree.topics import TopicAssignment
from kpybroker.node.assembly.platform import Simulated
from kpybroker.node.node import Node
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oracle import free_port
from support.waiting import until

FLAG = "zookeeper.metadata.migration.enable"
CONTROLLER = 3000
BROKER = 5
ORDERS = TopicAssignment("orders", {0: (BROKER,), 1: (BROKER,)}, b"\1" * 16)


class World:
    """The ensemble, the disks of both nodes, and their configurations in each step."""

    def __init__(self) -> None:
        self.server = SimulatedZooKeeper(random.Random(1), tick_ms=3_000)
        self.way = InMemory(self.server, asyncio.get_running_loop().call_soon)
        self.disks = {BROKER: MemoryDisk(), CONTROLLER: MemoryDisk()}
        self.failures: list[str] = []
        voters = {"controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{free_port()}"}
        listener = voters["controller.quorum.voters"].partition("@")[2]
        shared = {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "kpybroker.http.listener": "",
            "log.dirs": "/data",
            **voters,
        }
        zookeeper = {"zookeeper.connect": CONFIGS["zookeeper.connect"]}
        self.in_zookeeper = {**CONFIGS, "broker.id": str(BROKER)}
        self.taking_part = {**self.in_zookeeper, **shared, FLAG: "true"}
        roles = {"process.roles": "broker", "node.id": str(BROKER), "listeners": CONFIGS["listeners"]}
        self.in_kraft = {**shared, **roles, "controlled.shutdown.enable": "false"}
        self.finalising = {
            **shared,
            "process.roles": "controller",
            "node.id": str(CONTROLLER),
            "listeners": f"CONTROLLER://{listener}",
        }
        self.migrating = {**self.finalising, **zookeeper, FLAG: "true"}

    async def start(self, configs: dict[str, str]) -> Any:
        loop = asyncio.get_running_loop()
        others = connect_over(loop)

        def connect(host: str, port: int, *callbacks: Any) -> Any:
            return (self.way if host == "zk" else others)(host, port, *callbacks)

        config = BrokerConfig(configs)
        simulated = Simulated(connect, rng=random.Random(config.node_id))
        node = Node(config, loop, self.failures.append, simulated=simulated)
        try:
            await node.start(self.disks[config.node_id])
        except StartRefused:
            await node.stop(controlled=False)
            raise
        return node

    def format(self, release: str = "3.9", cluster_id: str | None = None) -> None:
        found = self.server.nodes[f"/kafka{paths.CLUSTER_ID}"].data
        levels = choose_levels(release, {}, dynamic_quorum=False)
        cluster_id = cluster_id or cluster.decode_cluster_id(found)
        formatting = Formatting(cluster_id, CONTROLLER, ["/data"], "/data", levels, None)
        format_directories(self.disks[CONTROLLER], formatting, random.Random(3), 0)

    def create(self, topic: TopicAssignment) -> None:
        asker = Asker(self.server)
        asker.ask(Create(f"/kafka/config/topics/{topic.name}", b'{"version":1,"config":{"retention.ms":"7200000"}}'))
        asker.ask(Create(f"/kafka{paths.topic(topic.name)}", topic.encode()))

    def znode(self, path: str) -> Any:
        return self.server.nodes.get(f"/kafka{path}")

    @property
    def ruler(self) -> controller.ElectedController | None:
        found = self.znode(paths.CONTROLLER)
        return None if found is None else controller.ElectedController.decode(found.data)


async def created(node: Any, topic: str) -> int:
    """Have a client's node create a topic by the controller; the error."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    asked = CreatableTopic(name=topic, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    request = CreateTopicsRequest(topics=[asked], timeout_ms=20_000, validate_only=False)
    node.broker.controller.send(request, answered.set_result)
    async with asyncio.timeout(30):
        code: int = (await answered).topics[0].error_code
        return code


def leads(node: Any, topic: str, partition: int) -> bool:
    held = node.broker.replicas.topics.get(topic)
    return held is not None and partition in held.replicas and held.replicas[partition].is_led_here


def test_a_cluster_migrates_goes_back_and_migrates_for_good() -> None:
    async def story() -> None:
        world = World()
        broker = await world.start(world.in_zookeeper)
        await until(lambda: world.ruler is not None and world.ruler.broker_id == BROKER)
        world.create(ORDERS)
        await until(lambda: leads(broker, "orders", 1))

        world.format()
        ruler = await world.start(world.migrating)
        await until(lambda: ruler.image.zk_migration_state == PRE_MIGRATION)
        assert world.ruler is not None
        assert not world.ruler.is_kraft
        await broker.stop()
        broker = await world.start(world.taking_part)
        await until(lambda: ruler.image.zk_migration_state == MIGRATION)
        await until(lambda: broker.broker.ruler.is_of_kraft)
        assert (world.ruler.broker_id, world.ruler.is_kraft) == (CONTROLLER, True)
        assert dict(ruler.image.configs_of(2, "orders")) == {"retention.ms": "7200000"}
        assert broker.broker.lifecycle.epoch() == ruler.image.brokers[BROKER].epoch
        assert await created(broker, "during") == error_codes.NONE
        await until(lambda: leads(broker, "during", 1))
        state = world.znode(paths.partition_state("during", 1))
        assert state.version == ruler.image.topics["during"].partitions[1].partition_epoch

        await ruler.stop()
        asker = Asker(world.server)
        for path in (paths.CONTROLLER, paths.MIGRATION):
            asker.ask(Delete(f"/kafka{path}"))
        await until(lambda: world.ruler is not None and world.ruler.broker_id == BROKER)
        await until(lambda: not broker.broker.ruler.is_of_kraft)
        assert broker.broker.lifecycle.epoch() == world.znode(paths.broker(BROKER)).czxid

        await broker.stop()
        broker = await world.start(world.in_zookeeper)
        await until(lambda: leads(broker, "during", 1))
        await broker.stop()
        broker = await world.start(world.taking_part)
        world.disks[CONTROLLER] = MemoryDisk()
        world.format()
        ruler = await world.start(world.migrating)
        await until(lambda: broker.broker.ruler.is_of_kraft)
        assert sorted(ruler.image.topics) == ["during", "orders"]
        await broker.stop()
        broker = await world.start(world.in_kraft)
        await until(lambda: leads(broker, "orders", 0) and leads(broker, "during", 1))
        assert not ruler.image.brokers[BROKER].is_migrating_zk_broker
        assert b"version=0" in world.disks[BROKER].read("/data/meta.properties")
        assert await created(broker, "hybrid") == error_codes.NONE
        await until(lambda: world.znode(paths.partition_state("hybrid", 1)))

        await ruler.stop()
        ruler = await world.start(world.finalising)
        await until(lambda: ruler.image.zk_migration_state == POST_MIGRATION)
        assert await created(broker, "after") == error_codes.NONE
        assert world.znode(paths.topic("after")) is None
        await broker.stop()
        await ruler.stop()
        assert not world.failures

    play(story)


def test_a_controller_goes_on_where_the_one_that_died_was() -> None:
    async def story() -> None:
        world = World()
        broker = await world.start(world.taking_part)
        world.create(ORDERS)
        await until(lambda: leads(broker, "orders", 1))
        world.format()
        ruler = await world.start(world.migrating)
        await until(lambda: ruler.image.zk_migration_state == MIGRATION)
        await ruler.abandon()
        ruler = await world.start(world.migrating)
        await until(lambda: ruler.source.migrating.driver.phase is MigrationDriverState.DUAL_WRITE)
        assert await created(broker, "second") == error_codes.NONE
        await until(lambda: world.znode(paths.partition_state("second", 0)))
        await until(lambda: leads(broker, "second", 0))
        await broker.stop()
        await ruler.stop()
        assert not world.failures

    play(story)


def test_a_migration_is_not_finalised_over_brokers_in_zookeeper_mode() -> None:
    async def story() -> None:
        world = World()
        broker = await world.start(world.taking_part)
        world.format()
        ruler = await world.start(world.migrating)
        await until(lambda: broker.broker.ruler.is_of_kraft)
        await ruler.stop()
        refused = await world.start(world.finalising)
        await until(lambda: world.failures)
        assert "the brokers 5 are still in ZooKeeper mode" in world.failures.pop()
        await refused.stop(controlled=False)
        await broker.stop()

    play(story)


@pytest.mark.parametrize(
    ("release", "cluster_id", "line"),
    [
        ("4.0", None, "format the controllers with --release-version 3.9"),
        ("3.9", "AAAAAAAAAAAAAAAAAAAAAA", "format it with --cluster-id"),
    ],
)
def test_a_controller_that_cannot_migrate_this_cluster_says_so(release: str, cluster_id: str, line: str) -> None:
    async def story() -> None:
        world = World()
        broker = await world.start(world.in_zookeeper)
        await until(lambda: world.ruler is not None)
        before = {path: node.version for path, node in world.server.nodes.items()}
        world.format(release, cluster_id)
        try:
            ruler = await world.start(world.migrating)
        except StartRefused as refused:
            world.failures.append(str(refused))
        else:
            await until(lambda: world.failures)
            await ruler.stop(controlled=False)
        assert line in world.failures[0]
        after = {path: node.version for path, node in world.server.nodes.items()}
        assert after == before, "nothing is written where something does not fit"
        await broker.stop()

    play(story)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"process.roles": "controller"}, f"If using `{FLAG}` in KRaft mode, `zookeeper.connect` must also be set"),
        ({"process.roles": "broker", "zookeeper.connect": "zk"}, "a broker in KRaft mode is migrated already"),
        ({"process.roles": "broker,controller", "zookeeper.connect": "zk"}, "cannot migrate a cluster"),
        ({"process.roles": "controller", "zookeeper.connect": "zk", FLAG: "false"}, f"set {FLAG} too"),
        ({"zookeeper.connect": "zk", "controller.quorum.voters": ""}, "must name the controllers"),
        ({"zookeeper.connect": "zk", "controller.listener.names": ""}, "controller.listener.names must not be empty"),
        ({"zookeeper.connect": "zk", "broker.id": "-1"}, "broker.id: with"),
        ({"zookeeper.connect": "zk", "broker.id": "3000"}, "is the id of a controller"),
    ],
)
def test_configurations_that_cannot_migrate_are_refused(changed: dict[str, str], line: str) -> None:
    roles = changed.get("process.roles", "")
    configs = {
        FLAG: "true",
        "log.dirs": "/data",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": "3000@127.0.0.1:9093",
        "listeners": ",".join(
            each
            for role, each in (("broker", "PLAINTEXT://127.0.0.1:9092"), ("controller", "CONTROLLER://127.0.0.1:9093"))
            if role in roles or (not roles and role == "broker")
        ),
        **({"node.id": "5" if roles == "broker" else "3000"} if roles else {"broker.id": "5"}),
        **changed,
    }
    with pytest.raises(ConfigError, match=re.escape(line)):
        BrokerConfig({key: value for key, value in configs.items() if value})
