"""Fetch requests of many partitions, without an object for each: clients ask for the same partitions again and again.

The partitions of a topic stay one piece of bytes, all of one size. A reader that has seen them before compares the
bytes or looks them up. Rare parts (forgotten partitions, tagged fields other than a replica's state) are left to the
compiled codec, and so are malformed bytes.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final

from kpywire.codec import decoder_in_steps, decoder_of_few, encoder
from kpywire.errors import Malformed, ManyElements
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from kpywire.reading import MAX_STRING_BYTES
from kpywire.uuid import ZERO_UUID
from kpywire.varint import decode_unsigned_varint

PACKED_FROM_BYTES: Final = 2048
"""Bytes of a body from which on it stays packed. A smaller one is decoded in full."""
MOST_PACKED: Final = 40_000
"""The most partitions of a packed request. A larger one is decoded by the compiled codec, which limits what it
makes."""
MOST_BYTES: Final = 1 << 24
"""The memory that their topics and partitions may take: there are about as many."""
MOST_AT_ONCE: Final = 1000
"""The topics that are decoded at once. A request with more is decoded in steps."""
STEP_TOPICS: Final = 64
"""The number of topics that one of these steps decodes."""
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
RACK_FROM: Final = 11
SESSIONS_FROM: Final = 7

_LAYOUTS: Final = (
    (12, ">iiqiqiB", ("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset")),
    (9, ">iiqqi", ("partition", "current_leader_epoch", "fetch_offset", "log_start_offset")),
    (5, ">iqqi", ("partition", "fetch_offset", "log_start_offset")),
    (4, ">iqi", ("partition", "fetch_offset")),
)
"""The first version, the format of a partition's bytes, its fields; behind them ``partition_max_bytes``, and no tagged
fields."""
_REPLICA_STATE: Final = Struct(">BBBiqB")
_ONLY_REPLICA_STATE: Final = (1, 1, 13, 0)
"""The end of a request with one tagged field: the count, its tag and its size, and no tagged fields in it."""
_COUNT: Final = Struct(">i")
_SIZE: Final = Struct(">h")


class PartitionLayout:
    """The layout of a partition without tagged fields in the requests of a version."""

    def __init__(self, version: int) -> None:
        _, pattern, names = next(each for each in _LAYOUTS if version >= each[0])
        self.names = (*names, "partition_max_bytes")
        self.unpack = Struct(pattern).unpack
        self.size = Struct(pattern).size
        self.pieces = Struct(f"{self.size}s").iter_unpack

    def partition(self, piece: bytes) -> FetchPartition:
        """The partition whose ``size`` bytes these are."""
        return FetchPartition(**dict(zip(self.names, self.unpack(piece), strict=False)))


class PackedTopic(FetchTopic):
    """A topic of a request. Its partitions stay bytes until they are asked for."""

    __slots__ = ("layout", "packed")

    def __init__(self, topic: str, topic_id: bytes, packed: bytes, layout: PartitionLayout) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.packed = packed
        self.layout = layout

    @property
    def partitions(self) -> list[FetchPartition]:  # type: ignore[override]
        return [self.layout.partition(piece) for piece in self.pieces()]

    @property
    def count(self) -> int:
        """The number of its partitions."""
        return len(self.packed) // self.layout.size

    def each_partition(self) -> Iterator[FetchPartition]:
        """The partitions, each made when it is its turn."""
        return map(self.layout.partition, self.pieces())

    def pieces(self) -> Iterable[bytes]:
        """The bytes of each partition."""
        return chain.from_iterable(self.layout.pieces(self.packed))


class FetchCodec:
    """The codec of Fetch in one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.layout = PartitionLayout(version)
        self.flexible = version >= FLEXIBLE_FROM
        self._decode = decoder_of_few(FetchRequest, version)
        self.encode = encoder(FetchResponse, version)
        with_replica = "" if version >= REPLICA_STATE_FROM else "i"
        self._head = Struct(f">{with_replica}iiib{'ii' if version >= SESSIONS_FROM else ''}")

    def decode(self, frame: memoryview, position: int) -> tuple[FetchRequest, int]:
        """Decode the request whose body starts at ``position``. Return it and the position of its end. Raises
        Malformed, and ManyElements for one that is to be decoded in steps."""
        if len(frame) - position >= PACKED_FROM_BYTES:
            packing = self._packed(frame, position, MOST_AT_ONCE)
            try:
                next(packing)
            except StopIteration as end:
                if end.value is not None:
                    found: tuple[FetchRequest, int] = end.value
                    return found
            else:
                raise ManyElements
        return self._decode(frame, position)

    def decode_in_steps(self, frame: memoryview, position: int) -> Generator[None, None, tuple[FetchRequest, int]]:
        """Like `decode`, in steps."""
        found = yield from self._packed(frame, position, STEP_TOPICS)
        if found is None:
            found = yield from decoder_in_steps(FetchRequest, self.version, MOST_BYTES)(frame, position)
        return found

    def _packed(
        self, frame: memoryview, position: int, at_once: int
    ) -> Generator[None, None, tuple[FetchRequest, int] | None]:
        """Return the request with packed partitions, after steps of ``at_once`` topics; None if the compiled codec
        has to decode it."""
        try:
            head: Sequence[Any] = self._head.unpack_from(frame, position)
            topic_count, position = self._count(frame, position + self._head.size)
            if topic_count < 0:
                return None
            topics: list[FetchTopic] = []
            left = MOST_PACKED
            for nth in range(1, topic_count + 1):
                if nth % at_once == 0:
                    yield
                topic, position = self._topic(frame, position, left)
                if topic is None:
                    return None
                topics.append(topic)
                left -= 1 + topic.count
            end = self._end(frame, position)
        except (IndexError, StructError, UnicodeDecodeError, Malformed):
            return None
        if end is None or end[1] > len(frame):
            return None
        return self._request(head, topics, end)

    def _request(
        self, head: Sequence[Any], topics: list[FetchTopic], end: tuple[str, int, ReplicaState | None]
    ) -> tuple[FetchRequest, int]:
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
        if self.version < REPLICA_STATE_FROM:
            request.replica_id, *head = head
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level = head[:4]
        if self.version >= SESSIONS_FROM:
            request.session_id, request.session_epoch = head[4:]
        request.topics = topics
        request.rack_id, position, replica = end
        if replica is not None:
            request.replica_state = replica
        return request, position

    def _topic(self, frame: memoryview, position: int, most: int) -> tuple[PackedTopic | None, int]:
        name, topic_id = "", ZERO_UUID
        if self.version >= TOPIC_IDS_FROM:
            topic_id = bytes(frame[position : position + 16])
            position += 16
        else:
            name, position = self._string(frame, position)
        count, position = self._count(frame, position)
        size = self.layout.size
        if not 0 <= count <= most:
            return None, position
        packed = bytes(frame[position : position + count * size])
        position += count * size
        if self.flexible:
            if any(packed[size - 1 :: size]) or frame[position]:
                return None, position
            position += 1
        if len(packed) != count * size:
            return None, position
        return PackedTopic(name, topic_id, packed, self.layout), position

    def _end(self, frame: memoryview, position: int) -> tuple[str, int, ReplicaState | None] | None:
        """The rack, the position behind everything, and the id of the replica that asks, if one does (KIP-903). None
        where topics are forgotten or anything else is tagged."""
        rack = ""
        if self.version >= SESSIONS_FROM:
            forgotten, position = self._count(frame, position)
            if forgotten:
                return None
        if self.version >= RACK_FROM:
            rack, position = self._string(frame, position)
        replica: ReplicaState | None = None
        if self.flexible:
            if frame[position]:
                one, tag, size, replica_id, replica_epoch, untagged = _REPLICA_STATE.unpack_from(frame, position)
                if self.version < REPLICA_STATE_FROM or (one, tag, size, untagged) != _ONLY_REPLICA_STATE:
                    return None
                replica = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
                position += _REPLICA_STATE.size
            else:
                position += 1
        return rack, position, replica

    def _count(self, frame: memoryview, position: int) -> tuple[int, int]:
        if self.flexible:
            count, position = decode_unsigned_varint(frame, position)
            return count - 1, position
        return _COUNT.unpack_from(frame, position)[0], position + 4

    def _string(self, frame: memoryview, position: int) -> tuple[str, int]:
        """The string at ``position``. Malformed where it is null: the compiled codec knows what that means."""
        if self.flexible:
            length, position = decode_unsigned_varint(frame, position)
            length -= 1
        else:
            (length,) = _SIZE.unpack_from(frame, position)
            position += 2
        if not 0 <= length <= min(MAX_STRING_BYTES, len(frame) - position):
            raise Malformed("a string that is not there")
        end = position + length
        return str(frame[position:end], "utf-8"), end


@cache
def codec_for(version: int) -> FetchCodec:
    """The codec of a version."""
    return FetchCodec(version)
