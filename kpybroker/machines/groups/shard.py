"""The state of one partition of ``__consumer_offsets``. How records change it is said by the subjects: ``replay.py`` of
`kpybroker.machines.groups.offsets` and of each kind.

Invariant: what a record changes here depends on the records before it alone, so a replay ends where the live shard is.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from kpybroker.machines.coordination.sweeps import Sweeps
from kpybroker.machines.groups.beats import Rest
from kpybroker.machines.groups.counts import Counts
from kpybroker.machines.groups.group import Group, Membership
from kpybroker.machines.groups.stories import Stories
from kpybroker.machines.groups.timers import GroupTimer, GroupTimers

_Kind = TypeVar("_Kind", bound=Membership)
_Notes = TypeVar("_Notes")


class GroupShard:
    """The groups of one partition, their timers and the sweeps that are under way."""

    __slots__ = (
        "_notes",
        "counts",
        "downgrade",
        "groups",
        "loaded_ms",
        "member_timers",
        "members_of_node",
        "next_offset",
        "open_transactions",
        "resting",
        "stories",
        "sweeps",
        "timers",
        "topics",
    )

    def __init__(self, downgrade: Callable[..., bool], counts: Counts, members_of_node: Callable[[], int]) -> None:
        """``downgrade(shard, group, leaving ids, decision)`` turns a consumer group into a classic one, if it can.
        ``counts`` and ``members_of_node``, which counts members, are of all shards of a node."""
        self.downgrade = downgrade
        self.counts = counts
        self.members_of_node = members_of_node
        self.groups: dict[str, Group] = {}
        self.topics: set[str] = set()
        """The topics of all offsets that are or were committed here."""
        self.open_transactions: dict[int, set[tuple[str, str, int]]] = {}
        """The pending offsets of each producer id as (group id, topic, partition)."""
        self.timers = GroupTimers()
        self.member_timers: dict[tuple[str, str, str], GroupTimer] = {}
        """The timers of members of consumer groups: by purpose, group id and member id."""
        self.resting: dict[str, dict[str, Rest]] = {}
        """The members at rest of each group, by their ids."""
        self._notes: dict[type, Any] = {}
        self.stories = Stories()
        """The last events of each group, for people."""
        self.sweeps = Sweeps()
        self.next_offset = 0
        self.loaded_ms = 0

    def notes(self, kept_as: type[_Notes]) -> _Notes:
        """The notes of one kind of groups on this shard, which are in no record: the one object of this class."""
        found: _Notes | None = self._notes.get(kept_as)
        if found is None:
            found = self._notes[kept_as] = kept_as()
        return found

    def find(self, group_id: str, of_kind: type[_Kind]) -> _Kind | None:
        """The members of a group, if there is one of this kind."""
        group = self.groups.get(group_id)
        members = None if group is None else group.membership
        return members if isinstance(members, of_kind) else None

    def rouse(self, group_id: str) -> None:
        """Note that something has changed in a group: no member of it is at rest."""
        self.resting.pop(group_id, None)
