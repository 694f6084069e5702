"""The checksums of a segment's stored chunks, behind the indexes in the ``.indexes`` object.

    "CRCC", count i32, the CRC-32C of each stored chunk u32, the CRC-32C of all that u32

Numbers are big-endian; encrypted like an index where the segment is encrypted. Aiven's plugin reads indexes by the
places in the manifest, so it does not see them, and deletes them with the indexes. Its own objects have none.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kpystorage.errors import CorruptObject
from kpystorage.remote.chunks import MOST_CHUNKS
from kpystorage.remote.encryption import ADDED_BYTES, SegmentKey
from kpywire.crc import crc32c
from kpywire.varint import Buffer

_MAGIC: Final = b"CRCC"
_HEAD: Final = Struct(">4si")
_CHECKSUM: Final = Struct(">I")


def stored_bytes(count: int, *, encrypted: bool) -> int:
    """The bytes that the checksums of ``count`` chunks take in the object; 0 for more chunks than have any."""
    if count > MOST_CHUNKS:
        return 0
    return _HEAD.size + _CHECKSUM.size * (count + 1) + (ADDED_BYTES if encrypted else 0)


def encode(checksums: Sequence[int], key: SegmentKey | None) -> bytes:
    """The bytes for the object."""
    if len(checksums) > MOST_CHUNKS:
        return b""
    body = _HEAD.pack(_MAGIC, len(checksums)) + b"".join(map(_CHECKSUM.pack, checksums))
    body += _CHECKSUM.pack(crc32c(body))
    return body if key is None else key.encrypt(body)


def decode(stored: Buffer, count: int, key: SegmentKey | None) -> list[int] | None:
    """The checksums of ``count`` chunks; None if the object ends before them. CorruptObject if they are damaged."""
    if not stored:
        return None
    if len(stored) != stored_bytes(count, encrypted=key is not None):
        raise CorruptObject(f"checksums of {count} chunks in {len(stored)} bytes")
    body = memoryview(stored if key is None else key.decrypt(stored))
    magic, named = _HEAD.unpack_from(body)
    (checksum,) = _CHECKSUM.unpack_from(body, len(body) - _CHECKSUM.size)
    if magic != _MAGIC or named != count or crc32c(body[: -_CHECKSUM.size]) != checksum:
        raise CorruptObject(f"checksums of {count} chunks that are damaged")
    return [each for (each,) in _CHECKSUM.iter_unpack(body[_HEAD.size : -_CHECKSUM.size])]
