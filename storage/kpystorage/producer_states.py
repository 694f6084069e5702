"""The producers of a log: their last batches, epochs and open transactions (Kafka's ProducerStateManager). Pure.

Not here: the snapshot files (the log writes them), the verification of a transaction with its coordinator.

A leader asks :meth:`ProducerStates.check` before an append; every append, and every replay after a start, then passes
through :meth:`ProducerStates.apply`, which trusts the log.

Invariant: the state equals the result of applying the log's batches up to ``end_offset`` in order, except for producers
that have expired and for batches older than the last one at the snapshot the replay began with.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kpystorage.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    StorageError,
    TransactionCoordinatorFenced,
)
from kpystorage.log_offset import LogOffset
from kpystorage.producer_snapshot import SnapshotEntry
from kpywire.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL_MASK, BatchHeader

_new: Final = tuple.__new__
BATCHES_KEPT: Final = 5
_MAX_SEQUENCE: Final = 0x7FFF_FFFF
_MAX_EPOCH: Final = 0x7FFF
_NO_OFFSET: Final = -1
UNKNOWN_TRANSACTION_VERSION: Final = -1
"""A transaction version that no marker may have (Kafka: ``TransactionVersion.TV_UNKNOWN``)."""


class AppendedBatch(NamedTuple):
    """A batch a producer has in the log. ``timestamp`` is its largest."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class TransactionMarker(NamedTuple):
    """The end of a transaction, as its control record describes it."""

    committed: bool
    coordinator_epoch: int


class EndedTransaction(NamedTuple):
    """A transaction whose marker was appended. ``last_offset`` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


class ProducerState:
    """The state of one producer in one log. ``transaction_first_offset`` is -1 while it has no transaction open."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_first_offset")

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_first_offset = _NO_OFFSET
        self.batches: list[AppendedBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def _begin(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []


class ProducerStates:
    """The producers of one log."""

    def __init__(self, name: str, end_offset: int = 0) -> None:
        """``name`` is the partition's, for messages."""
        self.name = name
        self.end_offset = end_offset
        """The offset up to which the log has been applied."""
        self.producers: dict[int, ProducerState] = {}
        # Transactions by their first offset, ascending: the open ones with producer id and place, and those that
        # ended but whose marker may not be replicated yet with the marker's offset and the place.
        self._open: dict[int, tuple[int, LogOffset]] = {}
        self._unreplicated: dict[int, tuple[int, LogOffset]] = {}

    # Deciding whether a client's batch may be appended.

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Check that a client's batch continues its producer's batches. A batch that was appended before is returned.

        Raises:
            InvalidProducerEpoch, OutOfOrderSequence, InvalidTxnState: as Kafka's ProducerAppendInfo.
        """
        state = self.producers.get(header.producer_id)
        if state is None:
            return None
        epoch, first_sequence = header.producer_epoch, header.base_sequence
        if epoch == state.epoch and state.batches:
            if first_sequence != _next_sequence(state.batches[-1].last_sequence):
                repeated = self.repeated(header)
                if repeated is not None:
                    return repeated
                self._refuse_sequence(state, header)
        elif epoch != state.epoch:
            self._check_new_epoch(state, header)
        elif first_sequence != 0:
            self._refuse_sequence(state, header)
        if state.transaction_first_offset >= 0 and not header.attributes & TRANSACTIONAL_MASK:
            raise InvalidTxnState(
                f"Expected transactional write from producer {header.producer_id} at offset {header.base_offset} in "
                f"partition {self.name}"
            )
        return None

    def repeated(self, header: BatchHeader) -> AppendedBatch | None:
        """The batch of this producer, epoch and sequences that was appended before, if it is one of the last."""
        state = self.producers.get(header.producer_id)
        if state is not None and state.epoch == header.producer_epoch:
            first_sequence, batches = header.base_sequence, state.batches
            if batches and first_sequence == _next_sequence(batches[-1].last_sequence):
                return None
            for batch in batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == header.last_sequence:
                    return batch
        return None

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open in this log and epoch."""
        state = self.producers.get(producer_id)
        return state is not None and state.transaction_first_offset >= 0 and state.epoch == epoch

    def check_epoch(self, header: BatchHeader) -> None:
        """Check that the producer of a batch is not fenced. Raises InvalidProducerEpoch."""
        state = self.producers.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            self._check_new_epoch(state, header)

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, transaction_version: int = 0
    ) -> None:
        """Check that a coordinator may end this producer's transaction. From version 2 on epochs must rise (KIP-890).

        Raises:
            InvalidProducerEpoch, TransactionCoordinatorFenced
            StorageError: the coordinator does not give the version of the transaction
        """
        state = self.producers.get(producer_id)
        rises = transaction_version >= 2
        if state is not None and (epoch < state.epoch or (rises and epoch == state.epoch)):
            repeated = rises and epoch == state.epoch and (state.transaction_first_offset < 0 or epoch == _MAX_EPOCH)
            if not repeated:
                raise InvalidProducerEpoch(
                    f"Epoch of producer {producer_id} at offset {offset} in {self.name} is {epoch}, which is "
                    f"{'<=' if rises else '<'} the last seen epoch {state.epoch} (TV{transaction_version})"
                )
        if transaction_version == UNKNOWN_TRANSACTION_VERSION:
            raise StorageError("Transaction version must be explicitly specified")
        if state is not None and state.coordinator_epoch > coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} in partition {self.name}: "
                f"{coordinator_epoch} (zombie), {state.coordinator_epoch} (current)"
            )

    def _check_new_epoch(self, state: ProducerState, header: BatchHeader) -> None:
        if header.producer_epoch < state.epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {state.producer_id} at offset {header.base_offset} in {self.name} is "
                f"{header.producer_epoch}, which is smaller than the last seen epoch {state.epoch}"
            )
        if header.base_sequence != 0 and state.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"Invalid sequence number for new epoch of producer {state.producer_id} at offset "
                f"{header.base_offset} in partition {self.name}: {header.producer_epoch} (request epoch), "
                f"{header.base_sequence} (seq. number), {state.epoch} (current producer epoch)"
            )

    def _refuse_sequence(self, state: ProducerState, header: BatchHeader) -> None:
        if state.epoch == NO_PRODUCER_EPOCH:
            return  # nothing is known of the producer: retention or DeleteRecords took its records
        raise OutOfOrderSequence(
            f"Out of order sequence number for producer {state.producer_id} at offset {header.base_offset} in "
            f"partition {self.name}: {header.base_sequence} (incoming seq. number), {state.last_sequence} "
            "(current end sequence number)"
        )

    # Following the log.

    def apply(self, header: BatchHeader, place: LogOffset) -> None:
        """Apply a batch with a producer id that holds users' records. ``place`` is its first offset's."""
        producer_id = header.producer_id
        state = self.producers.get(producer_id)
        if state is None:
            state = self.producers[producer_id] = ProducerState(producer_id, header.producer_epoch)
        elif header.producer_epoch != state.epoch:
            state._begin(header.producer_epoch)
        first_offset, delta = header.base_offset, header.last_offset_delta
        first_sequence, timestamp = header.base_sequence, header.max_timestamp
        last_sequence = first_sequence + delta & _MAX_SEQUENCE if first_sequence >= 0 else NO_SEQUENCE
        batches = state.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(
            _new(AppendedBatch, (first_sequence, last_sequence, first_offset, first_offset + delta, timestamp))
        )
        state.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_MASK and state.transaction_first_offset < 0:
            state.transaction_first_offset = first_offset
            self._open[first_offset] = (producer_id, place)

    def apply_marker(self, header: BatchHeader, marker: TransactionMarker, timestamp: int) -> EndedTransaction | None:
        """Apply a marker. Return the transaction it ended, None if none of it is in this log.

        The transaction still counts as open until :meth:`complete`.
        """
        return self._end(header.producer_id, header.producer_epoch, marker, header.base_offset, timestamp)

    def commit(self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int) -> None:
        """Apply the marker at ``offset`` that commits a transaction, and complete it. It is the only batch of its
        append."""
        marker = _new(TransactionMarker, (True, coordinator_epoch))
        ended = self._end(producer_id, epoch, marker, offset, timestamp)
        if ended is not None:
            self.complete(ended)

    def _end(
        self, producer_id: int, epoch: int, marker: TransactionMarker, offset: int, timestamp: int
    ) -> EndedTransaction | None:
        state = self.producers.get(producer_id)
        if state is None:
            state = self.producers[producer_id] = ProducerState(producer_id, epoch)
        state._begin(epoch)
        first_offset = state.transaction_first_offset
        state.coordinator_epoch = marker.coordinator_epoch
        state.transaction_first_offset = _NO_OFFSET
        state.last_timestamp = timestamp
        if first_offset < 0:
            return None
        return _new(EndedTransaction, (producer_id, first_offset, offset, marker.committed))

    def last_stable_offset_after(self, ended: EndedTransaction) -> int:
        """The first offset of the oldest transaction of another producer; behind the marker if none is open."""
        for producer_id, place in self._open.values():
            if producer_id != ended.producer_id:
                return place.offset
        return ended.last_offset + 1

    def complete(self, ended: EndedTransaction) -> None:
        """Complete a transaction. It holds the last stable offset back until its marker is below the high watermark."""
        opened = self._open.pop(ended.first_offset, None)
        if opened is not None:
            self._unreplicated[ended.first_offset] = (ended.last_offset, opened[1])
            if len(self._unreplicated) > 1:
                self._unreplicated = dict(sorted(self._unreplicated.items()))

    def replicated_to(self, high_watermark: int) -> None:
        """Note that the high watermark has moved: transactions whose marker lies below it no longer hold readers
        back."""
        if self._unreplicated:
            gone = [first for first, (marker_offset, _) in self._unreplicated.items() if marker_offset < high_watermark]
            for first in gone:
                del self._unreplicated[first]

    @property
    def first_unstable(self) -> LogOffset | None:
        """The start of the oldest transaction that is open or whose marker is not yet replicated."""
        if not self._open and not self._unreplicated:
            return None
        places = [place for _, place in [*_first(self._open), *_first(self._unreplicated)]]
        return min(places, key=lambda place: place.offset)

    def open_transactions(self) -> list[tuple[int, int, int]]:
        """(producer id, first offset, last timestamp of the producer) of each open transaction, by its first offset."""
        found = []
        for first_offset, (producer_id, _) in self._open.items():
            state = self.producers.get(producer_id)
            found.append((producer_id, first_offset, NO_TIMESTAMP if state is None else state.last_timestamp))
        return found

    # Forgetting.

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that wrote nothing for ``expiration_ms``. Return how many."""
        gone = [
            producer_id
            for producer_id, state in self.producers.items()
            if state.transaction_first_offset < 0 and now_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.producers[producer_id]
        return len(gone)

    def clear(self, end_offset: int) -> None:
        """Forget everything and continue at ``end_offset``."""
        self.producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    # Snapshots.

    def snapshot(self) -> list[SnapshotEntry]:
        """The state as a snapshot file keeps it."""
        entries = []
        for state in self.producers.values():
            last = state.batches[-1] if state.batches else None
            entries.append(
                SnapshotEntry(
                    state.producer_id,
                    state.epoch,
                    last.last_sequence if last else NO_SEQUENCE,
                    last.last_offset if last else _NO_OFFSET,
                    last.last_offset - last.first_offset if last else 0,
                    state.last_timestamp,
                    state.coordinator_epoch,
                    state.transaction_first_offset,
                )
            )
        return entries

    def load(self, entries: Iterable[SnapshotEntry], end_offset: int) -> None:
        """Replace the state by a snapshot taken at ``end_offset``."""
        self.clear(end_offset)
        for entry in entries:
            state = self.producers[entry.producer_id] = ProducerState(entry.producer_id, entry.epoch)
            state.coordinator_epoch = entry.coordinator_epoch
            state.last_timestamp = entry.timestamp
            state.transaction_first_offset = entry.transaction_first_offset
            if entry.last_offset >= 0:
                state.batches.append(_batch_of(entry))
            if entry.transaction_first_offset >= 0:
                place = LogOffset(entry.transaction_first_offset)
                self._open[place.offset] = (entry.producer_id, place)
        self._open = dict(sorted(self._open.items()))


def _next_sequence(last_sequence: int) -> int:
    return last_sequence + 1 if last_sequence != _MAX_SEQUENCE else 0


def _batch_of(entry: SnapshotEntry) -> AppendedBatch:
    first_sequence = entry.last_sequence - entry.offset_delta
    if entry.last_sequence >= 0 > first_sequence:
        first_sequence += _MAX_SEQUENCE + 1
    first_offset = entry.last_offset - entry.offset_delta
    return AppendedBatch(first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp)


def _first(transactions: dict[int, tuple[int, LogOffset]]) -> list[tuple[int, LogOffset]]:
    return [next(iter(transactions.values()))] if transactions else []
