"""The store of segments, as copies and reads see it (Kafka: ``RemoteStorageManager``).

All calls block, so they run in threads, several at the same time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.machines.remote_log.sweep import ListedObject
from kpystorage.log_slice import LogSlice
from kpystorage.remote.indexes import IndexType


class StoreFailed(Exception):
    """A call to the store failed. The message is one line: which call, on which object, and why."""


class ObjectMissing(StoreFailed):
    """The store does not have the object."""


class StoreAway(StoreFailed):
    """The store cannot be reached, is full, or does not answer in time: a later try may succeed."""


class StoreRefuses(StoreFailed):
    """The store refuses: no rights, no bucket, or a setting that does not fit. A person has to change something."""


class CopyStopped(Exception):
    """The copy was stopped by its `CopyLimits`."""


class ClosedSegmentFiles(NamedTuple):
    """The files of a closed segment (Kafka: ``LogSegmentData``)."""

    log: LogSlice
    """The whole log file."""
    offset_index: bytes
    time_index: bytes
    transaction_index: bytes | None
    producer_snapshot: bytes
    """The producers at the segment's end."""
    leader_epochs: bytes
    """The text of leader-epoch-checkpoint, from the log's start to the segment's end."""


class CopyLimits(NamedTuple):
    """The limits that a copy obeys before each part that it writes."""

    is_stopped: Callable[[], bool]
    """Whether to end with `CopyStopped`."""
    wait_for: Callable[[int], object]
    """Waits until this number of bytes may be written (KIP-956)."""


class RemoteStorage(Protocol):
    """A store with a layout."""

    @property
    def name(self) -> str:
        """The store in words without secrets, such as s3://bucket/prefix."""

    def check(self) -> None:
        """Write, read, list and delete a small object: StoreFailed says in one line what the store lacks."""

    def copy(self, segment: RemoteLogSegment, files: ClosedSegmentFiles, limits: CopyLimits) -> bytes | None:
        """Write the objects of a segment; the custom metadata for its record. StoreFailed, CopyStopped."""

    def read(self, segment: RemoteLogSegment, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end`` of the segment's log file; fewer where the file ends before. StoreFailed, or
        CorruptObject if what is stored is damaged."""

    def index(self, segment: RemoteLogSegment, index: IndexType) -> bytes | None:
        """An index of the segment; None for a transaction index that is not there. StoreFailed, CorruptObject."""

    def delete(self, segment: RemoteLogSegment) -> None:
        """Delete all objects of a segment. Objects that are gone are no failure. StoreFailed."""

    def listed(self) -> Iterator[ListedObject]:
        """All objects of the layout under the prefix. StoreFailed."""

    def delete_objects(self, objects: Iterable[ListedObject]) -> None:
        """Delete single objects that were `listed`. StoreFailed."""

    def close(self) -> None:
        """End threads and connections."""
