"""The seam between what is read and how its bytes come here: Kafka's Fetch, files, and what comes later."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpywire.aborted import Aborted
from kpywire.varint import Buffer


class FetchedPiece(NamedTuple):
    """Batches of a partition in the order of the log. The last may be cut off: the next piece begins with it, whole."""

    data: Buffer
    aborted: Aborted
    """The transactions that are left out of these batches. Several pieces may share the object."""
    first_offset: int = 0
    """Records before it were deleted after the scan was planned, though their batches are still there."""


class Transport(Protocol):
    """A way to get the batches of a range. It is made where a task is read, and used by one thread."""

    def pieces(self, part: OffsetRange, wanted: Projection) -> Iterator[FetchedPiece]:
        """The batches from the one that holds the start of ``part`` on, at least up to its end.

        Raises:
            OffsetsLost: offsets are gone, or the topic is another one, and ``wanted.fails_on_data_loss`` is set.
            ScanError: the records cannot be had.
        """

    def close(self) -> None:
        """Close connections and files."""
