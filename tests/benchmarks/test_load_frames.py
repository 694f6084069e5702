"""The hand-written frames, read by kpywire: what the benchmark sends is what it says it sends."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.raw import frames
from kpywire.batch import check_crc, parse_header
from kpywire.codec import decode, encode
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.fetch import FetchRequest
from kpywire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kpywire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kpywire.record import read_records

NOW_MS = 1_700_000_000_000


def body(frame: bytes, message: type[Any]) -> Any:
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    header = decode_request_header(memoryview(frame)[4:])
    assert header.client_id == "bench"
    return decode(message, header.api_version, memoryview(frame)[4:], header.end)


@pytest.mark.parametrize("size_bytes", [70, 213, 1000])
def test_a_batch_has_the_size_asked_for_and_a_valid_crc(size_bytes: int) -> None:
    made = frames.batch_of_bytes(size_bytes, NOW_MS)
    assert len(made) == size_bytes
    assert check_crc(made, parse_header(made))


def test_records_of_a_batch_read_back() -> None:
    values = [b"a" * size for size in (0, 63, 64, 200, 10_000)]
    made = frames.batch(values, NOW_MS)
    records = list(read_records(made))
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(len(values)))
    assert {record.timestamp for record in records} == {NOW_MS}
    assert check_crc(made, parse_header(made))


def test_a_produce_frame_carries_the_batch_to_each_partition() -> None:
    batch = frames.batch_of_bytes(213, NOW_MS)
    request = body(frames.produce("a-topic", [4, 7], batch).frame, ProduceRequest)
    assert (request.acks, request.topic_data[0].name) == (1, "a-topic")
    assert [(data.index, bytes(data.records)) for data in request.topic_data[0].partition_data] == [
        (4, batch),
        (7, batch),
    ]


@pytest.mark.parametrize("partitions", [[0], [3], range(50), range(200)])
def test_the_error_codes_of_an_answer_stand_where_the_frame_says(partitions: Sequence[int]) -> None:
    produce = frames.produce("a-topic", partitions, b"")
    answered = [PartitionProduceResponse(index=i, error_code=1000 + i, base_offset=0) for i in partitions]
    response = ProduceResponse(responses=[TopicProduceResponse(name="a-topic", partition_responses=answered)])
    answer = encode_response_header(0, frames.PRODUCE_VERSION, 7) + encode(response, frames.PRODUCE_VERSION)
    codes = [struct.unpack_from(">h", answer, offset)[0] for offset in produce.error_offsets]
    assert codes == [1000 + i for i in partitions]


def test_a_fetch_frame_has_its_offset_where_it_says() -> None:
    fetch = frames.fetch("a-topic", 5, 0, max_bytes=4096, min_bytes=1, max_wait_ms=500)
    patched = bytearray(fetch.frame)
    struct.pack_into(">q", patched, fetch.offset_position, 123_456)
    request = body(bytes(patched), FetchRequest)
    (asked,) = request.topics[0].partitions
    assert (request.topics[0].topic, asked.partition, asked.fetch_offset) == ("a-topic", 5, 123_456)
    assert (request.max_bytes, request.min_bytes, request.max_wait_ms, request.session_epoch) == (4096, 1, 500, -1)


def test_api_versions_is_version_0() -> None:
    assert body(frames.api_versions(), ApiVersionsRequest) == ApiVersionsRequest()


def test_the_ends_of_a_topic_are_asked_for_and_read_back() -> None:
    request = body(frames.latest_offsets("a-topic", 3), ListOffsetsRequest)
    (topic,) = request.topics
    assert [(asked.partition_index, asked.timestamp) for asked in topic.partitions] == [(0, -1), (1, -1), (2, -1)]
    answered = [
        ListOffsetsPartitionResponse(partition_index=i, error_code=i, timestamp=-1, offset=100 + i) for i in range(3)
    ]
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a-topic", partitions=answered)])
    answer = encode_response_header(2, frames.LIST_OFFSETS_VERSION, 7) + encode(response, frames.LIST_OFFSETS_VERSION)
    assert frames.answered_offsets("a-topic", 3, answer) == [(0, 100), (1, 101), (2, 102)]
