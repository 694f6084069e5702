"""Rows become record batches of their partitions, encoded and compressed, without a producer yet.

Invariant: the rows of a partition keep their order, and rows with equal keys have equal partitions, as with Kafka's
Java client.
"""

from collections.abc import Callable
from typing import NamedTuple

from kpybroker.client.client import Spot
from kpybroker.client.partitioning import partition_of
from kpybroker.machines.scan.errors import ScanError
from kpywire.compression import NONE
from kpywire.record import Header, Record, build_batch

RECORD_OVERHEAD_BYTES = 32
Batches = dict[Spot, list[bytes]]


class SinkRow(NamedTuple):
    """A row that is to be written."""

    topic: str | None
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Chooser:
    """Chooses partitions. Rows without a key stay together for a batch, and begin at ``turn``."""

    def __init__(self, partition_count: Callable[[str], int], turn: int = 0) -> None:
        """``partition_count`` tells how many partitions a topic has."""
        self._partition_count = partition_count
        self._counts: dict[str, int] = {}
        self.turn = turn

    def spot(self, row: SinkRow) -> Spot:
        """The partition of a row. Raises ScanError."""
        topic = row.topic
        if topic is None:
            raise ScanError("null topic present in the data. Use the topic option for setting a default topic.")
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = self._partition_count(topic)
        if row.partition is not None:
            if not 0 <= row.partition < count:
                raise ScanError(
                    f"Partition {row.partition} of topic {topic} is not present in metadata: it has {count} partitions"
                )
            return Spot(topic, row.partition)
        return Spot(topic, self.turn % count if row.key is None else partition_of(row.key, count))


class Packer:
    """Packs rows. ``full_bytes`` is the size of the batches that are complete."""

    def __init__(
        self, chooser: Chooser, now_ms: Callable[[], int], *, codec: int = NONE, batch_bytes: int = 256 * 1024
    ) -> None:
        self.full_bytes = 0
        self._chooser = chooser
        self._now_ms = now_ms
        self._codec = codec
        self._batch_bytes = batch_bytes
        self._open: dict[Spot, list[Record]] = {}
        self._open_bytes: dict[Spot, int] = {}
        self._full: Batches = {}

    def add(self, row: SinkRow) -> None:
        """Add a row. Raises ScanError if it has no partition."""
        spot = self._chooser.spot(row)
        records = self._open.get(spot)
        if records is None:
            records = self._open[spot] = []
            self._open_bytes[spot] = 0
        records.append(Record(timestamp=self._now_ms(), key=row.key, value=row.value, headers=row.headers))
        size = RECORD_OVERHEAD_BYTES + len(row.key or b"") + len(row.value or b"")
        size += sum(len(name) + len(value or b"") for name, value in row.headers)
        self._open_bytes[spot] += size
        if self._open_bytes[spot] >= self._batch_bytes:
            self._complete(spot)

    def _complete(self, spot: Spot) -> None:
        batch = build_batch(self._open.pop(spot), codec=self._codec)
        del self._open_bytes[spot]
        self._full.setdefault(spot, []).append(batch)
        self.full_bytes += len(batch)
        self._chooser.turn += 1

    def take_full(self) -> Batches:
        """The batches that are complete. They are not returned again."""
        taken, self._full, self.full_bytes = self._full, {}, 0
        return taken

    def take_all(self) -> Batches:
        """All batches. They are not returned again."""
        for spot in list(self._open):
            self._complete(spot)
        return self.take_full()
