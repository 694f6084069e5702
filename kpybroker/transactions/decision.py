"""What one input leads to, while it is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kpybroker.journal import Send
from kpybroker.transactions.events import TO_LEADERS, WriteMarkers
from kpybroker.transactions.record import Record
from kpybroker.transactions.transaction import NO_ID, State, Transaction

if TYPE_CHECKING:
    from collections.abc import Collection

    from kpybroker.transactions.events import Partition
    from kpybroker.transactions.settings import TransactionSettings

RECORD_BYTES = 160
"""More than what a record needs beside its transactional id and the names of its partitions."""


SENDS_AT_ONCE = 1_000
_new: Final = tuple.__new__


class Decision:
    """Collects records, replies and sends, and knows both clocks: ``now_ms`` is monotonic, ``timestamp_ms`` the wall's.

    ``size`` is how large the batch of the records may be at most, in bytes.
    """

    __slots__ = ("new_producer_id", "now_ms", "records", "replies", "sends", "settings", "size", "timestamp_ms")

    def __init__(self, now_ms: int, timestamp_ms: int, settings: TransactionSettings, new_producer_id: int) -> None:
        self.now_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.settings = settings
        self.new_producer_id = new_producer_id
        self.records: list[Record] = []
        self.replies: list[tuple[Any, Any]] = []
        self.sends: list[Send] = []
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether the rest is better left to another decision."""
        return self.size > self.settings.max_batch_bytes // 2 or len(self.sends) >= SENDS_AT_ONCE

    def has_room_for(self, transactional_id: str, transaction: Transaction) -> bool:
        """Whether a record may join those that are there. A first one always may."""
        size = self.size + _record_bytes(transactional_id, transaction)
        return not self.records or size <= self.settings.max_batch_bytes

    def reply(self, ticket: Any, message: Any) -> None:
        """Answer a request when the records are committed."""
        self.replies.append((ticket, message))

    def write(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Let this be what is known of the id."""
        version = 0 if self.settings.transaction_version == 0 else 1
        self.records.append(_new(Record, (transactional_id, transaction, version)))
        self.size += _record_bytes(transactional_id, transaction)

    def write_outcome(self, transactional_id: str, prepared: Transaction) -> Transaction:
        """Write a transaction's outcome and have it told to its partitions; what the producer is to work with next.

        One without partitions is complete at once: nobody has to be told.
        """
        self.write(transactional_id, prepared)
        if prepared.partitions:
            self.send_markers(transactional_id, prepared, prepared.partitions)
        else:
            self.write(transactional_id, prepared.completed)
        return prepared.completed

    def send_markers(self, transactional_id: str, prepared: Transaction, partitions: Collection[Partition]) -> None:
        """Have partitions told the outcome."""
        commit = prepared.state is State.PREPARE_COMMIT
        producer_id, epoch, version = prepared.producer_id, prepared.producer_epoch, prepared.client_version
        to = sorted(partitions) if len(partitions) > 1 else list(partitions)
        markers = _new(WriteMarkers, (transactional_id, producer_id, epoch, commit, to, version))
        self.sends.append(_new(Send, (TO_LEADERS, markers, None)))

    def take_producer_id(self) -> int:
        """The new producer id, once; `NO_ID` if there is none."""
        taken, self.new_producer_id = self.new_producer_id, NO_ID
        return taken


def _record_bytes(transactional_id: str, transaction: Transaction | None) -> int:
    """How long a record is at most."""
    size = RECORD_BYTES + 3 * len(transactional_id)
    if transaction is not None:
        for topic, _ in transaction.partitions:
            size += 3 * len(topic) + 8
    return size
