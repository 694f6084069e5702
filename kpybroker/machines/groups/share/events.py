"""The requests about share groups that are not messages of the protocol, and the answers that ask for more.

The states of share partitions are kept by the share coordinator. An answer may therefore say which of them have to be
initialised or deleted; the outcome comes back as another request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kpybroker.machines.groups.share.state_topics import Partitions


class DescribeShareGroup(NamedTuple):
    """Describe one group. It is answered by a ``DescribedGroup`` of ShareGroupDescribe."""

    group_id: str


class InitializedPartitions(NamedTuple):
    """Ask for the partitions of a group whose states are initialised. It is answered by `Partitions`."""

    group_id: str


class StatesInitialized(NamedTuple):
    """The states of these partitions were initialised, or, if ``error_code`` is not NONE, could not be. It is answered
    by the error code."""

    group_id: str
    partitions: Partitions
    error_code: int


class OffsetsDeleted(NamedTuple):
    """The states of these topics, by id and name, were deleted. It is answered by the topics of the response."""

    group_id: str
    topics: Mapping[bytes, str]


class Initialize(NamedTuple):
    """An answer that leaves when states were initialised, with the offsets at which they begin."""

    response: Any
    state_epoch: int
    start_offsets: Mapping[bytes, Mapping[int, int]]
    """By topic id and partition; empty if nothing has to be initialised."""


class DeleteStates(NamedTuple):
    """An answer that leaves when states were deleted."""

    response: Any
    partitions: Mapping[bytes, Sequence[int]]
    """Empty if nothing has to be deleted."""
