"""Requests over many topics and partitions, and what their answers say: written by hand like ``frames``.

Versions without flexible fields where a broker still serves them, since an answer is then read by offsets alone.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks.raw.frames import LATEST, LIST_OFFSETS_VERSION, NO_TAGS, compact, frame, uvarint

METADATA_VERSION: Final = 1
CLIENT_METADATA_VERSION: Final = 12
CREATE_TOPICS_VERSION: Final = 4
DELETE_TOPICS_VERSION: Final = 1
DESCRIBE_TOPICS_VERSION: Final = 0
PAGE_PARTITIONS: Final = 2000
PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 12
TIMEOUT_MS: Final = 60_000
SESSION_OF_FETCH: Final = 4 + 4 + 4 + 4 + 1
"""The position of the session id in the body of a Fetch; behind it is the session epoch."""
FETCH_ERROR: Final = 4 + 1 + 4
"""The position of the error code in its answer, after the size prefix; behind it the session id."""

Partitions = Mapping[str, Sequence[int]]
"""Partitions by topic."""


def string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def compact_array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def create_topics(topics: Mapping[str, int], configs: Mapping[str, str]) -> bytes:
    """CreateTopics v4 of topics with a number of partitions each."""
    each = array([string(key) + string(value) for key, value in configs.items()])
    items = [string(name) + struct.pack(">ihi", count, 1, 0) + each for name, count in topics.items()]
    return frame(19, CREATE_TOPICS_VERSION, array(items) + struct.pack(">ib", TIMEOUT_MS, 0), header_end=b"")


def created_errors(answer: bytes) -> dict[str, int]:
    """Error codes by topic."""
    reader = Reader(answer, 8)
    found = {}
    for _ in range(reader.i32()):
        name = reader.string()
        found[name] = reader.i16()
        reader.string()
    return found


def delete_topics(topics: Sequence[str]) -> bytes:
    """DeleteTopics v1."""
    body = array([string(name) for name in topics]) + struct.pack(">i", TIMEOUT_MS)
    return frame(20, DELETE_TOPICS_VERSION, body, header_end=b"")


def deleted_errors(answer: bytes) -> dict[str, int]:
    """Error codes by topic."""
    reader = Reader(answer, 8)
    return {reader.string(): reader.i16() for _ in range(reader.i32())}


def metadata(topics: Sequence[str] | None = None) -> bytes:
    """Metadata v1 of these topics, of all of them without any."""
    body = struct.pack(">i", -1) if topics is None else array([string(name) for name in topics])
    return frame(3, METADATA_VERSION, body, header_end=b"")


def client_metadata(topics: Sequence[str] | None = None) -> bytes:
    """Metadata v12 of these topics, of all of them without any, as clients of today ask for it."""
    asked = [bytes(16) + compact(name.encode()) + NO_TAGS for name in topics or ()]
    return frame(
        3, CLIENT_METADATA_VERSION, (uvarint(0) if topics is None else compact_array(asked)) + b"\0\0" + NO_TAGS
    )


def describe_topic_partitions() -> bytes:
    """DescribeTopicPartitions v0 of all topics: the first page of 2 000 partitions, Kafka's default."""
    return frame(
        75, DESCRIBE_TOPICS_VERSION, compact_array([]) + struct.pack(">i", PAGE_PARTITIONS) + b"\xff" + NO_TAGS
    )


def latest_offsets(topics: Mapping[str, int]) -> bytes:
    """ListOffsets v4: the end of each partition."""
    items = [
        string(name) + array([struct.pack(">iiq", index, -1, LATEST) for index in range(count)])
        for name, count in topics.items()
    ]
    return frame(2, LIST_OFFSETS_VERSION, struct.pack(">ib", -1, 0) + array(items), header_end=b"")


def listed_offsets(answer: bytes) -> Iterator[tuple[int, int]]:
    """(error code, offset) of every partition in the answer to ``latest_offsets``."""
    reader = Reader(answer, 8)
    for _ in range(reader.i32()):
        reader.string()
        for _ in range(reader.i32()):
            reader.skip(4)
            code = reader.i16()
            reader.skip(8)
            yield code, reader.i64()
            reader.skip(4)


def led_partitions(answer: bytes) -> dict[str, int]:
    """How many partitions of each topic have a leader, by the answer to ``metadata``."""
    reader = Reader(answer, 4)
    for _ in range(reader.i32()):
        reader.i32()
        reader.string()
        reader.i32()
        reader.string()
    reader.i32()
    led = {}
    for _ in range(reader.i32()):
        reader.i16()
        name = reader.string()
        reader.skip(1)
        led[name] = sum(_is_led(reader) for _ in range(reader.i32()))
    return led


def _is_led(reader: "Reader") -> bool:
    code, _, leader = reader.i16(), reader.i32(), reader.i32()
    for _ in range(2):
        reader.skip(4 * reader.i32())
    return code == 0 and leader >= 0


def produce(partitions: Partitions, records: bytes, *, acks: int = 1) -> bytes:
    """Produce v7 that carries the same batch to every partition."""
    entry = struct.pack(">i", len(records)) + records
    topics = [
        string(name) + array([struct.pack(">i", index) + entry for index in indexes])
        for name, indexes in partitions.items()
    ]
    return frame(0, PRODUCE_VERSION, struct.pack(">hhi", -1, acks, TIMEOUT_MS) + array(topics), header_end=b"")


def produced_errors(answer: bytes) -> Iterator[tuple[str, int, int]]:
    """(topic, partition, error code) of every partition."""
    reader = Reader(answer, 4)
    for _ in range(reader.i32()):
        name = reader.string()
        for _ in range(reader.i32()):
            yield name, reader.i32(), reader.i16()
            reader.skip(24)


def fetch(
    partitions: Partitions, *, offset: int, session: tuple[int, int], partition_bytes: int, max_wait_ms: int
) -> bytes:
    """Fetch v12 of every partition at one offset, with ``session`` (id, epoch); (0, -1) is outside of any."""
    head = struct.pack(">iiiibii", -1, max_wait_ms, 1 if max_wait_ms else 0, 1 << 30, 0, *session)
    entry = struct.pack(">qiqi", offset, -1, -1, partition_bytes) + NO_TAGS
    topics = [
        compact(name.encode()) + compact_array([struct.pack(">ii", index, -1) + entry for index in indexes]) + NO_TAGS
        for name, indexes in partitions.items()
    ]
    return frame(1, FETCH_VERSION, head + compact_array(topics) + uvarint(1) + compact(b"") + NO_TAGS)


def fetched_session(answer: bytes) -> tuple[int, int]:
    """(error code, session id) of an answer to ``fetch``."""
    code, session_id = struct.unpack_from(">hi", answer, FETCH_ERROR)
    return code, session_id


class Reader:
    """Walks over an answer."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def skip(self, count: int) -> None:
        self._at += count

    def i16(self) -> int:
        self._at += 2
        return int.from_bytes(self._data[self._at - 2 : self._at], "big", signed=True)

    def i32(self) -> int:
        self._at += 4
        return int.from_bytes(self._data[self._at - 4 : self._at], "big", signed=True)

    def i64(self) -> int:
        self._at += 8
        return int.from_bytes(self._data[self._at - 8 : self._at], "big", signed=True)

    @property
    def at(self) -> int:
        return self._at

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def compact(self) -> bytes:
        """The bytes of a COMPACT_STRING or COMPACT_BYTES; empty where it is null."""
        return self.take(max(0, self.uvarint() - 1))

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.skip(self.uvarint())

    def string(self) -> str:
        """Empty where it is null."""
        length = max(self.i16(), 0)
        self._at += length
        return self._data[self._at - length : self._at].decode()
