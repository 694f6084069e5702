"""The COMMIT markers in one mirrored partition that its leader does not show yet.

The high watermark stays below the first of them, so that neither readers nor followers' readers get there, while the
log is fed and replicated beyond it. A place that all partitions have in common
(`kpybroker.machines.mirror.wholeness`) releases those below it. At a failover the log is cut at the first one that is
left.

Invariant: all markers from ``released_to`` up to ``listed_to`` are in the list.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from kpybroker.machines.mirror.cuts import HeldMarker
from kpywire.batch import BatchHeader, batch_headers
from kpywire.control_record import COMMIT, control_type
from kpywire.record import read_batch
from kpywire.varint import Buffer

MOST: Final = 1_000
"""The most markers of a partition that are in memory. Those after them are read from the log when there is room."""


def commits_in(data: Buffer, header: BatchHeader, position: int) -> bool:
    """Whether a batch ends a transaction that is committed. Raises Malformed."""
    if not (header.is_control and header.is_transactional):
        return False
    return any(control_type(record) == COMMIT for record in read_batch(data, header, position))


class HeldMarkers:
    """The markers of one partition, as long as this node leads it."""

    def __init__(self, first: int, most: int = MOST) -> None:
        """Hold back all markers from offset ``first`` on."""
        self.released_to = first
        self.listed_to = first
        """The offset up to which the log was read."""
        self._markers: deque[HeldMarker] = deque()
        self._most = most
        self._open: set[int] = set()
        """The producers with records since their last marker."""

    @property
    def count(self) -> int:
        """The number of markers."""
        return len(self._markers)

    @property
    def is_full(self) -> bool:
        """Whether no further marker may be listed."""
        return len(self._markers) >= self._most

    @property
    def limit(self) -> int:
        """The offset up to which the log may be shown."""
        return self._markers[0].offset if self._markers else self.listed_to

    def read(self, data: Buffer, end: int) -> None:
        """Read the next batches of the log, which ends at ``end``. Those that were read before are
        passed over. Raises Malformed."""
        for found, header in batch_headers(data):
            if header.next_offset <= self.listed_to:
                continue
            if self.is_full or header.next_offset > end:
                return
            if header.is_transactional:
                self._read_transactional(data, header, found)
            self.listed_to = header.next_offset

    def _read_transactional(self, data: Buffer, header: BatchHeader, position: int) -> None:
        producer_id = header.producer_id
        if not header.is_control:
            self._open.add(producer_id)
            return
        if header.last_offset >= self.released_to and commits_in(data, header, position):
            is_empty = producer_id not in self._open
            self._markers.append(HeldMarker(header.base_offset, producer_id, header.producer_epoch, is_empty))
        self._open.discard(producer_id)

    def release(self, offset: int) -> None:
        """Release the markers below a place."""
        if offset > self.released_to:
            self.released_to = offset
            if offset > self.listed_to:
                self.listed_to = offset
                self._open.clear()
            while self._markers and self._markers[0].offset < offset:
                self._markers.popleft()

    def cut(self, end: int) -> None:
        """Note that the log ends at ``end`` now."""
        while self._markers and self._markers[-1].offset >= end:
            self._markers.pop()
        self.listed_to = min(self.listed_to, end)
        self._open.clear()
        self.released_to = min(self.released_to, end)

    def between(self, first: int, end: int) -> Iterator[HeldMarker]:
        """The markers in these bounds."""
        return (each for each in self._markers if first <= each.offset < end)
