"""A group of the classic protocol (Kafka: ``ClassicGroup``): its members, their votes, its generation and state.

This module is the structure, and what is asked of groups of every kind. Joining, syncing and leaving, and the answers
to them, are in the modules of the requests and in `kpybroker.machines.groups.classic.rebalance`.

Invariant: ``awaiting_joins`` counts the members that wait for a join, ``supporters`` how many members speak a protocol,
and ``static_members`` names every member with an instance id.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from kpybroker.machines.groups.classic.member import ClassicGroupMember, Protocols
from kpybroker.machines.groups.classic.subscription import subscribed_topics
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.facts import OWES_JOIN, OWES_SYNC, WAITS, MemberFacts, MembershipFacts
from kpybroker.machines.groups.group import CLASSIC_TYPE, SINCE_COMMIT, Group, Membership, Timers
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes
from kpywire.group_records.group_metadata import GroupMetadataValue

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def choose(candidates: Iterable[str]) -> str:
    """Choose one of several candidates that are equally good: the first. Kafka takes the one its hash tables yield
    first."""
    return next(iter(candidates))


class ClassicGroupState(Enum):
    """The states of a group, by the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup(Membership):
    """The members of one group that is awake. ``recorded`` is the part that the log holds; the rest is lost with the
    machine."""

    __slots__ = (
        "_subscribed_topics",
        "_subscriptions",
        "awaiting_joins",
        "decided_at_ms",
        "generation_id",
        "group_id",
        "initial_delay",
        "is_new",
        "join_timer",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "recorded",
        "state",
        "state_timestamp_ms",
        "static_members",
        "supporters",
        "sync_timer",
    )

    def __init__(self, group_id: str, state_timestamp_ms: int) -> None:
        self.group_id = group_id
        self.recorded: GroupMetadataValue | None = None
        self.is_new = False
        """Whether it was made for a member that joins, and its first record is not in the log yet."""
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, GroupTimer] = {}
        self.pending_sync: set[str] = set()
        self.awaiting_joins = 0
        self.supporters: dict[str, int] = {}
        self.new_member_added = False
        self.join_timer: GroupTimer | None = None
        self.sync_timer: GroupTimer | None = None
        self.initial_delay: tuple[int, int] | None = None
        """(length of the current wait, time by which it may still be extended) of a first rebalance, in
        milliseconds."""
        self.decided_at_ms = state_timestamp_ms
        """The wall clock time of the decision whose record is applied next."""
        self._subscriptions: list[bytes] | None = None
        self._subscribed_topics: frozenset[str] | None = None

    # What is asked of groups of every kind

    @property
    def is_recorded(self) -> bool:
        return self.recorded is not None

    @property
    def size(self) -> int:
        return 0 if self.recorded is None else len(self.recorded.members)

    def facts(self) -> MembershipFacts:
        return MembershipFacts(
            CLASSIC_TYPE, self.state.value, self.protocol_type or "", self.generation_id, len(self.members),
            self.protocol_name or "",
        )  # fmt: skip

    def member_facts(self) -> list[MemberFacts]:
        return [
            MemberFacts(
                each.member_id, each.group_instance_id, each.client_id, each.client_host, self._owed_by(each),
                assignment=each.assignment,
            )
            for each in self.members.values()
        ]  # fmt: skip

    def _owed_by(self, member: ClassicGroupMember) -> str:
        """The request of a member that the group waits for."""
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            return WAITS if member.awaiting_join is not None else OWES_JOIN
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            return WAITS if member.awaiting_sync is not None else OWES_SYNC
        return ""

    def client_ids(self) -> Iterable[str]:
        return [each.client_id for each in self.members.values()]

    def sessions(self, _timers: Timers, _settings: GroupSettings) -> dict[str, tuple[GroupTimer, int]]:
        return {each: (found.session, found.session_timeout_ms) for each, found in self.members.items()}

    def check_commit(self, _group: Group, request: GroupRequest, generation_id: int, decision: GroupDecision) -> int:
        """Check a member that commits (Kafka: ``validateOffsetCommit``). Its commit renews its session."""
        message = request.message
        if generation_id < 0 and self.state is ClassicGroupState.EMPTY:
            return error_codes.NONE
        if generation_id < 0 and not message.member_id and message.group_instance_id is None:
            return error_codes.UNKNOWN_MEMBER_ID
        error = self.check_member(message.member_id, message.group_instance_id)
        if error:
            return error
        if generation_id != self.generation_id:
            return error_codes.ILLEGAL_GENERATION
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            return error_codes.REBALANCE_IN_PROGRESS
        member = self.members[message.member_id]
        decision.set_timer(member.session, member.session_timeout_ms)
        return error_codes.NONE

    def check_transactional_commit(
        self, _group: Group, request: GroupRequest, generation_id: int, _decision: GroupDecision
    ) -> int:
        """Check the member if the producer names it (KIP-447). A rebalance does not reject the commit."""
        message = request.message
        if generation_id < 0 and (
            self.state is ClassicGroupState.EMPTY or (not message.member_id and message.group_instance_id is None)
        ):
            return error_codes.NONE
        error = self.check_member(message.member_id, message.group_instance_id)
        if error:
            return error
        return error_codes.NONE if generation_id == self.generation_id else error_codes.ILLEGAL_GENERATION

    def check_deletion(self, _group: Group, _decision: GroupDecision) -> int:
        return error_codes.NONE if self.state is ClassicGroupState.EMPTY else error_codes.NON_EMPTY_GROUP

    def check_offset_deletion(self, group: Group, decision: GroupDecision) -> int:
        return error_codes.NONE if self.uses_consumer_protocol else self.check_deletion(group, decision)

    def offsets_expire_since(self, _group: Group, _decision: GroupDecision) -> int | None:
        """The begin of the retention (Kafka: ``offsetExpirationCondition``)."""
        if self.protocol_type is None:
            return SINCE_COMMIT
        if self.state is ClassicGroupState.EMPTY:
            return self.state_timestamp_ms
        return SINCE_COMMIT if self.state is ClassicGroupState.STABLE and self.subscribed_topics is not None else None

    @property
    def may_expire(self) -> bool:
        return self.state is ClassicGroupState.EMPTY and not self.pending_members

    def gives_way(self, _decision: GroupDecision) -> bool:
        return self.state is ClassicGroupState.EMPTY

    # Members

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member. It speaks the group's protocol type and one of its protocols."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.awaiting_join is not None:
            self.awaiting_joins += 1

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Forget a member or a pending member id. If the leader leaves, the oldest remaining member succeeds it."""
        self.pending_members.pop(member_id, None)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.awaiting_join is not None:
                self.awaiting_joins -= 1
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = choose(self.members) if self.members else None
        return member

    def replace(self, old_member_id: str, member: ClassicGroupMember) -> None:
        """Put a static member that came back under a new id in the place of the old one."""
        old = self.members.pop(old_member_id)
        self._count(old.protocols, -1)
        if old.awaiting_join is not None:
            self.awaiting_joins -= 1
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(member.member_id)
        if self.leader_id == old_member_id:
            self.leader_id = member.member_id
        self.add(member)

    def update(
        self, member: ClassicGroupMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Update a member that rejoined, perhaps with other protocols and timeouts."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can be in the group: all others speak one of them."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self.supporters.get(name, 0) == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Select the protocol with the most votes. Each member votes for the first of its protocols that all members
        speak."""
        candidates = {name for name, supporters in self.supporters.items() if supporters == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name, _ in member.protocols:
                if name in candidates:
                    votes[name] = votes.get(name, 0) + 1
                    break
        most = max(votes.values())
        return choose([name for name, count in votes.items() if count == most])

    def begin_generation(self, timestamp_ms: int) -> None:
        """Begin the next generation, since all have joined. It has no assignments yet; an empty one has no protocol."""
        self.generation_id += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.enter(ClassicGroupState.COMPLETING_REBALANCE, timestamp_ms)
        else:
            self.protocol_name = None
            self.enter(ClassicGroupState.EMPTY, timestamp_ms)
        self.remember_subscriptions()

    def elect_leader(self) -> bool:
        """Make sure that the leader is a member that joined. False if no member joined."""
        if self.leader_id is not None and self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = [member.member_id for member in self.members.values() if member.awaiting_join is not None]
        if not joined:
            return False
        self.leader_id = choose(joined)
        return True

    def enter(self, state: ClassicGroupState, timestamp_ms: int) -> None:
        """Change the state, at this wall clock."""
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = timestamp_ms

    def check_member(self, member_id: str, group_instance_id: str | None) -> int:
        """Check a member's identity: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return error_codes.UNKNOWN_MEMBER_ID
            if known != member_id:
                return error_codes.FENCED_INSTANCE_ID
        return error_codes.NONE if member_id in self.members else error_codes.UNKNOWN_MEMBER_ID

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have joined the next generation, and every member id that was given out is in use."""
        return len(self.members) == self.awaiting_joins and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members: how long the others wait for the slowest member."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether subscriptions and assignments are those of consumers, not of Connect, a registry or others."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def remember_subscriptions(self) -> None:
        """Keep the subscriptions of this generation. They are decoded when `subscribed_topics` is first read."""
        self._subscriptions = self._subscribed_topics = None
        if self.uses_consumer_protocol:
            protocol_name = self.protocol_name
            self._subscriptions = [member.metadata(protocol_name) for member in self.members.values()]

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members of this generation read; None if they are not known."""
        if not self.uses_consumer_protocol:
            return None
        if self._subscriptions is not None:
            self._subscribed_topics = subscribed_topics(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member of this generation reads the topic. True for consumers whose subscriptions are not known."""
        topics = self.subscribed_topics
        return self.uses_consumer_protocol if topics is None else topic in topics

    def take_record(self, value: GroupMetadataValue) -> None:
        """Take over a record that is in the log now. If a leader sent it, its assignments are valid now."""
        self.recorded = value
        self.is_new = False
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and value.generation == self.generation_id:
            for recorded in value.members:
                member = self.members[recorded.member_id]
                member.assignment = recorded.assignment
                member.awaiting_sync = None
            self.pending_sync.discard(self.leader_id or "")
            self.enter(ClassicGroupState.STABLE, self.decided_at_ms)

    def _count(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            supporters = self.supporters.get(name, 0) + by
            if supporters:
                self.supporters[name] = supporters
            else:
                del self.supporters[name]
