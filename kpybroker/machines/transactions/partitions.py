"""AddPartitionsToTxn and AddOffsetsToTxn: the coordinator has to know all partitions of a transaction to end it there.

Clients add partitions themselves up to transaction.version 1 (request versions 0 to 3). For other producers, brokers
verify or add them (versions 4 and 5, KIP-890). (Kafka: ``TransactionCoordinator.handleAddPartitionsToTransaction``,
``handleVerifyPartitionsInTransaction``.)
"""

from typing import Final

from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.machines.transactions.decision import TransactionDecision
from kpybroker.machines.transactions.events import Partition, TransactionRequest
from kpybroker.machines.transactions.responses import error_for, partition_results
from kpybroker.machines.transactions.shard import TransactionShard
from kpybroker.machines.transactions.transaction import EPOCH_BUMP_VERSION, Transaction, TransactionState
from kpywire import error_codes
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

FEW_PARTITIONS: Final = 256
_LAST_CLIENT_VERSION: Final = 3


def add_partitions(shard: TransactionShard, request: TransactionRequest, decision: TransactionDecision) -> None:
    """Add partitions to a transaction, or report which of them are in it."""
    message: AddPartitionsToTxnTransaction = request.message
    if message.verify_only:
        _verify(shard, request, decision)
        return
    client_version = EPOCH_BUMP_VERSION if request.api_version > _LAST_CLIENT_VERSION else 0
    answer_partitions(request, _add(shard, message, frozenset(_named(message)), client_version, decision), decision)


def answer_partitions(request: TransactionRequest, error_code: int, decision: TransactionDecision) -> None:
    """Answer an AddPartitionsToTxn with one error code, which may be NONE, for all its partitions: by `Alike` if they
    are many."""
    message: AddPartitionsToTxnTransaction = request.message
    error_code = error_for(message, error_code, request.api_version)
    if names_many(message):
        decision.reply(request.ticket, Alike(error_code))
        return
    errors = ((partition, error_code) for partition in _named(message))
    decision.reply(request.ticket, partition_results(message.transactional_id, errors))


def add_offsets(shard: TransactionShard, request: TransactionRequest, decision: TransactionDecision) -> None:
    """Add the partition that keeps a group's offsets."""
    message: AddOffsetsToTxnRequest = request.message
    partition = (GROUP_OFFSETS_TOPIC, request.group_partition)
    answer_offsets(request, _add(shard, message, frozenset((partition,)), 0, decision), decision)


def answer_offsets(request: TransactionRequest, error_code: int, decision: TransactionDecision) -> None:
    """Answer an AddOffsetsToTxn with this error code, which may be NONE."""
    error_code = error_for(request.message, error_code, request.api_version)
    decision.reply(request.ticket, AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error_code))


def _add(
    shard: TransactionShard,
    message: AddPartitionsToTxnTransaction | AddOffsetsToTxnRequest,
    added: frozenset[Partition],
    client_version: int,
    decision: TransactionDecision,
) -> int:
    found = _find(shard, message)
    if not isinstance(found, Transaction):
        return found
    if found.state is not TransactionState.ONGOING or not added <= found.partitions:
        ongoing = found.with_partitions(added, client_version, decision.timestamp_ms)
        decision.write(message.transactional_id, ongoing)
        shard.watch(message.transactional_id, ongoing, decision)
    return error_codes.NONE


def _verify(shard: TransactionShard, request: TransactionRequest, decision: TransactionDecision) -> None:
    message: AddPartitionsToTxnTransaction = request.message
    found = _find(shard, message, is_read=True)
    if not isinstance(found, Transaction):
        answer_partitions(request, found, decision)
        return
    if names_many(message):
        decision.reply(request.ticket, found.partitions)
        return
    absent = error_codes.TRANSACTION_ABORTABLE
    errors = ((each, error_codes.NONE if each in found.partitions else absent) for each in _named(message))
    decision.reply(request.ticket, partition_results(message.transactional_id, errors))


def _find(
    shard: TransactionShard, message: AddPartitionsToTxnTransaction | AddOffsetsToTxnRequest, *, is_read: bool = False
) -> Transaction | int:
    """Find the transactional id, if its producer may go on with it now; an error code otherwise.

    A request that writes has to wait until a prepared transaction is complete, even if its producer is fenced: the
    producer may be about to get the new epoch.
    """
    if not message.transactional_id:
        return error_codes.INVALID_REQUEST
    transaction = shard.transactions.get(message.transactional_id)
    if transaction is None:
        return error_codes.INVALID_PRODUCER_ID_MAPPING
    if transaction.is_prepared and not is_read:
        return error_codes.CONCURRENT_TRANSACTIONS
    if transaction.producer_id != message.producer_id:
        return error_codes.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != message.producer_epoch:
        return error_codes.PRODUCER_FENCED
    return error_codes.CONCURRENT_TRANSACTIONS if transaction.is_prepared else transaction


def names_many(message: AddPartitionsToTxnTransaction) -> bool:
    """Whether a request names many topics or partitions: the shell makes its answer, in steps."""
    topics = message.topics
    return len(topics) > FEW_PARTITIONS or sum([len(topic.partitions) for topic in topics]) > FEW_PARTITIONS


def _named(message: AddPartitionsToTxnTransaction) -> list[Partition]:
    return [(topic.name, partition) for topic in message.topics for partition in topic.partitions]
