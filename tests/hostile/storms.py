"""Requests that are in order, each of which makes the broker work or remember, by the thousand.

A storm is a function of a number: the request to send next, with its version, or bytes that are no frame at all. As
many connections as asked for send one after the other, each when the last one was answered or its connection closed.
"""

import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from attacker import Attacker, create_topic, produce, produce_request
from watched import PATIENCE_S

from kpywire import compression
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.list_transactions import ListTransactionsRequest
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kpywire.record import Record, build_batch

WIDE = "wide-in-a-storm"
WIDE_PARTITIONS = 300
PACKED = "packed"
PACKED_BATCHES, PACKED_RECORDS = 12, 20_000
FIRST_MS = 1_700_000_000_000
KIB = 1024

Storm = Callable[[int], tuple[Any, int] | bytes]


def prepare(client: Attacker) -> None:
    """The topics that storms need."""
    for key_type in (0, 1):  # of groups, of transactions
        client.call(FindCoordinatorRequest(key="k", key_type=key_type), 2)
    create_topic(client, WIDE, WIDE_PARTITIONS)
    create_topic(client, PACKED)
    for number in range(PACKED_BATCHES):
        first = FIRST_MS + number * PACKED_RECORDS
        records = [Record(timestamp=first + at, value=b"value %d" % at) for at in range(PACKED_RECORDS)]
        produce(client, PACKED, build_batch(records, codec=compression.ZSTD))
    for index in range(WIDE_PARTITIONS):
        produce(client, WIDE, build_batch([Record(timestamp=FIRST_MS, value=b"v")] * 3), partition=index)


def large_joins(number: int) -> tuple[Any, int]:
    """Members of a few groups, each with half a megabyte of metadata; those of version 3 need no second call."""
    protocols = [JoinGroupRequestProtocol(name=f"p{each}", metadata=bytes(128 * KIB)) for each in range(4)]
    request = JoinGroupRequest(
        group_id=f"large-{number % 8}",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    return request, 3


def large_syncs(number: int) -> tuple[Any, int]:
    """Assignments of half a megabyte by members that are none."""
    assignments = [SyncGroupRequestAssignment(member_id=f"m{each}", assignment=bytes(64)) for each in range(4_000)]
    return SyncGroupRequest(group_id=f"large-{number % 8}", generation_id=1, member_id="m", assignments=assignments), 5


def groups(number: int) -> tuple[Any, int]:
    """A new group each time, for one commit."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="x")
    topic = OffsetCommitRequestTopic(name=WIDE, partitions=[partition])
    return OffsetCommitRequest(group_id=f"group-{number}", member_id="", topics=[topic]), 8


def wide_commits(number: int) -> tuple[Any, int]:
    """Offsets of all partitions of a topic, with long metadata, for a few groups."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=number, committed_metadata="m" * 1_000)
        for index in range(WIDE_PARTITIONS)
    ]
    topic = OffsetCommitRequestTopic(name=WIDE, partitions=partitions)
    return OffsetCommitRequest(group_id=f"wide-{number % 4}", member_id="", topics=[topic]), 8


def transactional_ids(number: int) -> tuple[Any, int]:
    """A new transactional id each time, and now and then a list of those that match something."""
    if number % 50 == 49:
        return ListTransactionsRequest(transactional_id_pattern="(i|d|-|[0-9]+)*(a?){50}x"), 2
    return InitProducerIdRequest(transactional_id=f"id-{number}", transaction_timeout_ms=60_000), 4


def fetch_sessions(_number: int) -> tuple[Any, int]:
    """A new session over three hundred partitions each time."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100) for index in range(WIDE_PARTITIONS)
    ]
    topic = FetchTopic(topic=WIDE, partitions=partitions)
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000, session_epoch=0, topics=[topic]), 12


def idempotent_producers(number: int) -> tuple[Any, int]:
    """A record of another producer each time, which its partition remembers."""
    record = Record(timestamp=FIRST_MS, value=b"v")
    batch = build_batch([record], producer_id=1_000_000 + number, producer_epoch=0, base_sequence=0)
    return produce_request(WIDE, batch, partition=number % WIDE_PARTITIONS), 9


def deleted_records(number: int) -> tuple[Any, int]:
    """The log starts of all partitions move, and move again."""
    partitions = [
        DeleteRecordsPartition(partition_index=index, offset=number % 4 or -1) for index in range(WIDE_PARTITIONS)
    ]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=WIDE, partitions=partitions)], timeout_ms=1_000), 2


def times_in_compressed_batches(number: int) -> tuple[Any, int]:
    """Offsets by timestamps that lie within large compressed batches."""
    at_ms = FIRST_MS + number * 7_919 % (PACKED_BATCHES * PACKED_RECORDS)
    partition = ListOffsetsPartition(partition_index=0, timestamp=at_ms)
    topic = ListOffsetsTopic(name=PACKED, partitions=[partition])
    return ListOffsetsRequest(replica_id=-1, topics=[topic]), 7


def topics_that_come_and_go(number: int) -> tuple[Any, int]:
    """Two hundred partitions each, deleted with the next request."""
    if number % 2:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=f"gone-{number - 1}")], timeout_ms=10_000), 6
    name = f"gone-{number}"
    topic = CreatableTopic(name=name, num_partitions=200, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7


def long_lists(number: int) -> tuple[Any, int]:
    """Five thousand words added to a config that is a list, or taken out of it."""
    words = ",".join(f"w{each}" for each in range(5_000))
    config = AlterableConfig(name="cleanup.policy", config_operation=2 + number % 2, value=words)
    resource = AlterConfigsResource(resource_type=2, resource_name=WIDE, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1


OTHERS = (
    bytes.fromhex("1603010200010001fc0303") + bytes(100),
    bytes.fromhex("160301"),
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\0\0",
    b"\x05\x01\0",
    b"*1\r\n$4\r\nPING\r\n",
    b"\xff" * 300,
)


def other_protocols(number: int) -> bytes:
    """The first bytes of TLS, HTTP, SOCKS, Redis, and parts of them."""
    return OTHERS[number % len(OTHERS)]


MAY_WAIT = frozenset({"large joins", "other protocols"})
"""A member waits for others, and half a frame for its rest: these are left, not answered."""
STORMS: dict[str, tuple[Storm, int]] = {
    "large joins": (large_joins, 16),
    "large syncs": (large_syncs, 8),
    "thousands of groups": (groups, 8),
    "wide commits": (wide_commits, 8),
    "transactional ids": (transactional_ids, 8),
    "fetch sessions": (fetch_sessions, 8),
    "idempotent producers": (idempotent_producers, 8),
    "deleted records": (deleted_records, 8),
    "times in compressed batches": (times_in_compressed_batches, 8),
    "topics that come and go": (topics_that_come_and_go, 4),
    "long lists": (long_lists, 4),
    "other protocols": (other_protocols, 30),
}
"""By name, with how many connections it takes."""
WAIT_S = 0.5
"""A client without an answer by then leaves, and comes again: a member waits for others, half a frame for its rest."""


class _Sender:
    def __init__(self, port: int) -> None:
        self.port = port
        self.client: Attacker | None = None
        self.left = b""
        self.since_s = 0.0

    def begin(self, sent: tuple[Any, int] | bytes) -> socket.socket:
        if self.client is None:
            self.client = Attacker(self.port, timeout_s=PATIENCE_S)
            self.client.sock.setblocking(False)
        self.left = sent if isinstance(sent, bytes) else self.client.frame(*sent)
        self.since_s = time.monotonic()
        self.push()
        return self.client.sock

    def push(self) -> bool:
        """Send what fits; whether the connection is still there."""
        assert self.client is not None
        try:
            while self.left:
                self.left = self.left[self.client.sock.send(self.left) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def answered(self) -> bool | None:
        """Whether something came back; None when the broker closed."""
        assert self.client is not None
        try:
            received = self.client.sock.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True if received else None

    def leave(self) -> None:
        if self.client is not None:
            self.client.vanish()
        self.client = None


def blow(port: int, storm: Storm, connections: int, numbers: Iterator[int], wait_s: float = WAIT_S) -> int:
    """Send the requests of these numbers; how many were answered, or ended their connection."""
    senders = [_Sender(port) for _ in range(connections)]
    busy: dict[int, _Sender] = {}
    poll = select.poll()
    settled = 0
    while True:
        for sender in senders:
            if sender in busy.values():
                continue
            number = next(numbers, None)
            if number is None:
                break
            sock = sender.begin(storm(number))
            busy[sock.fileno()] = sender
            poll.register(sock, select.POLLIN | select.POLLOUT)
        if not busy:
            break
        settled += _turn(poll, busy, wait_s)
    for sender in senders:
        sender.leave()
    return settled


def _turn(poll: "select.poll", busy: dict[int, _Sender], wait_s: float) -> int:
    settled = 0
    for descriptor, events in poll.poll(50):
        sender = busy[descriptor]
        is_there = sender.push() if sender.left else True
        if is_there and not sender.left and events & select.POLLOUT:
            poll.modify(descriptor, select.POLLIN)
        answered = sender.answered() if is_there and events & ~select.POLLOUT else False if is_there else None
        if answered is not False:
            settled += 1
            _done(poll, busy, descriptor, leaves=answered is None)
    now_s = time.monotonic()
    for descriptor, sender in list(busy.items()):
        if now_s - sender.since_s > wait_s:
            _done(poll, busy, descriptor, leaves=True)
    return settled


def _done(poll: "select.poll", busy: dict[int, _Sender], descriptor: int, *, leaves: bool) -> None:
    sender = busy.pop(descriptor)
    poll.unregister(descriptor)
    if leaves:
        sender.leave()


def numbers_until(end_s: float) -> Iterator[int]:
    """Numbers, until then."""
    number = 0
    while time.monotonic() < end_s:
        yield number
        number += 1
