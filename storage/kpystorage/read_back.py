"""Checking that the disk has the bytes that were written through a descriptor that is closed by now.

An ``fsync`` reports failed writes only to descriptors that were open when they failed. A process that died had such a
descriptor, and so had a file whose descriptor was given up for others. An error that was not reported to these may
never be reported to a new descriptor. So the bytes they wrote are read back, after an ``fsync`` and past the page
cache: batches have checksums, and the entries of an index ascend, where lost ones are zeros or missing.

Not here: small files whose readers see whether they are whole (snapshots, checkpoints, topic ids).

Invariant: no descriptor and no byte behind ``end`` that may still be written to is touched; it may run in any thread.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from kpystorage import scan
from kpystorage.file import Descriptor
from kpystorage.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from kpystorage.segment import Segment
from kpystorage.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from kpystorage.transaction_index import ENTRY_BYTES as TRANSACTION_ENTRY_BYTES
from kpywire.batch import check_crc

_OFFSET_KEY = slice(0, 4)
_TIMESTAMP_KEY = slice(0, 8)
_LAST_OFFSET_KEY = slice(18, 26)


class ReadBack(NamedTuple):
    """The bytes ``position .. end`` of a file, and the test that they are there."""

    path: str
    descriptor: Descriptor
    position: int
    end: int
    is_there: Callable[[Descriptor, int, int], bool]

    def is_on_disk(self) -> bool:
        """Whether the disk has the bytes. They must have been fsynced. OSError."""
        self.descriptor.drop_cache(self.position, self.end)
        return self.is_there(self.descriptor, self.position, self.end)


def read_backs(segment: Segment, recovery_point: int, *, sealed: bool) -> list[ReadBack]:
    """The bytes behind the recovery point that were written to a segment through descriptors that were given up; its
    indexes too if it is ``sealed``. OSError.

    After this call the files no longer count as given up.
    """
    found = []
    log = segment.log
    if log.is_given_up:
        position = 0
        if recovery_point > segment.base_offset:
            position = segment.offset_index.lookup(recovery_point)[1]

        def has_batches(descriptor: Descriptor, position: int, end: int) -> bool:
            return _has_batches(descriptor, position, end, recovery_point)

        descriptor = log.descriptor()
        found.append(ReadBack(log.path, descriptor, position, segment.size, has_batches))
        log.is_given_up = False
    if sealed:
        transactions = segment.transaction_index.file
        for file, size, kind in (
            (segment.offset_index.file, len(segment.offset_index) * OFFSET_ENTRY_BYTES, _has_offsets),
            (segment.time_index.file, len(segment.time_index) * TIME_ENTRY_BYTES, _has_timestamps),
            (transactions, 0 if transactions is None else transactions.size(), _has_transactions),
        ):
            if file is not None and file.is_given_up:
                found.append(ReadBack(file.path, file.descriptor(), 0, size, kind))
                file.is_given_up = False
    return found


def _has_batches(descriptor: Descriptor, position: int, end: int, recovery_point: int) -> bool:
    """Whether the batches are there. Those that are flushed already are not checked: they may have been damaged
    since."""
    for at, header, data in scan.batches(descriptor, position, end):
        if header.next_offset > recovery_point and not check_crc(data, header):
            return False
        position = at + len(data)
    return position == end


def _has_offsets(descriptor: Descriptor, position: int, end: int) -> bool:
    return _ascends(descriptor.pread(end - position, position), end - position, OFFSET_ENTRY_BYTES, _OFFSET_KEY)


def _has_timestamps(descriptor: Descriptor, position: int, end: int) -> bool:
    return _ascends(descriptor.pread(end - position, position), end - position, TIME_ENTRY_BYTES, _TIMESTAMP_KEY)


def _has_transactions(descriptor: Descriptor, position: int, end: int) -> bool:
    entries = descriptor.pread(end - position, position)
    return _ascends(entries, end - position, TRANSACTION_ENTRY_BYTES, _LAST_OFFSET_KEY)


def _ascends(entries: bytes, size: int, entry_bytes: int, key: slice) -> bool:
    """Whether all entries are there, with ascending keys. (None of them is negative, so bytes order them.)"""
    keys = [entries[at : at + entry_bytes][key] for at in range(0, len(entries), entry_bytes)]
    return len(entries) == size and all(one < next_one for one, next_one in pairwise(keys))
