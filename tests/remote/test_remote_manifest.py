"""The manifest: its text is that of Aiven's plugin, and whatever it says is believed only if it can be so."""

import json
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpystorage.errors import CorruptObject
from kpystorage.remote import chunk_sizes, manifest
from kpystorage.remote.chunks import ChunkIndex, FixedChunks, VariableChunks
from kpystorage.remote.indexes import IndexType, StoredIndex
from kpystorage.remote.manifest import DescribedSegment, SegmentEncryption, SegmentManifest
from kpystorage.remote.segment_name import RemoteSegmentName
from kpywire.uuid import from_string

SEGMENT = DescribedSegment(
    RemoteSegmentName("topic1", from_string("lZ6vvmajTWKDBUTV6SQAtQ"), 42, 0, from_string("adh9f8BMS4anaUnD8KWfWg")),
    end_offset=1000,
    max_timestamp_ms=1000000000,
    broker_id=2,
    event_timestamp_ms=2000000000,
    leader_epochs=((0, 100), (1, 200), (2, 300)),
)
PLACES = {each: StoredIndex(position, 1) for position, each in enumerate(IndexType)}
WITHOUT_TRANSACTIONS = {each: place for each, place in PLACES.items() if each is not IndexType.TRANSACTION}
PLAIN = SegmentManifest(FixedChunks(1000, 100, 100, 100), PLACES, segment=SEGMENT)
TEXT = (
    '{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":100,"originalFileSize":1000,'
    '"transformedChunkSize":100,"finalTransformedChunkSize":100},"segmentIndexes":{'
    '"offset":{"position":0,"size":1},"timestamp":{"position":1,"size":1},"producerSnapshot":{"position":2,"size":1},'
    '"leaderEpoch":{"position":3,"size":1},"transaction":{"position":4,"size":1}},"compression":false,'
    '"remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":{"topicId":"lZ6vvmajTWKDBUTV6SQAtQ",'
    '"topicPartition":{"topic":"topic1","partition":42}},"id":"adh9f8BMS4anaUnD8KWfWg"},"startOffset":0,"endOffset":1000,'
    '"maxTimestampMs":1000000000,"brokerId":2,"eventTimestampMs":2000000000,'
    '"segmentLeaderEpochs":{"0":100,"1":200,"2":300}}}'
)
"""A manifest in the spelling of the plugin's own tests."""


def facts(found: SegmentManifest) -> tuple[Any, ...]:
    chunks = found.chunks
    sizes = [chunks.chunk(number) for number in range(chunks.count)]
    return chunks.chunk_bytes, sizes, dict(found.indexes), found.compressed, found.encryption, found.segment


def test_a_manifest_has_the_text_of_the_plugin() -> None:
    assert manifest.render(PLAIN) == TEXT.encode()
    assert facts(manifest.parse(TEXT.encode())) == facts(PLAIN)


def test_a_missing_transaction_index_is_null() -> None:
    text = manifest.render(PLAIN._replace(indexes=WITHOUT_TRANSACTIONS))
    assert b'"transaction":null}' in text
    assert IndexType.TRANSACTION not in manifest.parse(text).indexes


def test_encryption_stands_before_the_words_for_people() -> None:
    places = {each: StoredIndex(29 * position, 29) for position, each in enumerate(IndexType)}
    secret = SegmentManifest(
        FixedChunks(250, 100, 128, 78), places, encryption=SegmentEncryption("key1:AAAA", b"\n\v\f\r")
    )
    text = manifest.render(secret)
    assert b'"compression":false,"encryption":{"dataKey":"key1:AAAA","aad":"CgsMDQ=="},"remoteLog' in text
    assert facts(manifest.parse(text)) == facts(secret)


def test_compressed_chunks_have_a_size_each() -> None:
    compressed = PLAIN._replace(chunks=VariableChunks(1000, 400, [30, 20, 10]), compressed=True)
    text = manifest.render(compressed)
    assert json.loads(text)["chunkIndex"] == {
        "type": "variable",
        "originalChunkSize": 400,
        "originalFileSize": 1000,
        "transformedChunks": chunk_sizes.encode([30, 20, 10]),
    }
    assert facts(manifest.parse(text)) == facts(compressed)


def test_an_encrypted_index_has_room_for_its_vector_and_tag() -> None:
    places = {each: StoredIndex(27 * position, 27) for position, each in enumerate(IndexType)}
    secret = SegmentManifest(FixedChunks(250, 100, 128, 78), places, encryption=SegmentEncryption("key1:AAAA", b"a"))
    with pytest.raises(CorruptObject, match="an encrypted index of 27 bytes"):
        manifest.parse(manifest.render(secret))


@pytest.mark.parametrize("words", [None, 5, {}, {"startOffset": "x"}, [1]])
def test_words_for_people_that_are_others_change_nothing(words: Any) -> None:
    text = json.loads(TEXT)
    text["remoteLogSegmentMetadata"] = words
    assert manifest.parse(json.dumps(text).encode()).segment is None
    del text["remoteLogSegmentMetadata"]
    assert manifest.parse(json.dumps(text).encode()).segment is None


def changed(change: Callable[[Any], object]) -> bytes:
    text = json.loads(TEXT)
    change(text)
    return json.dumps(text).encode()


def put(*path: Any) -> bytes:
    """The manifest with another value at a path, whose last element is the value."""
    *steps, name, value = path

    def change(text: Any) -> None:
        for step in steps:
            text = text[step]
        text[name] = value

    return changed(change)


VARIABLE = {"type": "variable", "originalChunkSize": 400, "originalFileSize": 1000}
HOSTILE = {
    "nothing": (b"", "no JSON"),
    "no JSON": (b"{", "no JSON"),
    "no text": (b"\xff\xfe{}", "no JSON"),
    "a list": (b"[]", "the manifest is a list"),
    "a number": (b"5", "the manifest is 5"),
    "too deep": (b"[" * 90_000, "too deep"),
    "too deep in objects": (b'{"a":' * 90_000 + b"1" + b"}" * 90_000, "too deep"),
    "many values": (b"[" + b"{}," * 200_000 + b"{}]", "values, more than 100000"),
    "megabytes": (b'{"version":"' + b"x" * 5_000_000 + b'"}', "bytes, more than"),
    "a huge number": (b'{"version":' + b"9" * 1_000_000 + b"}", "no JSON"),
    "not a number": (TEXT.replace("1000", "NaN", 1).encode(), "the number NaN"),
    "infinity": (TEXT.replace("1000", "1e999", 1).encode(), "originalFileSize of chunkIndex is inf"),
    "a field twice": (TEXT.replace('"version":"1"', '"version":"2","version":"1"').encode(), "twice"),
    "another version": (put("version", "2"), "version '2'"),
    "a version without quotes": (put("version", 1), "version of the manifest is 1, no text"),
    "an unknown field": (put("cipher", "rot13"), "with 'cipher', which is not known"),
    "an unknown field of chunks": (put("chunkIndex", "x" * 100, 1), "which is not known"),
    "compression as a word": (put("compression", "false"), "compression is 'false'"),
    "no chunks": (put("chunkIndex", None), "chunkIndex is None"),
    "another type of chunks": (put("chunkIndex", "type", "magic"), "type 'magic'"),
    "a negative size": (put("chunkIndex", "originalFileSize", -1), "originalFileSize of chunkIndex is -1"),
    "a huge size": (put("chunkIndex", "originalFileSize", 2**31), "is 2147483648"),
    "a size in words": (put("chunkIndex", "originalChunkSize", "100"), "originalChunkSize of chunkIndex is '100'"),
    "a fraction": (put("chunkIndex", "originalChunkSize", 100.0), "is 100.0"),
    "true": (put("chunkIndex", "originalChunkSize", True), "is True"),
    "chunks of nothing": (put("chunkIndex", "originalChunkSize", 0), "no number from 1"),
    "stored chunks that grow": (put("chunkIndex", "transformedChunkSize", 2**31 - 1), "stored in 2147483647"),
    "a last chunk that shrinks": (put("chunkIndex", "finalTransformedChunkSize", 99), "stored in 99"),
    "a million chunks": (
        put("chunkIndex", {**VARIABLE, "originalChunkSize": 1, "originalFileSize": 2**31 - 1}),
        "more",
    ),
    "chunks too few": (put("chunkIndex", {**VARIABLE, "transformedChunks": chunk_sizes.encode([400])}), "sizes of 1"),
    "no base64": (put("chunkIndex", {**VARIABLE, "transformedChunks": "?"}), "cannot be read"),
    "no zstd": (put("chunkIndex", {**VARIABLE, "transformedChunks": "AAAA"}), "cannot be read"),
    "sizes as a list": (put("chunkIndex", {**VARIABLE, "transformedChunks": [1, 2, 3]}), "a list, no text"),
    "a stored chunk of gigabytes": (
        put("chunkIndex", {**VARIABLE, "transformedChunks": chunk_sizes.encode([400, 2**31 - 1, 200])}),
        "stored in 2147483647",
    ),
    "an index missing": (changed(lambda text: text["segmentIndexes"].pop("offset")), "without offset"),
    "an index of nothing": (put("segmentIndexes", "offset", None), "offset is None"),
    "another index": (put("segmentIndexes", "bloom", {"position": 5, "size": 1}), "'bloom', which is not known"),
    "a gap": (put("segmentIndexes", "transaction", "position", 5), "at 5 where 4"),
    "an overlap": (put("segmentIndexes", "timestamp", "position", 0), "at 0 where 1"),
    "a negative position": (put("segmentIndexes", "offset", "position", -1), "position of offset is -1"),
    "a huge index": (put("segmentIndexes", "transaction", "size", 2**31 - 1), "indexes of"),
    "no key": (put("encryption", {"aad": "AAAA"}), "encryption without dataKey"),
    "no aad": (put("encryption", {"dataKey": "k:AAAA"}), "encryption without aad"),
    "an unknown field of encryption": (
        put("encryption", {"dataKey": "k:AAAA", "aad": "AAAA", "cipher": 1}),
        "encryption with 'cipher', which is not known",
    ),
    "an aad that is none": (put("encryption", {"dataKey": "k:AAAA", "aad": "?"}), "no base64"),
    "a huge aad": (put("encryption", {"dataKey": "k:AAAA", "aad": "AAAA" * 10_000}), "more than 1024 bytes"),
    "encrypted chunks without room": (put("encryption", {"dataKey": "k:AAAA", "aad": "AAAA"}), "stored in 100"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_manifest_is_refused_in_one_line_and_little_memory(name: str) -> None:
    data, reason = HOSTILE[name]
    tracemalloc.start()
    try:
        with pytest.raises(CorruptObject) as refused:
            manifest.parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reason in str(refused.value), refused.value
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300
    assert peak < 40_000_000


@pytest.mark.parametrize(
    ("limit", "size"), [("MOST_BYTES", len(TEXT.encode())), ("MOST_VALUES", sum(map(TEXT.count, ",[{")))]
)
def test_a_manifest_is_read_up_to_the_limits(monkeypatch: pytest.MonkeyPatch, limit: str, size: int) -> None:
    monkeypatch.setattr(manifest, limit, size)
    assert manifest.parse(TEXT.encode()).chunks.segment_bytes == 1000
    monkeypatch.setattr(manifest, limit, size - 1)
    with pytest.raises(CorruptObject, match="more than"):
        manifest.parse(TEXT.encode())


@given(st.integers(0, 2**32))
def test_a_mutated_manifest_is_refused_or_says_something_possible(seed: int) -> None:
    rng = Random(seed)
    data = bytearray(TEXT.encode())
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.choice(b'0123456789-{}[]",:')
            case 1:
                data.insert(at, rng.choice(b'0123456789-{}[]",:'))
            case 2:
                del data[at : at + rng.randrange(1, 20)]
            case _:
                data[at:at] = data[(start := rng.randrange(len(data))) : start + 30]
    try:
        found: ChunkIndex = manifest.parse(data).chunks
    except CorruptObject:
        return
    assert sum(found.chunk(number).size for number in range(found.count)) == found.segment_bytes


@given(st.binary(max_size=300))
def test_any_bytes_are_a_manifest_or_refused(data: bytes) -> None:
    with pytest.raises(CorruptObject):
        manifest.parse(data)
