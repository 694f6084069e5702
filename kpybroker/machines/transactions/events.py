"""The inputs of the transaction coordinator, and the markers it sends: requests, the passing of time, written markers.

There are two clocks, as with groups. ``now_ms`` of `decide` is monotonic and only determines when to look again.
``timestamp_ms`` of an event is the wall clock. Records contain it, and it decides which transaction is too old, since
its start is in the log and must mean the same after a restart.

A transaction ends in two steps. The machine writes PrepareCommit or PrepareAbort. Once that is committed, the outcome
is decided, the client is answered, and `WriteMarkers` is among the sends of the decision. The shell makes sure that
each partition gets its marker, with as many attempts as needed, and reports it with `MarkersWritten`. When none is
missing, the machine writes CompleteCommit or CompleteAbort. After `Loaded` the machine sends `WriteMarkers` again for
every prepared transaction. (KIP-98, KIP-890; Kafka: ``TransactionCoordinator``, ``TransactionMarkerChannelManager``.)
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

Partition = tuple[str, int]
"""Topic name and partition index."""

TO_LEADERS: Final = -1
"""The ``node_id`` of a send for the leaders of its partitions, whichever nodes lead them at that time."""


class TransactionRequest(NamedTuple):
    """A request that concerns one transactional id, answered by its response or the matching part of one.

    ``message`` is kpywire's InitProducerIdRequest, AddOffsetsToTxnRequest, EndTxnRequest, or one
    AddPartitionsToTxnTransaction. The shell makes one of the latter from a client's AddPartitionsToTxn (v0-3). A
    broker's request (v4+) contains several, some of which are only verified. The shell has checked that the partitions
    exist.
    """

    ticket: Any
    message: Any
    api_version: int
    timestamp_ms: int
    new_producer_id: int = -1
    """An unused producer id, for an InitProducerId or EndTxn that needs one: for a new transactional id, or for epochs
    that have run out. -1: none was available; if the machine needs one, it answers COORDINATOR_LOAD_IN_PROGRESS. An id
    that is not used is lost, which costs nothing."""
    group_partition: int = -1
    """For an AddOffsetsToTxn: the partition of ``__consumer_offsets`` that keeps its group."""


class DescribeTransaction(NamedTuple):
    """Describe one transactional id. It is answered by a ``TransactionState`` of DescribeTransactionsResponse."""

    ticket: Any
    transactional_id: str
    timestamp_ms: int


class ListTransactions(NamedTuple):
    """List this shard's transactions that pass the filters. It is answered by a ListTransactionsResponse without its
    global fields."""

    ticket: Any
    message: Any
    timestamp_ms: int


class MarkersWritten(NamedTuple):
    """These partitions have the marker, or will never need one because they were deleted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]
    timestamp_ms: int


class TransactionTimersDue(NamedTuple):
    """The deadline that the coordinator named has come: transactions that have timed out are aborted."""

    timestamp_ms: int
    new_producer_id: int = -1
    """An unused producer id, for a transaction that is aborted with the last epoch of its producer id. Without one, it
    is aborted once there is one."""


class ExpireTransactionalIds(NamedTuple):
    """``transaction.remove.expired.transaction.cleanup.interval.ms`` has passed: idle ids are deleted."""

    timestamp_ms: int


class WriteMarkers(NamedTuple):
    """The message of a send: end this producer's transaction at these partitions (WriteTxnMarkers).

    The shell gives up markers that it still tries to write for another transaction of the same transactional id.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Sequence[Partition]
    transaction_version: int
    """The ``transaction.version`` that the transaction ended with. With 2 the marker's epoch has to be above the
    producer's."""
