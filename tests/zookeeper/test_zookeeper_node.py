"""A whole broker in ZooKeeper mode, in this process, at a simulated ZooKeeper. The test plays the controller."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from asking import play
from simulated import InMemory, ServedSession, SimulatedZooKeeper, Znode

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.coordinators.hosted_shard import HostedShard
from kpybroker.hosts.network.peers import connect_over
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.zookeeper.broker import orders
from kpybroker.hosts.zookeeper.broker.known_controller import ZooKeeperController
from kpybroker.machines.controller.error_responses import plain_error_response
from kpybroker.machines.zookeeper.client.operations import ALL, ZnodeAcl
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.controller import ElectedController
from kpybroker.node.assembly.platform import Simulated
from kpybroker.node.assembly.zookeeper_broker import ZooKeeperBroker
from kpybroker.node.node import Node
from kpybroker.runtime.calls.pending import Pending
from kpystorage.memory_disk import MemoryDisk
from kpywire import error_codes
from kpywire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from kpywire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kpywire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from support.raw_requests import creation, topic_named
from support.waiting import until

EPOCH = 1_000
"""The epoch of the controller that a test plays: it is later than that of the node's own."""
TOPIC = b"\1" * 16
CONFIGS = {
    "zookeeper.connect": "zk,zk,zk/kafka",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "log.dirs": "/data",
    "kpybroker.http.listener": "",
    "controlled.shutdown.enable": "false",
}


class World:
    """One broker, its disk, and the ensemble."""

    def __init__(self) -> None:
        # by the clock of the brokers, so that they do not take its notices for old ones
        self.server = SimulatedZooKeeper(random.Random(1), tick_ms=3_000, wall_ms=time.time_ns() // 1_000_000)
        self.disk = MemoryDisk()
        self.failures: list[str] = []
        self.way = InMemory(self.server, asyncio.get_running_loop().call_soon)
        self.ways = {"zk": self.way}
        """The way to each ensemble, by the name of its host."""

    def node(self, **changed: str) -> Node:
        loop = asyncio.get_running_loop()
        brokers = connect_over(loop)

        def connect(host: str, port: int, *callbacks: Any) -> Any:
            return self.ways.get(host, brokers)(host, port, *callbacks)

        changed = {key if "." in key else key.replace("_", "."): value for key, value in changed.items()}
        configs = {**CONFIGS, "broker.id": "5", **changed}
        return Node(
            BrokerConfig(configs), loop, self.failures.append, simulated=Simulated(connect, rng=random.Random(2))
        )

    def znode(self, path: str) -> Any:
        return self.server.nodes.get(f"/kafka{path}")


def played(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await story(world)
        assert not world.failures

    play(run)


async def ordered(node: Node, request: Any) -> Any:
    """The answer to an order."""
    assert isinstance(node.broker, ZooKeeperBroker)
    answer = node.broker.orders.take(request)
    if isinstance(answer, Pending):
        await until(lambda: answer.resolved)
        return answer.response
    return answer


def lead(leader_epoch: int, broker_epoch: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=EPOCH,
        leader=5,
        leader_epoch=leader_epoch,
        isr=[5],
        partition_epoch=0,
        replicas=[5],
        is_new=True,
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC, partition_states=[state])
    return LeaderAndIsrRequest(
        controller_id=1, controller_epoch=EPOCH, broker_epoch=broker_epoch, topic_states=[topic], live_leaders=[]
    )


def test_a_zookeeper_broker_registers_leads_loses_its_session_and_leaves() -> None:
    async def story(world: World) -> None:
        node = world.node()
        await node.start(world.disk)
        registration = world.znode(paths.broker(5))
        broker = node.broker
        assert broker is not None
        assert (broker.lifecycle.epoch(), registration.version) == (registration.czxid, 1)
        assert (broker.random_alive_broker(), [*broker.image.brokers]) == (5, [5]), "clients see brokers and controller"
        assert world.disk.read("/data/meta.properties").count(b"version=0") == 1
        answer = await ordered(node, lead(0, registration.czxid))
        assert answer.topics[0].partition_errors[0].error_code == error_codes.NONE
        await until(lambda: broker.replicas.topics["t"].replicas[0].leader is not None)
        before = broker.replicas.topics["t"].replicas[0].leader

        world.server.expire(registration.owner)
        await until(lambda: (again := world.znode(paths.broker(5))) and again.czxid > registration.czxid)
        await until(lambda: broker.lifecycle.epoch() > registration.czxid)
        stale = await ordered(node, lead(1, registration.czxid))
        assert stale.error_code == error_codes.STALE_BROKER_EPOCH
        assert broker.replicas.topics["t"].replicas[0].leader is before, "roles outlive a session"
        assert broker.unready is None

        await node.stop()
        assert world.znode(paths.broker(5)) is None

    played(story)


async def with_a_topic(world: World) -> None:
    """A node starts, creates a topic and stops."""
    node = world.node()
    await node.start(world.disk)
    assert node.broker is not None
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    client = SimpleNamespace(principal="User:ANONYMOUS")
    call: Any = SimpleNamespace(api_key=CreateTopicsRequest.KEY, api_version=7, client=client, client_id="c")
    node.broker.controller.forward(creation(topic_named("t", 1)), call, made.set_result)
    assert (await asyncio.wait_for(made, 20)).topics[0].error_code == error_codes.NONE
    await node.stop()


def what_clients_see(broker: Any) -> tuple[bool, bool, bool]:
    """Whether the broker knows brokers and topics, and lists itself."""
    return bool(broker.image.brokers), bool(broker.image.topics), broker.is_listed(5)


def test_a_restarting_broker_lists_no_brokers_before_it_knows_its_topics() -> None:
    async def story(world: World) -> None:
        await with_a_topic(world)
        again = world.node()
        start = asyncio.create_task(again.start(world.disk))
        seen: set[tuple[bool, bool, bool]] = set()
        while not start.done():
            await asyncio.sleep(0)
            if again.broker is not None:
                seen.add(what_clients_see(again.broker))
        await start
        assert (True, False, False) in seen, "a new controller sends the brokers before the topics"
        assert not {(True, False, True), (False, False, True)} & seen
        assert again.broker is not None
        assert again.broker.is_listed(5)
        await again.stop()

    played(story)


def test_a_broker_started_without_a_controller_lists_no_brokers_before_it_knows_its_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former = 6

    async def story(world: World) -> None:
        await with_a_topic(world)
        world.server.sessions[former] = ServedSession(former, b"", 60_000, world.server.now_ms)
        znode = Znode(ElectedController(former, 0).encode(), (ZnodeAcl(ALL, "world", "anyone"),), former, 0, 0)
        world.server.nodes[f"/kafka{paths.CONTROLLER}"] = znode
        world.server.nodes["/kafka"].children[paths.CONTROLLER.strip("/")] = None

        again = world.node()
        with monkeypatch.context() as patience:
            patience.setattr(orders, "FIRST_METADATA_WAIT_MS", 1)
            await again.start(world.disk)
        broker = again.broker
        assert broker is not None
        seen = {what_clients_see(broker)}
        world.server.expire(former)
        async with asyncio.timeout(20):
            while not broker.is_listed(5):
                await asyncio.sleep(0)
                seen.add(what_clients_see(broker))
        assert (True, False, False) in seen, "a new controller sends the brokers before the topics"
        assert (True, False, True) not in seen
        await again.stop()

    played(story)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_controlled_shutdown_is_asked_for_as_often_as_kafka_does(
    retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes the partitions over."""
    asked: list[ControlledShutdownRequest] = []
    left = [RemainingPartition(topic_name="t", partition_index=0)]
    answer = ControlledShutdownResponse(error_code=error_codes.NONE, remaining_partitions=left)

    def send(_way: ZooKeeperController, request: Any, answered: Callable[[Any], object]) -> None:
        asked.append(request)
        answered(answer)

    async def story(world: World) -> None:
        settings = {"controlled_shutdown_enable": "true", "controlled_shutdown_retry_backoff_ms": "1"}
        node = world.node(**settings, controlled_shutdown_max_retries=str(retries))
        await node.start(world.disk)
        monkeypatch.setattr(ZooKeeperController, "send", send)
        await node.stop()
        assert [each.broker_id for each in asked] == [5] * retries

    played(story)


def test_refusals_have_the_words_of_kafka() -> None:
    async def story(world: World) -> None:
        node = world.node()
        await node.start(world.disk)

        async def asked(request: Any, version: int) -> Any:
            answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            client = SimpleNamespace(principal="User:ANONYMOUS")
            call: Any = SimpleNamespace(api_key=type(request).KEY, api_version=version, client=client, client_id="c")
            assert node.broker is not None
            node.broker.controller.forward(request, call, answered.set_result)
            return await asyncio.wait_for(answered, 20)

        (refused,) = (await asked(creation(topic_named("many", 10_001)), 7)).topics
        assert refused.error_code == error_codes.POLICY_VIOLATION
        assert refused.error_message == "Excessively large number of partitions per request."
        (late,) = (await asked(creation(topic_named("late"), timeout_ms=0), 7)).topics
        assert (late.error_code, late.error_message) == (error_codes.REQUEST_TIMED_OUT, None)
        moving = await asked(ListPartitionReassignmentsRequest(timeout_ms=1_000, topics=None), 0)
        assert (moving.error_code, moving.error_message) == (error_codes.NONE, "")
        await node.stop()

    played(story)


def test_the_log_of_a_stopped_replica_is_there_after_a_restart_and_its_deletion_is_final() -> None:
    async def story(world: World) -> None:
        for leader_epoch in (0, 1):
            node = world.node()
            await node.start(world.disk)
            assert node.broker is not None
            await ordered(node, lead(leader_epoch, -1))
            node.broker.replicas.topics["t"].replicas[0].led()
            assert "t-0" in world.disk.list_directory("/data")
            if leader_epoch:
                state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
                topic = StopReplicaTopicState(topic_name="t", partition_states=[state])
                request = StopReplicaRequest(
                    controller_id=1, controller_epoch=EPOCH, broker_epoch=-1, topic_states=[topic]
                )
                answer = await ordered(node, request)
                assert answer.partition_errors[0].error_code == error_codes.NONE
                await until(lambda: "t-0" not in world.disk.list_directory("/data"))
            await node.stop()

    played(story)


def test_a_start_goes_on_with_deletions_of_logs_that_a_crash_interrupted() -> None:
    async def story(world: World) -> None:
        first = world.node()
        await first.start(world.disk)
        await first.stop()
        left = f"t-0.{7:032x}-delete"
        world.disk.make_directory(f"/data/{left}")
        second = world.node()
        await second.start(world.disk)
        await until(lambda: left not in world.disk.list_directory("/data"))
        await second.stop()

    played(story)


def test_a_coordinator_counts_the_in_sync_replicas_that_its_leader_asked_for_since_the_order() -> None:
    def has_enough(ordered: list[int], leader: Any) -> bool:
        partition = SimpleNamespace(isr=ordered, replicas=[5, 6, 7])
        topic = SimpleNamespace(config=SimpleNamespace(min_insync_replicas=2))
        shard: Any = HostedShard.__new__(HostedShard)
        shard.replica = SimpleNamespace(partition=partition, leader=leader, topic=topic)
        return bool(shard.has_enough_in_sync)

    assert has_enough([5], SimpleNamespace(in_sync=SimpleNamespace(isr=(5, 6))))
    assert not has_enough([5, 6], SimpleNamespace(in_sync=SimpleNamespace(isr=(5,))))
    assert not has_enough([5], None)


def test_a_controlled_shutdown_that_finds_no_controller_is_answered_with_a_timeout() -> None:
    request = ControlledShutdownRequest(broker_id=5, broker_epoch=7)
    answer = plain_error_response(request, 3, error_codes.REQUEST_TIMED_OUT)
    assert (answer.error_code, answer.remaining_partitions) == (error_codes.REQUEST_TIMED_OUT, [])


def test_a_broker_without_an_id_gets_one_and_keeps_it() -> None:
    async def story(world: World) -> None:
        for _ in range(2):
            node = world.node(broker_id="-1")
            await node.start(world.disk)
            assert node.config.node_id == 1_001
            await node.stop()

    played(story)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"broker_id": "6"}, "doesn't match stored broker.id 5"),
        ({"broker_id": "-1", "zookeeper_connect": "zk/other"}, "Invalid cluster.id"),
        ({"zookeeper_set_acl": "true"}, "who owns the znodes"),
        ({"zookeeper_connect": "zk:x"}, "no address of a server"),
    ],
)
def test_a_directory_of_another_broker_is_refused_and_nothing_is_registered(
    changed: dict[str, str], message: str
) -> None:
    async def story(world: World) -> None:
        first = world.node()
        await first.start(world.disk)
        await first.stop()
        second = world.node(**changed)
        with pytest.raises(StartRefused, match=message):
            await second.start(world.disk)
        await second.stop(controlled=False)
        assert not any(node.owner for node in world.server.nodes.values())

    played(story)
