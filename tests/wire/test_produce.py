"""Produce, written by hand for speed, is what the declarations say; any bytes decode alike or are Malformed."""

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire import codec
from kpywire.errors import Malformed, ManyElements
from kpywire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kpywire.produce import SMALL_BATCH_BYTES, SMALL_FRAME_BYTES, Produce, ProduceCodec, TopicKey, codec_for

VERSIONS = range(3, 14)
i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(["t", "n" * 126, "n" * 127, "n" * 249])
records = st.none() | st.binary(max_size=40) | st.integers(100, 40_000).map(bytes)
partitions = st.lists(st.tuples(i32, records), max_size=5)


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, ProduceRequest, Produce]:
    version = draw(st.sampled_from(VERSIONS))
    keys: st.SearchStrategy[TopicKey] = st.binary(min_size=16, max_size=16) if version >= 13 else names
    topics = draw(st.lists(st.tuples(keys, partitions), max_size=4))
    transactional_id = draw(st.none() | names)
    acks, timeout_ms = draw(i16), draw(i32)
    declared = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[_topic(key, data) for key, data in topics],
    )
    return version, declared, Produce(transactional_id, acks, timeout_ms, topics)


def _topic(key: TopicKey, data: Sequence[tuple[int, bytes | None]]) -> TopicProduceData:
    partition_data = [PartitionProduceData(index=index, records=batch) for index, batch in data]
    if isinstance(key, bytes):
        return TopicProduceData(topic_id=key, partition_data=partition_data)
    return TopicProduceData(name=key, partition_data=partition_data)


def plain(request: Produce) -> Produce:
    """With bytes in place of slices."""
    topics = [
        (key, [(index, None if batch is None else bytes(batch)) for index, batch in data])
        for key, data in request.topics
    ]
    return request._replace(topics=topics)


@given(requests(), st.binary(max_size=5))
def test_requests_are_those_of_their_declaration(case: tuple[int, ProduceRequest, Produce], behind: bytes) -> None:
    version, declared, expected = case
    encoded = codec.encode(declared, version)
    frame = memoryview(bytearray(b"header" + encoded + behind))
    found, end = codec_for(version).decode(frame, 6)
    assert plain(found) == expected
    assert end == 6 + len(encoded)


@pytest.mark.parametrize(
    ("sizes", "kinds"),
    [
        pytest.param((300, SMALL_BATCH_BYTES), (bytes, memoryview), id="small frame"),
        pytest.param((300, SMALL_FRAME_BYTES), (memoryview, memoryview), id="large frame"),
    ],
)
@pytest.mark.parametrize("version", [9, 13])
def test_small_batches_of_a_small_frame_are_bytes(version: int, sizes: Sequence[int], kinds: Sequence[type]) -> None:
    key: TopicKey = b"i" * 16 if version >= 13 else "t"
    topic = _topic(key, [(index, bytes(size)) for index, size in enumerate(sizes)])
    encoded = codec.encode(ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic]), version)
    found, _ = codec_for(version).decode(memoryview(bytearray(encoded)), 0)
    assert tuple(type(batch) for _, batch in found.topics[0][1]) == kinds


class Asked(Exception):
    """The compiled decoder was asked."""


def refuse(*_arguments: object) -> None:
    raise Asked


def asks(version: int, request: ProduceRequest) -> bool:
    """Whether a request is left to the compiled decoder. It is read as it is declared if not."""
    decoder = ProduceCodec(version)
    decoder._decode = refuse  # type: ignore[assignment]
    encoded = codec.encode(request, version)
    try:
        found, end = decoder.decode(memoryview(bytearray(b"header" + encoded)), 6)
    except Asked:
        return True
    assert end == 6 + len(encoded)
    expected = codec_for(version)._plain(request)
    assert plain(found) == expected._replace(topics=list(expected.topics))
    return False


def request_of(version: int, **sizes: int) -> ProduceRequest:
    """A request whose texts and records have these numbers of bytes, and whose arrays this number of elements."""
    size = {"id": 3, "name": 3, "topics": 1, "partitions": 1, "records": 70} | sizes
    key: TopicKey = b"i" * 16 if version >= 13 else "t" * size["name"]
    topic = _topic(key, [(7, bytes(size["records"]))] * size["partitions"])
    return ProduceRequest(transactional_id="t" * size["id"], acks=-1, timeout_ms=9, topic_data=[topic] * size["topics"])


def limits_of(version: int, part: str) -> int | None:
    """The most that is read by hand, if there is a limit."""
    if version < 9:
        return {"topics": 1000, "partitions": 1000}.get(part)
    return {"id": 126, "name": 126, "topics": 126, "partitions": 126, "records": 2_097_150}[part]


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
@pytest.mark.parametrize("part", ["id", "name", "topics", "partitions", "records"])
def test_requests_of_few_and_short_parts_are_read_without_the_compiled_decoder(version: int, part: str) -> None:
    if version >= 13 and part == "name":
        return
    limit = limits_of(version, part)
    sizes = [0, 1, 125, 126, 127, 128] if part != "records" else [0, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_150]
    for size in [*sizes, *(() if limit is None else (limit, limit + 1))]:
        assert asks(version, request_of(version, **{part: size})) == (limit is not None and size > limit), size


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_partitions_of_all_topics_are_counted_for_what_is_read_at_once(version: int) -> None:
    """In flexible versions each topic counts as one more."""
    each = 99 if version >= 9 else 100
    assert not asks(version, request_of(version, topics=10, partitions=each))
    more = request_of(version, topics=10, partitions=each)
    more.topic_data = [*more.topic_data[1:], _topic(b"j" * 16 if version >= 13 else "j", [(1, b"x")] * (each + 1))]
    assert asks(version, more)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_requests_without_records_are_left_to_the_compiled_decoder(version: int) -> None:
    request = request_of(version)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=None))
    assert asks(version, request)
    request.topic_data[0].partition_data.pop()
    request.transactional_id = None
    assert not asks(version, request)


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("place", ["partition", "topic", "request"])
def test_tagged_fields_are_left_to_the_compiled_decoder(version: int, place: str) -> None:
    encoded = codec.encode(request_of(version), version)
    behind = {"partition": 2, "topic": 1, "request": 0}[place]
    at = len(encoded) - behind - 1
    decoder = ProduceCodec(version)
    decoder._decode = refuse  # type: ignore[assignment]
    with pytest.raises(Asked):
        decoder.decode(memoryview(encoded[:at] + b"\x01\x09\x00" + encoded[at + 1 :]), 0)


@pytest.mark.parametrize("version", [9, 13])
def test_the_sizes_of_frame_and_batch_say_whether_a_batch_is_copied(version: int) -> None:
    def kinds(frame_bytes: int, batch_bytes: int) -> list[type]:
        request = request_of(version, records=batch_bytes)
        filling = PartitionProduceData(index=1, records=bytes(20_000))
        request.topic_data[0].partition_data.append(filling)
        filling.records = bytes(20_000 + frame_bytes - len(codec.encode(request, version)))
        encoded = codec.encode(request, version)
        assert len(encoded) == frame_bytes
        found, _ = codec_for(version).decode(memoryview(encoded), 0)
        return [type(batch) for _, batch in found.topics[0][1]]

    # a batch is measured by its compact size, which is one more
    assert kinds(SMALL_FRAME_BYTES, SMALL_BATCH_BYTES - 1) == [bytes, memoryview]
    assert kinds(SMALL_FRAME_BYTES, SMALL_BATCH_BYTES) == [memoryview, memoryview]
    assert kinds(SMALL_FRAME_BYTES + 1, SMALL_BATCH_BYTES - 1) == [memoryview, memoryview]


@pytest.mark.parametrize("version", [3, 8, 9, 12])
@pytest.mark.parametrize(("topics", "partitions"), [(10, 500), (5000, 0)])
def test_many_partitions_and_topics_are_read_in_steps(version: int, topics: int, partitions: int) -> None:
    encoded = memoryview(codec.encode(_wide(topics, partitions), version))
    with pytest.raises(ManyElements):
        codec_for(version).decode(encoded, 0)
    steps = codec_for(version).decode_in_steps(encoded, 0)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found, _ = end.value
            break
        count += 1
    assert count > 100
    assert len(found.topics) == topics
    assert all(len(rows) == partitions for _, rows in found.topics)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_more_partitions_than_any_client_writes_to_are_malformed(version: int) -> None:
    encoded = memoryview(codec.encode(_wide(100, 500), version))
    with pytest.raises(Malformed):
        deque(codec_for(version).decode_in_steps(encoded, 0))


def _wide(topics: int, partitions: int) -> ProduceRequest:
    data = [(index, b"x" * 30) for index in range(partitions)]
    return ProduceRequest(acks=1, timeout_ms=5, topic_data=[_topic(f"t{n}", data) for n in range(topics)])


@given(requests(), st.data())
def test_a_request_cut_anywhere_is_malformed(case: tuple[int, ProduceRequest, Produce], data: st.DataObject) -> None:
    version, declared, _ = case
    encoded = codec.encode(declared, version)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(Malformed):
        codec_for(version).decode(memoryview(encoded)[:cut], 0)


@given(st.sampled_from(VERSIONS), st.binary(max_size=120))
def test_any_bytes_are_read_as_the_declaration_reads_them(version: int, data: bytes) -> None:
    try:
        expected, expected_end = codec.decoder(ProduceRequest, version)(memoryview(data), 0)
    except Malformed:
        with pytest.raises(Malformed):
            codec_for(version).decode(memoryview(data), 0)
        return
    found, end = codec_for(version).decode(memoryview(data), 0)
    assert end == expected_end
    assert found.acks == expected.acks
    assert len(found.topics) == len(expected.topic_data)


@given(
    st.sampled_from(VERSIONS),
    st.lists(st.lists(st.tuples(i32, i64, i64, i64) | st.tuples(i32, i16, st.none() | names), max_size=4), max_size=3),
)
def test_responses_are_those_of_their_declaration(version: int, topics: list[list[tuple[int, ...]]]) -> None:
    wire = codec_for(version)
    declared, answers = [], []
    for number, rows in enumerate(topics):
        key: TopicKey = bytes([number]) * 16 if version >= 13 else f"topic-{number}"
        messages, encoded = [], []
        for row in rows:
            if len(row) == 4:
                index, base_offset, append_time_ms, start_offset = row
                encoded.append(wire.success(index, base_offset, append_time_ms, start_offset))
                messages.append(_success(*row))
            else:
                encoded.append(wire.refusal(row[0], row[1], row[2], [(3, "bad")]))
                messages.append(_refusal(*row))
        answers.append((key, encoded))
        named = {"topic_id": key} if isinstance(key, bytes) else {"name": key}
        declared.append(TopicProduceResponse(partition_responses=messages, **named))
    parts: list[bytes] = []
    wire.encode(answers, parts)
    assert b"".join(parts) == codec.encode(ProduceResponse(responses=declared), version)


def _success(index: int, base_offset: int, append_time_ms: int, start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=start_offset,
    )


def _refusal(index: int, code: int, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message="bad")],
        error_message=message,
    )
