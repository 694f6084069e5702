"""The codecs of record sections: gzip, snappy, lz4, zstd, framed as Kafka's Java client and librdkafka frame them.

It is not for whole batches: a batch's header is never compressed. Codec numbers are those of the batch attributes.

Invariant: :func:`decompress` never holds more than its cap of output, which is enforced while inflating, and raises
:class:`~kpywire.errors.Malformed` for input that the codec rejects; it raises nothing else. Its time grows with the
size of input and output, however many members, frames or blocks they are made of.

- gzip: members back to back; bytes behind them that are not a member are ignored, as in
  ``java.util.zip.GZIPInputStream``.
- snappy: written and read in snappy-java's framing (an 8-byte magic, two versions, then length and raw block); raw
  blocks without framing, as librdkafka writes them, are read too.
- lz4: one frame of independent blocks. Kafka rejects linked blocks and ignores the checksum of the whole content.
- zstd: frames back to back.
"""

import zlib
from struct import Struct
from types import ModuleType
from typing import Final

from kpywire.errors import Malformed
from kpywire.varint import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Kafka's names of the codecs, by number."""

DEFAULT_LEVELS: Final = {GZIP: -1, LZ4: 9, ZSTD: 3}
"""Kafka's default compression levels. Snappy has none."""

ANY_PARTS: Final = 1 << 62
"""The number of parts is not limited."""

_GZIP_WINDOW = 31
_GZIP_MEMBER_BYTES = 18
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_BITE_BYTES = 256
"""The bytes that a member after the first one is given at first. It copies those that it does not need."""

_XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_MAGIC_BYTES = 8
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_LENGTH = Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_INDEPENDENT_BLOCKS = 0x20
_LZ4_BLOCK_CHECKSUMS = 0x10
_LZ4_CONTENT_SIZE = 0x08
_LZ4_STORED = 0x8000_0000
_LZ4_EXPANSION = 255
_LZ4_LENGTH = Struct("<I")

_ZSTD_BLOCK_BYTES = 128 * 1024
_FIRST_GUESS_BYTES = 64 * 1024


class InflatesTooLarge(Malformed):
    """A record section inflates to more than the caller allows, or has more parts."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed; ``level`` as in ``compression.gzip.level`` and its siblings, None for Kafka's default.

    Raises:
        ValueError: there is no such codec.
    """
    if codec == NONE:
        return bytes(data)
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    if codec == GZIP:
        return zlib.compress(data, level, _GZIP_WINDOW)
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        return _compress_lz4(data, level)
    if codec == ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=level))
    raise ValueError(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, max_bytes: int, most_parts: int = ANY_PARTS) -> bytes:
    """Inflate ``data`` to at most ``max_bytes``.

    ``most_parts``: the most members of gzip, and blocks of snappy and lz4, each of which takes a step here.

    Raises:
        TooLarge: it would be more than ``max_bytes``, or has more than ``most_parts``.
        Malformed: the codec rejects it, or there is no such codec.
    """
    if codec == NONE:
        if len(data) > max_bytes:
            raise InflatesTooLarge(f"{len(data)} bytes where {max_bytes} are allowed")
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes, most_parts)
    if codec == SNAPPY:
        return _decompress_snappy(data, max_bytes, most_parts)
    if codec == LZ4:
        return _decompress_lz4(data, max_bytes, most_parts)
    if codec == ZSTD:
        return _decompress_zstd(data, max_bytes)
    raise Malformed(f"unknown compression codec {codec}")


def _cramjam() -> ModuleType:
    """The codec library, loaded by the first batch that needs it."""
    import cramjam

    return cramjam


def _too_large(codec: int, max_bytes: int) -> InflatesTooLarge:
    return InflatesTooLarge(f"a {NAMES[codec]} record section inflates to more than {max_bytes} bytes")


def _too_many_parts(codec: int, most_parts: int) -> InflatesTooLarge:
    return InflatesTooLarge(f"a {NAMES[codec]} record section has more than {most_parts} parts")


def _decompress_gzip(data: Buffer, max_bytes: int, most_parts: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        first = inflater.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise _no_gzip(error) from None
    if len(first) > max_bytes:
        raise _too_large(GZIP, max_bytes)
    if not inflater.eof:
        raise Malformed("a gzip record section is cut off")
    rest = inflater.unused_data
    return first if len(rest) <= _GZIP_MEMBER_BYTES else _more_members(first, rest, max_bytes, most_parts)


def _more_members(first: bytes, rest: bytes, max_bytes: int, most_parts: int) -> bytes:
    """``first``, and the members in ``rest``."""
    parts = [first]
    view = memoryview(rest)
    start, left, members = 0, max_bytes - len(first), 1
    while len(view) - start > _GZIP_MEMBER_BYTES:
        members += 1
        if members > most_parts:
            raise _too_many_parts(GZIP, most_parts)
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        end, bite = start, _GZIP_BITE_BYTES
        while not inflater.eof:
            if end == len(view):
                raise Malformed("a gzip record section is cut off")
            position, end = end, min(end + bite, len(view))
            bite *= 4
            try:
                part = inflater.decompress(view[position:end], left + 1)
            except zlib.error as error:
                if view[start : start + 2] != _GZIP_MAGIC:
                    return b"".join(parts)
                raise _no_gzip(error) from None
            left -= len(part)
            if left < 0:
                raise _too_large(GZIP, max_bytes)
            parts.append(part)
        start = end - len(inflater.unused_data)
    return b"".join(parts)


def _no_gzip(error: zlib.error) -> Malformed:
    return Malformed(f"a gzip record section does not inflate: {error}")


def _compress_snappy(data: Buffer) -> bytes:
    compress_raw = _cramjam().snappy.compress_raw
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_XERIAL_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int, most_parts: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:_XERIAL_MAGIC_BYTES]) != _XERIAL_HEADER[:_XERIAL_MAGIC_BYTES] or len(view) < _XERIAL_HEADER_BYTES:
        return _decompress_snappy_block(view, max_bytes, max_bytes)
    if int.from_bytes(view[_XERIAL_MAGIC_BYTES : _XERIAL_MAGIC_BYTES + 4], "big", signed=True) < 1:
        raise Malformed("a snappy record section of an unknown version")
    parts = []
    left = max_bytes
    position = _XERIAL_HEADER_BYTES
    steps = 0
    while position + _XERIAL_LENGTH.size <= len(view):
        steps += 1
        if steps > most_parts:
            raise _too_many_parts(SNAPPY, most_parts)
        if view[position : position + _XERIAL_MAGIC_BYTES] == _XERIAL_HEADER[:_XERIAL_MAGIC_BYTES]:
            position += _XERIAL_HEADER_BYTES
            continue
        (length,) = _XERIAL_LENGTH.unpack_from(view, position)
        position += _XERIAL_LENGTH.size
        if not 0 <= length <= len(view) - position:
            raise Malformed(f"a snappy block of {length} bytes where {len(view) - position} are left")
        part = _decompress_snappy_block(view[position : position + length], left, max_bytes)
        left -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    snappy = _cramjam().snappy
    try:
        if not block or snappy.decompress_raw_len(block) > left:
            raise _too_large(SNAPPY, max_bytes) if block else Malformed("an empty snappy record section")
        return bytes(snappy.decompress_raw(block))
    except _cramjam().DecompressionError as error:
        raise Malformed(f"a snappy record section does not inflate: {error}") from None


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """A frame of independent 64 KB blocks. Kafka's default level is the fast compressor, every other level the slow
    one."""
    lz4 = _cramjam().lz4
    if level != DEFAULT_LEVELS[LZ4]:
        compressor = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), bytes(plain))
    parts.append(bytes(_LZ4_LENGTH.size))
    return b"".join(parts)


def _decompress_lz4(data: Buffer, max_bytes: int, most_parts: int) -> bytes:
    view = memoryview(data)
    flags, block_bytes, position = _lz4_descriptor(view)
    if flags & _LZ4_BLOCK_CHECKSUMS:
        return _grow_into(LZ4, view, _LZ4_EXPANSION * len(view), max_bytes)
    cramjam = _cramjam()
    inflate = cramjam.lz4.decompress_block_into
    scratch = bytearray(min(block_bytes, max_bytes, _LZ4_EXPANSION * len(view)))
    parts: list[Buffer] = []
    left = max_bytes
    while True:
        if position + _LZ4_LENGTH.size > len(view):
            raise Malformed("an lz4 record section is cut off")
        (length,) = _LZ4_LENGTH.unpack_from(view, position)
        position += _LZ4_LENGTH.size
        stored = length & _LZ4_STORED
        length &= ~_LZ4_STORED
        if length == 0:
            return b"".join(parts)
        if length > block_bytes or position + length > len(view):
            raise Malformed(f"an lz4 block of {length} bytes")
        if len(parts) == most_parts:
            raise _too_many_parts(LZ4, most_parts)
        part: Buffer = view[position : position + length]
        position += length
        if not stored:
            allowed = min(len(scratch), left)
            try:
                part = scratch[: inflate(part, scratch, output_len=allowed)]
            except cramjam.DecompressionError as error:
                if allowed == left:
                    raise _too_large(LZ4, max_bytes) from None
                raise Malformed(f"an lz4 record section does not inflate: {error}") from None
        left -= len(part)
        if left < 0:
            raise _too_large(LZ4, max_bytes)
        parts.append(part)


def _lz4_descriptor(view: memoryview) -> tuple[int, int, int]:
    """(flags, largest block in bytes, position of the first block) of the frame, checked as Kafka checks them."""
    if bytes(view[:4]) != _LZ4_MAGIC or len(view) < 7:
        raise Malformed("an lz4 record section without a frame header")
    flags, block_descriptor = view[4], view[5]
    end = 14 if flags & _LZ4_CONTENT_SIZE else 6
    if flags >> 6 != 1 or flags & 3 or not flags & _LZ4_INDEPENDENT_BLOCKS:
        raise Malformed(f"an lz4 frame with flags {flags:#x}")
    size_code = block_descriptor >> 4
    if block_descriptor & 0x0F or not 4 <= size_code <= 7:
        raise Malformed(f"an lz4 frame with block descriptor {block_descriptor:#x}")
    if end >= len(view) or view[end] != _xxhash32(bytes(view[4:end])) >> 8 & 0xFF:
        raise Malformed("an lz4 frame descriptor with a wrong checksum")
    return flags, 1 << 8 + 2 * size_code, end + 1


def _xxhash32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all an lz4 frame descriptor needs."""
    mask = 0xFFFF_FFFF
    value = 0x165667B1 + len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value = value + int.from_bytes(data[start : start + 4], "little") * 0xC2B2AE3D & mask
        value = (value << 17 | value >> 15) * 0x27D4EB2F & mask
    for byte in data[whole:]:
        value = value + byte * 0x165667B1 & mask
        value = (value << 11 | value >> 21) * 0x9E3779B1 & mask
    value = (value ^ value >> 15) * 0x85EBCA77 & mask
    value = (value ^ value >> 13) * 0xC2B2AE3D & mask
    return value ^ value >> 16


def _decompress_zstd(data: Buffer, max_bytes: int) -> bytes:
    return _grow_into(ZSTD, data, _ZSTD_BLOCK_BYTES * (len(data) // 4 + 1), max_bytes)


def _grow_into(codec: int, data: Buffer, possible_bytes: int, max_bytes: int) -> bytes:
    """Inflate into a buffer that starts small and grows until everything fits: the library has no cap of its own."""
    cramjam = _cramjam()
    module = cramjam.zstd if codec == ZSTD else cramjam.lz4
    limit = min(possible_bytes, max_bytes)
    size = min(limit, max(_FIRST_GUESS_BYTES, 4 * len(data)))
    while True:
        output = bytearray(size)
        try:
            length = module.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error) or size >= possible_bytes:
                raise Malformed(f"a {NAMES[codec]} record section does not inflate: {error}") from None
            if size >= max_bytes:
                raise _too_large(codec, max_bytes) from None
            size = min(limit, 4 * size)
        else:
            return bytes(memoryview(output)[:length])
