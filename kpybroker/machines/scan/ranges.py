"""The ranges of offsets that a scan reads, and its wishes about their records. Pure, and can be pickled."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kpybroker.machines.scan.columns import PLAIN

if TYPE_CHECKING:
    from kpybroker.machines.scan.filters import Filter

Spot = tuple[str, int]
"""A topic and a partition; the client's `Spot` is one."""


def shown(spots: Iterable[Spot]) -> str:
    """Partitions for people."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in spots)


class OffsetRange(NamedTuple):
    """The offsets ``start_offset .. end_offset`` of a partition, half-open. ``topic_id`` has 16 bytes: a new topic
    of the same name has another one."""

    topic: str
    topic_id: bytes
    partition: int
    start_offset: int
    end_offset: int

    @property
    def spot(self) -> Spot:
        """The partition."""
        return self.topic, self.partition

    def overlaps(self, base_offset: int, next_offset: int) -> bool:
        """Whether some of its offsets lie in ``base_offset .. next_offset``, half-open."""
        return next_offset > self.start_offset and base_offset < self.end_offset

    @property
    def offsets(self) -> int:
        """The number of offsets, of which some may have no record."""
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start_offset}, {self.end_offset})"


class Projection(NamedTuple):
    """The records and columns that are wanted of a range."""

    columns: tuple[str, ...] = PLAIN
    committed_only: bool = False
    """Whether records of open and aborted transactions are left out (``isolation.level=read_committed``)."""
    fails_on_data_loss: bool = True
    """Whether offsets that are gone end the scan with OffsetsLost; otherwise it goes on with the next ones."""
    filter: "Filter | None" = None
    """The rows that are kept; None for all."""
