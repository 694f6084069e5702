"""Groups by the ten thousand, members that never come back, metadata and assignments of megabytes, guessed ids.

What a client gets is Kafka's error, or what it asked for; what it leaves behind is bounded, or goes by itself.
"""

import struct
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from attacker import Attacker, create_topic
from watched import WatchedBroker

from kpywire import api, error_codes
from kpywire.codec import decode
from kpywire.header import decode_response_header
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import Topology
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.raw_client import api_key_of
from support.streams_requests import SOURCE, describing, node, source_of, streaming
from support.waiting import eventually

StartBroker = Callable[..., WatchedBroker]
MIB = 1024 * 1024
MANY = 5_000
"""Groups and members in a round."""
PARTITIONS = 100_000
JOIN, SYNC, COMMIT, FETCH = 5, 3, 8, 8
SESSION_MS = 6_000
SOCKETFUL = 500
"""The number of requests that are sent before their answers are read."""


@pytest.fixture(scope="module", autouse=True)
def _coordinator(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        find_coordinator(client)
        create_topic(client, "groups", 10)


def find_coordinator(client: Attacker) -> None:
    one = FindCoordinatorRequest(coordinator_keys=["group"])
    eventually(
        lambda: client.call(one, 4).coordinators[0].error_code == error_codes.NONE, "the topic of the groups is there"
    )
    listing = ListGroupsRequest()
    eventually(lambda: client.call(listing, 4).error_code == error_codes.NONE, "the coordinators are there")


def join(group_id: str, member_id: str = "", metadata: bytes = b"") -> JoinGroupRequest:
    protocol = JoinGroupRequestProtocol(name="range", metadata=metadata)
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )


def commit(group_id: str, partitions: range, metadata: str, topic: str = "groups") -> OffsetCommitRequest:
    offsets = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)
        for index in partitions
    ]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=offsets)],
    )


def ask_all(client: Attacker, requests: Iterator[Any], version: int) -> Iterator[Any]:
    """The answers, of requests that are sent hundreds at a time."""
    while True:
        some = list(islice(requests, SOCKETFUL))
        if not some:
            return
        client.sock.sendall(b"".join(client.frame(request, version) for request in some))
        key = api_key_of(some[0])
        for _ in some:
            buffer = client.read_frame()
            _, end = decode_response_header(key, version, buffer)
            yield decode(api.response_class(key), version, buffer, end)


def groups(client: Attacker) -> int:
    answer = client.call(ListGroupsRequest(), 4)
    assert answer.error_code == error_codes.NONE
    return len(answer.groups)


def test_groups_of_one_member_that_never_comes_back(start_broker: StartBroker, rounds: int) -> None:
    broker = start_broker(offsets_retention_check_interval_ms="1000")
    count = MANY * rounds
    with Attacker(broker.port) as client:
        find_coordinator(client)
        before = broker.memory_bytes()
        requests = (join(f"group-{number}") for number in range(count))
        codes = {answer.error_code for answer in ask_all(client, requests, JOIN)}
        assert codes == {error_codes.MEMBER_ID_REQUIRED}
        assert broker.peak_memory_bytes() - before < 50 * MIB + count * 3000
        eventually(lambda: groups(client) == 0, "groups that nobody joined are gone")


def test_reserved_member_ids_use_bounded_memory(target: WatchedBroker, attacker: Attacker, rounds: int) -> None:
    count = MANY * rounds
    before = target.memory_bytes()
    requests = (join("crowded") for _ in range(count))
    answers = list(ask_all(attacker, requests, JOIN))
    assert {answer.error_code for answer in answers} == {error_codes.MEMBER_ID_REQUIRED}
    assert len({answer.member_id for answer in answers}) == count
    assert target.peak_memory_bytes() - before < 200 * MIB


def test_ids_of_members_cannot_be_guessed(attacker: Attacker) -> None:
    member = attacker.call(join("guessed"), JOIN).member_id
    guesses = [member[:-1] + digit for digit in "0123456789abcdef" if digit != member[-1]]
    guesses += ["", "a", member.upper(), "x" * 30_000, member + "\0"]
    for guess in guesses:
        heartbeat = HeartbeatRequest(group_id="guessed", generation_id=-1, member_id=guess)
        assert attacker.call(heartbeat, 3).error_code == error_codes.UNKNOWN_MEMBER_ID
        if guess:
            assert attacker.call(join("guessed", guess), JOIN).error_code == error_codes.UNKNOWN_MEMBER_ID


def test_commits_with_long_metadata_for_a_hundred_thousand_partitions(
    target: WatchedBroker, attacker: Attacker
) -> None:
    before = target.memory_bytes()
    longest = "m" * 4096
    for first in range(0, PARTITIONS, 10_000):
        answer = attacker.call(commit("verbose", range(first, first + 10_000), longest), COMMIT)
        codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        assert codes <= {error_codes.NONE, error_codes.UNKNOWN_TOPIC_OR_PARTITION}
    too_long = attacker.call(commit("verbose", range(10), longest + "m"), COMMIT)
    assert {each.error_code for each in too_long.topics[0].partitions} == {error_codes.OFFSET_METADATA_TOO_LARGE}
    small = attacker.call(commit("verbose", range(10), longest), COMMIT)
    assert {each.error_code for each in small.topics[0].partitions} == {error_codes.NONE}
    fetched = attacker.call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="verbose", topics=None)]), FETCH
    )
    assert all(each.metadata == longest for each in fetched.groups[0].topics[0].partitions)
    assert target.peak_memory_bytes() - before < 500 * MIB


def test_members_with_metadata_of_megabytes_are_refused_or_bounded(target: WatchedBroker) -> None:
    clients = [Attacker(target.port) for _ in range(60)]
    huge = b"m" * (15 * MIB)
    for client in clients:
        client.sock.sendall(client.frame(join("huge", metadata=huge), 3))
    for client in clients:
        assert client.receive(api.JOIN_GROUP, 3).error_code == error_codes.UNKNOWN_SERVER_ERROR
        client.sock.close()
    with Attacker(target.port) as client:
        client.sock.sendall(client.frame(join("huge", metadata=huge + huge), 3))
        assert client.is_closed()  # no field of a request is so long, but records


def test_a_giant_assignment_is_refused(attacker: Attacker) -> None:
    joined = attacker.call(join("giant", metadata=b"m"), 3)
    assert joined.error_code == error_codes.NONE
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a" * (15 * MIB))]
    given += [SyncGroupRequestAssignment(member_id=f"stranger-{n}", assignment=b"") for n in range(10_000)]
    request = SyncGroupRequest(
        group_id="giant", generation_id=joined.generation_id, member_id=joined.member_id, assignments=given
    )
    assert attacker.call(request, SYNC).error_code == error_codes.UNKNOWN_SERVER_ERROR


def test_a_group_holds_as_many_members_as_it_may(start_broker: StartBroker) -> None:
    broker = start_broker(group_max_size="20", group_initial_rebalance_delay_ms="500")
    with Attacker(broker.port) as client:
        find_coordinator(client)
    clients = [Attacker(broker.port) for _ in range(60)]
    for client in clients:
        client.send(join("popular"), 3)
    time.sleep(1)
    codes = []
    for client in clients:
        (size,) = struct.unpack(">i", client._read(4))
        buffer = client._read(size)
        _, end = decode_response_header(api.JOIN_GROUP, 3, buffer)
        codes.append(decode(api.response_class(api.JOIN_GROUP), 3, buffer, end).error_code)
        client.sock.close()
    assert codes.count(error_codes.NONE) == 20
    assert codes.count(error_codes.GROUP_MAX_SIZE_REACHED) == 40


def test_descriptions_of_topologies_of_megabytes_are_refused_by_kafkas_error(broker: WatchedBroker) -> None:
    with Attacker(broker.port) as client:
        shape = Topology(epoch=0, subtopologies=[source_of("0", "groups")])
        joined = client.call(streaming("application", "m", 0, topology=shape), 1)
        assert (joined.error_code, joined.topology_description_required) == (error_codes.NONE, True)
        names = [f"{number:060d}" for number in range(1_000)]
        largest = [node(name, SOURCE, *names[:80], source_topics=[name]) for name in names]
        answer = client.call(describing("application", "m", nodes=largest), 0)
        assert answer.error_code == error_codes.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
        assert "is larger than the 262144 bytes of " in answer.error_message
        long = [node("n" * 32_000, SOURCE) for _ in range(100)]
        answer = client.call(describing("application", "m", nodes=long), 0)
        assert answer.error_code == error_codes.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
        assert client.call(describing("application", "m"), 0).error_code == error_codes.NONE
        asked = StreamsGroupDescribeRequest(
            group_ids=["application"] * 1_000, include_authorized_operations=False, include_topology_description=True
        )
        shown = client.call(asked, 1).groups
        assert {len(each.topology_description.subtopologies[0].nodes) for each in shown} == {3}
