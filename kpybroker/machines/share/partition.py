"""The records that a group has in flight in a partition, and the offsets that bound them (Kafka: ``SharePartition``).

``start_offset`` (SPSO) is the first record that the group is not done with, ``end_offset`` (SPEO) the last one that was
in flight. Batches between them are kept by their first offset.

It begins by `load` with the stored state. `acquiring`, `acknowledging` and `archiving` have the operations. A change of
states is stored by the owner: `StateWrite` has what to store, `settle` reports how that ended.

Invariants: no record is acquired by two members; none is delivered more often than the limit; what a group is done with
is not delivered again; `start_offset` never moves back, and moves over an archiving record only where the log has lost
it; batches do not overlap.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from kpybroker.machines.share.in_flight import InFlightBatch, Range
from kpybroker.machines.share.record_state import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NO_MEMBER,
    TERMINAL,
    Limit,
    RecordState,
)

REJECTED: Final = "Offset rejected by client."
COUNTED_OUT: Final = "Offset delivery count exceeded the threshold."
"""The reasons of dead letters, in Kafka's words (``ShareGroupDLQManager``)."""


class ShareSettings(NamedTuple):
    """The settings of a group, read for every operation."""

    delivery_limit: int = 5
    """``share.delivery.count.limit``."""
    max_record_locks: int = 2_000
    """``share.partition.max.record.locks``."""
    lock_duration_ms: int = 30_000
    """``share.record.lock.duration.ms``."""
    may_renew: bool = True
    """``share.renew.acknowledge.enable``."""
    dead_letters: bool = False
    """Whether the group has a dead-letter topic (``errors.deadletterqueue.topic.name``)."""

    @property
    def limit(self) -> Limit:
        """The limit of deliveries, and the state after it."""
        return Limit(self.delivery_limit, ARCHIVING if self.dead_letters else ARCHIVED)


class StoredStateBatch(NamedTuple):
    """The stored state of a range of records."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class StateWrite(NamedTuple):
    """The state that is to be stored (WriteShareGroupState)."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StoredStateBatch]


class Started(NamedTuple):
    """A part of a change."""

    stored: StoredStateBatch
    state: RecordState
    to: int
    """The state that was wanted: a record that is AVAILABLE again may be counted out instead."""


class StartedChange(NamedTuple):
    """A change that was started, to be stored and then settled."""

    write: StateWrite
    started: Sequence[Started]


class DeadLetters(NamedTuple):
    """Records that are archiving: their dead letters are to be written, then they are archived."""

    first_offset: int
    last_offset: int
    delivery_count: int
    reason: str
    state: RecordState


class Expiry(NamedTuple):
    """Records whose locks have ended: what is to be stored, and the dead letters that are to be written after it."""

    write: StateWrite
    dead_letters: Sequence[DeadLetters]


class ImpossibleState(Exception):
    """The stored state contradicts itself."""


class SharePartition:
    """The records of one partition that one group has in flight."""

    def __init__(self, leader_epoch: int, settings: ShareSettings) -> None:
        self.leader_epoch = leader_epoch
        self.settings = settings
        self.state_epoch = 0
        self.start_offset = 0
        self.end_offset = 0
        self.delivery_complete_count = 0
        """How many records from the start offset on the group is done with."""
        self.finds_next_offset = False
        """Whether there may be available records among those in flight."""
        self._first_offsets: list[int] = []
        self._batches: dict[int, InFlightBatch] = {}
        self._gap_start: int | None = None
        self._gap_end = 0
        self._locks: list[tuple[int, int, int]] = []

    # Loading

    def load(self, start_offset: int, state_epoch: int, batches: Sequence[StoredStateBatch]) -> list[DeadLetters]:
        """Take over the stored state. ``start_offset`` was already chosen, if none was stored.

        Returns the dead letters that another leader had not settled: they are to be written, perhaps again.

        Raises:
            ImpossibleState: the state contradicts itself.
        """
        self.start_offset, self.state_epoch = start_offset, state_epoch
        gap_start, previous = None, start_offset - 1
        unsettled: list[DeadLetters] = []
        for first, last, state, count in batches:
            if first < start_offset or last < first:
                raise ImpossibleState(f"records {first} to {last} with the start offset {start_offset}")
            if gap_start is None and first > previous + 1:
                gap_start = previous + 1
            previous = last
            batch_state = RecordState(state, count, NO_MEMBER)
            self.add(InFlightBatch(first, last, batch_state))
            if state in TERMINAL:
                self.delivery_complete_count += last - first + 1
            elif state == ARCHIVING:
                reason = COUNTED_OUT if count >= self.settings.delivery_limit else REJECTED
                unsettled.append(DeadLetters(first, last, count, reason, batch_state))
        if not batches:
            self.end_offset = start_offset
            return unsettled
        self.finds_next_offset = True
        self.end_offset = batches[-1].last_offset
        if gap_start is not None:
            self._gap_start, self._gap_end = gap_start, self.end_offset
        self.move_start()
        return unsettled

    # Batches

    def add(self, batch: InFlightBatch) -> None:
        """Keep a batch."""
        insort(self._first_offsets, batch.first_offset)
        self._batches[batch.first_offset] = batch

    def __iter__(self) -> Iterator[InFlightBatch]:
        """All batches in their order."""
        return iter([self._batches[first] for first in self._first_offsets])

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in flight."""
        return not self._first_offsets

    @property
    def batch_count(self) -> int:
        """The number of batches in flight."""
        return len(self._first_offsets)

    @property
    def last(self) -> InFlightBatch:
        """The last batch."""
        return self._batches[self._first_offsets[-1]]

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before an offset."""
        at = bisect_right(self._first_offsets, offset)
        return self._batches[self._first_offsets[at - 1]] if at else None

    def between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that begin between two offsets, both included."""
        first, last = bisect_left(self._first_offsets, first_offset), bisect_right(self._first_offsets, last_offset)
        return [self._batches[each] for each in self._first_offsets[first:last]]

    def _drop(self, count: int) -> None:
        """Forget the first batches."""
        for first in self._first_offsets[:count]:
            del self._batches[first]
        del self._first_offsets[:count]

    # Gaps between stored batches, whose records were not in flight

    @property
    def gap_start(self) -> int | None:
        """The first offset of such a gap, while there may be one before the end offset."""
        return self._gap_start if self._gap_end == self.end_offset else None

    def close_gaps_until(self, offset: int) -> None:
        """Note that records below an offset were acquired or offered."""
        if self._gap_start is not None:
            is_open = self._gap_end == self.end_offset and offset <= self._gap_end
            self._gap_start = offset if is_open else None

    # Offsets

    @property
    def in_flight_count(self) -> int:
        """The number of offsets in flight, done with or not."""
        return 0 if self.is_empty else self.end_offset - self.start_offset + 1

    def can_acquire(self) -> bool:
        """Whether a fetch could find something: available records, or room for new ones.

        Records that the log lost are archived without a write, which leaves the start where it is, and a gap may be
        noted again where records are acquired once more. If what is done with fills the room, the start moves here. In
        Kafka no member could go on then.
        """
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        most = self.settings.max_record_locks
        if self.in_flight_count >= most:
            # Nothing is left to be read before the end offset, nor is there anything before the first batch.
            self._gap_start, self.start_offset = None, max(self.start_offset, self._first_offsets[0])
            self.move_start()
        return self.in_flight_count < most

    def next_fetch_offset(self) -> int:
        """The offset at which the next fetch begins."""
        if not self.finds_next_offset:
            is_new = self.is_empty or self.start_offset > self.last.last_offset
            return self.end_offset if is_new else self.end_offset + 1
        if self.is_empty or self.start_offset > self.last.last_offset:
            self.finds_next_offset = False
            return self.end_offset
        gap_start = self.gap_start
        for batch in self:
            if gap_start is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            for first, _, state in batch.all_ranges:
                if state.is_free:
                    return first
        self.finds_next_offset = False
        return self.end_offset + 1

    def in_flight_of(self, first_offset: int, last_offset: int) -> int:
        """The number of offsets of a range that are not below the start offset."""
        return max(last_offset - max(first_offset, self.start_offset) + 1, 0)

    def count_completed(self, first_offset: int, last_offset: int) -> None:
        """Count records that the group is done with from now on."""
        self.delivery_complete_count += self.in_flight_of(first_offset, last_offset)

    def move_start(self) -> None:
        """Move the start offset over all records that the group is done with, and forget whole batches below it."""
        last_done, done = self._last_done()
        if last_done is None:
            return
        if last_done == self.last.last_offset:
            self.start_offset = self.end_offset = max(self.start_offset, last_done + 1)
            self._drop(len(self._first_offsets))
            self.delivery_complete_count = 0
            return
        floor = self.floor(last_done)
        assert floor is not None
        below = bisect_left(self._first_offsets, floor.first_offset)
        if last_done == floor.last_offset:
            below += 1
            start_offset = self._first_offsets[below]
            gap_start = self.gap_start
            if start_offset > self.start_offset:
                self.start_offset = start_offset if gap_start is None else min(gap_start, start_offset)
        else:
            self.start_offset = max(self.start_offset, last_done + 1)
        self.delivery_complete_count -= done
        self._drop(below)

    def _last_done(self) -> tuple[int | None, int]:
        """The last record of those at the beginning that the group is done with, and how many they are."""
        last_done, count = None, 0
        at = None if self.is_empty else self.floor(self.start_offset)
        if at is None:
            return None, 0
        for _, _, state in at.ranges(self.start_offset, self.start_offset):
            if state.is_changing or not state.is_terminal:
                return None, 0
        gap_start = self.gap_start
        for batch in self:
            if gap_start is not None and batch.last_offset >= gap_start:
                return last_done, count
            for first, last, state in batch.all_ranges:
                if state.is_changing or not state.is_terminal:
                    return last_done, count
                last_done = last
                count += self.in_flight_of(first, last)
        return last_done, count

    # What is stored

    def write_of(self, batches: Sequence[StoredStateBatch]) -> StateWrite:
        """The state that is to be stored after a change."""
        return StateWrite(self.state_epoch, self.leader_epoch, self.start_offset, self.delivery_complete_count, batches)

    def start(self, first_offset: int, last_offset: int, state: RecordState, to: int) -> Started:
        """Start a change of records to another state."""
        state.start(to, self.settings.limit)
        if state.is_terminal:
            self.count_completed(first_offset, last_offset)
        return Started(StoredStateBatch(first_offset, last_offset, state.state, state.delivery_count), state, to)

    def settle(self, started: Sequence[Started], *, is_stored: bool) -> list[DeadLetters]:
        """Complete a change that was stored, or roll it back. Returns the dead letters that are to be written."""
        dead_letters: list[DeadLetters] = []
        for stored, state, to in started:
            if is_stored:
                state.complete()
            else:
                state.roll_back()
                if stored.delivery_state in TERMINAL and not state.is_terminal:
                    self.delivery_complete_count -= self.in_flight_of(stored.first_offset, stored.last_offset)
            if state.state == AVAILABLE:
                self.finds_next_offset = True
            elif state.state == ARCHIVING:
                reason = REJECTED if is_stored and to == ARCHIVING else COUNTED_OUT
                first, last, _, count = stored
                dead_letters.append(DeadLetters(first, last, count, reason, state))
        if is_stored:
            self.move_start()
        return dead_letters

    # Dead letters

    @property
    def has_dead_letters(self) -> bool:
        """Whether there are records whose dead letters are not settled."""
        return any(state.state == ARCHIVING for batch in self for _, _, state in batch.all_ranges)

    def archive(self, settled: DeadLetters) -> StateWrite:
        """Be done with records whose dead letters were written, or given up. When this is stored, or could not be,
        `move_start` is called."""
        first, last, count, _, state = settled
        state.archive()
        self.count_completed(first, last)
        return self.write_of([StoredStateBatch(first, last, ARCHIVED, count)])

    # Locks

    def lock(self, first_offset: int, last_offset: int, now_ms: int) -> int:
        """Set the end of an acquisition, and return it."""
        until_ms = now_ms + self.settings.lock_duration_ms
        heappush(self._locks, (until_ms, first_offset, last_offset))
        return until_ms

    def next_deadline_ms(self) -> int | None:
        """The time when `expire` has to be called; None if nothing is locked. It may be early."""
        return self._locks[0][0] if self._locks else None

    def expire(self, now_ms: int) -> Expiry | None:
        """Take back records whose locks have ended. It takes effect at once; what is to be stored is returned.

        When that is stored, `move_start` is called. If it cannot be stored, nothing is rolled back.
        """
        stored: list[StoredStateBatch] = []
        dead_letters: list[DeadLetters] = []
        while self._locks and self._locks[0][0] <= now_ms:
            _, first_offset, last_offset = heappop(self._locks)
            floor = self.floor(first_offset)
            if floor is None:
                continue
            for batch in self.between(floor.first_offset, last_offset):
                for first, last, state in self._expired(batch, (first_offset, last_offset), now_ms):
                    stored.append(StoredStateBatch(first, last, state.state, state.delivery_count))
                    if state.state == ARCHIVING:
                        dead_letters.append(DeadLetters(first, last, state.delivery_count, COUNTED_OUT, state))
        return Expiry(self.write_of(stored), dead_letters) if stored else None

    def _expired(self, batch: InFlightBatch, locked: tuple[int, int], now_ms: int) -> Iterator[Range]:
        """Take back the records of a batch whose locks have ended, and return them."""
        whole = batch.whole
        if whole is not None and whole.state == ACQUIRED and batch.holds_start(self.start_offset):
            batch.split()
        for first, last, state in batch.ranges(*locked):
            if state.lock_until_ms is None or state.lock_until_ms > now_ms:
                continue
            if state.is_changing:
                state.is_expired = True
                continue
            if state.state != ACQUIRED:
                continue
            state.leave(ARCHIVED if last < self.start_offset else AVAILABLE, self.settings.limit)
            state.unlock()
            if state.is_terminal:
                self.count_completed(first, last)
            elif state.state == AVAILABLE:
                self.finds_next_offset = True
            yield first, last, state
