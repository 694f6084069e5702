"""The requests about streams groups that are not messages of the protocol."""

from typing import NamedTuple


class DescribeStreamsGroup(NamedTuple):
    """Describe one streams group. It is answered by a ``DescribedGroup`` of StreamsGroupDescribe."""

    group_id: str
    with_description: bool = False
    """Whether the description of its topology is wanted (KIP-1331)."""


class StoreDescription(NamedTuple):
    """Keep the description of a topology (KIP-1331), which a member sent. It is answered by a
    ``StreamsGroupTopologyDescriptionUpdateResponse``."""

    group_id: str
    member_id: str
    topology_epoch: int
    description: bytes | None
    """The bytes that record 23 keeps (`kpybroker.machines.groups.described_topology`); None if it is too large to be
    kept."""
    fault: str | None = None
    """The fault of the description, in Kafka's words."""


class DescriptionOf(NamedTuple):
    """Get the description of a topology. It is answered by the bytes that are kept, or by None. Without bytes, it is
    there and larger than ``most_bytes``."""

    group_id: str
    most_bytes: int
