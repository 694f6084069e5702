"""Requests as bytes with their size prefix, written by hand with ``struct``.

Not a codec, and on purpose not kpybroker's own: what measures the wire must not depend on what is measured. Each
function serves one version of one request, named beside it.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import crc32c

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 4
LATEST: Final = -1
NO_TAGS: Final = b"\0"
BATCH_HEADER_BYTES: Final = 61
CLIENT_ID: Final = b"bench"


class Produce(NamedTuple):
    """A Produce request and where in its answer the error codes stand, after the size prefix."""

    frame: bytes
    error_offsets: tuple[int, ...]


class Fetch(NamedTuple):
    """A Fetch request of one partition and where in it (with the size prefix) the fetch offset stands."""

    frame: bytes
    offset_position: int


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def compact(value: bytes) -> bytes:
    """COMPACT_STRING or COMPACT_BYTES."""
    return uvarint(len(value) + 1) + value


def record(offset_delta: int, timestamp_delta_ms: int, value: bytes) -> bytes:
    body = b"\0" + varint(timestamp_delta_ms) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + b"\0"
    return varint(len(body)) + body


def batch(values: Sequence[bytes], now_ms: int) -> bytes:
    """A record batch (magic 2) without keys, headers, compression or producer id, all records of the same time."""
    section = b"".join(record(i, 0, value) for i, value in enumerate(values))
    times_and_producer = (now_ms, now_ms, -1, -1, -1)
    checked = struct.pack(">hiqqqhii", 0, len(values) - 1, *times_and_producer, len(values)) + section
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def batch_of_bytes(size_bytes: int, now_ms: int) -> bytes:
    """A batch of one record that is exactly ``size_bytes`` long."""
    for value_bytes in range(size_bytes - BATCH_HEADER_BYTES, -1, -1):
        made = batch([b"x" * value_bytes], now_ms)
        if len(made) == size_bytes:
            return made
    raise ValueError(f"no batch of one record is {size_bytes} bytes long")


def produce(topic: str, partitions: Sequence[int], records: bytes, *, acks: int = 1) -> Produce:
    """Produce v9 that carries the same batch to each of ``partitions``."""
    name = compact(topic.encode())
    entries = b"".join(struct.pack(">i", index) + compact(records) + NO_TAGS for index in partitions)
    topics = uvarint(2) + name + uvarint(len(partitions) + 1) + entries + NO_TAGS
    body = uvarint(0) + struct.pack(">hi", acks, 30_000) + topics + NO_TAGS
    first = 4 + 1 + 1 + len(name) + len(uvarint(len(partitions) + 1)) + 4
    answered_partition = 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1
    offsets = tuple(first + i * answered_partition for i in range(len(partitions)))
    return Produce(frame(0, PRODUCE_VERSION, body), offsets)


def fetch(topic: str, partition: int, offset: int, *, max_bytes: int, min_bytes: int, max_wait_ms: int) -> Fetch:
    """Fetch v12 of one partition, outside of any session."""
    head = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, max_bytes, 0, 0, -1)
    head += uvarint(2) + compact(topic.encode()) + uvarint(2) + struct.pack(">ii", partition, -1)
    tail = struct.pack(">qiqi", offset, -1, -1, max_bytes) + NO_TAGS + NO_TAGS + uvarint(1) + compact(b"") + NO_TAGS
    framed = frame(1, FETCH_VERSION, head + tail)
    return Fetch(framed, len(framed) - len(tail))


def api_versions() -> bytes:
    """ApiVersions v0, which every broker answers."""
    return frame(18, 0, b"", header_end=b"")


def latest_offsets(topic: str, partitions: int) -> bytes:
    """ListOffsets v4: the end of each partition from 0 on."""
    name = topic.encode()
    entries = b"".join(struct.pack(">iiq", index, -1, LATEST) for index in range(partitions))
    body = struct.pack(">ibih", -1, 0, 1, len(name)) + name + struct.pack(">i", partitions) + entries
    return frame(2, LIST_OFFSETS_VERSION, body, header_end=b"")


def answered_offsets(topic: str, partitions: int, answer: bytes) -> list[tuple[int, int]]:
    """Error code and offset of each partition in the answer to ``latest_offsets``, in whatever order they came."""
    start = 4 + 4 + 4 + 2 + len(topic.encode()) + 4
    answered = struct.Struct(">4xhqqi")
    entries = (answered.unpack_from(answer, start + i * answered.size) for i in range(partitions))
    return [(error_code, offset) for error_code, _, offset, _ in entries]


def frame(api_key: int, version: int, body: bytes, header_end: bytes = NO_TAGS) -> bytes:
    """A request, its header v2, or v1 without ``header_end``; the client id is a plain string in both."""
    header = struct.pack(">hhih", api_key, version, 7, len(CLIENT_ID)) + CLIENT_ID + header_end
    return struct.pack(">i", len(header) + len(body)) + header + body
