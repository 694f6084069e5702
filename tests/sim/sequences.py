"""The committed batches of a partition as its producers' history: sequences, epochs, open transactions.

A small model of its own, that knows only headers: no batch stands twice, none is missing before another, none is of an
epoch that was over, and no transaction is open beneath records of a later epoch.
"""

from typing import Any, NamedTuple


class Last(NamedTuple):
    """The last batch of one producer: its epoch, and its last sequence number in it; -1 while it has none."""

    epoch: int
    sequence: int


class Sequences:
    """The producers of one partition, as far as batches were taken in, in order."""

    def __init__(self) -> None:
        self.end_offset = 0
        self._last: dict[int, Last] = {}
        self._open: dict[int, tuple[int, int]] = {}
        """By producer: first offset and epoch of its open transaction."""

    def take(self, header: Any) -> str:
        """The next batch; what is wrong with it, nothing if all is well."""
        if header.base_offset < self.end_offset:
            return ""
        self.end_offset = header.next_offset
        producer_id, epoch, first = header.producer_id, header.producer_epoch, header.base_sequence
        if producer_id < 0:
            return ""
        last = self._last.get(producer_id)
        if header.is_control:
            self._open.pop(producer_id, None)
            if last is None or last.epoch != epoch:
                self._last[producer_id] = Last(epoch, -1)
            return ""
        wrong = "" if last is None or first < 0 else _wrong(last, epoch, first)
        self._last[producer_id] = Last(epoch, first + header.last_offset_delta if first >= 0 else -1)
        if header.is_transactional:
            first_offset, opened_in = self._open.setdefault(producer_id, (header.base_offset, epoch))
            if opened_in != epoch:
                wrong = f"its transaction of epoch {opened_in} is open since offset {first_offset}"
        return f"producer {producer_id}, epoch {epoch}, sequence {first}: {wrong}" if wrong else ""

    @property
    def first_open_offset(self) -> int | None:
        """The offset where the oldest open transaction begins."""
        return min((offset for offset, _ in self._open.values()), default=None)


def _wrong(last: Last, epoch: int, first: int) -> str:
    if epoch < last.epoch:
        return f"epoch {last.epoch} was there before"
    expected = last.sequence + 1 if epoch == last.epoch else 0
    return f"{expected} was next" if first != expected else ""
