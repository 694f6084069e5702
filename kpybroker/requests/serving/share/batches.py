"""The batches of records that were read, by their headers: the records themselves stay in the file."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.share.aborted import TransactionalBatch
from kpybroker.machines.share.acquiring import Acquired, LogBatch
from kpystorage.log_slice import LogSlice
from kpywire.batch import HEADER_BYTES, BatchHeader, parse_header
from kpywire.record import read_batch

PIECE_BYTES: Final = 64 * 1024
_ABORT: Final = b"\x00\x00\x00\x00"
"""The key of an abort marker: its version and its type."""


class ReadBatch(NamedTuple):
    """One batch: where it lies in the slice, and its header."""

    start: int
    header: BatchHeader


def read_batches(records: LogSlice, enough_offset: int) -> list[ReadBatch]:
    """The whole batches of a slice, up to the one that holds ``enough_offset``. OSError if it cannot be read."""
    found = []
    for batch in _walk(records):
        found.append(batch)
        if batch.header.last_offset >= enough_offset:
            break
    return found


def _walk(records: LogSlice) -> Iterator[ReadBatch]:
    start, piece, piece_start = 0, b"", 0
    while start + HEADER_BYTES <= records.length:
        if start + HEADER_BYTES > piece_start + len(piece):
            size = min(PIECE_BYTES, records.length - start)
            piece, piece_start = records.descriptor.pread(size, records.position + start), start
        header = parse_header(piece, start - piece_start)
        if header.size < HEADER_BYTES or start + header.size > records.length:
            return
        yield ReadBatch(start, header)
        start += header.size


def log_batches(batches: Sequence[ReadBatch]) -> list[LogBatch]:
    """The batches as a share partition sees them."""
    return [LogBatch(each.header.base_offset, each.header.last_offset) for each in batches]


def transactional_batches(records: LogSlice, batches: Sequence[ReadBatch]) -> list[TransactionalBatch]:
    """The batches of producers, for the search of aborted ones. OSError if markers cannot be read."""
    return [
        TransactionalBatch(
            each.header.base_offset,
            each.header.last_offset,
            each.header.producer_id,
            each.header.is_transactional,
            each.header.is_control and _is_abort(records, each),
        )
        for each in batches
        if each.header.has_producer_id
    ]


def _is_abort(records: LogSlice, batch: ReadBatch) -> bool:
    content = records.descriptor.pread(batch.header.size, records.position + batch.start)
    marker = next(iter(read_batch(content, batch.header)), None)
    return marker is not None and marker.key == _ABORT


def part_with(records: LogSlice, batches: Sequence[ReadBatch], given: Sequence[Acquired]) -> LogSlice:
    """The part of a slice from the batch with the first record that was given to that with the last one."""
    first, last = given[0].first_offset, given[-1].last_offset
    begin = next((each.start for each in batches if each.header.last_offset >= first), 0)
    end = next((each.start + each.header.size for each in reversed(batches) if each.header.base_offset <= last), 0)
    return records.part(begin, end - begin)
