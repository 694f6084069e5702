"""The last events in the life of each group, for people: who joined, who was missing, who was slow. Pure.

They are in no record, so a restart forgets them. Nothing is decided by them.
"""

from collections import deque
from collections.abc import Sized
from typing import Final, NamedTuple

MOST_GROUPS: Final = 1_000
"""The groups of one shard whose events are kept: those that were heard of last."""
MOST_EVENTS: Final = 60
LONGEST_CHARS: Final = 200

JOINED, REJOINED, LEFT = "joined", "rejoined", "left"
SILENT, LATE_JOIN, LATE_SYNC, LATE_REVOKE = "silent", "late to join", "late to sync", "late to give up partitions"
FENCED = "fenced"
REBALANCE, GENERATION, ASSIGNED = "rebalance", "generation", "assigned"


class Event(NamedTuple):
    """One event. The members' fields are empty for an event of the whole group."""

    timestamp_ms: int
    what: str
    member_id: str = ""
    client_id: str = ""
    client_host: str = ""
    detail: str = ""


def assigned_to(epoch: int, members: Sized) -> str:
    """The detail of a new assignment."""
    return f"{epoch}, members: {len(members)}"


class Stories:
    """The events of the groups of one shard."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[str, deque[Event]] = {}

    def of(self, group_id: str) -> list[Event]:
        """The events of a group, the oldest first."""
        return list(self._by_group.get(group_id, ()))

    def tell(self, group_id: str, event: Event) -> None:
        """Note an event."""
        events = self._by_group.pop(group_id, None)
        if events is None:
            events = deque(maxlen=MOST_EVENTS)
            if len(self._by_group) >= MOST_GROUPS:
                del self._by_group[next(iter(self._by_group))]
        self._by_group[group_id] = events  # the last one that was heard of
        events.append(event)
