"""OffsetCommit, written by hand for speed, is what the declarations say; any bytes decode alike or are Malformed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpywire import codec
from kpywire.errors import Malformed
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kpywire.offset_commit import codec_for

VERSIONS = range(2, 11)
versions = st.sampled_from(VERSIONS)
i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(["", "n" * 126, "n" * 127, "n" * 249])
ids = st.binary(min_size=16, max_size=16)
counts = st.sampled_from([0, 1, 2, 126, 127, 200])


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, OffsetCommitRequest]:
    version = draw(versions)

    def partition() -> OffsetCommitRequestPartition:
        made = OffsetCommitRequestPartition(
            partition_index=draw(i32), committed_offset=draw(i64), committed_metadata=draw(st.none() | names)
        )
        if version >= 6:
            made.committed_leader_epoch = draw(i32)
        return made

    def topic() -> OffsetCommitRequestTopic:
        made = OffsetCommitRequestTopic(partitions=[partition() for _ in range(draw(st.integers(0, 3)))])
        if version >= 10:
            made.topic_id = draw(ids)
        else:
            made.name = draw(names)
        return made

    made = OffsetCommitRequest(
        group_id=draw(names),
        generation_id_or_member_epoch=draw(i32),
        member_id=draw(names),
        topics=[topic() for _ in range(draw(st.integers(0, 3)))],
    )
    if version <= 4:
        made.retention_time_ms = draw(i64)
    if version >= 7:
        made.group_instance_id = draw(st.none() | names)
    return version, made


@st.composite
def responses(draw: st.DrawFn) -> tuple[int, OffsetCommitResponse]:
    version = draw(versions)
    topics = [
        OffsetCommitResponseTopic(
            name=draw(names),
            topic_id=draw(ids),
            partitions=[
                OffsetCommitResponsePartition(partition_index=draw(i32), error_code=draw(i16))
                for _ in range(draw(counts) if draw(st.booleans()) else 1)
            ],
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return version, OffsetCommitResponse(throttle_time_ms=draw(i32), topics=topics)


@given(requests(), st.binary(max_size=5))
def test_requests_are_those_of_their_declaration(case: tuple[int, OffsetCommitRequest], behind: bytes) -> None:
    version, declared = case
    encoded = codec.encode(declared, version)
    frame = memoryview(bytearray(b"header" + encoded + behind))
    assert codec_for(version).decode(frame, 6) == (declared, 6 + len(encoded))


@pytest.mark.parametrize("version", VERSIONS)
def test_many_partitions_and_topics_are_read(version: int) -> None:
    declared = OffsetCommitRequest(
        group_id="g",
        member_id="m",
        topics=[
            OffsetCommitRequestTopic(
                partitions=[
                    OffsetCommitRequestPartition(partition_index=each, committed_offset=each, committed_metadata="")
                    for each in range(300)
                ]
            )
            for _ in range(200)
        ],
    )
    found, _ = codec_for(version).decode(memoryview(codec.encode(declared, version)), 0)
    assert found == declared


@given(versions, requests(), st.data())
def test_any_bytes_decode_alike_or_are_malformed(
    version: int, case: tuple[int, OffsetCommitRequest], data: st.DataObject
) -> None:
    encoded = bytearray(codec.encode(case[1], case[0]))
    if encoded:
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at] = data.draw(st.integers(0, 255))
        del encoded[data.draw(st.integers(0, len(encoded))) :]
    frame = memoryview(encoded)
    try:
        expected = codec.decoder(OffsetCommitRequest, version)(frame, 0)
    except Malformed:
        with pytest.raises(Malformed):
            codec_for(version).decode(frame, 0)
    else:
        assert codec_for(version).decode(frame, 0) == expected


@given(responses())
def test_responses_are_those_of_their_declaration(case: tuple[int, OffsetCommitResponse]) -> None:
    version, response = case
    parts: list[bytes] = []
    codec_for(version).encode(response, parts)
    assert b"".join(parts) == codec.encode(response, version)


@pytest.mark.parametrize("count", [0, 1, 125, 126, 127, 128, 300])
@pytest.mark.parametrize("version", VERSIONS)
def test_responses_with_many_topics_are_those_of_their_declaration(version: int, count: int) -> None:
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[]) for _ in range(count)])
    parts: list[bytes] = []
    codec_for(version).encode(response, parts)
    assert b"".join(parts) == codec.encode(response, version)


@given(responses())
def test_error_codes_of_all_partitions_are_found(case: tuple[int, OffsetCommitResponse]) -> None:
    version, response = case
    codes: list[int] = []
    codec_for(version).errors(response, codes)
    assert codes == [each.error_code for topic in response.topics for each in topic.partitions if each.error_code != 0]
