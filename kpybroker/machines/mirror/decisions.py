"""The decisions of a source's transaction coordinators, as its ``__transaction_state`` shows them.

A coordinator decides (``PrepareCommit``), has a marker written to each partition of the transaction, and notes that
it is complete. So what was complete when the log was read to its end has all of its markers below the ends of
partitions that are asked for afterwards. Transactions that were between both, or were decided while the ends were
asked for, are not settled at these ends.

Aborted transactions are passed over: it makes no difference where their records are cut off.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

NO_EPOCH: Final = -1
MAX_EPOCH: Final = 0x7FFF


class Epochs(NamedTuple):
    """The first and the last epoch of a producer's transactions that are not settled."""

    first: int
    last: int


ANY_EPOCH: Final = Epochs(NO_EPOCH, MAX_EPOCH)


class CommitDecision(NamedTuple):
    """A transaction that is to be committed in all of its partitions."""

    producer_id: int
    epoch: int
    partitions: frozenset[tuple[str, int]]
    has_own_epoch: bool
    """No other transaction has this producer id and epoch (KIP-890)."""


class SourceDecisions:
    """The transactions of a source that are decided and not complete."""

    def __init__(self, pending: Iterable[tuple[str, int]]) -> None:
        """``pending`` are the transactional ids, with their producers, that are between both at the beginning."""
        self._pending: dict[str, tuple[int, Epochs]] = {name: (producer, ANY_EPOCH) for name, producer in pending}
        self._unsettled: dict[int, Epochs] = {}
        self.take_unsettled()

    def apply(self, name: str, decision: CommitDecision | None) -> None:
        """Take over the next record of a transactional id: a transaction that is to be committed, or anything else."""
        if decision is None:
            self._pending.pop(name, None)
            return
        producer_id, epoch, _, _ = decision
        self._pending[name] = producer_id, Epochs(epoch, epoch)
        known = self._unsettled.get(producer_id)
        first = epoch if known is None else min(known.first, epoch)
        self._unsettled[producer_id] = Epochs(first, epoch if known is None else max(known.last, epoch))

    def take_unsettled(self) -> dict[int, Epochs]:
        """The transactions that were not complete at the last call, or were decided since, by their producers."""
        taken = self._unsettled
        self._unsettled = {}
        for producer_id, epochs in self._pending.values():
            known = self._unsettled.get(producer_id, epochs)
            self._unsettled[producer_id] = Epochs(min(known.first, epochs.first), max(known.last, epochs.last))
        return taken
