"""Transactions that exceed the timeout of their producers are aborted, and the producers fenced.

(Kafka: ``TransactionCoordinator.abortTimedOutTransactions``.)
"""

from typing import Final

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.outcome import fence
from kpybroker.machines.transactions.shard import TransactionShard

RETRY_MS: Final = 1_000
"""The delay after which a step that no client waits for is retried, for example because the log accepted no writes."""


def look_at(shard: TransactionShard, transactional_id: str, decision: TransactionDecision) -> bool:
    """Handle the deadline of a transactional id: abort its transaction, if that has timed out.

    False if there is no room for that in the records of this decision.
    """
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return True
    if not transaction.is_timed_out(decision.timestamp_ms):
        shard.watch(transactional_id, transaction, decision)
        return True
    if not decision.has_room_for(transactional_id, transaction):
        shard.timers.set(transactional_id, decision.now_ms)
        return False
    shard.timers.set(transactional_id, decision.now_ms + RETRY_MS)
    fence(transactional_id, transaction, decision)
    return True
