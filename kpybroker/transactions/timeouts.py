"""Transactions that last longer than their producers allowed are aborted, and the producers fenced.

(Kafka: ``TransactionCoordinator.abortTimedOutTransactions``.)
"""

from kpybroker.transactions.decision import Decision
from kpybroker.transactions.outcome import fence
from kpybroker.transactions.shard import Shard

RETRY_MS = 1_000
"""After so long a step that nobody asked for is tried again: the log may have taken no writes."""


def look_at(shard: Shard, transactional_id: str, decision: Decision) -> bool:
    """The time of a transactional id has come: abort its transaction, if it is still the one that was meant.

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
