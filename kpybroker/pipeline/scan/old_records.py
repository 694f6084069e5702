"""Old records of a topic for readers of many ranges, such as a lake: what only the store has is read there, the rest by
the transport that the reader has."""

from collections.abc import Callable, Sequence
from threading import Lock

from kpybroker.client.client import Client
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.scan.objects import ObjectTransport
from kpybroker.pipeline.scan.transport import Transport
from kpybroker.pipeline.tiers.copied import CopiedPartitions
from kpybroker.pipeline.tiers.metadata import TierMetadata, copied
from kpybroker.pipeline.tiers.stores import TierStore


class OldRecords:
    """The store of a cluster, and what is known of its copies. Several threads may read."""

    def __init__(self, store: TierStore, connect: Callable[[], Client], *, committed_only: bool) -> None:
        """``connect`` makes clients."""
        self._store = store
        self._connect = connect
        self._committed_only = committed_only
        self._metadata = TierMetadata()
        self._lock = Lock()

    def plan(self, client: Client, parts: Sequence[OffsetRange]) -> CopiedPartitions:
        """The copies that hold these ranges. Raises KafkaError, Unreachable."""
        with self._lock:
            return copied(client, self._metadata, parts, only_remote=True, committed_only=self._committed_only)

    def over(self, other: Transport, planned: CopiedPartitions) -> Transport:
        """A transport that reads the copies of a plan, and the rest by another one. It is not closed: `close` ends
        the store, and ``other`` is the reader's."""
        return ObjectTransport(planned, self._store, lambda: other, self._connect, may_give_up=False)

    def close(self) -> None:
        """End the connections to the store."""
        self._store.close()
