"""Transactions that last longer than their producers allowed are aborted, and the producers fenced.

(Kafka: ``TransactionCoordinator.abortTimedOutTransactions``.)
"""

from kpybroker.transactions.decision import Decision
from kpybroker.transactions.markers import RETRY_MS, resume
from kpybroker.transactions.outcome import fence
from kpybroker.transactions.shard import Shard
from kpybroker.transactions.transaction import State


def look_at(shard: Shard, transactional_id: str, decision: Decision) -> None:
    """The time of a transactional id has come: abort its transaction, or go on with its end."""
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return
    if transaction.is_timed_out(decision.timestamp_ms):
        shard.timers.set(transactional_id, decision.now_ms + RETRY_MS)
        fence(transactional_id, transaction, decision)
    elif transaction.state is State.ONGOING:
        shard.watch(transactional_id, transaction, decision)
    elif transaction.is_prepared and not shard.unmarked[transactional_id]:
        resume(shard, transactional_id, decision)
