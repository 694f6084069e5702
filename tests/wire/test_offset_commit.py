"""OffsetCommit, decoded by hand for speed, is what the compiled decoder reads. Any bytes decode alike, or are Malformed
alike."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from message_values import random_message

from kpywire import codec, offset_commit
from kpywire.errors import Malformed
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.offset_commit import decoder_for

VERSIONS = OffsetCommitRequest.VERSIONS  # type: ignore[attr-defined]
USUAL = [version for version in VERSIONS if version >= offset_commit.FIRST_USUAL]


def refuse(*_arguments: object) -> None:
    raise AssertionError("the compiled decoder was asked")


def usual_request(version: int, *, metadata: str | None = "", offset: int = 7) -> OffsetCommitRequest:
    """A request as clients send it."""
    topic = OffsetCommitRequestTopic(name="topic") if version < 10 else OffsetCommitRequestTopic(topic_id=b"i" * 16)
    epoch = 3 if version >= 6 else -1
    topic.partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=metadata,
        )
        for index in (0, 2**31 - 1)
    ]
    instance = "instance" if version >= 7 else None
    return OffsetCommitRequest(
        group_id="é group",
        generation_id_or_member_epoch=-1,
        member_id="member",
        group_instance_id=instance,
        topics=[topic, topic],
    )


@pytest.mark.parametrize("version", USUAL)
@pytest.mark.parametrize("metadata", [None, "", "m" * 126])
def test_usual_requests_are_read_without_the_compiled_decoder(version: int, metadata: str | None) -> None:
    decoder = offset_commit.OffsetCommitDecoder(version)
    decoder._decode = refuse  # type: ignore[assignment]
    declared = usual_request(version, metadata=metadata, offset=2**63 - 1)
    encoded = codec.encode(declared, version)
    found, end = decoder.decode(memoryview(bytearray(b"header" + encoded + b"behind")), 6)
    assert found == declared
    assert end == 6 + len(encoded)


def request_of(version: int, **sizes: int) -> OffsetCommitRequest:
    """A request whose texts have these numbers of bytes, and whose arrays this number of elements."""
    size = {"group": 1, "member": 1, "instance": 1, "topic": 1, "metadata": 1, "topics": 1, "partitions": 1} | sizes
    partition = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=2, committed_metadata="m" * size["metadata"]
    )
    topic = OffsetCommitRequestTopic(partitions=[partition] * size["partitions"])
    if version >= 10:
        topic.topic_id = b"i" * 16
    else:
        topic.name = "t" * size["topic"]
    request = OffsetCommitRequest(group_id="g" * size["group"], topics=[topic] * size["topics"])
    request.member_id = "m" * size["member"]
    if version >= 7:
        request.group_instance_id = "i" * size["instance"]
    return request


@pytest.mark.parametrize("version", USUAL)
@pytest.mark.parametrize("part", ["group", "member", "instance", "topic", "metadata", "topics", "partitions"])
def test_short_texts_and_few_elements_alone_are_read_without_the_compiled_decoder(version: int, part: str) -> None:
    decoder = offset_commit.OffsetCommitDecoder(version)
    compiled = decoder._decode
    is_there = not (part == "instance" and version < 7) and not (part == "topic" and version >= 10)
    for size in (0, 1, 125, 126, 127, 128, 255, 256, 300):
        asked = []
        decoder._decode = lambda *place, asked=asked: (asked.append(place), compiled(*place))[1]  # type: ignore[assignment]
        request = request_of(version, **{part: size})
        encoded = codec.encode(request, version)
        assert decoder.decode(memoryview(encoded), 0) == (request, len(encoded))
        assert bool(asked) == (size > 126 and is_there), size


@given(st.sampled_from(VERSIONS), st.integers(0, 2**32), st.binary(max_size=5))
def test_requests_are_those_of_their_declaration(version: int, seed: int, behind: bytes) -> None:
    declared = random_message(OffsetCommitRequest, version, Random(seed))
    encoded = codec.encode(declared, version)
    found, end = decoder_for(version).decode(memoryview(bytearray(b"header" + encoded + behind)), 6)
    assert found == declared
    assert end == 6 + len(encoded)


@given(st.sampled_from(VERSIONS), st.integers(0, 2**32), st.data())
def test_a_request_cut_anywhere_is_malformed(version: int, seed: int, data: st.DataObject) -> None:
    encoded = codec.encode(random_message(OffsetCommitRequest, version, Random(seed)), version)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(Malformed):
        decoder_for(version).decode(memoryview(encoded)[:cut], 0)


@given(st.sampled_from(USUAL), st.data())
def test_damaged_requests_are_read_as_the_compiled_decoder_reads_them(version: int, data: st.DataObject) -> None:
    damaged = bytearray(codec.encode(usual_request(version), version))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert_alike(version, bytes(damaged))


@given(st.sampled_from(VERSIONS), st.binary(max_size=120))
def test_any_bytes_are_read_as_the_compiled_decoder_reads_them(version: int, data: bytes) -> None:
    assert_alike(version, data)


def assert_alike(version: int, data: bytes) -> None:
    """Assert that both decoders return the same, or raise the same."""
    try:
        expected = codec.decoder(OffsetCommitRequest, version)(memoryview(data), 0)
    except Malformed as error:
        with pytest.raises(Malformed, match=re.escape(str(error))):
            decoder_for(version).decode(memoryview(data), 0)
        return
    assert decoder_for(version).decode(memoryview(data), 0) == expected
