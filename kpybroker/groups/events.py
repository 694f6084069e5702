"""What the group coordinator is told: requests of clients, the passing of time, and changes of the metadata.

Two clocks, on purpose: ``now_ms`` of `decide` is monotonic and rules sessions and joins, so a clock that is set does
not throw members out; ``timestamp_ms`` of an event is the wall clock and goes into records (commit times, retention).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.journal import Prepared


class GroupRequest(NamedTuple):
    """A request that concerns one group: one of kpywire's, or a part of one that concerns several groups.

    Of requests about several groups the shell makes one event each: `DescribeGroup`, `DeleteGroup`, and for
    OffsetFetch one ``OffsetFetchRequestGroup``, each answered by the matching part of the response.
    """

    ticket: Any
    message: Any
    api_version: int
    timestamp_ms: int
    client_id: str = ""
    client_host: str = ""
    """As Kafka shows it: ``/127.0.0.1``."""
    require_stable: bool = False
    """Of an OffsetFetch: partitions with pending transactional commits are UNSTABLE_OFFSET_COMMIT (KIP-447)."""
    prepared: Prepared | None = None
    """Of a large OffsetCommit: what it writes if it is taken."""


class DescribeGroup(NamedTuple):
    """Answered by a ``DescribedGroup``."""

    group_id: str


class DeleteGroup(NamedTuple):
    """Answered by a ``DeletableGroupResult``."""

    group_id: str


class ListGroups(NamedTuple):
    """All groups of this shard, answered by a list of ``ListedGroup``; empty filters let everything pass.

    States and types compare without regard to case, as in Kafka (KIP-518, KIP-848).
    """

    states: Sequence[str] = ()
    types: Sequence[str] = ()


class TimersDue(NamedTuple):
    """The deadline that the coordinator named is here: sessions, joins and syncs may be over."""

    timestamp_ms: int


class ExpireOffsets(NamedTuple):
    """``offsets.retention.check.interval.ms`` has passed: what nobody reads any more is forgotten."""

    timestamp_ms: int


class PartitionsDeleted(NamedTuple):
    """Topics are gone: so are the offsets committed for these partitions, ``{topic name: partitions}``."""

    partitions: dict[str, Sequence[int]]
    timestamp_ms: int


class Loaded(NamedTuple):
    """The log was replayed to its end: sessions of the members found there begin now."""

    timestamp_ms: int
