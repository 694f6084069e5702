"""The inputs of the share coordinator, and what it asks of the log: requests, the passing of time, pruning.

``now_ms`` of `decide` is monotonic. ``timestamp_ms`` of an event is the wall clock, which snapshots contain.
"""

from typing import Any, Final, NamedTuple

from kpybroker.machines.share_coordinator.key import SharePartitionKey

TO_OWN_LOG: Final = -1
"""The ``node_id`` of a send for the log below this coordinator."""


class StateRequest(NamedTuple):
    """A request about one share partition, answered by the matching ``PartitionResult``.

    ``part`` is the ``PartitionData`` of kpywire's InitializeShareGroupState, ReadShareGroupState,
    WriteShareGroupState, DeleteShareGroupState or ReadShareGroupStateSummary: its class says what is asked.
    """

    ticket: Any
    key: SharePartitionKey
    part: Any
    timestamp_ms: int


class ShareTimersDue(NamedTuple):
    """The deadline that the coordinator named has come."""

    timestamp_ms: int


class Prune(NamedTuple):
    """``share.coordinator.state.topic.prune.interval.ms`` has passed: the log can be cut below the snapshots."""

    timestamp_ms: int


class DeleteBelow(NamedTuple):
    """The message of a send: the log's records below this offset are not needed."""

    offset: int
