"""The inputs of the group coordinator: requests of clients and the passing of time. Those that all coordinators get are
in `kpybroker.machines.coordination.events`.

There are two clocks. ``now_ms`` of `decide` is monotonic and measures sessions and joins, so setting the system clock
does not remove members. ``timestamp_ms`` of an event is the wall clock, which records contain (commit times,
retention).
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING:
    from kpybroker.machines.groups.offsets.large_commit import LargeCommit


@final
class GroupRequest:
    """A request that concerns one group: one of kpywire's, or a part of one that concerns several groups.

    The shell splits requests about several groups into one event each: `DescribeGroup`, `DeleteGroup`, and for
    OffsetFetch one ``OffsetFetchRequestGroup``. Each is answered by the matching part of the response.
    """

    __slots__ = (
        "api_version", "client_host", "client_id", "message", "prepared", "require_stable", "software", "ticket",
        "timestamp_ms", "visible",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913
        self,
        ticket: Any,
        message: Any,
        api_version: int,
        timestamp_ms: int,
        client_id: str = "",
        client_host: str = "",
        *,
        require_stable: bool = False,
        prepared: "LargeCommit | None" = None,
        visible: Callable[[Collection[str]], Collection[str]] | None = None,
        software: str = "",
    ) -> None:
        self.ticket = ticket
        self.message = message
        self.api_version = api_version
        self.timestamp_ms = timestamp_ms
        self.client_id = client_id
        self.client_host = client_host
        """The client's address as Kafka shows it: ``/127.0.0.1``."""
        self.require_stable = require_stable
        """For an OffsetFetch: partitions with pending transactional commits are UNSTABLE_OFFSET_COMMIT (KIP-447)."""
        self.prepared = prepared
        """For a large OffsetCommit or TxnOffsetCommit: the records to write if it is accepted."""
        self.visible = visible
        """For a heartbeat with a regular expression: of some topics, those that its sender may describe. None: all."""
        self.software = software
        """The name of the client's library, from ApiVersions (KIP-511)."""


class DeleteGroup(NamedTuple):
    """Delete one group. It is answered by a ``DeletableGroupResult``. The first answer may be
    what has to be deleted before it, such as the states of a share group."""

    group_id: str
    states_deleted: bool = False


class ListGroups(NamedTuple):
    """List all groups of this shard. It is answered by a list of ``ListedGroup``; an empty filter matches every group.

    States and types compare without regard to case, as in Kafka (KIP-518, KIP-848).
    """

    states: Sequence[str] = ()
    types: Sequence[str] = ()


class GroupTimersDue(NamedTuple):
    """The deadline that the coordinator named has come: sessions, joins and syncs may be over."""

    timestamp_ms: int


class ExpireOffsets(NamedTuple):
    """``offsets.retention.check.interval.ms`` has passed: expired offsets and empty groups are deleted."""

    timestamp_ms: int
