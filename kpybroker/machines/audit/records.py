"""The committed records among batches, in their order, as a consumer with ``read_committed`` sees them. Pure.

Records of an open transaction wait until its marker comes; those that wait at the end are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from kpystorage.control_batches import transaction_marker
from kpystorage.reading import StoredBatch
from kpywire.errors import Malformed
from kpywire.record import Record, read_batch

END_OF_ALL: Final = (1 << 63) - 1


def committed_batches(batches: Iterable[StoredBatch], until: int = END_OF_ALL) -> Iterator[StoredBatch]:
    """The data batches of transactions that were committed, and of none, in the order in which they become visible.

    A transaction's batches come when its marker is read. Control batches are left out. Batches from ``until`` on are
    read only as long as a transaction that began before it has no end.
    """
    waiting: dict[int, list[StoredBatch]] = {}
    for batch in batches:
        header = batch.header
        is_beyond = header.base_offset >= until
        if is_beyond and not waiting:
            return
        if header.is_control:
            try:
                marker = transaction_marker(header, batch.data, 0)
            except Malformed:
                marker = None
            held = waiting.pop(header.producer_id, []) if marker is not None else []
            if marker is not None and marker.committed:
                yield from held
        elif is_beyond:
            continue
        elif header.is_transactional:
            waiting.setdefault(header.producer_id, []).append(batch)
        else:
            yield batch


def committed_records(batches: Iterable[StoredBatch]) -> Iterator[Record]:
    """The records of `committed_batches`. Batches whose records cannot be read are passed over."""
    for batch in committed_batches(batches):
        try:
            yield from list(read_batch(batch.data, batch.header))
        except Malformed:
            continue
