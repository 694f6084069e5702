"""The first record of a batch that is not older than a time, without taking apart those before it.

This is not a check: the batch passed one when it was produced. Only the length and the timestamp of each record are
read, since a batch may hold a million records and all clients wait for the search.

Invariant: the outcome is that of :func:`kpywire.record.read_batch` and a comparison with each record, whatever the
bytes; Malformed only where that raises it, too.
"""

from kpywire.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from kpywire.compression import decompress
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES, read_batch
from kpywire.varint import Buffer, as_int64, decode_varint, decode_varlong

_FAR = 1 << 62
"""Beyond this, base timestamp and delta may add up to more than 64 bits."""


def first_not_older(buffer: Buffer, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record of the batch in ``buffer`` not older than ``timestamp``, nor before
    ``start_offset``; None if there is none.

    Raises:
        Malformed: the batch is not what the format says.
    """
    simple = header.timestamp_type != LOG_APPEND_TIME and abs(header.base_timestamp) < _FAR and abs(timestamp) < _FAR
    if not simple:
        for record in read_batch(buffer, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return record.timestamp, record.offset
        return None
    view = memoryview(buffer)[HEADER_BYTES : header.size]
    section = decompress(header.codec, view, MAX_INFLATED_BYTES) if header.codec else bytes(view)
    try:
        return _search(section, header, timestamp, start_offset)
    except IndexError:
        raise Malformed("the records of a batch end before the last one") from None


def _search(section: bytes, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    wanted = timestamp - header.base_timestamp
    position = 0
    for _ in range(header.record_count):
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
