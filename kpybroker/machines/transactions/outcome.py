"""The end of a transaction without its client: its producer is fenced, and the transaction is aborted.

(Kafka: ``TransactionMetadata.prepareFenceProducerEpoch``, then ``TransactionCoordinator.endTransaction``.)
"""

from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    NO_EPOCH,
    NO_ID,
    Transaction,
    TransactionState,
)
from kpywire import error_codes


def fence(transactional_id: str, ongoing: Transaction, decision: TransactionDecision) -> int:
    """Abort an open transaction under an epoch that its producer does not have. Returns an error code if that is not
    possible yet.

    With ``transaction.version`` 2 the epoch rises with every end of a transaction. With a lower one it is raised here.
    """
    if decision.settings.transaction_version >= EPOCH_BUMP_VERSION:
        next_producer_id = NO_ID
        if ongoing.is_exhausted:
            next_producer_id = decision.take_producer_id()
            if next_producer_id == NO_ID:
                return error_codes.COORDINATOR_LOAD_IN_PROGRESS
        version = EPOCH_BUMP_VERSION
    else:
        ongoing = ongoing._replace(
            producer_epoch=min(ongoing.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_EPOCH
        )
        next_producer_id, version = NO_ID, 0
    prepared = ongoing.prepared(TransactionState.PREPARE_ABORT, version, next_producer_id, decision.timestamp_ms)
    decision.write_outcome(transactional_id, prepared)
    return error_codes.NONE
