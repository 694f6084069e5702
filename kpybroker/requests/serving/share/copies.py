"""The keys and values of records that became dead letters, read again from their log or from the store.

(Kafka: ``ShareGroupDLQRecordFetcher``.) Records that cannot be read any more have dead letters without a copy. Reading
is bounded: what a batch of dead letters cannot hold is read for the next one.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.role import READ_UNCOMMITTED, Role
from kpybroker.requests.serving.share.batches import read_batches
from kpystorage.errors import OffsetOutOfRange, StorageError
from kpystorage.log_slice import LogSlice
from kpywire.errors import Malformed
from kpywire.record import Record, read_batch

READ_BYTES: Final = 1 << 20
RECORDS_PER_PIECE: Final = 256
OVERHEAD_BYTES: Final = 32
"""The bytes of a record beside its key and value, about."""


ReadStored = Callable[[Role, int], LogSlice | None]
"""(role, offset): the records that only the store has; None while they are read. KafkaError."""


class Copies(NamedTuple):
    """Records by offset, and the last offset that was searched for. It is before the first one while the store is
    read."""

    records: Mapping[int, Record]
    last_offset: int


def copied(
    replica: Replica, first_offset: int, last_offset: int, max_bytes: int, read_stored: ReadStored
) -> Generator[None, None, Copies]:
    """Read the records between two offsets in pieces, up to a number of bytes."""
    found: dict[int, Record] = {}
    left, offset = max_bytes, first_offset
    try:
        while offset <= last_offset:
            role = replica.led()
            try:
                records = role.read(offset, READ_BYTES, role.end_for(READ_UNCOMMITTED), min_one_batch=True)
            except OffsetOutOfRange:
                if offset >= role.log.local_log_start_offset:
                    break
                try:
                    records = read_stored(role, offset)
                except KafkaError:  # these have no copies
                    starts = role.log.log_start_offset, role.log.local_log_start_offset
                    offset = next(start for start in starts if start > offset)
                    continue
                if records is None:
                    return Copies(found, offset - 1)
            batches = [] if records is None else read_batches(records, last_offset)
            for start, header in batches:
                content = records.descriptor.pread(header.size, records.position + start) if records else b""
                yield
                if not header.is_control:
                    try:
                        for nth, record in enumerate(read_batch(content, header, 0, max_bytes), 1):
                            if nth % RECORDS_PER_PIECE == 0:
                                yield
                            if offset <= record.offset <= last_offset:
                                size = OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
                                if size > left and found:
                                    return Copies(found, record.offset - 1)
                                if size <= max_bytes:
                                    found[record.offset] = record
                                    left -= size
                    except Malformed:  # it inflates to more than a batch of dead letters may have
                        pass
                offset = max(offset, header.last_offset + 1)
            if not batches:
                break
    except (KafkaError, StorageError, OSError):
        pass  # the log lost them, or another node leads now
    return Copies(found, last_offset)
