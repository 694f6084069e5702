"""What the transaction coordinator is told, and what it wants done: requests, the passing of time, markers.

Two clocks, as with groups: ``now_ms`` of `decide` is monotonic and only says when to look again; ``timestamp_ms`` of an
event is the wall clock, which goes into records and decides which transaction is too old, since its start is in the
log and must mean the same after a restart.

A transaction ends in two steps. The machine writes PrepareCommit or PrepareAbort; once that is committed the outcome is
decided, the client is answered, and `WriteMarkers` leaves among the sends of the decision. The shell sees to it that
each partition gets its marker, however often it has to try, and tells it with `MarkersWritten`; when none is missing,
the machine writes CompleteCommit or CompleteAbort. After `Loaded` the machine sends `WriteMarkers` anew for whatever
was prepared. (KIP-98, KIP-890; Kafka: ``TransactionCoordinator``, ``TransactionMarkerChannelManager``.)
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

Partition = tuple[str, int]
"""Topic name and partition index."""

TO_LEADERS: Final = -1
"""The ``node_id`` of a send that goes to the leaders of its partitions, whoever they are by then."""


class TransactionRequest(NamedTuple):
    """A request that concerns one transactional id, answered by its response or the matching part of one.

    ``message`` is kpywire's InitProducerIdRequest, AddOffsetsToTxnRequest, EndTxnRequest, or one
    AddPartitionsToTxnTransaction: of a client's AddPartitionsToTxn (v0-3) the shell makes one, of a broker's (v4+)
    there are several, some of them only verified. The shell has checked that the partitions exist.
    """

    ticket: Any
    message: Any
    api_version: int
    timestamp_ms: int
    new_producer_id: int = -1
    """One that nobody has, for an InitProducerId or EndTxn that needs it: a new transactional id, or epochs that have
    run out. -1: none could be had; the machine answers COORDINATOR_LOAD_IN_PROGRESS if it needs one. One that is not
    used is lost, which costs nothing."""
    group_partition: int = -1
    """Of an AddOffsetsToTxn: the partition of ``__consumer_offsets`` that keeps its group."""


class DescribeTransaction(NamedTuple):
    """Answered by a ``TransactionState`` of DescribeTransactionsResponse."""

    ticket: Any
    transactional_id: str
    timestamp_ms: int


class ListTransactions(NamedTuple):
    """All of this shard that pass the filters, answered by a ListTransactionsResponse without what is global."""

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


class PartitionsDeleted(NamedTuple):
    """Topics are gone, ``{topic name: partitions}``: nobody waits for their markers."""

    partitions: dict[str, Sequence[int]]
    timestamp_ms: int


class TimersDue(NamedTuple):
    """The deadline that the coordinator named is here: transactions may have timed out, which aborts them."""

    timestamp_ms: int
    new_producer_id: int = -1
    """One that nobody has, for a transaction that is aborted with the last epoch of its producer id; without one it
    is aborted when there is one."""


class ExpireTransactionalIds(NamedTuple):
    """``transaction.remove.expired.transaction.cleanup.interval.ms`` has passed: idle ids are forgotten."""

    timestamp_ms: int


class Loaded(NamedTuple):
    """The log was replayed to its end."""

    timestamp_ms: int


class WriteMarkers(NamedTuple):
    """The message of a send: end this producer's transaction at these partitions (WriteTxnMarkers).

    The shell drops what it still tries for another transaction of the same transactional id.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Sequence[Partition]
    transaction_version: int
    """That the transaction was ended with: 2 asks partitions for a marker whose epoch is above the producer's."""
