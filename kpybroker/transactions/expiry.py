"""Transactional ids that nobody used for long are forgotten (KIP-98; Kafka: ``TransactionStateManager``)."""

from kpybroker.transactions.decision import Decision
from kpybroker.transactions.shard import Shard, Sweep
from kpybroker.transactions.transaction import State

_MAY_EXPIRE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


def expire(shard: Shard) -> None:
    """Begin to look at every transactional id."""
    shard.sweeps.append(Sweep(shard.transactions, _visit))


def _visit(shard: Shard, transactional_id: str, decision: Decision) -> None:
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.state not in _MAY_EXPIRE:
        return
    if transaction.last_update_ms <= decision.timestamp_ms - decision.settings.transactional_id_expiration_ms:
        decision.write(transactional_id, None)
