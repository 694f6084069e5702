"""A client without permissions learns of no topic, group or transactional id whether it exists, by any parameter."""

import socket
import struct
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from kpybroker.requests import handlers
from kpywire import api
from kpywire.codec import encode
from kpywire.errors import UnsupportedVersion
from kpywire.header import encode_request_header
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.plausible_requests import plausible
from support.raw_client import RawClient
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.guards.named_clients import AUTHORIZER, PREFIX, name_clients
from tests.wire.message_values import random_message

GROUP, TRANSACTIONAL_ID, LITERAL, ALL, ALLOW = 3, 5, 3, 2, 3
OF_BOB = "name-of-bobs-own"
OF_TOPICS = (
    api.PRODUCE,
    api.FETCH,
    api.LIST_OFFSETS,
    api.METADATA,
    api.OFFSET_COMMIT,
    api.OFFSET_FETCH,
    api.OFFSET_DELETE,
    api.DELETE_RECORDS,
    api.DELETE_TOPICS,
    api.OFFSET_FOR_LEADER_EPOCH,
    api.ADD_PARTITIONS_TO_TXN,
    api.TXN_OFFSET_COMMIT,
    api.DESCRIBE_CONFIGS,
    api.CREATE_PARTITIONS,
    api.DESCRIBE_PRODUCERS,
    api.DESCRIBE_TOPIC_PARTITIONS,
    api.DESCRIBE_SHARE_GROUP_OFFSETS,
    api.ALTER_SHARE_GROUP_OFFSETS,
    api.DELETE_SHARE_GROUP_OFFSETS,
)
NAMELESS = (api.GET_TELEMETRY_SUBSCRIPTIONS,)
"""Requests that name nothing; each client gets an id of its own."""
KNOWN, OTHER = "name-that-exists", "name-that-is-not"
NUMBERS = (-128, -3, -2, -1, 0, 1, 2, 3, 7, 99, 127)
SEEDS = 12
SESSIONS_FROM = 7
"""The first version of Fetch with sessions."""
SERVED = {key: each for key, each in handlers.served_versions().items() if key not in NAMELESS}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node with a topic, a group and a transactional id of the same name."""
    settings = {
        **AUTHORIZER,
        "log.dirs": str(tmp_path_factory.mktemp("hidden")),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        name_clients(patch)
        running = RunningNode(settings)
        with RawClient(running.node.ports["PLAINTEXT"]) as root:
            fill(root)
        yield running
        running.stop()


def fill(root: RawClient) -> None:
    everything = [
        AclCreation(
            resource_type=kind,
            resource_name="*",
            resource_pattern_type=LITERAL,
            principal="User:bob",
            host="*",
            operation=ALL,
            permission_type=ALLOW,
        )
        for kind in (GROUP, TRANSACTIONAL_ID)
    ]
    assert {each.error_code for each in root.call(CreateAclsRequest(creations=everything), 2).results} == {0}
    topic = CreatableTopic(name=KNOWN, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    assert root.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0].error_code == 0
    batch = PartitionProduceData(index=0, records=build_batch([Record(value=b"x")]))
    wanted = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=KNOWN, partition_data=[batch])]
    )
    eventually(lambda: root.call(wanted, 9).responses[0].partition_responses[0].error_code == 0, "a record")
    for kind in (0, 1):
        root.call(FindCoordinatorRequest(key=OF_BOB, key_type=kind), 3)
        root.call(FindCoordinatorRequest(key=KNOWN, key_type=kind), 3)
    spot = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    for name in (KNOWN, OF_BOB):
        topics = [OffsetCommitRequestTopic(name=KNOWN, partitions=[spot])]
        commit = OffsetCommitRequest(group_id=name, topics=topics)
        eventually(lambda commit=commit: root.call(commit, 2).topics[0].partitions[0].error_code == 0, "a commit")
        begun = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        eventually(lambda begun=begun: root.call(begun, 4).error_code == 0, "a transactional id")


def odd(value: Any, rng: Random, share: float, group: str = KNOWN) -> Any:
    """A message like this one: every text is the name, or that of ``group`` where a group or a transactional id is
    named, and a share of the numbers are odd ones."""
    if isinstance(value, str):
        return KNOWN
    if isinstance(value, bool | None | bytes | bytearray | memoryview | float):
        return value
    if isinstance(value, int):
        return value if rng.random() > share else rng.choice(NUMBERS)
    if isinstance(value, list | tuple):
        return [odd(each, rng, share, group) for each in value]
    for field in type(value).__annotations__:
        if hasattr(value, field):
            given = odd(getattr(value, field), rng, share, group)
            is_group = isinstance(given, str) and ("group" in field or "transactional" in field)
            setattr(value, field, group if is_group else given)
    return value


def answer(node: RunningNode, key: int, version: int, body: bytes, sender: str) -> bytes:
    """The answer to a request."""
    header = encode_request_header(key, version, 1, PREFIX + sender)
    with socket.create_connection(("127.0.0.1", node.node.ports["PLAINTEXT"]), timeout=5) as sock:
        sock.sendall(struct.pack(">i", len(header + body)) + header + body)
        received = bytearray()
        try:
            while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
                more = sock.recv(1 << 16)
                if not more:
                    return b"closed"
                received += more
        except TimeoutError:
            return b"nothing"
    if key == api.FETCH and version >= SESSIONS_FROM:
        received[14:19] = bytes(5)  # the id of a session is any number
    return bytes(received)


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: api.API_KEYS[key].name)
def test_a_name_that_exists_is_answered_like_one_that_does_not(node: RunningNode, key: int) -> None:
    compare(node, key, "alice", KNOWN)


@pytest.mark.parametrize("key", OF_TOPICS, ids=lambda key: api.API_KEYS[key].name)
def test_a_topic_is_hidden_from_a_client_that_has_a_group_and_a_transactional_id(node: RunningNode, key: int) -> None:
    compare(node, key, "bob", OF_BOB)


def compare(node: RunningNode, key: int, sender: str, group: str) -> None:
    """Send many requests with the name that exists, and with the other one. The answers differ in the name alone."""
    first, last = SERVED[key]
    for version, seed in product(range(first, last + 1), range(SEEDS)):
        rng = Random(seed * 1000 + version)
        request = plausible(key, version, KNOWN) if seed % 2 else None
        if request is None:
            request = random_message(api.request_class(key), version, rng, size=1)
        request = odd(request, rng, (0.0, 0.2, 0.6)[seed % 3], group)
        if key == api.PRODUCE and request.acks == 0:
            request.acks = 1  # else there is no answer
        try:
            body = encode(request, version)
        except (UnsupportedVersion, ValueError):
            continue
        known = answer(node, key, version, body, sender)
        other = answer(node, key, version, body.replace(KNOWN.encode(), OTHER.encode()), sender)
        assert known.replace(KNOWN.encode(), OTHER.encode()) == other, (version, request)
