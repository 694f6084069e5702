"""The code of the sizes of stored chunks in a manifest: numbers that differ little take few bytes.

    count i32; one size: i32; more: the least size i32, the bytes of a difference u8 (1 to 4), the differences of all
    sizes but the last to the least, the last size i32

That is compressed by zstd and written in base64. All numbers are big-endian.
"""

import binascii
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from struct import Struct
from sys import byteorder
from typing import Final

from kpystorage.errors import CorruptObject
from kpystorage.remote.segment_name import MOST_INT
from kpywire.compression import ZSTD, compress, decompress
from kpywire.errors import Malformed

_NUMBER: Final = Struct(">I")
_HEAD: Final = Struct(">IIB")
_ARRAYS: Final = {1: "B", 2: "H", 4: "I"}


def encode(sizes: Sequence[int]) -> str:
    """The text for a manifest."""
    return b64encode(compress(ZSTD, _packed(sizes))).decode()


def decode(text: str, count: int) -> list[int]:
    """The ``count`` sizes in the text of a manifest. CorruptObject if it holds others, or is none."""
    try:
        packed = decompress(ZSTD, b64decode(text, validate=True), _HEAD.size + 4 * count + 4)
    except (Malformed, binascii.Error, ValueError) as error:
        raise CorruptObject(f"sizes of chunks that cannot be read: {error}") from None
    if len(packed) < _NUMBER.size:
        raise CorruptObject(f"sizes of chunks in {len(packed)} bytes")
    (named,) = _NUMBER.unpack_from(packed)
    if named != count:
        raise CorruptObject(f"sizes of {named} chunks where those of segment and chunk give {count}")
    if count < 2:
        if len(packed) != _NUMBER.size * (1 + count):
            raise CorruptObject(f"sizes of {count} chunks in {len(packed)} bytes")
        return [size for (size,) in _NUMBER.iter_unpack(packed[_NUMBER.size :])]
    return _unpacked(packed, count)


def _packed(sizes: Sequence[int]) -> bytes:
    if sizes and not 0 <= min(sizes) <= max(sizes) <= MOST_INT:
        raise ValueError("a stored chunk with a size below 0 or beyond 2**31")
    if len(sizes) < 2:
        return _NUMBER.pack(len(sizes)) + b"".join(map(_NUMBER.pack, sizes))
    least = min(sizes[:-1])
    width = max(1, (max(sizes[:-1]) - least).bit_length() + 7 >> 3)
    differences = b"".join((size - least).to_bytes(width, "big") for size in sizes[:-1])
    return _HEAD.pack(len(sizes), least, width) + differences + _NUMBER.pack(sizes[-1])


def _unpacked(packed: bytes, count: int) -> list[int]:
    if len(packed) < _HEAD.size:
        raise CorruptObject(f"sizes of {count} chunks in {len(packed)} bytes")
    _, least, width = _HEAD.unpack_from(packed)
    end = _HEAD.size + (count - 1) * width
    if not 1 <= width <= 4 or len(packed) != end + _NUMBER.size:
        raise CorruptObject(f"sizes of {count} chunks with {width} bytes each in {len(packed)} bytes")
    differences: Sequence[int]
    if width == 3:
        high, middle, low = (packed[_HEAD.size + part : end : 3] for part in range(3))
        differences = [a << 16 | b << 8 | c for a, b, c in zip(high, middle, low, strict=True)]
    else:
        differences = array(_ARRAYS[width], packed[_HEAD.size : end])
        if byteorder == "little":
            differences.byteswap()
    return [*(least + each for each in differences), _NUMBER.unpack_from(packed, end)[0]]
