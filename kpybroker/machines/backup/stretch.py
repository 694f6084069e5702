"""The batches of a partition as a backup reads them, from where the last piece ended up to the cut.

Every batch is compared with its CRC. Noted are the transactions that are open, those that were open at an earlier
offset, and the markers since another one: `kpybroker.machines.backup.cut` decides by them.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kpybroker.machines.backup.manifest import BegunTransaction, ReadMarker
from kpystorage.control_batches import transaction_marker
from kpywire.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader, batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.varint import Buffer


class CutOffsets(NamedTuple):
    """The ends of a partition, in the order in which they were read."""

    marks_from: int
    """The end before it was asked which transactions are decided."""
    known_at: int
    """The end after that."""
    end_offset: int
    """The cut."""


class BatchStretch:
    """The batches that were read of a partition, up to ``next_offset``."""

    def __init__(self, next_offset: int, open_transactions: Iterable[BegunTransaction], cut: CutOffsets) -> None:
        self.next_offset = next_offset
        self.leader_epoch = -1
        self.max_timestamp = -1
        self.max_producer_id = -1
        self.gap_end = -1
        self.markers: list[ReadMarker] = []
        """The markers from ``cut.marks_from`` on."""
        self.open = {each.producer_id: each for each in open_transactions}
        self.open_before = dict(self.open) if next_offset >= cut.known_at else {}
        """The transactions that are open at ``cut.known_at``."""
        self._cut = cut

    def take(self, piece: Buffer) -> int:
        """Take the batches of a fetch that begin before the cut. Return how many bytes they have. Raises Malformed."""
        taken = 0
        for position, header in batch_headers(piece):
            if header.base_offset >= self._cut.end_offset:
                break
            if header.next_offset <= self.next_offset:
                raise Malformed(f"a batch at offset {header.base_offset} comes after offset {self.next_offset - 1}")
            if not check_crc(piece, header, position):
                raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
            self._note(header, piece, position)
            taken = position + header.size
        return taken

    def finish(self) -> None:
        """Note that the log has no more batches before the cut."""
        self._reach(self._cut.end_offset)

    def skip_to(self, offset: int) -> None:
        """Go on at a later offset, since the source has deleted what is before: its transactions are forgotten."""
        self.open.clear()
        self._reach(offset)

    def begin_count(self) -> None:
        """Begin to count again: the largest timestamp and producer id, and the last gap, are those since now."""
        self.max_timestamp = self.max_producer_id = self.gap_end = -1

    def _note(self, header: BatchHeader, piece: Buffer, position: int) -> None:
        if header.base_offset > self.next_offset:
            self.gap_end = header.base_offset
            self._reach(header.base_offset)
        self.leader_epoch = header.partition_leader_epoch
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        self.max_producer_id = max(self.max_producer_id, header.producer_id)
        if header.attributes & CONTROL_MASK:
            self._end_transaction(header, piece, position)
        elif header.attributes & TRANSACTIONAL_MASK and header.producer_id not in self.open:
            began = BegunTransaction(header.producer_id, header.producer_epoch, header.base_offset)
            self.open[header.producer_id] = began
        self._reach(header.next_offset)

    def _reach(self, offset: int) -> None:
        if self.next_offset < self._cut.known_at <= offset:
            self.open_before = dict(self.open)
        self.next_offset = max(self.next_offset, offset)

    def _end_transaction(self, header: BatchHeader, piece: Buffer, position: int) -> None:
        marker = transaction_marker(header, piece, position)
        if marker is None:
            return
        begun = self.open.pop(header.producer_id, None)
        if header.base_offset >= self._cut.marks_from:
            epoch, begun_epoch = header.producer_epoch, -1 if begun is None else begun.epoch
            seen = ReadMarker(header.base_offset, header.producer_id, epoch, begun_epoch, marker.committed)
            self.markers.append(seen)
