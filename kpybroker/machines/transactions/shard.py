"""The state of one partition of ``__transaction_state``, and how its records change it.

Invariants: what a record changes here depends on the records before it alone, so a replay ends where the live shard is,
except for two things that are in no record: a transaction's `last_producer_epoch`, and which markers are written. The
transactions in ``unmarked`` are those whose outcome is decided and that are not yet complete.
"""

from kpybroker.machines.coordination.sweeps import Sweeps
from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import Partition
from kpybroker.machines.transactions.record import TransactionRecord
from kpybroker.machines.transactions.timers import TransactionTimers
from kpybroker.machines.transactions.transaction import Transaction


class TransactionShard:
    """The transactional ids of one partition, and the work to be done for them."""

    __slots__ = ("sweeps", "timers", "transactions", "unfinished", "unmarked")

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.unmarked: dict[str, set[Partition]] = {}
        """The partitions that still need the marker of a prepared transaction."""
        self.unfinished: set[str] = set()
        """Transactions whose markers are all written, and whose last record is not."""
        self.timers = TransactionTimers()
        self.sweeps = Sweeps()

    def watch(self, transactional_id: str, transaction: Transaction, decision: TransactionDecision) -> None:
        """Set a timer for the timeout of a transaction, if it is open."""
        if transaction.may_time_out:
            left_ms = transaction.start_ms + transaction.timeout_ms + 1 - decision.timestamp_ms
            self.timers.set(transactional_id, decision.now_ms + max(left_ms, 0))

    def apply(self, record: TransactionRecord) -> None:
        """Apply one record of the log."""
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
