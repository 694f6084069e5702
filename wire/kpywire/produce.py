"""A handwritten codec for Produce: a broker reads and answers tens of thousands of these a second.

The bytes are the same as with `kpywire.messages.produce` (a test checks that), but the values are plain tuples: no
object per topic and partition. Only the usual form of a request is read here: flexible versions with small counts, and
versions 3 to 8. Anything else is left to the compiled codec, malformed bytes included.

The records of a partition are a view of the frame, which is the receive buffer. Small batches of a small frame are
bytes instead: a slice of bytes takes a third of the time of a view.
"""

from collections.abc import Generator, Sequence
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final, NamedTuple

from kpywire.codec import decoder_in_steps, decoder_of_few, encode_struct
from kpywire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kpywire.produce_hints import HintedAnswers
from kpywire.varint import encode_unsigned_varint

START_OFFSETS_FROM: Final = 5
RECORD_ERRORS_FROM: Final = 8
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13

TopicKey = str | bytes
"""A topic's name (versions up to 12) or its id of 16 bytes."""
Records = bytes | memoryview
"""A partition's records: bytes of their own, or a view of the request, whose buffer others use later."""
Partitions = Sequence[tuple[int, Records | None]]
"""(partition index, its records)."""
MOST_AT_ONCE: Final = 1000
"""The topics, and the partitions, that are decoded at once. A request with more is decoded in steps."""
MOST_BYTES: Final = 5 << 20
"""The memory that topics and partitions of one request may take: there are 16 000 of them or a few more."""
SMALL_FRAME_BYTES: Final = 32 * 1024
"""A frame up to this size is copied before it is decoded."""
SMALL_BATCH_BYTES: Final = 2 * 1024
"""A batch of it up to this size is bytes. It is copied more than once, and so are its parts."""


class Produce(NamedTuple):
    """A Produce request."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[TopicKey, Partitions]]


Answers = Sequence[tuple[TopicKey, Sequence[bytes]]]
"""The topics of a response, with the encoded answer of each partition."""

_new: Final = tuple.__new__
_acks_and_timeout_from: Final = Struct(">hi").unpack_from
_index_and_size_from: Final = Struct(">iBB").unpack_from
_COUNT: Final = Struct(">i")
_LENGTH: Final = Struct(">h")
_count_from: Final = _COUNT.unpack_from
_length_from: Final = _LENGTH.unpack_from
_acks_timeout_count_from: Final = Struct(">hii").unpack_from
_index_and_long_size_from: Final = Struct(">ii").unpack_from
_pack_without_start: Final = Struct(">ihqq").pack
_pack_fixed: Final = Struct(">ihqqq").pack
_NO_ERRORS_AND_MESSAGE: Final = b"\0\0\0\0\xff\xff"
_THROTTLE: Final = b"\0\0\0\0"
_pack_success: Final = Struct(">i2xqqqB2x").pack
"""Index, error code 0, three numbers, an empty array of errors of records, no message, no tags."""
_THROTTLE_AND_TAGS: Final = b"\0\0\0\0\0"
_EMPTY_ARRAY: Final = 1
_NULL: Final = 0
_NO_TAGS: Final = 0


class ProduceCodec:
    """The codec of Produce in one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.by_id = version >= TOPIC_IDS_FROM
        self.flexible = version >= FLEXIBLE_FROM
        self._decode = decoder_of_few(ProduceRequest, version)

    # The request

    def decode(self, frame: memoryview, position: int) -> tuple[Produce, int]:
        """Decode the request whose body starts at ``position``. Return it and the position of its end. Raises
        Malformed, and ManyElements for one that is to be decoded in steps."""
        size = len(frame)
        try:
            if self.flexible:
                copied = frame.tobytes() if size <= SMALL_FRAME_BYTES else frame
                found = self._decode_usual(copied, frame, position)
            else:
                found = self._decode_fixed(frame, position)
        except (IndexError, StructError, UnicodeDecodeError):
            found = None
        if found is not None and found[1] <= size:
            return found
        request, end = self._decode(frame, position)
        return self._plain(request), end

    def decode_in_steps(self, frame: memoryview, position: int) -> Generator[None, None, tuple[Produce, int]]:
        """Like `decode`, in steps."""
        request, end = yield from decoder_in_steps(ProduceRequest, self.version, MOST_BYTES)(frame, position)
        topics: list[tuple[TopicKey, Partitions]] = []
        for topic in request.topic_data:
            topics.append(self._topic(topic))
            yield
        return Produce(request.transactional_id, request.acks, request.timeout_ms, topics), end

    def _plain(self, request: ProduceRequest) -> Produce:
        topics = [self._topic(topic) for topic in request.topic_data]
        return Produce(request.transactional_id, request.acks, request.timeout_ms, topics)

    def _topic(self, topic: TopicProduceData) -> tuple[TopicKey, Partitions]:
        key: TopicKey = topic.topic_id if self.by_id else topic.name
        return key, [(partition.index, partition.records) for partition in topic.partition_data]

    def _decode_usual(self, frame: Records, view: memoryview, position: int) -> tuple[Produce, int] | None:
        """Decode a request without tags, with counts and names below 127; None for anything else. ``view`` shows the
        same bytes as ``frame``."""
        transactional_id: str | None = None
        id_length = frame[position]
        if id_length != _NULL:
            if id_length > 127:
                return None
            transactional_id = str(frame[position + 1 : position + id_length], "utf-8")
            position += id_length - 1
        acks, timeout_ms = _acks_and_timeout_from(frame, position + 1)
        topic_count = frame[position + 7]
        position += 8
        if not 0 < topic_count < 128:
            return None
        index: int  # of these, compiled code computes without objects
        size: int
        more: int
        topics: list[tuple[TopicKey, Partitions]] = []
        left: int = MOST_AT_ONCE
        for _topic in range(topic_count - 1):
            if self.by_id:
                topic: TopicKey = bytes(frame[position : position + 16])
                position += 16
            else:
                end = position + frame[position]
                if not position < end < position + 128:
                    return None
                topic = str(frame[position + 1 : end], "utf-8")
                position = end
            partition_count = frame[position]
            position += 1
            left -= partition_count
            if left < 0 or not 0 < partition_count < 128:
                return None
            partitions: list[tuple[int, Records | None]] = []
            for _partition in range(partition_count - 1):
                index, size, more = _index_and_size_from(frame, position)
                position += 5
                if size > 127:
                    size += (more << 7) - 128
                    position += 1
                    if size > 16383:
                        size += (frame[position] << 14) - 16384
                        position += 1
                        if size > 2097151:
                            return None
                if size == 0:
                    return None
                end = position + size - 1
                if type(frame) is bytes:  # where this is known, compiled code makes no object for the slice's bounds
                    partitions.append((index, frame[position:end] if size <= SMALL_BATCH_BYTES else view[position:end]))
                    tags = frame[end]
                else:
                    partitions.append((index, view[position:end]))
                    tags = frame[end]
                if tags != _NO_TAGS:
                    return None
                position = end + 1
            if frame[position] != _NO_TAGS:
                return None
            position += 1
            topics.append((topic, partitions))
        if frame[position] != _NO_TAGS:
            return None
        return _new(Produce, (transactional_id, acks, timeout_ms, topics)), position + 1

    def _decode_fixed(self, frame: memoryview, position: int) -> tuple[Produce, int] | None:
        """Decode a request of versions 3 to 8, where lengths have a fixed size; None if a length is invalid."""
        transactional_id: str | None = None
        (length,) = _length_from(frame, position)
        position += 2
        if length >= 0:
            transactional_id = str(frame[position : position + length], "utf-8")
            position += length
        elif length != -1:
            return None
        acks, timeout_ms, topic_count = _acks_timeout_count_from(frame, position)
        position += 10
        if not 0 <= topic_count <= MOST_AT_ONCE:
            return None
        left: int = MOST_AT_ONCE
        topics: list[tuple[TopicKey, Partitions]] = []
        for _topic in range(topic_count):
            (length,) = _length_from(frame, position)
            if length < 0:
                return None
            end = position + 2 + length
            topic = str(frame[position + 2 : end], "utf-8")
            (partition_count,) = _count_from(frame, end)
            position = end + 4
            left -= partition_count
            if left < 0 or partition_count < 0:
                return None
            partitions: list[tuple[int, Records | None]] = []
            for _partition in range(partition_count):
                index, size = _index_and_long_size_from(frame, position)
                if size < 0:
                    return None
                end = position + 8 + size
                partitions.append((index, frame[position + 8 : end]))
                position = end
            topics.append((topic, partitions))
        return _new(Produce, (transactional_id, acks, timeout_ms, topics)), position

    # The response

    def success(self, index: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        """The answer for a partition whose records were appended."""
        if self.flexible:
            return _pack_success(index, base_offset, log_append_time_ms, log_start_offset, _EMPTY_ARRAY)
        if self.version >= START_OFFSETS_FROM:
            answer = _pack_fixed(index, 0, base_offset, log_append_time_ms, log_start_offset)
            return answer + _NO_ERRORS_AND_MESSAGE if self.version >= RECORD_ERRORS_FROM else answer
        return _pack_without_start(index, 0, base_offset, log_append_time_ms)

    def refusal(
        self,
        index: int,
        error_code: int,
        message: str | None,
        record_errors: Sequence[tuple[int, str]] = (),
        log_start_offset: int = -1,
        leader: tuple[int, int] | None = None,
    ) -> bytes:
        """The answer for a partition whose records were refused. ``record_errors``: (index in the batch, message);
        ``leader``: its id and epoch, where the version has room for them."""
        answer = PartitionProduceResponse(
            index=index,
            error_code=error_code,
            base_offset=-1,
            log_start_offset=log_start_offset,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=text)
                for record, text in record_errors
            ],
            error_message=message,
        )
        if leader is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        return encode_struct(answer, ProduceResponse, self.version)

    def encode(self, answers: Answers, parts: list[Any]) -> None:
        """Append the body of a response to ``parts``."""
        if not self.flexible:
            parts.append(self._encoded_fixed(answers))
            return
        body = [encode_unsigned_varint(len(answers) + 1)]
        for topic, partitions in answers:
            if isinstance(topic, bytes):
                body.append(topic)
            else:
                name = topic.encode()
                body.append(encode_unsigned_varint(len(name) + 1) + name)
            body.append(encode_unsigned_varint(len(partitions) + 1))
            body += partitions
            body.append(b"\0")
        body.append(answers.tail(self.version) if type(answers) is HintedAnswers else _THROTTLE_AND_TAGS)
        parts.append(b"".join(body))

    def _encoded_fixed(self, answers: Answers) -> bytes:
        """The body where lengths have a fixed size."""
        body = [_COUNT.pack(len(answers))]
        for topic, partitions in answers:
            assert isinstance(topic, str)
            name = topic.encode()
            body.append(_LENGTH.pack(len(name)) + name + _COUNT.pack(len(partitions)))
            body += partitions
        body.append(_COUNT.pack(answers.throttle_time_ms) if type(answers) is HintedAnswers else _THROTTLE)
        return b"".join(body)


@cache
def codec_for(version: int) -> ProduceCodec:
    """The codec of a version."""
    return ProduceCodec(version)
