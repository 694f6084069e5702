"""A share partition on a log in memory: members, writes that end when a test says so, a clock."""

from collections import deque
from collections.abc import Sequence
from random import Random

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share import acknowledging, acquiring, archiving
from kpybroker.machines.share.acknowledging import Acknowledgement
from kpybroker.machines.share.acquiring import Acquired, AcquireRequest, LogBatch
from kpybroker.machines.share.partition import (
    DeadLetters,
    Expiry,
    SharePartition,
    ShareSettings,
    StartedChange,
    StateWrite,
    StoredStateBatch,
)
from kpybroker.machines.share.record_state import RecordState

MEMBERS = ("m", "n")


class SharePartitionWorld:
    """One group at one partition."""

    def __init__(self, settings: ShareSettings, log: Sequence[LogBatch]) -> None:
        self.partition = SharePartition(7, settings)
        self.log = log
        self.now_ms = 0
        self.writes: deque[StartedChange | Expiry] = deque()
        """The writes that have not ended; that of archived records is like one of ended locks."""
        self.written: list[StateWrite] = []
        self.dead_letters: deque[DeadLetters] = deque()
        """The dead letters that are not settled."""
        self.lettered: list[DeadLetters] = []

    def load(self, start_offset: int, stored: Sequence[StoredStateBatch]) -> None:
        self._letter(self.partition.load(start_offset, 1, stored))

    def _letter(self, dead_letters: Sequence[DeadLetters]) -> None:
        self.dead_letters += dead_letters
        self.lettered += dead_letters

    def acquire(self, request: AcquireRequest, most_batches: int = 3) -> tuple[int, list[LogBatch], list[Acquired]]:
        """Read and acquire: where the read began, what it found, what the member got."""
        offset = self.partition.next_fetch_offset()
        read = [batch for batch in self.log if batch.last_offset >= offset][:most_batches]
        if not read:
            return offset, [], []
        return offset, read, acquiring.acquire(self.partition, request, offset, read, self.now_ms)

    def acknowledge(self, member_id: str, *batches: Acknowledgement) -> int:
        """The error code."""
        try:
            change = acknowledging.acknowledge(self.partition, member_id, batches, self.now_ms)
        except KafkaError as error:
            return error.code
        self._write(change)
        return 0

    def release(self, member_id: str) -> None:
        self._write(acknowledging.release(self.partition, member_id))

    def _write(self, change: StartedChange | None) -> None:
        if change is not None:
            self.writes.append(change)
            self.written.append(change.write)

    def store(self, *, is_stored: bool) -> None:
        """The oldest write ends."""
        change = self.writes.popleft()
        if isinstance(change, StartedChange):
            self._letter(self.partition.settle(change.started, is_stored=is_stored))
            return
        self.partition.move_start()
        self._letter(change.dead_letters)

    def settle_dead_letters(self) -> None:
        """The oldest dead letters were written, or given up."""
        write = self.partition.archive(self.dead_letters.popleft())
        self.writes.append(Expiry(write, []))
        self.written.append(write)

    def wait(self, now_ms: int) -> None:
        self.now_ms = now_ms
        expiry = self.partition.expire(now_ms)
        if expiry is not None:
            self.writes.append(expiry)
            self.written.append(expiry.write)

    def log_starts_at(self, offset: int) -> None:
        archiving.log_starts_at(self.partition, offset)

    # What a test may look at

    def states(self) -> list[tuple[int, RecordState]]:
        """All records in flight."""
        return [
            (offset, state)
            for batch in self.partition
            for first, last, state in batch.all_ranges
            for offset in range(first, last + 1)
        ]

    def shown(self) -> str:
        partition = self.partition
        batches = []
        for batch in partition:
            states = [_shown(state) for _, _, state in batch.all_ranges]
            batches.append(f"{batch.first_offset},{batch.last_offset}={'/'.join(states)}")
        return (
            f"{partition.next_fetch_offset()} {partition.start_offset} {partition.end_offset} "
            f"{partition.delivery_complete_count} {';'.join(batches)}"
        )


def some_log(rng: Random, batches: int = 40) -> list[LogBatch]:
    """A log with gaps now and then, as compaction leaves them."""
    log, offset = [], 0
    for _ in range(batches):
        last = offset + rng.choice((0, 0, 2, 4, 9))
        log.append(LogBatch(offset, last))
        offset = last + 1 + (rng.randrange(4) if rng.random() < 0.1 else 0)
    return log


def _shown(state: RecordState) -> str:
    return f"{state.state},{state.delivery_count},{state.member_id},{int(state.is_changing)}"
