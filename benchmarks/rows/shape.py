"""The records of a throughput row and how they are sent, with the names that follow from it."""

from collections.abc import Iterator
from typing import NamedTuple


class Shape(NamedTuple):
    """One point of the space that the throughput rows take samples of."""

    record_bytes: int = 1000
    partitions: int = 6
    codec: str = "none"
    acks: str = "1"
    idempotent: bool = False
    smallest_bytes: int = 0
    """If it is not 0, sizes are spread evenly around ``record_bytes``, from this one on."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The smallest and the largest value in bytes."""
        smallest = self.smallest_bytes or self.record_bytes
        return smallest, 2 * self.record_bytes - smallest

    @property
    def size_text(self) -> str:
        smallest, largest = self.sizes
        return f"{smallest}" if smallest == largest else f"{smallest}-{largest}"

    def differs(self, usual: "Shape") -> Iterator[tuple[str, str]]:
        """The unusual properties, each as the part of a key and in words."""
        if self.partitions != usual.partitions:
            words = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
            yield f"{self.partitions}p", words
        if self.codec != usual.codec:
            yield self.codec, self.codec
        if self.idempotent != usual.idempotent:
            yield ("idempotent", "idempotent") if self.idempotent else ("plain", "not idempotent")
        if self.acks != usual.acks and not (self.idempotent and not usual.idempotent):
            yield f"acks-{self.acks}", f"acks={self.acks}"

    def key(self, prefix: str, usual: "Shape") -> str:
        return "-".join([prefix, self.size_text, *(key for key, _ in self.differs(usual))])

    def title(self, prefix: str, usual: "Shape") -> str:
        return ", ".join([prefix, f"{self.size_text} B", *(words for _, words in self.differs(usual))])
