"""Messages survive the wire, and whatever comes from it either decodes or is Malformed, with memory bounded."""

import inspect
import itertools
import tracemalloc
from collections.abc import Generator
from functools import partial
from random import Random
from typing import Any

import pytest
from all_messages import versions_of_messages
from hypothesis import given, settings
from hypothesis import strategies as st
from message_values import random_message

from kpywire import codec, decoding
from kpywire.errors import Malformed, UnsupportedVersion
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kpywire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kpywire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kpywire.reading import STEP_TAGS
from kpywire.schema import Field, Shape, fields_of
from kpywire.sizes import TAGGED_FIELD_BYTES, element_price
from kpywire.source import MOST_NUMBERS, STEP_ELEMENTS
from kpywire.varint import encode_unsigned_varint

MESSAGES = versions_of_messages()
messages = st.sampled_from(MESSAGES)


def refuses(cls: Any, version: int, data: bytes) -> bool:
    """Whether these bytes are Malformed; any other error fails the test."""
    try:
        codec.decode(cls, version, data)
    except Malformed:
        return True
    return False


@given(messages, st.integers(0, 2**32))
def test_encoded_messages_decode_to_themselves(message_version: tuple[Any, int], seed: int) -> None:
    cls, version = message_version
    message = random_message(cls, version, Random(seed))
    data = codec.encode(message, version)
    assert codec.decode(cls, version, data) == message
    assert codec.decoder(cls, version)(b"before" + data + b"after", 6) == (message, 6 + len(data))


@given(messages, st.binary(max_size=400))
def test_any_bytes_decode_or_are_malformed(message_version: tuple[Any, int], data: bytes) -> None:
    cls, version = message_version
    if not refuses(cls, version, data):
        message = codec.decode(cls, version, data)
        assert codec.decode(cls, version, codec.encode(message, version)) == message


def stepped(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """The result of the steps, and how often they yielded."""
    for count in itertools.count():
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
    raise AssertionError


@given(messages, st.integers(0, 2**32), st.integers(0, 400))
def test_in_steps_the_same_is_encoded_decoded_and_refused(
    message_version: tuple[Any, int], seed: int, length: int
) -> None:
    cls, version = message_version
    message = random_message(cls, version, Random(seed))
    data = codec.encode(message, version)
    parts: list[Any] = []
    stepped(codec.encoder_in_steps(cls, version)(message, parts))
    assert b"".join(parts) == data
    decode = codec.decoder_in_steps(cls, version)
    assert stepped(decode(b"before" + data + b"after", 6))[0] == (message, 6 + len(data))
    if length < len(data) and refuses(cls, version, data[:length]):
        with pytest.raises(Malformed):
            stepped(decode(data[:length], 0))


def test_steps_are_as_many_as_the_elements_ask_for() -> None:
    def steps(count: int) -> tuple[int, int]:
        topics = [MetadataRequestTopic(name=str(number)) for number in range(count)]
        request = MetadataRequest(topics=topics)
        encoding = stepped(codec.encoder_in_steps(MetadataRequest, 12)(request, []))[1]
        return encoding, stepped(codec.decoder_in_steps(MetadataRequest, 12)(codec.encode(request, 12), 0))[1]

    few, many = steps(1), steps(1 + 100 * STEP_ELEMENTS)
    assert few == (1, 1)
    assert many == (101, 101)


def test_elements_of_inner_arrays_make_steps_too() -> None:
    """However many elements are spread over however many arrays, there is a step for each `STEP_ELEMENTS` of them."""
    width = STEP_ELEMENTS - 2
    partitions = [WritableTxnMarkerTopic(name="t", partition_indexes=[]) for _ in range(width)]
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=partitions) for _ in range(width)])
    assert at_least(request, 1, width * width // STEP_ELEMENTS)


def test_long_arrays_of_numbers_make_steps_too() -> None:
    one = WritableTxnMarkerTopic(name="t", partition_indexes=list(range(50 * MOST_NUMBERS)))
    assert at_least(WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=[one])]), 1, 49)
    many = [WritableTxnMarkerTopic(name="t", partition_indexes=list(range(MOST_NUMBERS))) for _ in range(30)]
    assert at_least(WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=many)]), 1, 29)


def at_least(request: Any, version: int, count: int) -> bool:
    """Whether a message is encoded and decoded in at least this number of steps, to the same."""
    parts: list[Any] = []
    encoding = stepped(codec.encoder_in_steps(type(request), version)(request, parts))[1]
    data = b"".join(parts)
    assert data == codec.encode(request, version)
    (decoded, end), decoding = stepped(codec.decoder_in_steps(type(request), version)(data, 0))
    assert (decoded, end) == (request, len(data))
    return min(encoding, decoding) >= count


def test_unknown_tagged_fields_make_steps_too() -> None:
    count = 10_000
    tags = b"".join(encode_unsigned_varint(100 + number) + b"\0" for number in range(count))
    data = codec.encode(MetadataRequest(topics=[]), 12)[:-1] + encode_unsigned_varint(count) + tags
    (message, end), steps = stepped(codec.decoder_in_steps(MetadataRequest, 12)(data, 0))
    assert (message, end) == (MetadataRequest(topics=[]), len(data))
    assert steps >= count // STEP_TAGS
    assert refuses(MetadataRequest, 12, data)


def test_every_message_cut_anywhere_is_malformed() -> None:
    rng = Random(1)
    for cls, version in MESSAGES:
        data = codec.encode(random_message(cls, version, rng, 2), version)[:2000]
        for length in range(len(data)):
            assert refuses(cls, version, data[:length]), (cls, version, length)


@settings(max_examples=300)
@given(messages, st.integers(0, 2**32), st.data())
def test_flipped_bits_decode_or_are_malformed(message_version: tuple[Any, int], seed: int, data: st.DataObject) -> None:
    cls, version = message_version
    encoded = bytearray(codec.encode(random_message(cls, version, Random(seed), 2), version))
    for _ in range(data.draw(st.integers(1, 4)) if encoded else 0):
        bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
        encoded[bit // 8] ^= 1 << bit % 8
    refuses(cls, version, bytes(encoded))


def test_strings_and_bytes_are_copied_and_records_are_not() -> None:
    partition = PartitionProduceData(index=1, records=b"batch")
    topic = TopicProduceData(name="topic", partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    receive_buffer = bytearray(codec.encode(request, 12))
    decoded = codec.decode(ProduceRequest, 12, memoryview(receive_buffer))
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"batch"
    receive_buffer[:] = bytes(len(receive_buffer))
    assert decoded.topic_data[0].name == "topic"
    assert records == bytes(5)


def test_records_are_encoded_as_the_object_they_are() -> None:
    class FileSlice:
        def __len__(self) -> int:
            return 1000

    batch = FileSlice()
    request = ProduceRequest(
        acks=1,
        timeout_ms=1,
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=batch)])],
    )
    for version in ProduceRequest.VERSIONS:
        if version < 13:
            parts: list[Any] = []
            codec.encoder(ProduceRequest, version)(request, parts)
            assert parts[1] is batch
            whole = parts[0] + bytes(1000) + parts[2]
            topic = codec.decode(ProduceRequest, version, whole).topic_data[0]
            assert topic.partition_data[0].records == bytes(1000)


@pytest.mark.parametrize("length", [126, 127, 128, 16382, 16383, 16384, 2097150, 2097151, 2097152])
def test_records_of_every_compact_length_survive(length: int) -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=bytes(length))])
    data = codec.encode(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9)
    decoded = codec.decode(ProduceRequest, 9, data).topic_data[0].partition_data[0].records
    assert decoded == bytes(length)


def test_strings_longer_than_kafka_allows_are_refused_both_ways() -> None:
    for version in (2, 3):
        longest = FindCoordinatorRequest(key="k" * 0x7FFF, key_type=0)
        assert codec.decode(FindCoordinatorRequest, version, codec.encode(longest, version)) == longest
        with pytest.raises(ValueError, match=r"FindCoordinator|too long"):
            codec.encode(FindCoordinatorRequest(key="k" * 0x8000, key_type=0), version)
    assert refuses(FindCoordinatorRequest, 3, b"\x81\x80\x02" + b"k" * 0x8000 + b"\0\0")


def test_text_that_is_not_utf_8_decodes_with_replacements_as_in_java() -> None:
    assert codec.decode(FindCoordinatorRequest, 0, b"\0\x03a\xffb").key == "a\N{REPLACEMENT CHARACTER}b"


def test_unknown_tagged_fields_are_skipped_by_their_size() -> None:
    known = codec.encode(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
    unknown = known[:-1] + b"\x02\x05\x03abc\xff\x01\x00"
    assert codec.decode(ApiVersionsRequest, 4, unknown) == codec.decode(ApiVersionsRequest, 4, known)
    assert codec.decoder(ApiVersionsRequest, 4)(unknown, 0)[1] == len(unknown)


@pytest.mark.parametrize(
    "section",
    [
        b"\x02\x05\x00\x05\x00",
        b"\x02\x05\x00\x04\x00",
        b"\x01\x05\x04abc",
        b"\x01\x05\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x80\x08\x05\x00",
        b"\x01\x80\x80\x80\x80\x80\x00",
        b"\x03\x05\x00",
    ],
    ids=["twice", "descending", "too long", "far too long", "a count beyond 2**31", "an endless tag", "too many"],
)
def test_tagged_sections_that_lie_are_malformed(section: bytes) -> None:
    known = codec.encode(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
    assert refuses(ApiVersionsRequest, 4, known[:-1] + section)
    cluster_unknown = codec.encode(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 17)
    assert refuses(FetchRequest, 17, cluster_unknown[:-1] + section)


def test_a_known_tagged_field_must_fill_its_size_and_belong_to_the_version() -> None:
    state = ReplicaState(replica_id=1, replica_epoch=2)
    data = codec.encode(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], replica_state=state), 17)
    at = data.rindex(b"\x01\x0d\x00\x00\x00\x01")
    assert refuses(FetchRequest, 17, data[:at] + b"\x01\x0e" + data[at + 2 :] + b"\0")
    assert not refuses(FetchRequest, 17, data)
    assert refuses(FetchRequest, 14, data)


def test_values_that_a_version_lacks_are_refused_unless_ignorable() -> None:
    state = ReplicaState(replica_id=1, replica_epoch=2)
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[], rack_id="r", replica_state=state)
    with pytest.raises(UnsupportedVersion, match="replica_state"):
        codec.encode(request, 12)
    request.replica_state = ReplicaState()
    assert codec.decode(FetchRequest, 10, codec.encode(request, 10)).rack_id == ""


def test_a_version_that_a_message_lacks_has_no_codec() -> None:
    for version in (-1, 3, 19):
        with pytest.raises(UnsupportedVersion):
            codec.decoder(FetchRequest, version)
        with pytest.raises(UnsupportedVersion):
            codec.encoder(FetchRequest, version)


@pytest.mark.parametrize("port", [-1, 0x8000])
def test_a_number_that_does_not_fit_raises_value_error(port: int) -> None:
    with pytest.raises(ValueError, match="ApiVersionsResponse"):
        codec.encode(ApiVersionsResponse(error_code=0x8000 + port, api_keys=[], throttle_time_ms=2**31), 1)


def test_null_and_empty_are_different() -> None:
    for topics in ([], None):
        request = MetadataRequest(topics=topics)
        assert codec.decode(MetadataRequest, 9, codec.encode(request, 9)).topics == topics
    assert codec.decode(MetadataRequest, 1, b"\xff\xff\xff\xfe").topics is None
    assert refuses(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert refuses(DescribeTopicPartitionsRequest, 0, b"\x00\0\0\0\0\xff\0")


@given(st.integers(0, 2**32), st.sampled_from(MetadataResponse.VERSIONS))
def test_structs_encoded_beforehand_take_the_place_of_structs(seed: int, version: int) -> None:
    response = random_message(MetadataResponse, version, Random(seed))
    expected = codec.encode(response, version)
    encoded = [codec.encode_struct(topic, MetadataResponse, version) for topic in response.topics]
    response.topics = codec.EncodedStructs(encoded)
    assert codec.encode(response, version) == expected


def test_decoders_show_their_source_in_tracebacks() -> None:
    assert "read_" in inspect.getsource(codec.decoder(FetchRequest, 17))
    assert "write_" in inspect.getsource(codec.encoder(FetchResponse, 17))


def test_arrays_never_take_more_memory_than_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array at the top of every message, at its oldest and newest version: as many elements as are let in."""
    budget = 100_000
    monkeypatch.setattr(decoding, "MAX_OBJECT_BYTES", budget)
    for cls in dict.fromkeys(cls for cls, _ in MESSAGES):
        for version in {cls.VERSIONS[0], cls.VERSIONS[-1]}:
            decode = decoding.compile_decoder(cls, version)
            for each in fields_of(cls):
                if each.shape.element is not None and version in each.versions:
                    left = budget if each.tag is None else budget - TAGGED_FIELD_BYTES
                    count = left // element_price(each.shape.element, version)
                    peak = peak_bytes(decode, array_of(cls, version, each, count))
                    assert peak < 1.1 * budget, (cls, version, each.name)
                    with pytest.raises(Malformed, match="hold"):
                        decode(array_of(cls, version, each, count + 1), 0)


def test_the_price_of_an_element_is_the_sum_of_what_is_in_it() -> None:
    """In bytes: its place in the list and in another one that grows, the struct with a place for each field, and what
    the fields of this version hold."""
    assert element_price(Shape("i32"), 0) == element_price(Shape("string"), 0) == 200
    assert element_price(Shape("uuid"), 0) == 200
    assert element_price(Shape("bytes"), 0) == 16 + 40
    head, number, array, records = 16 + 40, 32, 100, 200
    pair = 40 + 2 * (8 + number)
    assert element_price(Shape("struct", struct=AbortedTransaction), 4) == 16 + pair
    of_version_4 = head + 11 * 8 + 4 * number + array + records
    assert element_price(Shape("struct", struct=PartitionData), 4) == of_version_4
    assert element_price(Shape("struct", struct=PartitionData), 12) == of_version_4 + 2 * number + 3 * pair
    assert element_price(Shape("struct", struct=FetchTopic), 12) == head + 3 * 8 + 80 + array
    assert element_price(Shape("struct", struct=FetchTopic), 13) == head + 3 * 8 + 56 + array
    request = Shape("struct", struct=FetchRequest)  # version 7 has two more numbers, and uses its second list
    assert element_price(request, 7) == element_price(request, 6) + 2 * number


def array_of(cls: Any, version: int, field: Field, count: int) -> bytes:
    """A message with ``count`` elements in one array, each as small as it gets."""
    message = cls()
    element = field.shape.element
    assert element is not None
    smallest = (
        element.struct() if element.struct else {"string": "", "uuid": bytes(16), "i8": -100}.get(element.kind, 1000)
    )
    setattr(message, field.name, [smallest] * count)
    return codec.encode(message, version)


def peak_bytes(decode: Any, data: bytes) -> int:
    """The memory that a decoder takes."""
    tracemalloc.start()
    try:
        decode(data, 0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_count_beyond_the_bytes_takes_no_memory() -> None:
    for version, count in ((4, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x07")):
        codec.decoder(MetadataRequest, version)
        refused = partial(refuses, MetadataRequest, version)
        assert peak_bytes(lambda data, _, refused=refused: refused(data), count + bytes(100)) < 10_000


def test_many_unknown_tagged_fields_are_refused() -> None:
    section = bytearray(b"\xc0\x84\x3d")
    for tag in range(5, 1_000_005):
        section += bytes((tag & 0x7F | 0x80, tag >> 7 & 0x7F | 0x80, tag >> 14, 0))
    known = codec.encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    assert not refuses(MetadataRequest, 9, known)
    assert refuses(MetadataRequest, 9, known[:-1] + bytes(section) * 2)


def test_a_fetch_of_a_hundred_thousand_partitions_is_within_the_budget() -> None:
    partitions = [FetchPartition(partition=n, fetch_offset=n << 20, partition_max_bytes=n) for n in range(100_000)]
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic_id=bytes(16), partitions=partitions)])
    assert len(codec.decode(FetchRequest, 18, codec.encode(request, 18)).topics[0].partitions) == 100_000
