"""Which coordinator shard lives on which led partition: load it, feed it, drop it (Kafka: ``CoordinatorRuntime``).

A shard is one pure machine on one partition of an internal topic. It is loaded, in slices, when this node comes to
lead the partition, takes inputs through its journal, and is dropped when the leadership or the log directory is lost.
"""

from collections.abc import Callable
from typing import Any, Protocol


class Groups(Protocol):
    """The group coordinator as handlers see it."""

    def submit(self, group_id: str, event: Callable[[Any], Any], timeout_ms: int | None = None) -> Any:
        """Feed an event to the shard that keeps the group.

        ``event`` makes it of the ticket it is given. The `Pending` that comes back resolves to the answer's message,
        or to the bare error code of a refusal: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, UNKNOWN_SERVER_ERROR.
        """
