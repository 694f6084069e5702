"""A handwritten decoder for OffsetCommit: clients that commit after every batch send thousands of these a second.

Only the usual form of a request is read here: versions from 5 on, with short texts, few topics and no tagged fields.
Anything else is left to the compiled decoder, malformed bytes included.

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
_LONGEST: Final = 0x7F
"""The most bytes of a text, and elements of an array, that are read here."""
_ID_BYTES: Final = 16
_request: Final[Any] = OffsetCommitRequest
_topic: Final[Any] = OffsetCommitRequestTopic
_partition: Final[Any] = OffsetCommitRequestPartition
_new: Final = object.__new__
_old_position_from: Final = Struct(">iqh").unpack_from
_fixed_position_from: Final = Struct(">iqih").unpack_from
_flexible_position_from: Final = Struct(">iqiB").unpack_from
"""Partition, offset, from version 6 on the leader epoch, and the length of the metadata."""


class _Reader:
    """The position in the bytes of one request. Texts and counts raise ValueError if they are not usual."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self.data = data
        self.flexible = flexible
        self.position = 0

    def length(self) -> int:
        """The length of a text, or the number of elements; -1 for null."""
        data, position = self.data, self.position
        if self.flexible:
            self.position = position + 1
            length = data[position] - 1
        else:
            self.position = position + 2
            length = data[position] << 8 | data[position + 1]
            if length == 0xFFFF:
                return -1
        if length >= _LONGEST:
            raise ValueError
        return length

    def count(self) -> int:
        """The number of elements of an array that is not null."""
        if not self.flexible:
            if self.data[self.position] or self.data[self.position + 1]:
                raise ValueError
            self.position += 2
        count = self.length()
        if count < 0:
            raise ValueError
        return count

    def optional_text(self) -> str | None:
        """A text, or None for null."""
        return self.text_of(self.length())

    def text(self) -> str:
        """A text that is not null."""
        text = self.text_of(self.length())
        if text is None:
            raise ValueError
        return text

    def text_of(self, length: int) -> str | None:
        """The text of this length."""
        if length <= 0:
            return None if length else ""
        begin = self.position
        self.position = end = begin + length
        return self.data[begin:end].decode()

    def int32(self) -> int:
        """A number of 4 bytes."""
        data, position = self.data, self.position
        self.position = position + 4
        high = data[position]
        if high > 0x7F:
            high -= 0x100
        return high << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]

    def no_tags(self) -> None:
        """The end of a structure without tagged fields."""
        if self.flexible:
            if self.data[self.position]:
                raise ValueError
            self.position += 1


class OffsetCommitDecoder:
    """The decoder of requests in one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM
        self._decode = decoder(OffsetCommitRequest, version)

    def decode(self, frame: memoryview, position: int) -> tuple[OffsetCommitRequest, int]:
        """Decode the request whose body starts at ``position``. Return it and the position of its end. Raises
        Malformed."""
        if self.version >= FIRST_USUAL:
            data = bytes(frame[position:])
            reader = _Reader(data, flexible=self.flexible)
            try:
                request = self._usual(reader)
            except (IndexError, StructError, ValueError):
                pass
            else:
                if reader.position <= len(data):
                    return request, position + reader.position
        return self._decode(frame, position)

    def _usual(self, reader: _Reader) -> OffsetCommitRequest:
        request = _new(_request)
        request.group_id = reader.text()
        request.generation_id_or_member_epoch = reader.int32()
        request.member_id = reader.text()
        request.group_instance_id = reader.optional_text() if self.version >= INSTANCES_FROM else None
        request.retention_time_ms = NO_RETENTION
        request.topics = topics = []
        for _ in range(reader.count()):
            topics.append(self._topic(reader))
        reader.no_tags()
        return request  # type: ignore[no-any-return]

    def _topic(self, reader: _Reader) -> OffsetCommitRequestTopic:
        topic = _new(_topic)
        if self.version >= TOPIC_IDS_FROM:
            begin = reader.position
            reader.position = end = begin + _ID_BYTES
            topic.name = ""
            topic.topic_id = reader.data[begin:end]
        else:
            topic.name = reader.text()
            topic.topic_id = ZERO_UUID
        topic.partitions = partitions = []
        for _ in range(reader.count()):
            partitions.append(self._position(reader))
        reader.no_tags()
        return topic  # type: ignore[no-any-return]

    def _position(self, reader: _Reader) -> OffsetCommitRequestPartition:
        partition = _new(_partition)
        leader_epoch = NO_EPOCH
        if self.flexible:
            index, offset, leader_epoch, length = _flexible_position_from(reader.data, reader.position)
            reader.position += 17
            length -= 1
        elif self.version >= EPOCHS_FROM:
            index, offset, leader_epoch, length = _fixed_position_from(reader.data, reader.position)
            reader.position += 18
        else:
            index, offset, length = _old_position_from(reader.data, reader.position)
            reader.position += 14
        if length >= _LONGEST:
            raise ValueError
        partition.partition_index = index
        partition.committed_offset = offset
        partition.committed_leader_epoch = leader_epoch
        partition.committed_metadata = reader.text_of(length)
        reader.no_tags()
        return partition  # type: ignore[no-any-return]


@cache
def decoder_for(version: int) -> OffsetCommitDecoder:
    """The decoder of a version."""
    return OffsetCommitDecoder(version)
