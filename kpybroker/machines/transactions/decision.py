"""The outcome of one input, while it is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kpybroker.machines.coordination.decision import CoordinatorDecision
from kpybroker.machines.journal import OutgoingRequest
from kpybroker.machines.transactions.events import TO_LEADERS, WriteMarkers
from kpybroker.machines.transactions.record import TransactionRecord
from kpybroker.machines.transactions.transaction import NO_ID, Transaction, TransactionState

if TYPE_CHECKING:
    from collections.abc import Collection

    from kpybroker.machines.transactions.events import Partition
    from kpybroker.machines.transactions.settings import TransactionSettings

RECORD_BYTES: Final = 160
"""An upper bound for a record's size without its transactional id and the names of its partitions."""


SENDS_AT_ONCE: Final = 1_000
_new: Final = tuple.__new__


class TransactionDecision(CoordinatorDecision[TransactionRecord]):
    """The records, replies and sends of one decision. ``size`` is an upper bound for the batch of the records, in
    bytes."""

    __slots__ = ("new_producer_id", "sends", "settings", "size")

    def __init__(self, now_ms: int, timestamp_ms: int, settings: TransactionSettings, new_producer_id: int) -> None:
        self.now_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.settings = settings
        self.new_producer_id = new_producer_id
        self.records = []
        self.replies = []
        self.sends: list[OutgoingRequest] = []
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether further work should be left to the next decision."""
        return self.size > self.settings.max_batch_bytes // 2 or len(self.sends) >= SENDS_AT_ONCE

    def has_room_for(self, transactional_id: str, transaction: Transaction) -> bool:
        """Whether one more record fits into the batch. The first one always does."""
        size = self.size + _record_bytes(transactional_id, transaction)
        return not self.records or size <= self.settings.max_batch_bytes

    def write(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Write the new state of a transactional id; None deletes it."""
        version = 0 if self.settings.transaction_version == 0 else 1
        self.records.append(_new(TransactionRecord, (transactional_id, transaction, version)))
        self.size += _record_bytes(transactional_id, transaction)

    def write_outcome(self, transactional_id: str, prepared: Transaction) -> Transaction:
        """Write a transaction's outcome and send its markers. Returns the state that the producer goes on with.

        A transaction without partitions is complete at once, since it needs no markers.
        """
        self.write(transactional_id, prepared)
        if prepared.partitions:
            self.send_markers(transactional_id, prepared, prepared.partitions)
        else:
            self.write(transactional_id, prepared.completed)
        return prepared.completed

    def send_markers(self, transactional_id: str, prepared: Transaction, partitions: Collection[Partition]) -> None:
        """Send markers with the outcome to these partitions."""
        commit = prepared.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch, version = prepared.producer_id, prepared.producer_epoch, prepared.client_version
        to = sorted(partitions) if len(partitions) > 1 else list(partitions)
        markers = _new(WriteMarkers, (transactional_id, producer_id, epoch, commit, to, version))
        self.sends.append(_new(OutgoingRequest, (TO_LEADERS, markers, None)))

    def take_producer_id(self) -> int:
        """Take the new producer id, which can be used once; `NO_ID` if there is none."""
        taken, self.new_producer_id = self.new_producer_id, NO_ID
        return taken


def _record_bytes(transactional_id: str, transaction: Transaction | None) -> int:
    """An upper bound for a record's size."""
    size = RECORD_BYTES + 3 * len(transactional_id)
    if transaction is not None:
        for topic, _ in transaction.partitions:
            size += 3 * len(topic) + 8
    return size
