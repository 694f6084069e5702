"""A handwritten decoder for OffsetCommit: clients that commit after every batch send thousands of these a second.

Only the usual form of a request is read here: versions from 5 on, with short texts, few partitions and no tagged
fields. Anything else is left to the compiled decoder, malformed bytes included.

Invariant: the request is the one that the compiled decoder reads from the same bytes (a test compares both).
"""

from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final

from kpywire.codec import decoder
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.uuid import ZERO_UUID

FIRST_USUAL: Final = 5
EPOCHS_FROM: Final = 6
INSTANCES_FROM: Final = 7
FLEXIBLE_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
NO_EPOCH: Final = -1
NO_RETENTION: Final = -1
_LONGEST: Final = 0x7E
"""The most bytes of a text, and the most elements of an array, that are read here."""
_LONGEST_COMPACT: Final = _LONGEST + 1
"""The same as a compact length, which is one more than the value."""
_ID_BYTES: Final = 16
_request: Final[Any] = OffsetCommitRequest
_topic: Final[Any] = OffsetCommitRequestTopic
_partition: Final[Any] = OffsetCommitRequestPartition
_new: Final = object.__new__
_length_from: Final = Struct(">h").unpack_from
_count_from: Final = Struct(">i").unpack_from
_generation_from: Final = Struct(">ih").unpack_from
_compact_generation_from: Final = Struct(">iB").unpack_from
"""The generation, and the length of the member id."""
_old_position_from: Final = Struct(">iqh").unpack_from
_position_from: Final = Struct(">iqih").unpack_from
_compact_position_from: Final = Struct(">iqiB").unpack_from
"""Partition, offset, from version 6 on the leader epoch, and the length of the metadata."""


class OffsetCommitDecoder:
    """The decoder of requests in one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._decode = decoder(OffsetCommitRequest, version)

    def decode(self, frame: memoryview, position: int) -> tuple[OffsetCommitRequest, int]:
        """Decode the request whose body starts at ``position``. Return it and the position of its end. Raises
        Malformed."""
        if self.version >= FIRST_USUAL:
            data = bytes(frame[position:])
            request = _new(_request)
            try:
                read = self._read_compact(data, request) if self.version >= FLEXIBLE_FROM else self._read(data, request)
            except (IndexError, StructError, UnicodeDecodeError):
                read = 0
            if 0 < read <= len(data):
                return request, position + read
        return self._decode(frame, position)

    def _read(self, data: bytes, request: Any) -> int:
        """Read a request of a version before 8. Return the bytes that it has, 0 if it is not a usual one."""
        length = data[0] << 8 | data[1]
        if length > _LONGEST:
            return 0
        end = 2 + length
        request.group_id = data[2:end].decode()
        request.generation_id_or_member_epoch, length = _generation_from(data, end)
        if not 0 <= length <= _LONGEST:
            return 0
        begin = end + 6
        end = begin + length
        request.member_id = data[begin:end].decode() if length else ""
        request.group_instance_id = None
        request.retention_time_ms = NO_RETENTION
        if self.version >= INSTANCES_FROM:
            (length,) = _length_from(data, end)
            end += 2
            if length >= 0:
                if length > _LONGEST:
                    return 0
                begin, end = end, end + length
                request.group_instance_id = data[begin:end].decode()
        (count,) = _count_from(data, end)
        end += 4
        if not 0 <= count <= _LONGEST:
            return 0
        topics: list[Any] = []
        request.topics = topics
        while len(topics) < count:
            topic = _new(_topic)
            topics.append(topic)
            length = data[end] << 8 | data[end + 1]
            if length > _LONGEST:
                return 0
            begin = end + 2
            end = begin + length
            topic.name = data[begin:end].decode()
            topic.topic_id = ZERO_UUID
            end = self._read_partitions(data, end, topic)
            if not end:
                return 0
        return end

    def _read_partitions(self, data: bytes, end: int, topic: Any) -> int:
        """Read the partitions of a topic, which begin at ``end``. Return the position behind them, 0 if they are not
        usual."""
        (count,) = _count_from(data, end)
        end += 4
        if not 0 <= count <= _LONGEST:
            return 0
        partitions: list[Any] = []
        topic.partitions = partitions
        while len(partitions) < count:
            partition = _new(_partition)
            partitions.append(partition)
            if self.version >= EPOCHS_FROM:
                index, offset, epoch, length = _position_from(data, end)
                end += 18
            else:
                index, offset, length = _old_position_from(data, end)
                epoch = NO_EPOCH
                end += 14
            if length > _LONGEST:
                return 0
            partition.partition_index = index
            partition.committed_offset = offset
            partition.committed_leader_epoch = epoch
            if length > 0:
                begin, end = end, end + length
                partition.committed_metadata = data[begin:end].decode()
            else:
                partition.committed_metadata = None if length else ""
        return end

    def _read_compact(self, data: bytes, request: Any) -> int:
        """Read a request of version 8 or later. Return the bytes that it has, 0 if it is not a usual one."""
        length = data[0]
        if not 0 < length <= _LONGEST_COMPACT:
            return 0
        request.group_id = data[1:length].decode()
        request.generation_id_or_member_epoch, size = _compact_generation_from(data, length)
        begin = length + 5
        end = begin + size - 1
        if not 0 < size <= _LONGEST_COMPACT:
            return 0
        request.member_id = data[begin:end].decode()
        request.group_instance_id = None
        request.retention_time_ms = NO_RETENTION
        size = data[end]
        end += 1
        if size:
            if size > _LONGEST_COMPACT:
                return 0
            begin, end = end, end + size - 1
            request.group_instance_id = data[begin:end].decode()
        count = data[end] - 1
        end += 1
        if not 0 <= count <= _LONGEST:
            return 0
        topics: list[Any] = []
        request.topics = topics
        while len(topics) < count:
            topic = _new(_topic)
            topics.append(topic)
            end = self._read_compact_topic(data, end, topic)
            if not end:
                return 0
        return 0 if data[end] else end + 1

    def _read_compact_topic(self, data: bytes, end: int, topic: Any) -> int:
        """Read a topic, which begins at ``end``. Return the position behind it, 0 if it is not a usual one."""
        if self.version >= TOPIC_IDS_FROM:
            topic.name = ""
            begin, end = end, end + _ID_BYTES
            topic.topic_id = data[begin:end]
        else:
            size = data[end]
            if not 0 < size <= _LONGEST_COMPACT:
                return 0
            begin, end = end + 1, end + size
            topic.name = data[begin:end].decode()
            topic.topic_id = ZERO_UUID
        count = data[end] - 1
        end += 1
        if not 0 <= count <= _LONGEST:
            return 0
        partitions: list[Any] = []
        topic.partitions = partitions
        while len(partitions) < count:
            partition = _new(_partition)
            partitions.append(partition)
            index, offset, epoch, size = _compact_position_from(data, end)
            end += 17
            if size > _LONGEST_COMPACT:
                return 0
            partition.partition_index = index
            partition.committed_offset = offset
            partition.committed_leader_epoch = epoch
            if size > 1:
                begin, end = end, end + size - 1
                partition.committed_metadata = data[begin:end].decode()
            else:
                partition.committed_metadata = "" if size else None
            if data[end]:
                return 0
            end += 1
        return 0 if data[end] else end + 1


@cache
def decoder_for(version: int) -> OffsetCommitDecoder:
    """The decoder of a version."""
    return OffsetCommitDecoder(version)
