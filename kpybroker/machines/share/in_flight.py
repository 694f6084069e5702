"""A batch of records in flight. It has one state, until its records differ: then each offset has its own.

(Kafka: ``InFlightBatch``.) A batch is never put together again; it goes as a whole.
"""

from collections.abc import Iterator

from kpybroker.machines.share.record_state import AVAILABLE, NO_MEMBER, RecordState

Range = tuple[int, int, RecordState]
"""First and last offset, and the state of the records between them."""


class InFlightBatch:
    """The records from ``first_offset`` to ``last_offset``."""

    __slots__ = ("first_offset", "last_offset", "offsets", "whole")

    def __init__(self, first_offset: int, last_offset: int, whole: RecordState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: RecordState | None = whole
        """The state of all records; None once each has its own."""
        self.offsets: dict[int, RecordState] = {}
        """The states in the order of the offsets, once they differ."""

    def split(self) -> None:
        """Give each offset a state of its own."""
        whole = self.whole
        if whole is not None:
            self.offsets = {offset: whole.copy() for offset in range(self.first_offset, self.last_offset + 1)}
            self.whole = None

    def split_acquired(self, last_acquired: int) -> None:
        """Split a batch that was just acquired for the first time, of which a member gets only the first records."""
        self.split()
        for offset in range(last_acquired + 1, self.last_offset + 1):
            self.offsets[offset] = RecordState(AVAILABLE, 0, NO_MEMBER)

    def ranges(self, first_offset: int, last_offset: int) -> Iterator[Range]:
        """The states between two offsets: one for all records, or one for each."""
        if self.whole is not None:
            if first_offset <= self.last_offset and last_offset >= self.first_offset:
                yield self.first_offset, self.last_offset, self.whole
            return
        for offset in range(max(first_offset, self.first_offset), min(last_offset, self.last_offset) + 1):
            yield offset, offset, self.offsets[offset]

    @property
    def all_ranges(self) -> Iterator[Range]:
        """All states."""
        return self.ranges(self.first_offset, self.last_offset)

    def lies_within(self, first_offset: int, last_offset: int) -> bool:
        """Whether the batch begins and ends between these offsets."""
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def holds_start(self, start_offset: int) -> bool:
        """Whether a start offset lies behind the batch's first record, and not behind its last."""
        return self.first_offset < start_offset <= self.last_offset
