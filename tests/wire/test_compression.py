"""Codecs: what others write we read, what we write others read, and nothing inflates beyond its cap."""

import gzip
import tracemalloc
from random import Random

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kpywire.compression import (
    GZIP,
    LZ4,
    NAMES,
    NONE,
    SNAPPY,
    ZSTD,
    InflatesTooLarge,
    compress,
    decompress,
)
from kpywire.errors import Malformed

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
MIB = 1 << 20
TEXT = b"".join(b'{"user":%d,"page":"/item/%d"}' % (n * 7919 % 1000, n) for n in range(8000))

codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: NAMES[codec])


@pytest.mark.parametrize("codec", [NONE, *CODECS], ids=lambda codec: NAMES[codec])
@given(data=st.binary(max_size=5000), repeat=st.sampled_from([1, 3, 100]))
def test_compressed_bytes_inflate_to_themselves(codec: int, data: bytes, repeat: int) -> None:
    data = data * repeat or b"x"
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, packed, MIB) == data


@codecs
def test_a_view_is_as_good_as_bytes(codec: int) -> None:
    packed = memoryview(b"__" + compress(codec, memoryview(TEXT)))[2:]
    assert decompress(codec, packed, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("codec", "level"),
    [(GZIP, 1), (GZIP, 9), (LZ4, 1), (LZ4, 9), (LZ4, 17), (ZSTD, -5), (ZSTD, 1), (ZSTD, 22)],
)
def test_every_level_of_kafkas_configs_is_taken(codec: int, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


def test_a_higher_level_compresses_more() -> None:
    for codec, low, high in [(GZIP, 1, 9), (LZ4, 9, 17), (ZSTD, 1, 19)]:
        assert len(compress(codec, TEXT, high)) < len(compress(codec, TEXT, low))


def test_other_libraries_read_what_we_write() -> None:
    assert gzip.decompress(compress(GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(LZ4, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(LZ4, TEXT, 12)) == TEXT
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(ZSTD, TEXT)) == TEXT


def test_lz4_frames_have_the_descriptor_that_java_requires() -> None:
    for level in (None, 3, 12):
        frame = compress(LZ4, TEXT, level)
        flags, block_descriptor = frame[4], frame[5]
        assert flags & 0x20, "blocks must be independent"
        assert block_descriptor == 0x40, "64 KB blocks, as Kafka writes"


def test_incompressible_lz4_blocks_are_stored() -> None:
    noise = Random(1).randbytes(70_000)
    packed = compress(LZ4, noise)
    assert len(packed) == 7 + 2 * 4 + len(noise) + 4
    assert decompress(LZ4, packed, len(noise)) == noise


@pytest.mark.parametrize("block_size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
def test_lz4_frames_of_every_flavour_are_read(
    block_size: int, block_checksum: bool, content_checksum: bool, store_size: bool
) -> None:
    frame = lz4.frame.compress(
        TEXT,
        block_size=block_size,
        block_linked=False,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert decompress(LZ4, frame, len(TEXT)) == TEXT


def test_lz4_frames_with_linked_blocks_are_refused_as_kafka_does() -> None:
    with pytest.raises(Malformed):
        decompress(LZ4, lz4.frame.compress(TEXT, block_linked=True), MIB)


def test_snappy_is_read_with_and_without_framing() -> None:
    assert decompress(SNAPPY, snappy.compress(TEXT), len(TEXT)) == TEXT
    framed = compress(SNAPPY, TEXT)
    assert framed.startswith(b"\x82SNAPPY\x00")
    assert decompress(SNAPPY, framed + framed, 2 * len(TEXT)) == TEXT + TEXT


def test_gzip_members_and_zstd_frames_are_read_back_to_back() -> None:
    for codec in (GZIP, ZSTD):
        packed = compress(codec, TEXT)
        assert decompress(codec, packed + packed, 2 * len(TEXT)) == TEXT + TEXT
    assert decompress(GZIP, compress(GZIP, TEXT) + bytes(40), MIB) == TEXT


def test_zstd_without_a_declared_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(bytes(5 * MIB)) + stream.flush()
    assert decompress(ZSTD, packed, 8 * MIB) == bytes(5 * MIB)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, None), (SNAPPY, None), (LZ4, None), (LZ4, 12), (ZSTD, None)])
def test_the_cap_is_exact(codec: int, level: int | None) -> None:
    packed = compress(codec, TEXT, level)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(InflatesTooLarge):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, None), (SNAPPY, None), (LZ4, None), (LZ4, 12), (ZSTD, None)])
def test_a_bomb_takes_no_more_memory_than_the_cap(codec: int, level: int | None) -> None:
    bomb = compress(codec, bytes(64 * MIB), level)
    if codec == GZIP:
        bomb += bomb
    tracemalloc.start()
    try:
        with pytest.raises(InflatesTooLarge):
            decompress(codec, bomb, 4 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


def test_a_snappy_length_that_lies_costs_no_memory() -> None:
    with pytest.raises(InflatesTooLarge):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), MIB)


@codecs
@given(data=st.binary(max_size=200))
def test_garbage_is_malformed(codec: int, data: bytes) -> None:
    try:
        inflated = decompress(codec, data, MIB)
    except Malformed:
        return
    assert len(inflated) <= MIB


@codecs
@given(cut=st.integers(0, 400), flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=3))
def test_damage_is_malformed_or_harmless(codec: int, cut: int, flips: list[tuple[int, int]]) -> None:
    packed = bytearray(compress(codec, TEXT[:2000]))
    for place, bits in flips:
        packed[place % len(packed)] ^= bits
    try:
        inflated = decompress(codec, packed[: len(packed) - cut], 4 * MIB)
    except Malformed:
        return
    assert len(inflated) <= 4 * MIB


def test_a_truncated_section_is_malformed() -> None:
    for codec in CODECS:
        packed = compress(codec, TEXT)
        with pytest.raises(Malformed):
            decompress(codec, packed[: len(packed) // 2], MIB)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(Malformed):
        decompress(codec, b"", 10)
    with pytest.raises(ValueError, match="unknown compression codec"):
        compress(codec, b"")


def test_the_library_still_says_when_the_output_was_too_small() -> None:
    with pytest.raises(cramjam.DecompressionError, match="whole buffer"):
        cramjam.zstd.decompress_into(compress(ZSTD, TEXT), bytearray(10))
