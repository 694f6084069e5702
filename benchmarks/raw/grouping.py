"""Requests of a consumer group and what their answers say: written by hand like ``frames``, without flexible fields."""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.raw.frames import Produce, frame
from benchmarks.raw.many import Reader, array, string

FIND_COORDINATOR_VERSION = 2
JOIN_GROUP_VERSION = 4
SYNC_GROUP_VERSION = 2
HEARTBEAT_VERSION = 2
OFFSET_COMMIT_VERSION = 5
SESSION_TIMEOUT_MS = 120_000
PROTOCOL_TYPE = "consumer"
PROTOCOL = "range"
MEMBER_ID_REQUIRED = 79
REBALANCE_IN_PROGRESS = 27
ERROR = 4 + 4
"""The position of the error code in these answers, after the size prefix."""


def octets(data: bytes) -> bytes:
    """BYTES."""
    return struct.pack(">i", len(data)) + data


def find_coordinator(group: str) -> bytes:
    """FindCoordinator v2."""
    return frame(10, FIND_COORDINATOR_VERSION, string(group) + b"\0", header_end=b"")


def join_group(group: str, member_id: str, subscription: bytes) -> bytes:
    """JoinGroup v4 with one protocol."""
    body = string(group) + struct.pack(">ii", SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS)
    body += string(member_id) + string(PROTOCOL_TYPE) + array([string(PROTOCOL) + octets(subscription)])
    return frame(11, JOIN_GROUP_VERSION, body, header_end=b"")


def subscription(topic: str, number: int) -> bytes:
    """ConsumerProtocolSubscription v0 of one topic; ``number`` lies in its user data and makes it another one."""
    return struct.pack(">h", 0) + array([string(topic)]) + octets(struct.pack(">i", number))


class Joined(NamedTuple):
    """The facts that a member learns by the answer to ``join_group``."""

    error_code: int
    generation: int
    leader: str
    member_id: str


def joined(answer: bytes) -> Joined:
    reader = Reader(answer, ERROR)
    error_code, generation = reader.i16(), reader.i32()
    reader.string()
    return Joined(error_code, generation, reader.string(), reader.string())


def sync_group(group: str, generation: int, member_id: str, assignments: Mapping[str, bytes]) -> bytes:
    """SyncGroup v2; only the leader has assignments."""
    body = string(group) + struct.pack(">i", generation) + string(member_id)
    body += array([string(member) + octets(assignment) for member, assignment in assignments.items()])
    return frame(14, SYNC_GROUP_VERSION, body, header_end=b"")


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    """Heartbeat v2."""
    body = string(group) + struct.pack(">i", generation) + string(member_id)
    return frame(12, HEARTBEAT_VERSION, body, header_end=b"")


def error_of(answer: bytes) -> int:
    """The error code of an answer to any of these but ``offset_commit``."""
    (code,) = struct.unpack_from(">h", answer, ERROR)
    return int(code)


def offset_commit(group: str, topic: str, partition: int, offset: int) -> Produce:
    """OffsetCommit v5 of one partition by a client that is no member."""
    body = string(group) + struct.pack(">i", -1) + string("")
    body += array([string(topic) + array([struct.pack(">iq", partition, offset) + string("")])])
    error_at = 4 + 4 + 4 + len(string(topic)) + 4 + 4
    return Produce(frame(8, OFFSET_COMMIT_VERSION, body, header_end=b""), (error_at,))
