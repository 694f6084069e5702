"""From the outcome of a transaction to its completion: markers are sent to partitions, which confirm them.

The confirmations are not written to the log, so after a restart all markers are sent again. A second marker does no
harm. (Kafka: ``TransactionMarkerChannelManager``, ``PendingCompleteTxn``.)
"""

from collections.abc import Iterable

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import MarkersWritten, Partition
from kpybroker.machines.transactions.shard import TransactionShard


def markers_written(shard: TransactionShard, event: MarkersWritten, decision: TransactionDecision) -> None:
    """Note that partitions have the marker. When all of them have it, the transaction is complete."""
    prepared = shard.transactions.get(event.transactional_id)
    if prepared is None or not prepared.is_prepared:
        return
    if prepared.producer_id == event.producer_id and prepared.producer_epoch == event.producer_epoch:
        _mark(shard, event.transactional_id, event.partitions, decision)


def partitions_deleted(shard: TransactionShard, deleted: Iterable[Partition], decision: TransactionDecision) -> None:
    """Stop waiting for the markers of these partitions."""
    gone = frozenset(deleted)
    for transactional_id, partitions in shard.unmarked.items():
        if not gone.isdisjoint(partitions):
            _mark(shard, transactional_id, gone, decision)


def resume(shard: TransactionShard, transactional_id: str, decision: TransactionDecision) -> None:
    """Go on, after a load, with a transaction whose outcome is decided."""
    prepared = shard.transactions.get(transactional_id)
    if prepared is None or not prepared.is_prepared:
        return
    if shard.unmarked[transactional_id]:
        decision.send_markers(transactional_id, prepared, shard.unmarked[transactional_id])
    else:
        complete(shard, transactional_id, decision)


def complete(shard: TransactionShard, transactional_id: str, decision: TransactionDecision) -> None:
    """Complete a transaction, since every partition has its marker. If it cannot be written now, it is tried again."""
    prepared = shard.transactions[transactional_id]
    shard.unfinished.add(transactional_id)
    if not decision.is_full:
        decision.write(transactional_id, prepared.completed)


def _mark(
    shard: TransactionShard, transactional_id: str, partitions: Iterable[Partition], decision: TransactionDecision
) -> None:
    unmarked = shard.unmarked[transactional_id]
    unmarked.difference_update(partitions)
    if not unmarked:
        complete(shard, transactional_id, decision)
