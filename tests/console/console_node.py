"""A node whose console is asked by HTTP, and some clients of it."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import urlencode

from kpybroker.client.client import Spot
from kpybroker.client.consumer_protocol import assignment
from kpybroker.config.broker import BrokerConfig
from kpybroker.monitoring.history import recorder
from kpybroker.node.node import Node
from kpystorage.disk import Disk
from kpystorage.memory_disk import MemoryDisk
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.waiting import eventually

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@contextmanager
def often_sampled() -> Iterator[None]:
    """Within this, nodes take samples of their history twice a second."""
    with patch.object(recorder, "FINE_MS", 500):
        yield


class Reply(NamedTuple):
    """An answer of the console."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class ConsoleNode:
    """Starts in the constructor; `stop` ends it."""

    def __init__(self, settings: Mapping[str, str], disk: Disk | None = None) -> None:
        base = {
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "kpybroker.http.listener": "127.0.0.1:0",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            # Many tests write records of 1970: on a slow machine their retention would end within the test.
            "log.initial.task.delay.ms": "3600000",
        }
        self.loop = asyncio.new_event_loop()
        self.node = Node(BrokerConfig.load(None, {**base, **settings}), self.loop, print)
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        try:
            self.run(self.node.start(disk or MemoryDisk()))
        except BaseException:
            self.stop()
            raise

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def call(self, function: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return function()

        return self.run(run())

    def stop(self) -> None:
        self.run(self.node.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()

    @property
    def client(self) -> RawClient:
        return RawClient(self.node.ports["PLAINTEXT"])

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | str = b""
    ) -> Reply:
        assert self.node.http_port is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.node.http_port, timeout=60)
        connection.request(method, path, body=body or None, headers=dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Reply(answer.status, text, {name.lower(): value for name, value in answer.getheaders()})

    def get(self, path: str, **query: object) -> Reply:
        return self.request("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, **values: object) -> Reply:
        return self.request("POST", f"/api{path}", JSON, json.dumps(values))

    # Contents

    def create(self, topic: str, partitions: int = 1) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        with self.client as client:
            (answer,) = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5).topics
            assert answer.error_code == 0, answer
            eventually(lambda: self._is_led(topic, partitions), f"{topic} has leaders")

    def _is_led(self, topic: str, partitions: int) -> bool:
        found = self.node.image.topics.get(topic)
        return found is not None and all(found.partitions[index].leader == 1 for index in range(partitions))

    def produce(self, topic: str, records: list[Record], partition: int = 0) -> None:
        data = PartitionProduceData(index=partition, records=build_batch(records))
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        with self.client as client:
            (answer,) = client.call(request, 9).responses[0].partition_responses
        assert answer.error_code == 0, answer

    def commit(self, group: str, topic: str, offset: int, member_id: str = "", generation: int = -1) -> None:
        spot = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[spot])]
        with self.client as client:
            client.call(FindCoordinatorRequest(key=group, key_type=0), 3)
            request = OffsetCommitRequest(
                group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
            )
            eventually(lambda: client.call(request, 2).topics[0].partitions[0].error_code == 0, f"a commit of {group}")

    def limit(self, quota: str, value: float) -> None:
        """Set a quota of every client id."""
        every = DescribeClientQuotasRequest(components=[], strict=False)

        def is_set(client: RawClient) -> bool:
            entries = client.call(every, 1).entries
            return any(each.key == quota for entry in entries for each in entry.values)

        entity = [AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name=None)]
        ops = [OpData(key=quota, value=value, remove=False)]
        entry = AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
        with self.client as client:
            (answer,) = client.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 0).entries
            assert answer.error_code == 0, answer
            eventually(lambda: is_set(client), f"the quota {quota}")

    def join(self, client: RawClient, group: str) -> str:
        """Join a group as its only member. Return the member's id."""
        client.call(FindCoordinatorRequest(key=group, key_type=0), 3)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=600_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        )
        answers: list[Any] = []

        def joins() -> bool:
            answers.append(client.call(request, 3))
            return not answers[-1].error_code

        eventually(joins, f"a member of {group}")
        member: str = answers[-1].member_id
        spots = assignment([Spot("flights", 0)])
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=answers[-1].generation_id,
            member_id=member,
            assignments=[SyncGroupRequestAssignment(member_id=member, assignment=spots)],
        )
        assert client.call(sync, 2).error_code == 0
        return member


def no_account(_listener: str) -> None:
    """The account of a node that logs in nowhere."""


@contextmanager
def console_node(disk: Disk | None = None, **settings: str) -> Iterator[ConsoleNode]:
    """A node with these settings, ``_`` for ``.``."""
    node = ConsoleNode({name.replace("_", "."): value for name, value in settings.items()}, disk)
    try:
        yield node
    finally:
        node.stop()


@contextmanager
def node_on_disk(directory: Path, **settings: str) -> Iterator[ConsoleNode]:
    """A node whose files other processes can read."""
    with console_node(RealDisk(Descriptors(128)), log_dirs=str(directory), **settings) as node:
        yield node
