"""Ranges of offsets of partitions, and the wanted parts of their records. Pure, and can be pickled."""

from typing import NamedTuple

from kpybroker.scan.columns import PLAIN


class Range(NamedTuple):
    """The offsets ``start_offset .. end_offset`` of a partition, half-open. ``topic_id`` has 16 bytes: a new topic
    of the same name has another one."""

    topic: str
    topic_id: bytes
    partition: int
    start_offset: int
    end_offset: int

    @property
    def offsets(self) -> int:
        """The number of offsets, of which some may have no record."""
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start_offset}, {self.end_offset})"


class Wanted(NamedTuple):
    """The wanted parts of the records in a range."""

    columns: tuple[str, ...] = PLAIN
    committed_only: bool = False
    """Whether records of open and aborted transactions are left out (``isolation.level=read_committed``)."""
    fails_on_data_loss: bool = True
    """Whether offsets that are gone end the scan with OffsetsLost; otherwise it goes on with the next ones."""
