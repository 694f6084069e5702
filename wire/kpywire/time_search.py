"""The first record of a batch that is not older than a time, without taking apart those before it.

This is not a check: the batch passed one when it was produced. Only the length and the timestamp of each record are
read, since a batch may hold a million records and all clients wait for the search.

Invariant: the outcome is that of :func:`kpywire.record.read_batch` and a comparison with each record, whatever the
bytes; Malformed only where that raises it, too.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kpywire.batch import CODEC_MASK, HEADER_BYTES, LENGTH_END, LOG_APPEND_TIME, BatchHeader
from kpywire.compression import ANY_PARTS, InflatesTooLarge, decompress
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES, read_batch
from kpywire.varint import Buffer, as_int64, decode_varint, decode_varlong
from kpywire.walk import ANY_SIZE, OversizedRecord, first_oversized

_FAR = 1 << 62
"""Beyond this, base timestamp and delta may add up to more than 64 bits."""

Found = tuple[int, int] | None
"""The timestamp and the offset of a record, if there is one."""


Search = Callable[[Buffer, BatchHeader, int, int, int], Found]
"""A way to search one batch: `first_not_older`, or one that knows the outcome already."""


class SearchLabour(NamedTuple):
    """The most work that is spent on one batch."""

    inflated_bytes: int
    parts: int
    """Members and blocks of its compressed section."""
    records: int


ANY_LABOUR: Final = SearchLabour(MAX_INFLATED_BYTES, ANY_PARTS, 1 << 32)


class LaboriousSearch(Exception):
    """The search of a batch takes more work than is allowed."""


def first_not_older(
    buffer: Buffer,
    header: BatchHeader,
    timestamp: int,
    start_offset: int,
    most_record_bytes: int = ANY_SIZE,
    most: SearchLabour = ANY_LABOUR,
) -> Found:
    """(timestamp, offset) of the first record of the batch in ``buffer`` not older than ``timestamp``, nor before
    ``start_offset``; None if there is none.

    Raises:
        OversizedRecord: a compressed record before it has more than ``most_record_bytes``, or it has itself.
        Malformed: the batch is not what the format says.
        Laborious: it takes more work than ``most``.
    """
    if header.codec and header.size > most.inflated_bytes:
        raise LaboriousSearch
    simple = header.timestamp_type != LOG_APPEND_TIME and abs(header.base_timestamp) < _FAR and abs(timestamp) < _FAR
    view = memoryview(buffer)[HEADER_BYTES : header.size]
    try:
        section = decompress(header.codec, view, most.inflated_bytes, most.parts) if header.codec else bytes(view)
    except InflatesTooLarge:
        if most is ANY_LABOUR:
            raise
        raise LaboriousSearch from None
    sound, size = header.record_count, 0
    if header.codec and len(section) > most_record_bytes:
        number, size = first_oversized(section, most_record_bytes, min(sound, most.records + 1))
        sound = number if size else sound
    found = (_search if simple else _search_any)(section, header, timestamp, start_offset, min(sound, most.records))
    if found is None and sound > most.records:
        raise LaboriousSearch
    if found is None and size:
        raise OversizedRecord(size, most_record_bytes)
    return found


def _search_any(section: bytes, header: BatchHeader, timestamp: int, start_offset: int, count: int) -> Found:
    plain = header._replace(
        attributes=header.attributes & ~CODEC_MASK, batch_length=HEADER_BYTES - LENGTH_END + len(section)
    )
    for _, record in zip(range(count), read_batch(bytes(HEADER_BYTES) + section, plain), strict=False):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None


def _search(section: bytes, header: BatchHeader, timestamp: int, start_offset: int, count: int) -> Found:
    try:
        return _search_positions(section, header, timestamp, start_offset, count)
    except IndexError:
        raise Malformed("the records of a batch end before the last one") from None


def _search_positions(section: bytes, header: BatchHeader, timestamp: int, start_offset: int, count: int) -> Found:
    wanted = timestamp - header.base_timestamp
    position = 0
    for _ in range(count):
        length = section[position]
        position += 1
        if length > 127:
            length, position = decode_varint(section, position - 1)
            if length < 0:
                raise Malformed(f"a record of {length} bytes")
        else:
            length >>= 1
        delta = section[position + 1]
        if delta > 127:
            delta, offset = decode_varlong(section, position + 1)
            if not -_FAR < delta < _FAR:
                delta = as_int64(header.base_timestamp + delta) - header.base_timestamp
        else:
            delta, offset = delta >> 1 ^ -(delta & 1), position + 2
        if delta >= wanted:
            found = header.base_offset + decode_varint(section, offset)[0]
            if found >= start_offset:
                return header.base_timestamp + delta, found
        position += length
    return None
