"""The batches that a reader of committed records leaves out, by the aborted transactions that came with them.

Invariant: batches are shown in the order of the log, each once.
"""

from collections.abc import Iterable

from kpywire.batch import BatchHeader
from kpywire.control_record import ABORT, control_type
from kpywire.record import read_batch
from kpywire.varint import Buffer


class Aborted:
    """The aborted transactions of a stretch of a log: (first offset, producer) each, as a Fetch response lists them
    (KIP-98). Without any, only control batches are left out."""

    def __init__(self, transactions: Iterable[tuple[int, int]] = ()) -> None:
        self._waiting = sorted(transactions, reverse=True)
        self._producers: set[int] = set()

    def skips(self, buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
        """Whether no record of this batch is for readers: a control batch, or part of an aborted transaction.

        Raises:
            Malformed: a control batch cannot be read.
        """
        if header.is_control:
            self._begin(header)  # the reader may have begun at the very marker
            if any(control_type(marker) == ABORT for marker in read_batch(buffer, header, position)):
                self.ends(header.producer_id)
            return True
        return self.covers(header)

    def covers(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to one of them. Batches have to be passed in the order of the log."""
        self._begin(header)
        return header.is_transactional and header.producer_id in self._producers

    def _begin(self, header: BatchHeader) -> None:
        """Note the transactions that have begun up to a batch."""
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._producers.add(self._waiting.pop()[1])

    def ends(self, producer_id: int) -> None:
        """Note that the marker that aborts the producer's transaction was read."""
        self._producers.discard(producer_id)
