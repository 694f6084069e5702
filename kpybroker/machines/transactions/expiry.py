"""The expiry of transactional ids that have not been used for long (KIP-98; Kafka: ``TransactionStateManager``)."""

from typing import Final

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.shard import TransactionShard
from kpybroker.machines.transactions.transaction import TransactionState

_MAY_EXPIRE: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def expire(shard: TransactionShard) -> None:
    """Begin a sweep over every transactional id."""
    shard.sweeps.begin(shard.transactions, _visit)


def _visit(shard: TransactionShard, transactional_id: str, decision: TransactionDecision) -> bool:
    transaction = shard.transactions.get(transactional_id)
    if transaction is not None and transaction.state in _MAY_EXPIRE:
        used_before_ms = decision.timestamp_ms - decision.settings.transactional_id_expiration_ms
        if transaction.last_update_ms <= used_before_ms:
            decision.write(transactional_id, None)
    return True
