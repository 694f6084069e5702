"""The state of one transactional id, and its transitions; none of them changes anything in place.

(Kafka: ``TransactionMetadata``, ``TransactionState``; KIP-98, KIP-360, KIP-890.) A transition is made only if the
request handlers allow it. Each keeps the producer id from before it, which Kafka's records contain for each transition.

Invariant: producer ids are never used again, and under one of them the epoch never goes back.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from kpybroker.machines.transactions.events import Partition

NO_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 0x7FFF
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last epoch that a producer gets: one more is reserved to fence it."""
NO_TIMEOUT_MS: Final = 0x7FFF_FFFF
EPOCH_BUMP_VERSION: Final = 2
"""From this ``transaction.version`` on, every transaction has an epoch of its own."""


class TransactionState(IntEnum):
    """The states with Kafka's numbers. Dead and PrepareEpochFence are transient states in Kafka, and never in a
    record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


_new: Final = tuple.__new__
_NOWHERE: Final[frozenset[Partition]] = frozenset()

STATE_NAMES: Final = {state: state.name.title().replace("_", "") for state in TransactionState}
"""The names of the states in the API, such as ``PrepareCommit``."""


class Transaction(NamedTuple):
    """A transactional id: its producer, and its current or last transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Partition] = frozenset()
    last_update_ms: int = NO_TIME
    start_ms: int = NO_TIME
    previous_producer_id: int = NO_ID
    """The producer id before the last transition, mostly the same."""
    next_producer_id: int = NO_ID
    """The producer id that follows when the transaction has ended, because the epochs of this one have run out."""
    client_version: int = 0
    """The ``transaction.version`` that the producer uses."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch from before the last bump, if a request with it may be answered again. It is in no record, as in Kafka:
    a restart loses it, and a retry is fenced then."""

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are missing."""
        return self.state is TransactionState.PREPARE_COMMIT or self.state is TransactionState.PREPARE_ABORT

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer has the last epoch that can be given out."""
        return self.producer_epoch >= LAST_EPOCH

    def is_timed_out(self, timestamp_ms: int) -> bool:
        """Whether the transaction has lasted too long."""
        return self.may_time_out and self.start_ms + self.timeout_ms < timestamp_ms

    @property
    def may_time_out(self) -> bool:
        """Whether it is open, and its end not left to another coordinator (two-phase commit, in logs of other
        brokers)."""
        return self.state is TransactionState.ONGOING and self.timeout_ms != NO_TIMEOUT_MS

    def empty(
        self, producer_id: int, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, timestamp_ms: int
    ) -> Transaction:
        """The state after a producer has begun, for the first time or again."""
        return _new(
            Transaction,
            (
                producer_id,
                producer_epoch,
                timeout_ms,
                TransactionState.EMPTY,
                _NOWHERE,
                timestamp_ms,
                NO_TIME,
                self.producer_id,
                self.next_producer_id,
                self.client_version,
                last_producer_epoch,
            ),
        )

    def with_partitions(self, added: frozenset[Partition], client_version: int, timestamp_ms: int) -> Transaction:
        """The state after partitions were added. The first ones begin a transaction."""
        return _new(
            Transaction,
            (
                self.producer_id,
                self.producer_epoch,
                self.timeout_ms,
                TransactionState.ONGOING,
                self.partitions | added if self.partitions else added,
                timestamp_ms,
                self.start_ms if self.state is TransactionState.ONGOING else timestamp_ms,
                self.producer_id,
                self.next_producer_id,
                client_version,
                self.last_producer_epoch,
            ),
        )

    def prepared(
        self, state: TransactionState, client_version: int, next_producer_id: int, timestamp_ms: int
    ) -> Transaction:
        """The state after the outcome was decided. In version 2 the epoch rises, so that a late write cannot enter the
        next transaction."""
        bumped = client_version >= EPOCH_BUMP_VERSION
        return _new(
            Transaction,
            (
                self.producer_id,
                min(self.producer_epoch + 1, MAX_EPOCH) if bumped else self.producer_epoch,
                self.timeout_ms,
                state,
                self.partitions,
                timestamp_ms,
                self.start_ms if self.state is TransactionState.ONGOING else timestamp_ms,
                self.producer_id,
                next_producer_id,
                client_version,
                self.producer_epoch if bumped else self.last_producer_epoch,
            ),
        )

    @property
    def completed(self) -> Transaction:
        """The state after every partition has its marker. All of it, even its timestamp, is determined by the prepared
        state.

        A producer id whose epochs have run out is replaced by the next one.
        """
        is_rotated = self.client_version >= EPOCH_BUMP_VERSION and self.next_producer_id != NO_ID
        return _new(
            Transaction,
            (
                self.next_producer_id if is_rotated else self.producer_id,
                0 if is_rotated else self.producer_epoch,
                self.timeout_ms,
                TransactionState.COMPLETE_COMMIT
                if self.state is TransactionState.PREPARE_COMMIT
                else TransactionState.COMPLETE_ABORT,
                _NOWHERE,
                self.last_update_ms,
                self.start_ms,
                self.producer_id,
                NO_ID,
                self.client_version,
                self.last_producer_epoch,
            ),
        )
