"""InitProducerId: API key 22."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string


@message(key=22, versions="0-6", flexible="2+", unstable=6)
class InitProducerIdRequest:
    """Version 2 is the first flexible version.
    Version 3 adds ProducerId and ProducerEpoch, allowing producers to try to resume after an
    INVALID_PRODUCER_EPOCH error
    Version 4 adds the support for new error code PRODUCER_FENCED.
    Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 6 adds support for 2PC (KIP-939).
    """

    transactional_id: string | None  # The transactional id, or null if the producer is not transactional.
    # The time in ms to wait before aborting idle transactions sent by this producer. This is only relevant if a
    # TransactionalId has been defined.
    transaction_timeout_ms: i32
    # The producer id. This is used to disambiguate requests if a transactional id is reused following its expiration.
    producer_id: i64 = field("3+", default=-1)
    # The producer's current epoch. This will be checked against the producer epoch on the broker, and the request will
    # return an error if they do not match.
    producer_epoch: i16 = field("3+", default=-1)
    # True if the client wants to enable two-phase commit (2PC) protocol for transactions.
    enable2_pc: bool = field("6+", default=False)
    # True if the client wants to keep the currently ongoing transaction instead of aborting it.
    keep_prepared_txn: bool = field("6+", default=False)


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 is the first flexible version.
    Version 4 adds the support for new error code PRODUCER_FENCED.
    Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 6 adds support for 2PC (KIP-939).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    producer_id: i64 = field(default=-1)  # The current producer id.
    producer_epoch: i16  # The current epoch associated with the producer id.
    # The producer id for ongoing transaction when KeepPreparedTxn is used, -1 if there is no transaction ongoing.
    ongoing_txn_producer_id: i64 = field("6+", default=-1)
    # The epoch associated with the producer id for ongoing transaction when KeepPreparedTxn is used, -1 if there is no
    # transaction ongoing.
    ongoing_txn_producer_epoch: i16 = field("6+", default=-1)
