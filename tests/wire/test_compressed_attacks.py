"""Compressed sections made to cost much: time grows with what is given, output and memory stay below the cap."""

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from time import thread_time_ns
from typing import Final

import pytest

from kpywire.compression import GZIP, LZ4, SNAPPY, ZSTD, InflatesTooLarge, compress, decompress
from kpywire.errors import Malformed

KIB: Final = 1024
MIB: Final = 1 << 20
SMALL_BYTES: Final = 100_000
ROUNDS: Final = 3

_XERIAL_HEADER = compress(SNAPPY, b"")
_LZ4_HEADER = compress(LZ4, b"")[:-4]
_CHECKED_LZ4_HEADER = b"\x04\x22\x4d\x18\x70\x40\xad"
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd\x00\x58"
"""A zstd frame without a size, whose window is 2 MiB: blocks follow."""


def _member(content: bytes) -> bytes:
    return zlib.compress(content, 9, 31)


def _filled(unit: bytes, size_bytes: int) -> bytes:
    return unit * (size_bytes // len(unit))


def _zstd_block(kind: int, size: int, content: bytes) -> bytes:
    """A block that is not the last of its frame: 0 stored, 1 one byte repeated."""
    return struct.pack("<I", size << 3 | kind << 1)[:3] + content


ATTACKS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "gzip, empty members": (GZIP, lambda size: _filled(_member(b""), size)),
    "gzip, members of a byte": (GZIP, lambda size: _filled(_member(b"a"), size)),
    "gzip, members and a damaged one": (GZIP, lambda size: _filled(_member(b""), size) + b"\x1f\x8b" + b"x" * 30),
    "gzip, members and other bytes": (GZIP, lambda size: _filled(_member(b""), size) + b"x" * 30),
    "gzip, members and half a one": (GZIP, lambda size: _filled(_member(b""), size) + _member(b"a" * 30)[:19]),
    "gzip, empty blocks": (
        GZIP,
        lambda size: _member(b"")[:10] + _filled(b"\x00\x00\x00\xff\xff", size) + b"\x03\x00" + bytes(8),
    ),
    "snappy, empty blocks": (SNAPPY, lambda size: _XERIAL_HEADER + _filled(b"\x00\x00\x00\x01\x00", size)),
    "snappy, blocks of a byte": (SNAPPY, lambda size: _XERIAL_HEADER + _filled(b"\x00\x00\x00\x03\x01\x00a", size)),
    "snappy, headers": (SNAPPY, lambda size: _filled(_XERIAL_HEADER, size)),
    "snappy, unframed": (SNAPPY, lambda size: compress(SNAPPY, bytes(18 * size))[20:]),
    "lz4, stored blocks of a byte": (
        LZ4,
        lambda size: _LZ4_HEADER + _filled(struct.pack("<I", 1 << 31 | 1) + b"a", size) + bytes(4),
    ),
    "lz4, blocks of a byte": (
        LZ4,
        lambda size: _LZ4_HEADER + _filled(struct.pack("<I", 2) + b"\x10a", size) + bytes(4),
    ),
    "lz4, blocks with checksums": (
        LZ4,
        lambda size: _CHECKED_LZ4_HEADER + _filled(struct.pack("<IBI", 1 << 31 | 1, 97, 0x550D7456), size) + bytes(4),
    ),
    "lz4, frames": (LZ4, lambda size: _filled(_LZ4_HEADER + bytes(4), size)),
    "zstd, empty frames": (ZSTD, lambda size: _filled(compress(ZSTD, b""), size)),
    "zstd, frames to be skipped": (ZSTD, lambda size: _filled(b"\x50\x2a\x4d\x18" + bytes(4), size)),
    "zstd, empty blocks": (ZSTD, lambda size: _ZSTD_FRAME + _filled(_zstd_block(0, 0, b""), size) + b"\x01\x00\x00"),
    "zstd, blocks of a byte": (
        ZSTD,
        lambda size: _ZSTD_FRAME + _filled(_zstd_block(1, 1, b"a"), size) + b"\x01\x00\x00",
    ),
    "zstd, large windows": (ZSTD, lambda size: _filled(b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", size)),
}
"""The codec, and a section of about a given size, by the parts that it has."""

BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip": (GZIP, lambda: compress(GZIP, bytes(64 * MIB))),
    "gzip, many members": (GZIP, lambda: _member(bytes(MIB)) * 64),
    "snappy": (SNAPPY, lambda: compress(SNAPPY, bytes(64 * MIB))),
    "lz4": (LZ4, lambda: compress(LZ4, bytes(64 * MIB))),
    "zstd": (ZSTD, lambda: compress(ZSTD, bytes(64 * MIB))),
    "zstd, many frames": (ZSTD, lambda: compress(ZSTD, bytes(MIB)) * 64),
    "zstd, blocks of 128 KiB from four bytes": (
        ZSTD,
        lambda: _ZSTD_FRAME + _zstd_block(1, 128 * KIB, b"a") * 512 + b"\x01\x00\x00",
    ),
}


def _cpu_ns(codec: int, section: bytes) -> int:
    taken = []
    for _round in range(ROUNDS):
        began_ns = thread_time_ns()
        with suppress(Malformed):
            decompress(codec, section, 64 * MIB)
        taken.append(thread_time_ns() - began_ns)
    return min(taken)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_time_of_inflating_grows_with_the_size_and_no_faster(name: str) -> None:
    """Sixteen times the bytes take about sixteen times the CPU, and some times that where caches are small and shared.
    Where a rest is copied for each part, they take two hundred times the CPU."""
    codec, section = ATTACKS[name]
    fixed_ns = 200_000
    assert _cpu_ns(codec, section(8 * SMALL_BYTES)) < 100 * (_cpu_ns(codec, section(SMALL_BYTES // 2)) + fixed_ns)


@pytest.mark.parametrize("name", ATTACKS)
def test_sections_of_many_parts_are_refused_soon_where_few_are_allowed(name: str) -> None:
    """The steps are counted by the CPU that they take: a millisecond where a megabyte of parts takes hundreds."""
    codec, section = ATTACKS[name]
    packed = section(MIB)
    taken = []
    for _round in range(ROUNDS):
        began_ns = thread_time_ns()
        with suppress(Malformed):
            decompress(codec, packed, MIB, 1000)
        taken.append(thread_time_ns() - began_ns)
    assert min(taken) < 50_000_000


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_takes_more_memory_than_the_cap(name: str) -> None:
    codec, section = BOMBS[name]
    packed = section()
    tracemalloc.start()
    try:
        with pytest.raises(InflatesTooLarge):
            decompress(codec, packed, MIB)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * MIB + 8 * len(packed)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_as_many_parts_as_are_allowed_inflate(codec: int) -> None:
    if codec == GZIP:
        packed = _member(b"a") * 10
    elif codec == SNAPPY:
        packed = _XERIAL_HEADER + b"\x00\x00\x00\x03\x01\x00a" * 10
    else:
        packed = _LZ4_HEADER + (struct.pack("<I", 1 << 31 | 1) + b"a") * 10 + bytes(4)
    assert decompress(codec, packed, 10, 10) == b"a" * 10
    with pytest.raises(InflatesTooLarge):
        decompress(codec, packed, 10, 9)
    with pytest.raises(InflatesTooLarge):
        decompress(codec, packed, 9, 10)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 5000, 100_000])
def test_members_of_every_size_inflate_one_behind_the_other(size: int) -> None:
    """A member after the first is given a few bytes at first, and more until it is complete."""
    noise = bytes(n * n * 7919 >> 3 & 255 for n in range(size))
    assert decompress(GZIP, _member(b"first") + _member(noise) * 3, MIB) == b"first" + noise * 3
