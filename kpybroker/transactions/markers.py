"""What happens between the outcome of a transaction and its end: partitions are told, and say that they know.

Which partitions know is nowhere written, so after a restart all of them are told again. A partition that is told twice
takes no harm. (Kafka: ``TransactionMarkerChannelManager``, ``PendingCompleteTxn``.)
"""

from collections.abc import Iterable

from kpybroker.transactions.decision import Decision
from kpybroker.transactions.events import MarkersWritten, Partition
from kpybroker.transactions.shard import Shard


def markers_written(shard: Shard, event: MarkersWritten, decision: Decision) -> None:
    """Partitions know the outcome; when all of them do, the transaction is complete."""
    prepared = shard.transactions.get(event.transactional_id)
    if prepared is None or not prepared.is_prepared:
        return
    if prepared.producer_id == event.producer_id and prepared.producer_epoch == event.producer_epoch:
        _mark(shard, event.transactional_id, event.partitions, decision)


def partitions_deleted(shard: Shard, deleted: Iterable[Partition], decision: Decision) -> None:
    """These partitions need no markers any more."""
    gone = frozenset(deleted)
    for transactional_id, partitions in shard.unmarked.items():
        if not gone.isdisjoint(partitions):
            _mark(shard, transactional_id, gone, decision)


def resume(shard: Shard, transactional_id: str, decision: Decision) -> None:
    """After a load: go on with a transaction whose outcome is decided."""
    prepared = shard.transactions.get(transactional_id)
    if prepared is None or not prepared.is_prepared:
        return
    if shard.unmarked[transactional_id]:
        decision.send_markers(transactional_id, prepared, shard.unmarked[transactional_id])
    else:
        complete(shard, transactional_id, decision)


def complete(shard: Shard, transactional_id: str, decision: Decision) -> None:
    """Every partition of a transaction knows its outcome. If it cannot be written now, it is tried again."""
    prepared = shard.transactions[transactional_id]
    shard.unfinished.add(transactional_id)
    if not decision.is_full:
        decision.write(transactional_id, prepared.completed)


def _mark(shard: Shard, transactional_id: str, partitions: Iterable[Partition], decision: Decision) -> None:
    unmarked = shard.unmarked[transactional_id]
    unmarked.difference_update(partitions)
    if not unmarked:
        complete(shard, transactional_id, decision)
