"""Heartbeats of members of consumer groups (KIP-848) and share groups (KIP-932), and what their answers say: written by
hand like ``frames``. All are flexible versions.

A member says that it is a Java client: kpybroker asks only those for quick heartbeats while a group settles.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.raw.frames import NO_TAGS, compact, frame, uvarint
from benchmarks.raw.many import Reader, compact_array

API_VERSIONS_VERSION: Final = 3
CONSUMER_HEARTBEAT_VERSION: Final = 0
SHARE_HEARTBEAT_VERSION: Final = 1
NULL: Final = uvarint(0)
SAME: Final = -1
"""The rebalance timeout of a heartbeat that does not set one."""
REBALANCE_TIMEOUT_MS: Final = 60_000
JOINING, LEAVING = 0, -1

Partitions = Mapping[bytes, Sequence[int]]
"""Partitions by topic id."""


def java_client() -> bytes:
    """ApiVersions v3 of a Java client."""
    return frame(18, API_VERSIONS_VERSION, compact(b"apache-kafka-java") + compact(b"4.3.1") + NO_TAGS)


def consumer_heartbeat(
    group: str, member_id: str, epoch: int, topics: Sequence[str] | None = None, owned: Partitions | None = None
) -> bytes:
    """ConsumerGroupHeartbeat v0. Without topics and partitions it says that nothing has changed."""
    body = compact(group.encode()) + compact(member_id.encode()) + struct.pack(">i", epoch) + NULL + NULL
    body += struct.pack(">i", SAME if topics is None else REBALANCE_TIMEOUT_MS)
    body += NULL if topics is None else compact_array([compact(topic.encode()) for topic in topics])
    body += NULL  # the broker chooses the assignor
    body += NULL if owned is None else compact_array([_partitions(*each) for each in owned.items()])
    return frame(68, CONSUMER_HEARTBEAT_VERSION, body + NO_TAGS)


def share_heartbeat(group: str, member_id: str, epoch: int, topics: Sequence[str] | None = None) -> bytes:
    """ShareGroupHeartbeat v1."""
    body = compact(group.encode()) + compact(member_id.encode()) + struct.pack(">i", epoch) + NULL
    body += NULL if topics is None else compact_array([compact(topic.encode()) for topic in topics])
    return frame(76, SHARE_HEARTBEAT_VERSION, body + NO_TAGS)


def _partitions(topic_id: bytes, indexes: Sequence[int]) -> bytes:
    return topic_id + compact_array([struct.pack(">i", index) for index in indexes]) + NO_TAGS


class Beaten(NamedTuple):
    """The facts in an answer to one of these heartbeats."""

    error_code: int
    epoch: int
    interval_ms: int
    assigned: dict[bytes, list[int]] | None
    """None if nothing changed."""


def beaten(answer: bytes) -> Beaten:
    """Read an answer without its size prefix."""
    reader = Reader(answer, 4)
    reader.skip_tags()
    reader.skip(4)
    error_code = reader.i16()
    reader.compact()
    reader.compact()
    epoch, interval_ms = reader.i32(), reader.i32()
    assigned: dict[bytes, list[int]] | None = None
    if reader.take(1) == b"\1":
        assigned = {}
        for _ in range(reader.uvarint() - 1):
            topic_id = reader.take(16)
            assigned[topic_id] = [reader.i32() for _ in range(reader.uvarint() - 1)]
            reader.skip_tags()
    return Beaten(error_code, epoch, interval_ms, assigned)
