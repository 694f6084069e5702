"""A group of the classic protocol (Kafka: ``ClassicGroup``): its members, their votes, its generation and state.

The structure only: who joins, syncs and leaves, and what they are told, is in the modules of the requests and in
`kpybroker.groups.rebalance`.

Invariant: ``awaiting_joins`` counts the members that wait for a join, ``supporters`` how many members speak a protocol,
and ``static_members`` names every member with an instance id.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any

from kpybroker.groups.member import Member, Protocols
from kpybroker.groups.subscription import subscribed_topics
from kpybroker.groups.timers import Timer
from kpywire import error_codes

CONSUMER_PROTOCOL_TYPE = "consumer"


def choose(candidates: Iterable[str]) -> str:
    """One of several that are as good as each other, where Kafka takes what its hash tables say: the first."""
    return next(iter(candidates))


class State(Enum):
    """The states, by the names that DescribeGroups and ListGroups give them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """Members of one group. What the log holds of them is ``Group.recorded``; all else here dies with the machine."""

    __slots__ = (
        "_subscribed_topics",
        "_subscriptions",
        "awaiting_joins",
        "decided_at_ms",
        "generation_id",
        "group_id",
        "initial_delay",
        "join_timer",
        "leader_id",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "supporters",
        "sync_timer",
    )

    def __init__(self, group_id: str, state_timestamp_ms: int) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, Timer] = {}
        self.pending_sync: set[str] = set()
        self.awaiting_joins = 0
        self.supporters: dict[str, int] = {}
        self.new_member_added = False
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.initial_delay: tuple[int, int] | None = None
        """(milliseconds the current wait takes, milliseconds it may still be prolonged by) of a first rebalance."""
        self.decided_at_ms = state_timestamp_ms
        """The wall clock of the decision whose record is applied next."""
        self._subscriptions: list[bytes] | None = None
        self._subscribed_topics: frozenset[str] | None = None

    def add(self, member: Member) -> None:
        """Take a member in. It speaks the group's protocol type and one of its protocols."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.awaiting_join is not None:
            self.awaiting_joins += 1

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or a pending one. A leader's successor is the oldest of the others."""
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

    def replace(self, old_member_id: str, member: Member) -> None:
        """A static member came back under a new id: it takes the place of the old one."""
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

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """A member rejoined, perhaps with other protocols and timeouts."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can be in the group: all others speak one of them."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return any(self.supporters.get(name, 0) == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The protocol with most votes: each member votes for the first of its own that all members speak."""
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
        """All have joined: the next generation, without assignments yet; an empty one has no protocol."""
        self.generation_id += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.enter(State.COMPLETING_REBALANCE, timestamp_ms)
        else:
            self.protocol_name = None
            self.enter(State.EMPTY, timestamp_ms)
        self.remember_subscriptions()

    def elect_leader(self) -> bool:
        """Make sure that the leader is one who joined. False if nobody did."""
        if self.leader_id is not None and self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = [member.member_id for member in self.members.values() if member.awaiting_join is not None]
        if not joined:
            return False
        self.leader_id = choose(joined)
        return True

    def enter(self, state: State, timestamp_ms: int) -> None:
        """Change the state, at this wall clock."""
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = timestamp_ms

    def check_member(self, member_id: str, group_instance_id: str | None) -> int:
        """NONE, or what is wrong: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return error_codes.UNKNOWN_MEMBER_ID
            if known != member_id:
                return error_codes.FENCED_INSTANCE_ID
        return error_codes.NONE if member_id in self.members else error_codes.UNKNOWN_MEMBER_ID

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody is missing for the next generation, also nobody who was only given an id so far."""
        return len(self.members) == self.awaiting_joins and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long others wait for the slowest member."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether subscriptions and assignments are those of consumers, not of Connect, a registry or others."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def remember_subscriptions(self) -> None:
        """What the members subscribe in this generation. It is taken apart when somebody asks."""
        self._subscriptions = self._subscribed_topics = None
        if self.uses_consumer_protocol:
            protocol_name = self.protocol_name
            self._subscriptions = [member.metadata(protocol_name) for member in self.members.values()]

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members of this generation read; None if that is not known."""
        if not self.uses_consumer_protocol:
            return None
        if self._subscriptions is not None:
            self._subscribed_topics = subscribed_topics(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member of this generation reads the topic, or may: consumers whose subscriptions are not known."""
        topics = self.subscribed_topics
        return self.uses_consumer_protocol if topics is None else topic in topics

    def take_record(self, value: Any) -> None:
        """The record of a leader's assignment is in the log: now it counts."""
        if self.state is State.COMPLETING_REBALANCE and value.generation == self.generation_id:
            for recorded in value.members:
                member = self.members[recorded.member_id]
                member.assignment = recorded.assignment
                member.awaiting_sync = None
            self.pending_sync.discard(self.leader_id or "")
            self.enter(State.STABLE, self.decided_at_ms)

    def _count(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            supporters = self.supporters.get(name, 0) + by
            if supporters:
                self.supporters[name] = supporters
            else:
                del self.supporters[name]
