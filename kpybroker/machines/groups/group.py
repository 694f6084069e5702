"""A group as its shard keeps it: its offsets, and its members by the rules of its kind (Kafka: ``Group``)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.facts import MemberFacts, MembershipFacts
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes
from kpywire.group_records.group_metadata import GroupMetadataKey

Timers = Mapping[tuple[str, str, str], GroupTimer]
"""Timers by purpose, group id and member id."""

SINCE_COMMIT: Final = -1
"""The retention of an offset begins with its commit."""

CLASSIC_TYPE: Final = "classic"
EMPTY: Final = "Empty"
DEAD: Final = "Dead"


class Membership:
    """The members of one group. Each kind of group has a subclass, which answers what is asked of groups of all kinds.

    This class itself is a group without members and without a record, which only keeps offsets. Kafka calls it a simple
    group, and counts it among the classic ones.
    """

    __slots__ = ()

    @property
    def is_recorded(self) -> bool:
        """Whether records in the log hold it. If not, it is lost with the machine."""
        return False

    @property
    def size(self) -> int:
        """The amount of work to look through it."""
        return 0

    @property
    def keeps_offsets(self) -> bool:
        """Whether its members commit offsets here."""
        return True

    def facts(self) -> MembershipFacts:
        """The facts about the group as a whole."""
        return MembershipFacts(CLASSIC_TYPE, EMPTY)

    def member_facts(self) -> list[MemberFacts]:
        """The facts about each member."""
        return []

    def client_ids(self) -> Iterable[str]:
        """The client ids of its members."""
        return ()

    def sessions(self, _timers: Timers, _settings: GroupSettings) -> dict[str, tuple[GroupTimer, int]]:
        """The timers of the members' sessions, with their timeouts in ms. ``_timers`` are those of the shard."""
        return {}

    def check_commit(
        self, _group: "Group", _request: GroupRequest, generation_id: int, _decision: GroupDecision
    ) -> int:
        """Whether the sender of an OffsetCommit may commit: an error code or NONE. A negative generation is that of a
        client which commits by hand."""
        return error_codes.NONE if generation_id < 0 else error_codes.UNKNOWN_MEMBER_ID

    def check_transactional_commit(
        self, _group: "Group", _request: GroupRequest, generation_id: int, _decision: GroupDecision
    ) -> int:
        """Whether the sender of a TxnOffsetCommit may commit (KIP-447): an error code or NONE."""
        return error_codes.NONE if generation_id < 0 else error_codes.UNKNOWN_MEMBER_ID

    def check_fetch(self, _message: Any) -> int:
        """Whether the sender of an OffsetFetch gets offsets: an error code or NONE."""
        return error_codes.NONE

    def begin_deletion(self, _request: GroupRequest, _decision: GroupDecision) -> Any | None:
        """An answer that asks for more before the group can be deleted; None if nothing else has to be deleted."""
        return None

    def check_deletion(self, _group: "Group", _decision: GroupDecision) -> int:
        """Whether the group may be deleted: NON_EMPTY_GROUP or NONE."""
        return error_codes.NONE

    def check_offset_deletion(self, _group: "Group", _decision: GroupDecision) -> int:
        """Whether offsets of topics that nobody reads may be deleted: NON_EMPTY_GROUP or NONE."""
        return error_codes.NONE

    def is_subscribed(self, _topic: str) -> bool:
        """Whether a member reads the topic."""
        return False

    def offsets_expire_since(self, _group: "Group", _decision: GroupDecision) -> int | None:
        """The begin of the retention of all offsets, or `SINCE_COMMIT`; None if no offset expires now (KIP-211)."""
        return SINCE_COMMIT

    @property
    def may_expire(self) -> bool:
        """Whether the group is deleted when its last offset has expired."""
        return True

    def gives_way(self, _decision: GroupDecision) -> bool:
        """Whether a member of another kind may join: then this membership is replaced (KIP-848)."""
        return True

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        """The tombstones that remove it from the log. Offsets have records of their own."""
        return [GroupRecord(GroupMetadataKey(group=group_id))]


NO_MEMBERS: Final = Membership()
"""The membership of every group that only keeps offsets."""


class Group:
    """One group id. ``offsets`` and ``pending`` are durable: only records change them."""

    __slots__ = ("group_id", "membership", "offsets", "pending", "successor")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets: dict[str, dict[int, bytes]] = {}
        """The committed offsets by topic and partition, packed (`kpybroker.machines.groups.offsets.committed`)."""
        self.pending: dict[tuple[str, int], dict[int, bytes]] = {}
        """The offsets that open transactions will commit: by (topic, partition), then by producer id."""
        self.membership: Membership = NO_MEMBERS
        self.successor: Membership | None = None
        """The membership of another kind that follows when the tombstones of this one are in the log."""

    @property
    def size(self) -> int:
        """The amount of work to look through it."""
        return 1 + self.membership.size + sum(map(len, self.offsets.values()))

    @property
    def is_unknown(self) -> bool:
        """Whether no durable state of it is left."""
        return not (self.offsets or self.pending or self.membership.is_recorded)
