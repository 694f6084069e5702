"""The custom metadata that Aiven's plugin puts into the records of a segment: tagged fields, all optional.

0 ``remote_size``, the bytes of the segment's three objects (varlong); 1 ``object_prefix`` and 2 ``object_key``, the
parts of its keys (compact strings). The records keep the bytes as they are. Our own field is 1272 ``compacted_until``
(varlong), the end of the pass of compaction that wrote the segment: no topic of Apache Kafka has such segments.
"""

from typing import NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote.segment_name import MOST_LONG
from kpywire.errors import Malformed
from kpywire.varint import Buffer, decode_unsigned_varint, decode_varlong, encode_unsigned_varint, encode_varlong

_SIZE, _PREFIX, _KEY = range(3)
_COMPACTED_UNTIL = 1272


class CustomMetadata(NamedTuple):
    """The fields that are there; the others are None."""

    remote_size: int | None = None
    object_prefix: str | None = None
    object_key: str | None = None
    compacted_until: int | None = None


def encode(metadata: CustomMetadata) -> bytes:
    """The bytes for a record; none where there is no field."""
    fields = []
    if metadata.remote_size is not None:
        fields.append((_SIZE, encode_varlong(metadata.remote_size)))
    for tag, text in ((_PREFIX, metadata.object_prefix), (_KEY, metadata.object_key)):
        if text is not None:
            fields.append((tag, encode_unsigned_varint(len(text.encode()) + 1) + text.encode()))
    if metadata.compacted_until is not None:
        fields.append((_COMPACTED_UNTIL, encode_varlong(metadata.compacted_until)))
    if not fields:
        return b""
    parts = [encode_unsigned_varint(len(fields))]
    for tag, value in fields:
        parts += (encode_unsigned_varint(tag), encode_unsigned_varint(len(value)), value)
    return b"".join(parts)


def decode(data: Buffer | None) -> CustomMetadata:
    """The fields in a record's custom metadata. CorruptObject if the bytes are none; unknown fields are left out."""
    if not data:
        return CustomMetadata()
    found: dict[int, Buffer] = {}
    try:
        count, position = decode_unsigned_varint(data, 0)
        last = -1
        for _ in range(min(count, len(data))):
            tag, position = decode_unsigned_varint(data, position)
            size, position = decode_unsigned_varint(data, position)
            if tag <= last or size > len(data) - position:
                raise CorruptObject(f"custom metadata with {size} bytes of field {tag} after field {last}")
            found[tag] = data[position : position + size]
            position += size
            last = tag
        if position != len(data) or count > len(data):
            raise CorruptObject(f"custom metadata of {len(data)} bytes where its fields say {position}")
        return CustomMetadata(
            _number(found.get(_SIZE)),
            _text(found.get(_PREFIX)),
            _text(found.get(_KEY)),
            _number(found.get(_COMPACTED_UNTIL)),
        )
    except (Malformed, UnicodeDecodeError) as error:
        raise CorruptObject(f"custom metadata that cannot be read: {error}") from None


def _number(value: Buffer | None) -> int | None:
    if value is None:
        return None
    number, end = decode_varlong(value, 0)
    if end != len(value) or not 0 <= number <= MOST_LONG:
        raise CorruptObject(f"custom metadata with the number {number}")
    return number


def _text(value: Buffer | None) -> str | None:
    if value is None:
        return None
    length, start = decode_unsigned_varint(value, 0)
    if length != len(value) - start + 1:
        raise CorruptObject(f"custom metadata with a string of {length - 1} bytes in {len(value) - start}")
    return bytes(value[start:]).decode()
