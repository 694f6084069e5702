"""The state of one partition of ``__transaction_state``, and what its records do to it.

Invariants: what a record changes here depends on the records before it alone, so a replay ends where the live shard
is, but for two things that are in no record: a transaction's `last_producer_epoch`, and which markers are written. The
transactions in ``unmarked`` are those whose outcome is decided and not yet complete.
"""

from collections import deque
from collections.abc import Callable, Iterable

from kpybroker.transactions.decision import Decision
from kpybroker.transactions.events import Partition
from kpybroker.transactions.record import Record
from kpybroker.transactions.timers import Timers
from kpybroker.transactions.transaction import Transaction


class Sweep:
    """Work over many transactional ids that is done in slices, between other inputs."""

    __slots__ = ("transactional_ids", "visit")

    def __init__(self, transactional_ids: Iterable[str], visit: Callable[["Shard", str, Decision], None]) -> None:
        self.transactional_ids = deque(transactional_ids)
        self.visit = visit


class Shard:
    """Transactional ids, and what is to be done with them."""

    __slots__ = ("sweeps", "timers", "transactions", "unfinished", "unmarked")

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.unmarked: dict[str, set[Partition]] = {}
        """The partitions that still need the marker of a transaction that is prepared."""
        self.unfinished: set[str] = set()
        """Transactions of which no marker is missing any more: all but their last record is written."""
        self.timers = Timers()
        self.sweeps: deque[Sweep] = deque()

    def watch(self, transactional_id: str, transaction: Transaction, decision: Decision) -> None:
        """Look at a transaction again when it has timed out, if it is open."""
        if transaction.may_time_out:
            left_ms = transaction.start_ms + transaction.timeout_ms + 1 - decision.timestamp_ms
            self.timers.set(transactional_id, decision.now_ms + max(left_ms, 0))

    def apply(self, record: Record) -> None:
        """One record of the log."""
        transactional_id, transaction, _ = record
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
            if transaction.is_prepared:
                self.unmarked[transactional_id] = set(transaction.partitions)
                return
        self.unmarked.pop(transactional_id, None)
        self.unfinished.discard(transactional_id)
