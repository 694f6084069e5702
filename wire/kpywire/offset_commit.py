"""A handwritten codec for OffsetCommit: groups that commit often send thousands of these a second.

The bytes and the messages are those of `kpywire.messages.offset_commit` (a test checks that). Only the usual form of a
request is read here: names below 127 bytes in flexible versions, and versions 2 to 7. Anything else is left to the
general codec, malformed bytes included.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final

from kpywire.codec import decoder, encoder
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kpywire.uuid import ZERO_UUID

RETENTION_UP_TO: Final = 4
THROTTLE_FROM: Final = 3
LEADER_EPOCHS_FROM: Final = 6
INSTANCE_IDS_FROM: Final = 7
FLEXIBLE_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
MOST_OF_A_BYTE: Final = 127
"""The largest length, plus one, that an unsigned varint holds in one byte."""

_new: Final = object.__new__
_length_from: Final = Struct(">h").unpack_from
_count_from: Final = Struct(">i").unpack_from
_long_from: Final = Struct(">q").unpack_from
_generation_and_length_from: Final = Struct(">ih").unpack_from
_position_and_length_from: Final = Struct(">iqh").unpack_from
_position_epoch_and_length_from: Final = Struct(">iqih").unpack_from
_position_epoch_from: Final = Struct(">iqiB").unpack_from
_pack_answer: Final = Struct(">ih").pack
_pack_answer_and_tags: Final = Struct(">ihB").pack
_pack_length: Final = Struct(">h").pack
_pack_count: Final = Struct(">i").pack
_pack_throttle_and_count: Final = Struct(">ii").pack
_pack_throttle_and_short_count: Final = Struct(">iB").pack


class OffsetCommitCodec:
    """The codec of OffsetCommit in one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM
        self._decode: Callable[[Any, int], tuple[OffsetCommitRequest, int]] = decoder(OffsetCommitRequest, version)
        self._encode = encoder(OffsetCommitResponse, version)

    # The request

    def decode(self, frame: memoryview, position: int) -> tuple[OffsetCommitRequest, int]:
        """Decode the request whose body starts at ``position``. Return it and the position of its end. Raises
        Malformed."""
        try:
            found = self._decode_usual(frame, position) if self.flexible else self._decode_fixed(frame, position)
        except (IndexError, StructError, UnicodeDecodeError):
            found = None
        if found is not None and found[1] <= len(frame):
            return found
        return self._decode(frame, position)

    def _decode_fixed(self, frame: memoryview, position: int) -> tuple[OffsetCommitRequest, int] | None:
        """Decode a request of versions 2 to 7, where lengths have a fixed size; None if a length is invalid."""
        version = self.version
        (length,) = _length_from(frame, position)
        end = position + 2 + length
        if length < 0:
            return None
        group_id = str(frame[position + 2 : end], "utf-8")
        generation, length = _generation_and_length_from(frame, end)
        if length < 0:
            return None
        position = end + 6
        end = position + length
        member_id = str(frame[position:end], "utf-8")
        position = end
        instance_id: str | None = None
        retention_ms = -1
        if version <= RETENTION_UP_TO:
            (retention_ms,) = _long_from(frame, position)
            position += 8
        elif version >= INSTANCE_IDS_FROM:
            (length,) = _length_from(frame, position)
            position += 2
            if length >= 0:
                end = position + length
                instance_id = str(frame[position:end], "utf-8")
                position = end
            elif length != -1:
                return None
        (topic_count,) = _count_from(frame, position)
        position += 4
        if topic_count < 0:
            return None
        topics = []
        for _ in range(topic_count):
            (length,) = _length_from(frame, position)
            if length < 0:
                return None
            end = position + 2 + length
            name = str(frame[position + 2 : end], "utf-8")
            (count,) = _count_from(frame, end)
            position = end + 4
            if count < 0:
                return None
            partitions = []
            for _ in range(count):
                epoch = -1
                if version >= LEADER_EPOCHS_FROM:
                    index, offset, epoch, length = _position_epoch_and_length_from(frame, position)
                    position += 18
                else:
                    index, offset, length = _position_and_length_from(frame, position)
                    position += 14
                metadata: str | None = None
                if length >= 0:
                    end = position + length
                    metadata = str(frame[position:end], "utf-8")
                    position = end
                elif length != -1:
                    return None
                partitions.append(_partition(index, offset, epoch, metadata))
            topics.append(_topic(name, ZERO_UUID, partitions))
        return _request(group_id, generation, member_id, instance_id, retention_ms, topics), position

    def _decode_usual(self, frame: memoryview, position: int) -> tuple[OffsetCommitRequest, int] | None:
        """Decode a request without tags, with counts and names below 127; None for anything else."""
        end = position + frame[position]
        if not position < end < position + 128:
            return None
        group_id = str(frame[position + 1 : end], "utf-8")
        (generation,) = _count_from(frame, end)
        position = end + 4
        end = position + frame[position]
        if not position < end < position + 128:
            return None
        member_id = str(frame[position + 1 : end], "utf-8")
        position = end
        instance_id: str | None = None
        length = frame[position]
        if length == 0:
            position += 1
        elif length < 128:
            end = position + length
            instance_id = str(frame[position + 1 : end], "utf-8")
            position = end
        else:
            return None
        topic_count = frame[position]
        position += 1
        if not 0 < topic_count < 128:
            return None
        topics = []
        for _ in range(topic_count - 1):
            name, topic_id = "", ZERO_UUID
            if self.version >= TOPIC_IDS_FROM:
                end = position + 16
                topic_id = bytes(frame[position:end])
            else:
                end = position + frame[position]
                if not position < end < position + 128:
                    return None
                name = str(frame[position + 1 : end], "utf-8")
            count = frame[end]
            position = end + 1
            if not 0 < count < 128:
                return None
            partitions = []
            for _ in range(count - 1):
                index, offset, epoch, length = _position_epoch_from(frame, position)
                position += 17
                metadata: str | None = None
                if length >= 128:
                    return None
                if length > 0:
                    end = position + length - 1
                    metadata = str(frame[position:end], "utf-8")
                    position = end
                if frame[position] != 0:
                    return None
                position += 1
                partitions.append(_partition(index, offset, epoch, metadata))
            if frame[position] != 0:
                return None
            position += 1
            topics.append(_topic(name, topic_id, partitions))
        if frame[position] != 0:
            return None
        return _request(group_id, generation, member_id, instance_id, -1, topics), position + 1

    # The response

    def encode(self, response: OffsetCommitResponse, parts: list[Any]) -> None:
        """Append the body of a response to ``parts``. Raises what the general codec raises."""
        topics = response.topics
        if not self.flexible:
            parts.append(self._encoded_fixed(response))
            return
        count = len(topics) + 1
        if count > MOST_OF_A_BYTE:
            self._encode(response, parts)
            return
        body = [_pack_throttle_and_short_count(response.throttle_time_ms, count)]
        for topic in topics:
            partitions = topic.partitions
            if self.version >= TOPIC_IDS_FROM:
                named = topic.topic_id
            else:
                name = topic.name.encode()
                named = bytes((len(name) + 1,)) + name if len(name) < MOST_OF_A_BYTE else b""
            count = len(partitions) + 1
            if not named or count > MOST_OF_A_BYTE:
                self._encode(response, parts)
                return
            body.append(named)
            body.append(bytes((count,)))
            body += [_pack_answer_and_tags(each.partition_index, each.error_code, 0) for each in partitions]
            body.append(b"\0")
        body.append(b"\0")
        parts.append(b"".join(body))

    def _encoded_fixed(self, response: OffsetCommitResponse) -> bytes:
        """The body where lengths have a fixed size."""
        topics = response.topics
        if self.version >= THROTTLE_FROM:
            body = [_pack_throttle_and_count(response.throttle_time_ms, len(topics))]
        else:
            body = [_pack_count(len(topics))]
        for topic in topics:
            name = topic.name.encode()
            partitions = topic.partitions
            body.append(_pack_length(len(name)) + name + _pack_count(len(partitions)))
            body += [_pack_answer(each.partition_index, each.error_code) for each in partitions]
        return b"".join(body)

    def errors(self, response: OffsetCommitResponse, codes: list[int]) -> None:
        """Append the error codes of a response to ``codes``."""
        for topic in response.topics:
            codes += [each.error_code for each in topic.partitions if each.error_code]


@cache
def codec_for(version: int) -> OffsetCommitCodec:
    """The codec of a version."""
    return OffsetCommitCodec(version)


def _request(
    group_id: str,
    generation: int,
    member_id: str,
    instance_id: str | None,
    retention_ms: int,
    topics: list[OffsetCommitRequestTopic],
) -> OffsetCommitRequest:
    request = _new(OffsetCommitRequest)
    request.group_id = group_id
    request.generation_id_or_member_epoch = generation
    request.member_id = member_id
    request.group_instance_id = instance_id
    request.retention_time_ms = retention_ms
    request.topics = topics
    return request


def _topic(name: str, topic_id: bytes, partitions: list[OffsetCommitRequestPartition]) -> OffsetCommitRequestTopic:
    topic = _new(OffsetCommitRequestTopic)
    topic.name = name
    topic.topic_id = topic_id
    topic.partitions = partitions
    return topic


def _partition(index: int, offset: int, epoch: int, metadata: str | None) -> OffsetCommitRequestPartition:
    partition = _new(OffsetCommitRequestPartition)
    partition.partition_index = index
    partition.committed_offset = offset
    partition.committed_leader_epoch = epoch
    partition.committed_metadata = metadata
    return partition
