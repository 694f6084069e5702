"""The inputs of the group coordinator: requests of clients and the passing of time. Those that all coordinators get are
in `kpybroker.coordination.events`.

There are two clocks. ``now_ms`` of `decide` is monotonic and measures sessions and joins, so setting the system clock
does not remove members. ``timestamp_ms`` of an event is the wall clock, which records contain (commit times,
retention).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from kpybroker.journal import Prepared


class GroupRequest(NamedTuple):
    """A request that concerns one group: one of kpywire's, or a part of one that concerns several groups.

    The shell splits requests about several groups into one event each: `DescribeGroup`, `DeleteGroup`, and for
    OffsetFetch one ``OffsetFetchRequestGroup``. Each is answered by the matching part of the response.
    """

    ticket: Any
    message: Any
    api_version: int
    timestamp_ms: int
    client_id: str = ""
    client_host: str = ""
    """The client's address as Kafka shows it: ``/127.0.0.1``."""
    require_stable: bool = False
    """For an OffsetFetch: partitions with pending transactional commits are UNSTABLE_OFFSET_COMMIT (KIP-447)."""
    prepared: Prepared | None = None
    """For a large OffsetCommit: the records to write if it is accepted."""
    visible: Callable[[Collection[str]], Collection[str]] | None = None
    """For a heartbeat with a regular expression: of some topics, those that its sender may describe. None: all."""
    software: str = ""
    """The name of the client's library, from ApiVersions (KIP-511)."""


class DescribeGroup(NamedTuple):
    """Describe one group. It is answered by a ``DescribedGroup``."""

    group_id: str


class DescribeConsumerGroup(NamedTuple):
    """Describe one consumer group. It is answered by a ``DescribedGroup`` of ConsumerGroupDescribe."""

    group_id: str


class DescribeStreamsGroup(NamedTuple):
    """Describe one streams group. It is answered by a ``DescribedGroup`` of StreamsGroupDescribe."""

    group_id: str


class DeleteGroup(NamedTuple):
    """Delete one group. It is answered by a ``DeletableGroupResult``. For a share group, the first answer may be the
    states that have to be deleted before it (`kpybroker.groups.share.events.Delete`)."""

    group_id: str
    states_deleted: bool = False


class ListGroups(NamedTuple):
    """List all groups of this shard. It is answered by a list of ``ListedGroup``; an empty filter matches every group.

    States and types compare without regard to case, as in Kafka (KIP-518, KIP-848).
    """

    states: Sequence[str] = ()
    types: Sequence[str] = ()


class TimersDue(NamedTuple):
    """The deadline that the coordinator named has come: sessions, joins and syncs may be over."""

    timestamp_ms: int


class ExpireOffsets(NamedTuple):
    """``offsets.retention.check.interval.ms`` has passed: expired offsets and empty groups are deleted."""

    timestamp_ms: int
