"""A task's rows: the bytes of a transport through the decoder and the filter, as Arrow record batches."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.filters import EVERYTHING, Interval, Literal, columns_of, interval
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.transport import Transport
from kpywire.batch import LOG_APPEND_TIME, BatchHeader
from kpywire.columns.decoder import MOST_BYTES, MOST_ROWS, DecodedPartition, Decoder, combined
from kpywire.errors import Malformed

MICROSECONDS: Final = 1000
ENOUGH_BYTES: Final = MOST_BYTES // 2
"""Batches of at least this size are not put together."""


def rows(transport: Transport, part: OffsetRange, wanted: Projection) -> Iterator[pa.RecordBatch]:
    """The rows of a range, in the order of the log. Raises ScanError."""
    if wanted.filter is None:
        return _gathered(_decoded(transport, part, wanted, wanted.columns))
    from kpybroker.pipeline.scan.row_filter import (
        kept,  # loads pyarrow.compute, which tasks without a filter do not need
    )

    known: dict[str, Literal] = {"topic": part.topic, "partition": part.partition}
    needed = tuple(dict.fromkeys((*wanted.columns, *sorted(columns_of(wanted.filter)))))
    times = interval(wanted.filter, "timestamp", known)
    decoded = _decoded(transport, part, wanted, needed, times)
    condition, columns = wanted.filter, wanted.columns
    return _gathered(kept(condition, batch).select(columns) for batch in decoded)


def _decoded(
    transport: Transport, part: OffsetRange, wanted: Projection, columns: tuple[str, ...], times: Interval = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """The rows, without batches whose records all lie outside of ``times``, in microseconds."""

    def decoder_from(start_offset: int) -> Decoder:
        return Decoder(
            DecodedPartition(part.topic, part.partition),
            columns,
            start_offset=start_offset,
            end_offset=part.end_offset,
            admits=lambda header: not _misses(header, times),
        )

    first = part.start_offset
    decoder = decoder_from(first)
    try:
        for piece in transport.pieces(part, wanted):
            if piece.first_offset > first:
                yield from decoder.take()
                first = piece.first_offset
                decoder = decoder_from(first)
            yield from decoder.decode(piece.data, piece.aborted)
            if decoder.next_offset >= part.end_offset:
                break
        yield from decoder.take()
    except Malformed as error:
        raise ScanError(f"{part}: {error}") from None


def _misses(header: BatchHeader, times: Interval) -> bool:
    """Whether no record of a batch can have a timestamp in ``times``: none is later than the largest one."""
    largest = header.max_timestamp * MICROSECONDS
    if times.low is not None and largest < times.low:
        return True
    return times.high is not None and header.timestamp_type == LOG_APPEND_TIME and largest > times.high


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= MOST_ROWS or size >= ENOUGH_BYTES:
            yield from combined(held)
            held, count, size = [], 0, 0
    if held:
        yield from combined(held)
