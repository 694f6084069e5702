"""Chunks: what is read back of a stored segment is the slice that was asked for, whatever its bytes and their cut."""

from base64 import b64decode, b64encode
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_segments import KINDS, contents, random_bytes, read, stored, transform

from kpystorage.errors import CorruptObject
from kpystorage.remote import chunk_sizes, indexes, manifest
from kpystorage.remote.chunks import MOST_CHUNKS, Chunk, FixedChunks, VariableChunks
from kpystorage.remote.encryption import SegmentKey
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.transforms import ChunkWriter, Transform, bounds
from kpywire.compression import ZSTD, compress, decompress

FILES = dict.fromkeys(IndexType, b"")


@given(
    st.integers(0, 3000),
    st.integers(1, 4000),
    st.integers(0, 3500),
    st.integers(0, 3500),
    st.sampled_from(KINDS),
    st.integers(0, 9),
)
def test_a_range_that_is_read_back_is_the_slice(
    size: int, chunk_bytes: int, start: int, end: int, kind: tuple[bool, bool], seed: int
) -> None:
    segment = contents(size, seed)
    how = transform(compressed=kind[0], encrypted=kind[1])
    if size // chunk_bytes > 500:
        chunk_bytes += size // 500
    log, written = stored(segment, chunk_bytes, how)
    encryption = manifest.SegmentEncryption("key1:AAAA", b"aad") if how.key else None
    _, places = indexes.join(FILES, how.key)
    text = manifest.render(manifest.SegmentManifest(written, places, how.compressed, encryption))
    chunks = manifest.parse(text).chunks
    assert chunks.stored_bytes == len(log)
    assert read(log, chunks, how, start, end) == segment[start:end]
    assert read(log, chunks, how, 0, size) == segment


def test_a_plain_object_is_the_segment_itself() -> None:
    segment = contents(1000, 1)
    log, chunks = stored(segment, 64, Transform())
    assert log == segment
    assert chunks.stored_range(chunks.numbers(100, 200)) == (64, 256)


@given(st.integers(0, 2000), st.integers(1, 100), st.integers(0, 2**32))
def test_chunks_follow_one_another_on_both_sides(size: int, chunk_bytes: int, seed: int) -> None:
    rng = Random(seed)
    count = -(-size // chunk_bytes)
    sizes = [rng.randrange(1, 200) for _ in range(count)]
    for chunks in (VariableChunks(size, chunk_bytes, sizes), FixedChunks(size, chunk_bytes, 70, 30)):
        found = [chunks.chunk(number) for number in range(chunks.count)]
        for number, (chunk, after) in enumerate(pairwise(found)):
            assert (chunk.number, chunk.start + chunk.size) == (number, after.start)
            assert chunk.stored_start + chunk.stored_size == after.stored_start
        assert sum(chunk.size for chunk in found) == size
        assert sum(chunk.stored_size for chunk in found) == chunks.stored_bytes
        with pytest.raises(IndexError):
            chunks.chunk(chunks.count)


def test_chunks_are_those_of_the_plugins_documentation() -> None:
    fixed = FixedChunks(250, 100, 110, 80)
    assert [fixed.chunk(number)[1:] for number in range(3)] == [
        (0, 100, 0, 110),
        (100, 100, 110, 110),
        (200, 50, 220, 80),
    ]
    variable = VariableChunks(250, 100, [30, 20, 10])
    assert [variable.chunk(number)[3:] for number in range(3)] == [(0, 30), (30, 20), (50, 10)]


def test_a_range_before_the_segment_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="bytes from -1"):
        FixedChunks(10, 5, 5, 5).numbers(-1, 3)
    for start, end in ((10, 20), (3, 3), (5, 5), (7, 2)):
        assert FixedChunks(10, 5, 5, 5).numbers(start, end) == range(0)
    assert FixedChunks(10, 5, 5, 5).stored_range(range(0)) == (0, 0)


@given(st.lists(st.one_of(st.integers(0, 2**31 - 1), st.integers(1000, 1300), st.integers(0, 70_000)), max_size=60))
def test_sizes_survive_their_code(sizes: list[int]) -> None:
    assert chunk_sizes.decode(chunk_sizes.encode(sizes), len(sizes)) == sizes


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sizes_take_as_many_bytes_as_their_differences_need(width: int) -> None:
    sizes = [5, min(5 + (1 << 8 * width - 1), 2**31 - 1), 7]
    packed = decompress(ZSTD, b64decode(chunk_sizes.encode(sizes)), 1000)
    assert len(packed) == 4 + 4 + 1 + 2 * width + 4
    assert chunk_sizes.decode(chunk_sizes.encode(sizes), 3) == sizes


def text_of(packed: bytes) -> str:
    return b64encode(compress(ZSTD, packed)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "AAAA",
        text_of(b""),
        text_of(b"\0\0\0"),
        text_of(b"\0\0\0\x03"),
        text_of(b"\0\0\0\x02\0\0\0\x01"),
        text_of(b"\xff\xff\xff\xff" + bytes(9)),
        text_of(b"\0\0\0\x03" + b"\0\0\0\x05" + b"\x00" + b"\0\0\0\x01"),
        text_of(b"\0\0\0\x03" + b"\0\0\0\x05" + b"\x05" + bytes(10) + b"\0\0\0\x01"),
        text_of(b"\0\0\0\x03" + b"\0\0\0\x05" + b"\x01" + bytes(2) + b"\0\0\0\x01!"),
        text_of(bytes(10_000_000)),
        chunk_sizes.encode([1, 2, 3]) + "\n",
        chunk_sizes.encode([1, 2, 3])[:8] + "-" + chunk_sizes.encode([1, 2, 3])[8:],
        chunk_sizes.encode([1, 2]),
        chunk_sizes.encode([1, 2, 3, 4]),
    ],
)
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(CorruptObject):
        chunk_sizes.decode(text, 3)


def test_a_chunk_may_be_as_large_as_a_segment_may_be() -> None:
    for size in (1, 2**31 - 1):
        assert FixedChunks(size, 1, 1, 1).count == size
        assert FixedChunks(size, 2**31 - 1, 2**31 - 1, size).chunk(0).size == size
        assert VariableChunks(size, 2**31 - 1, [2**31 - 1]).stored_bytes == 2**31 - 1
    assert VariableChunks(MOST_CHUNKS, 1, [0] * MOST_CHUNKS).count == MOST_CHUNKS


def test_a_stored_chunk_has_bounds() -> None:
    assert bounds(1000, compressed=False, encrypted=False) == (1000, 1000)
    assert bounds(1000, compressed=False, encrypted=True) == (1028, 1028)
    assert bounds(1280, compressed=True, encrypted=False) == (1, 1280 + 10 + 1024)
    assert bounds(1280, compressed=True, encrypted=True) == (29, 1280 + 10 + 1024 + 28)
    for size in (1, 100, 200_000):
        assert len(Transform(compressed=True).store(Random(size).randbytes(size))) <= size + 20


def test_an_empty_segment_has_no_chunk() -> None:
    for how in (Transform(), Transform(compressed=True)):
        chunks = ChunkWriter(0, 100, how).index()
        assert isinstance(chunks, FixedChunks)
        assert (chunks.count, chunks.stored_chunk_bytes, chunks.last_stored_bytes, chunks.stored_bytes) == (
            0,
            100,
            0,
            0,
        )
        assert chunks.extremes() == []


def test_whole_chunks_and_the_last_one_have_sizes_of_their_own() -> None:
    assert FixedChunks(80, 100, 128, 108).extremes() == [(80, 108, 108)]
    assert FixedChunks(180, 100, 128, 108).extremes() == [(100, 128, 128), (80, 108, 108)]
    assert VariableChunks(80, 100, [7]).extremes() == [(80, 7, 7)]
    assert VariableChunks(250, 100, [30, 20, 10]).extremes() == [(100, 20, 30), (50, 10, 10)]


def test_impossible_sizes_are_refused() -> None:
    for bad in ((-1, 1), (2**31, 1), (1, 0), (1, 2**31)):
        with pytest.raises(CorruptObject):
            FixedChunks(*bad, 1, 1)
    for stored_sizes in ((-1, 1), (1, -1), (2**31, 1), (1, 2**31)):
        with pytest.raises(CorruptObject, match="a stored chunk of"):
            FixedChunks(10, 5, *stored_sizes)
    with pytest.raises(CorruptObject, match=r"2 chunks where .* give 3"):
        VariableChunks(250, 100, [1, 2])
    with pytest.raises(CorruptObject, match="below 0"):
        VariableChunks(250, 100, [1, -2, 3])
    with pytest.raises(CorruptObject, match=f"more than {MOST_CHUNKS}"):
        VariableChunks(2**31 - 1, 1, [])


@pytest.mark.parametrize(("compressed", "encrypted"), KINDS)
def test_a_damaged_chunk_is_refused_or_has_its_size(*, compressed: bool, encrypted: bool) -> None:
    segment = contents(900, 3)
    how = transform(compressed=compressed, encrypted=encrypted)
    log, chunks = stored(segment, 300, how)
    rng = Random(5)
    for chunk in map(chunks.chunk, range(3)):
        good = log[chunk.stored_start : chunk.stored_start + chunk.stored_size]
        for bad in (good[:-1], good + b"!", b""):
            with pytest.raises(CorruptObject, match=f"chunk {chunk.number} has {len(bad)} bytes"):
                how.restore(chunk, bad)
        for _ in range(100):
            bad = bytearray(good)
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            try:
                restored = how.restore(chunk, bad)
            except CorruptObject:
                continue
            assert not encrypted
            assert len(restored) == chunk.size


def test_a_frame_that_inflates_to_gigabytes_is_refused_before_it_does() -> None:
    frame = compress(ZSTD, bytes(50_000_000))
    with pytest.raises(CorruptObject, match="inflates to more than 1000 bytes"):
        Transform(compressed=True).restore(Chunk(0, 0, 1000, 0, len(frame)), frame)


def test_a_writer_takes_the_chunks_of_its_segment_alone() -> None:
    writer = ChunkWriter(250, 100, Transform())
    for wrong in (b"", bytes(99), bytes(101)):
        with pytest.raises(ValueError, match="where 100 follow"):
            writer.add(wrong)
    writer.add(bytes(100))
    with pytest.raises(ValueError, match="100 of 250"):
        writer.index()


@given(st.lists(st.binary(max_size=40), min_size=5, max_size=5), st.booleans(), st.booleans())
def test_indexes_are_read_back_by_their_places(files: list[bytes], transactional: bool, encrypted: bool) -> None:
    given_files = dict(zip(IndexType, files, strict=True))
    if not transactional:
        del given_files[IndexType.TRANSACTION]
    key = SegmentKey.new(random_bytes()) if encrypted else None
    parts, places = indexes.join(given_files, key)
    joined = b"".join(map(bytes, parts))
    assert list(places) == list(given_files)
    for each, (position, size) in places.items():
        assert indexes.restore(places[each], joined[position : position + size], key) == given_files[each]
        assert (size == 0) == (given_files[each] == b"")


def test_a_segment_without_a_needed_index_is_not_stored() -> None:
    for each in set(IndexType) - {IndexType.TRANSACTION}:
        with pytest.raises(CorruptObject, match=f"no {each.value} index"):
            indexes.join({other: b"x" for other in IndexType if other is not each})
