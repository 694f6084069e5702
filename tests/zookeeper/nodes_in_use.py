"""Two nodes of each mode in this process, and requests of every API that they serve: nodes that read their configs."""

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.request import urlopen

import pytest
from test_zookeeper_node import World

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.node.node import Node
from kpystorage.memory_disk import MemoryDisk
from kpywire import api, error_codes
from kpywire.codec import decode, encode
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from oracle import free_port
from support.plausible_requests import plausible
from support.quota_requests import alteration, entry
from support.raw_client import api_key_of
from support.raw_requests import BROKER, CLIENT_METRICS, GROUP, SET, creation, topic_named

KRAFT, ZOOKEEPER = "KRaft", "ZooKeeper"
MODES = (KRAFT, ZOOKEEPER)
ROUNDS = 2
"""The first requests to a coordinator find that it is not loaded."""
ANSWER_S = 30.0
QUICK = {
    "kpybroker.http.listener": "127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.rack": "here",
    "controlled.shutdown.enable": "true",
    "log.dirs": "/data,/more",
    "log.roll.ms": "1",
    "log.cleaner.backoff.ms": "100",
    "delegation.token.secret.key": "secret",
    "kpybroker.otlp.endpoint": "http://127.0.0.1:1/",
    "kpybroker.console.write.enable": "true",
}
PAGES = ("/metrics", "/", "/live", "/api/cluster", "/topics")
GROUP_SETTINGS = {"consumer.session.timeout.ms": "50000", "share.session.timeout.ms": "50000"}
GROUP_SETTINGS |= {"streams.session.timeout.ms": "50000", "share.record.lock.duration.ms": "40000"}
GROUP_SETTINGS |= {"share.delivery.count.limit": "6", "share.partition.max.record.locks": "1000"}
GROUP_SETTINGS |= {f"{kind}.assignment.interval.ms": "1" for kind in ("consumer", "share", "streams")}


class Pair:
    """Two nodes of a mode that can be started again. The first one is the controller, and the last to stop."""

    def __init__(self, mode: str, configs: Mapping[str, str]) -> None:
        self.mode = mode
        self.disks = [MemoryDisk(), MemoryDisk()]
        self.nodes: list[Node] = []
        self._configs = {**QUICK, **configs}
        self._world = World()
        self._controller = f"127.0.0.1:{free_port()}"
        if mode == KRAFT:
            levels = choose_levels("4.3", {}, dynamic_quorum=False)
            for number, disk in enumerate(self.disks, start=1):
                formatting = Formatting("A" * 22, number, ["/data", "/more"], "/data", levels, None)
                format_directories(disk, formatting, random.Random(number), 0)

    async def start(self) -> None:
        for number, disk in enumerate(self.disks, start=1):
            node = (
                self._in_kraft(number)
                if self.mode == KRAFT
                else self._world.node(broker_id=str(number), **self._configs)
            )
            self.nodes.append(node)
            await node.start(disk)

    async def stop(self) -> None:
        while self.nodes:
            await self.nodes.pop().stop()

    def _in_zookeeper(self, number: int) -> Node:
        soon = {"broker.id": str(number), "controlled.shutdown.retry.backoff.ms": "100"}
        return self._world.node(**soon, **self._configs)

    def _in_kraft(self, number: int) -> Node:
        own = {
            "process.roles": "broker,controller" if number == 1 else "broker",
            "node.id": str(number),
            "controller.quorum.voters": f"1@{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:0" + (f",CONTROLLER://{self._controller}" if number == 1 else ""),
            **self._configs,
        }
        return Node(BrokerConfig(own), asyncio.get_running_loop(), pytest.fail)


def node_of(mode: str, configs: Mapping[str, str], *, alone: bool = True) -> Node:
    """A node that was not started. If it is not ``alone``, ZooKeeper or the quorum is at an address where nobody is."""
    loop = asyncio.get_running_loop()
    own = {"kpybroker.http.listener": "", **configs}
    if "log.dir" not in own:
        own["log.dirs"] = "/data"
    if mode == ZOOKEEPER and alone:
        return World().node(**own)
    if mode == ZOOKEEPER:
        nowhere = {"zookeeper.connect": "127.0.0.1:1", "zookeeper.connection.timeout.ms": "300", "broker.id": "1"}
        return Node(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **nowhere, **own}), loop, print)
    if alone:
        return Node(BrokerConfig.load(None, {"listeners": "PLAINTEXT://127.0.0.1:0", **own}), loop, print)
    joining = {"process.roles": "broker", "node.id": "2", "controller.quorum.voters": "1@127.0.0.1:1"}
    joining |= {"controller.listener.names": "CONTROLLER", "listeners": "PLAINTEXT://127.0.0.1:0"}
    return Node(BrokerConfig({**joining, **own}), loop, print)


@asynccontextmanager
async def running(mode: str, configs: Mapping[str, str]) -> AsyncIterator[Pair]:
    """Two nodes with these configs."""
    pair = Pair(mode, configs)
    try:
        await pair.start()
        yield pair
    finally:
        await pair.stop()


class Caller:
    """A connection on which one request after the other is sent, whatever comes of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, node: Node) -> "Caller":
        return cls(*await asyncio.open_connection("127.0.0.1", node.ports["PLAINTEXT"]))

    async def call(self, request: Any, version: int) -> Any:
        key = api_key_of(request)
        body = encode_request_header(key, version, 1, "test") + encode(request, version)
        self._writer.write(struct.pack(">i", len(body)) + body)
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        answer = await self._reader.readexactly(size)
        _, end = decode_response_header(key, version, answer)
        return decode(api.response_class(key), version, answer, end)

    async def close(self) -> None:
        self._writer.close()


async def _call(node: Node, request: Any, version: int) -> Any:
    caller = await Caller.to(node)
    try:
        with suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            return await asyncio.wait_for(caller.call(request, version), ANSWER_S)
    finally:
        await caller.close()


async def use(node: Node) -> list[str]:
    """Send an ordinary request of every API that a node serves; the names of those that were not answered."""
    answer = await _call(node, ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3)
    newest = {each.api_key: min(each.max_version, api.API_KEYS[each.api_key].max_version) for each in answer.api_keys}
    await _begin(node, newest)
    unanswered: list[str] = []
    for _ in range(ROUNDS):
        sent = {key: plausible(key, version, "t") for key, version in newest.items()}
        requests = [(key, request) for key, request in sent.items() if request is not None]
        answers = await asyncio.gather(*(_call(node, request, newest[key]) for key, request in requests))
        unanswered = [
            api.API_KEYS[key].name for (key, _), answer in zip(requests, answers, strict=True) if answer is None
        ]
        await asyncio.sleep(0.1)
    await _transact(node)
    await asyncio.to_thread(_read_pages, node)
    return unanswered


async def _begin(node: Node, newest: Mapping[int, int]) -> None:
    """Make topics and what else the requests are about."""
    await _call(node, MetadataRequest(topics=[MetadataRequestTopic(name="made")], allow_auto_topic_creation=True), 4)
    throttled = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    tiered = {"remote.storage.enable": "true", "segment.ms": "1", "local.retention.ms": "1"}
    topics = (topic_named("t", 2, 2, configs=throttled), topic_named("compacted", 1, 2, configs=compacted))
    await _call(node, creation(*topics, topic_named("tiered", 1, 2, configs=tiered)), 4)
    for key_type in range(3):
        await _call(
            node, FindCoordinatorRequest(coordinator_keys=["g"], key_type=key_type), newest[api.FIND_COORDINATOR]
        )
    await _set(node, BROKER, "", {"follower.replication.throttled.rate": "1000000"})
    await _set(node, BROKER, "", {"leader.replication.throttled.rate": "1000000"})
    await _set(node, BROKER, "", {"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"})
    await _set(node, CLIENT_METRICS, "all", {"interval.ms": "1000"})
    for name, value in GROUP_SETTINGS.items():
        await _set(node, GROUP, "plausible", {name: value})
        await _set(node, GROUP, "plausible-streams", {name: value})
    await _call(node, alteration(entry({"user": "somebody"}, {"producer_byte_rate": 1e9})), 1)
    record = Record(timestamp=time.time_ns() // 1_000_000, key=b"k", value=b"v")
    for _ in range(3):
        for topic in ("t", "compacted", "tiered"):
            await _call(node, _produced(topic, build_batch([record])), 9)
    moved = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
        for path in ("/data", "/more")
    ]
    for each in moved:
        await _call(node, AlterReplicaLogDirsRequest(dirs=[each]), 2)
        await asyncio.sleep(0.1)


async def _set(node: Node, kind: int, name: str, configs: Mapping[str, str]) -> None:
    altered = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in configs.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=altered)
    await _call(node, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)


def _produced(topic: str, records: bytes, index: int = 0, transactional_id: str | None = None) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data])


async def _transact(node: Node) -> None:
    """Produce in a transaction that no coordinator has been asked about."""
    await _call(node, FindCoordinatorRequest(coordinator_keys=["x"], key_type=1), 4)
    async with asyncio.timeout(ANSWER_S):
        while True:
            begun = await _call(node, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
            if begun is not None and begun.error_code in (error_codes.NONE, error_codes.NOT_COORDINATOR):
                break
            await asyncio.sleep(0.1)
    record = Record(timestamp=time.time_ns() // 1_000_000, key=b"k", value=b"v")
    batch = build_batch(
        [record],
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    for index in range(2):
        await _call(node, _produced("t", batch, index, "x"), 11)


def _read_pages(node: Node) -> None:
    assert node.http_port is not None
    for path in PAGES:
        with urlopen(f"http://127.0.0.1:{node.http_port}{path}", timeout=ANSWER_S) as answer:
            answer.read()
