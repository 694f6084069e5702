"""The records of the transaction coordinator: a transactional id and its current state; None deletes it.

(Kafka: ``TransactionLog``, ``TransactionLogKey``, ``TransactionLogValue``.) Value version 0 is written while
``transaction.version`` is 0. It lacks the fields that came with version 2, so a transaction that needs them is written
in value version 1 even then; Kafka fails there.
"""

from struct import Struct
from typing import Final, NamedTuple

from kpybroker.machines.transactions.transaction import NO_EPOCH, NO_ID, Transaction, TransactionState
from kpybroker.machines.transactions.usual_value import read_usual, write_usual
from kpywire.errors import Malformed
from kpywire.transaction_records import decode_key, decode_value, encode_key, encode_value, record_type
from kpywire.transaction_records.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

TRANSACTION_LOG: Final = 0
_KEY: Final = Struct(">hh")
"""The key's type, and the length of the transactional id that follows."""
_LONGEST_NAME: Final = 0x7FFF
_STATES: Final = {
    int(state): state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
}


class TransactionRecord(NamedTuple):
    """One record. ``value_version`` is the version in which the value is written; it means nothing for a tombstone."""

    transactional_id: str
    transaction: Transaction | None = None
    value_version: int = 1

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them."""
        name = self.transactional_id.encode()
        if len(name) <= _LONGEST_NAME:
            key = _KEY.pack(TRANSACTION_LOG, len(name)) + name
        else:
            key = encode_key(TransactionLogKey(transactional_id=self.transactional_id))
        transaction = self.transaction
        if transaction is None:
            return key, None
        version = self.value_version
        if version:
            usual = write_usual(transaction)
            if usual is not None:
                return key, usual
        if transaction.client_version or transaction.next_producer_id != NO_ID:
            version = 1
        value = TransactionLogValue(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_status=int(transaction.state),
            transaction_partitions=None if transaction.state is TransactionState.EMPTY else _by_topic(transaction),
            transaction_last_update_timestamp_ms=transaction.last_update_ms,
            transaction_start_timestamp_ms=transaction.start_ms,
            client_transaction_version=transaction.client_version,
        )
        if version >= 1:
            value.previous_producer_id = transaction.previous_producer_id
            value.next_producer_id = transaction.next_producer_id
        return key, encode_value(value, version)


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Decode a record of the log; None for a type that Kafka 4.3 does not have. Raises Malformed."""
    if len(key) >= 2 and key[:2] != b"\0\0":
        return None
    transactional_id = _transactional_id(key)
    if value is None:
        return TransactionRecord(transactional_id)
    transaction = read_usual(value)
    if transaction is not None:
        return TransactionRecord(transactional_id, transaction)
    return TransactionRecord(transactional_id, _read(key, value), value[1])


def _transactional_id(key: bytes) -> str:
    if len(key) >= _KEY.size and _KEY.unpack_from(key) == (TRANSACTION_LOG, len(key) - _KEY.size):
        try:
            return key[_KEY.size :].decode()
        except UnicodeDecodeError:
            pass  # the decoder says what is wrong
    return str(decode_key(key).transactional_id)


def _read(key: bytes, value: bytes) -> Transaction:
    """Read the transaction from a value of any layout. Raises Malformed."""
    decoded = decode_value(record_type(key), value)
    state = _STATES.get(decoded.transaction_status)
    if state is None:
        raise Malformed(f"a transaction in the state {decoded.transaction_status}")
    partitions = decoded.transaction_partitions or ()
    return Transaction(
        decoded.producer_id,
        decoded.producer_epoch,
        decoded.transaction_timeout_ms,
        state,
        frozenset((each.topic, partition) for each in partitions for partition in each.partition_ids),
        decoded.transaction_last_update_timestamp_ms,
        decoded.transaction_start_timestamp_ms,
        decoded.previous_producer_id,
        decoded.next_producer_id,
        decoded.client_transaction_version,
        NO_EPOCH,
    )


def _by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic.items()]
