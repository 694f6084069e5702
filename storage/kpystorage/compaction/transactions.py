"""The transactions that still have records, found in a walk over a log (Kafka's CleanedTransactionMetadata).

The records of an aborted transaction are removed at once. Its marker, like that of a committed one, may be removed once
no record of its transaction is left before it. Until then readers need the marker, and for an aborted transaction also
its index entry.

Invariant: the offsets of the batches passed in ascend.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from kpystorage.transaction_index import TransactionIndex, TransactionIndexEntry

ABORT: Final = 0
COMMIT: Final = 1


class CleanedTransactions:
    """The transactions that are open at one place of a log."""

    __slots__ = ("_aborted", "_committed", "_observed", "_waiting", "index")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, TransactionIndexEntry]] = []
        """Aborted transactions that begin behind this place, a heap by first offset."""
        self._aborted: dict[int, TransactionIndexEntry] = {}
        self._observed: set[int] = set()
        """Producers of aborted transactions that had a batch in the walk."""
        self._committed: set[int] = set()
        self.index: TransactionIndex | None = None
        """The index for aborted transactions whose marker stays; None if it is not needed."""

    def add_aborted(self, transactions: Iterable[TransactionIndexEntry]) -> None:
        """Add the aborted transactions of the next stretch of the log. One that spans several stretches may be added
        repeatedly."""
        for transaction in transactions:
            heappush(self._waiting, (transaction.first_offset, transaction))

    def is_aborted(self, last_offset: int, producer_id: int) -> bool:
        """Whether a transactional batch of users' records belongs to a transaction that was aborted."""
        self.proceed(last_offset)
        if producer_id in self._aborted:
            self._observed.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def is_obsolete(self, last_offset: int, producer_id: int, kind: int) -> bool:
        """Whether nothing but the marker is left of its transaction. ``kind`` is its type, -1 for none.

        OSError.
        """
        self.proceed(last_offset)
        if kind == ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._observed:
                return True
            self._observed.discard(producer_id)
            if self.index is not None:
                self.index.append(transaction)
            return False
        if kind == COMMIT:
            if producer_id in self._committed:
                self._committed.discard(producer_id)
                return False
            return True
        return kind < 0

    def proceed(self, offset: int) -> None:
        """Move the walk on to ``offset``."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            transaction = heappop(waiting)[1]
            self._aborted.setdefault(transaction.producer_id, transaction)
