"""Fetch requests whose partitions stay bytes are what the declarations say; any bytes decode alike or are Malformed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire import codec
from kpywire import fetch as fetch_module
from kpywire.errors import Malformed, ManyElements
from kpywire.fetch import PackedTopic, codec_for
from kpywire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

VERSIONS = range(4, 19)
i8 = st.integers(-(2**7), 2**7 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["t", "n" * 126, "n" * 127, "n" * 249])


@pytest.fixture(autouse=True)
def packed_however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "PACKED_FROM_BYTES", 0)


@st.composite
def requests(draw: st.DrawFn, unusual: bool = True) -> tuple[int, FetchRequest]:
    """With tagged fields and forgotten topics now and then if they may be ``unusual``."""
    version = draw(st.sampled_from(VERSIONS))
    request = FetchRequest(
        max_wait_ms=draw(i32),
        min_bytes=draw(i32),
        max_bytes=draw(i32),
        isolation_level=draw(i8),
        topics=[draw(topics(version, unusual)) for _ in range(draw(st.integers(0, 3)))],
    )
    if version < 15:
        request.replica_id = draw(i32)
    elif draw(st.booleans()):
        request.replica_state = ReplicaState(replica_id=draw(i32), replica_epoch=draw(i64))
    if version >= 7:
        request.session_id, request.session_epoch = draw(i32), draw(i32)
        if unusual and draw(st.booleans()):
            forgotten = ForgottenTopic(partitions=[1])
            request.forgotten_topics_data = [forgotten]
    if version >= 11:
        request.rack_id = draw(names)
    if version >= 12 and unusual and draw(st.booleans()):
        request.cluster_id = "here"
    return version, request


@st.composite
def topics(draw: st.DrawFn, version: int, unusual: bool) -> FetchTopic:
    partitions = [draw(partition(version, unusual)) for _ in range(draw(st.integers(0, 4)))]
    if version >= 13:
        return FetchTopic(topic_id=draw(st.binary(min_size=16, max_size=16)), partitions=partitions)
    return FetchTopic(topic=draw(names), partitions=partitions)


@st.composite
def partition(draw: st.DrawFn, version: int, unusual: bool) -> FetchPartition:
    found = FetchPartition(partition=draw(i32), fetch_offset=draw(i64), partition_max_bytes=draw(i32))
    if version >= 5:
        found.log_start_offset = draw(i64)
    if version >= 9:
        found.current_leader_epoch = draw(i32)
    if version >= 12:
        found.last_fetched_epoch = draw(i32)
    if version >= 18 and unusual and draw(st.booleans()):
        found.high_watermark = 7
    return found


@given(requests(), st.binary(max_size=5))
def test_requests_are_those_of_their_declaration(case: tuple[int, FetchRequest], behind: bytes) -> None:
    version, declared = case
    encoded = codec.encode(declared, version)
    found, end = codec_for(version).decode(memoryview(b"header" + encoded + behind), 6)
    assert found == declared
    assert end == 6 + len(encoded)


@given(requests(unusual=False))
def test_the_partitions_of_usual_requests_stay_bytes(case: tuple[int, FetchRequest]) -> None:
    version, declared = case
    found, _ = codec_for(version).decode(memoryview(codec.encode(declared, version)), 0)
    assert all(type(topic) is PackedTopic for topic in found.topics)
    assert [len(list(topic.pieces())) for topic in found.topics] == [len(each.partitions) for each in declared.topics]  # type: ignore[attr-defined]


@given(requests(), st.data())
def test_a_request_cut_anywhere_is_malformed(case: tuple[int, FetchRequest], data: st.DataObject) -> None:
    version, declared = case
    encoded = codec.encode(declared, version)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(Malformed):
        codec_for(version).decode(memoryview(encoded)[:cut], 0)


@given(requests(), st.data())
def test_changed_bytes_are_read_as_the_declaration_reads_them(
    case: tuple[int, FetchRequest], data: st.DataObject
) -> None:
    version, declared = case
    damaged = bytearray(codec.encode(declared, version))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(codec_for(version).decode, damaged) == outcome(codec.decoder(FetchRequest, version), damaged)


@given(st.sampled_from(VERSIONS), st.binary(max_size=120))
def test_any_bytes_are_read_as_the_declaration_reads_them(version: int, data: bytes) -> None:
    assert outcome(codec_for(version).decode, data) == outcome(codec.decoder(FetchRequest, version), data)


def outcome(decode: Any, data: bytes | bytearray) -> Any:
    try:
        return decode(memoryview(data), 0)
    except Malformed:
        return None


def test_more_partitions_than_may_be_kept_as_bytes_are_counted_by_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "MOST_PACKED", 10)
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(20)]
    declared = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=partitions)])
    found, _ = codec_for(12).decode(memoryview(codec.encode(declared, 12)), 0)
    assert type(found.topics[0]) is FetchTopic
    assert found == declared


def request_of(version: int, *partitions: int) -> FetchRequest:
    """A request with a topic for each number of partitions."""
    topics = []
    for number, count in enumerate(partitions):
        rows = [FetchPartition(partition=n, fetch_offset=n, partition_max_bytes=1) for n in range(count)]
        topics.append(FetchTopic(partitions=rows))
        if version >= 13:
            topics[-1].topic_id = number.to_bytes(16, "big")
        else:
            topics[-1].topic = f"t{number}"
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)


def is_packed(version: int, request: FetchRequest) -> bool:
    found, _ = codec_for(version).decode(memoryview(codec.encode(request, version)), 0)
    assert found == request
    kinds = {type(topic) for topic in found.topics}
    assert len(kinds) == 1
    return kinds == {PackedTopic}


@pytest.mark.parametrize("version", [4, 12, 18])
def test_topics_and_partitions_are_packed_up_to_a_number_of_both(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """A topic counts as one more for those behind it."""
    monkeypatch.setattr(fetch_module, "MOST_PACKED", 10)
    assert is_packed(version, request_of(version, 10))
    assert not is_packed(version, request_of(version, 11))
    assert is_packed(version, request_of(version, 4, 5))
    assert not is_packed(version, request_of(version, 4, 6))
    assert is_packed(version, request_of(version, 0, 0, 8))
    assert not is_packed(version, request_of(version, 0, 0, 9))


@pytest.mark.parametrize("version", [4, 12, 18])
def test_requests_from_a_size_on_are_packed(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    request = request_of(version, 3)
    size = len(codec.encode(request, version))
    for from_bytes, packed in ((size, True), (size + 1, False)):
        monkeypatch.setattr(fetch_module, "PACKED_FROM_BYTES", from_bytes)
        assert is_packed(version, request) == packed


@pytest.mark.parametrize("version", [4, 12, 18])
def test_requests_of_many_topics_are_decoded_in_steps(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(fetch_module, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(fetch_module, "STEP_TOPICS", 3)
    assert is_packed(version, request_of(version, 1, 1, 1, 1))
    request = request_of(version, *[1] * 7)
    encoded = memoryview(codec.encode(request, version))
    with pytest.raises(ManyElements):
        codec_for(version).decode(encoded, 0)
    steps = codec_for(version).decode_in_steps(encoded, 0)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == (request, len(encoded))


@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(i32, st.none() | st.binary(max_size=300), st.booleans()), min_size=1, max_size=5),
)
def test_answers_of_partitions_encoded_beforehand_take_their_place(
    version: int, rows: list[tuple[int, bytes | None, bool]]
) -> None:
    answers = [
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=index,
            aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)] if aborted else None,
            records=records,
        )
        for index, records, aborted in rows
    ]

    def response(partitions: list[Any]) -> bytes:
        topic = FetchableTopicResponse(partitions=partitions)
        return codec.encode(FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic]), version)

    encoded = [codec.encode_with_records(answer, FetchResponse, version) for answer in answers]
    assert response(codec.EncodedStructs(encoded)) == response(answers)
