"""A consumer group: its members, their target, its epochs, and what is asked of groups of every kind.

(Kafka: ``ConsumerGroup``.) Only records change it. Requests, timeouts and the answers to them are in other modules.

Invariant: all counts and inverse tables follow from the members, the target and the resolved regular expressions.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.groups.consumer.member import STABLE as MEMBER_STABLE
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.consumer.records import group_tombstones
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import ASSIGNING, RECONCILING, STABLE, EpochMembers, add_counts
from kpybroker.machines.groups.epochs.member import AWAY_EPOCH, NOTHING, Target
from kpybroker.machines.groups.facts import MembershipFacts
from kpybroker.machines.groups.group import EMPTY, Timers
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.timers import GroupTimer

CONSUMER: Final = "consumer"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches, as they were at one version of the metadata."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(EpochMembers):
    """The state of one group that the log holds."""

    __slots__ = (
        "_is_homogeneous",
        "assignors",
        "by_name",
        "by_regex",
        "checked_version",
        "has_partition_metadata",
        "partition_epochs",
        "regex_members",
        "regexes",
        "settled",
        "static_members",
        "target_owners",
    )

    members: dict[str, ConsumerMember]
    target: dict[str, Target]

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.has_partition_metadata = False
        """Whether there is a record of partition metadata, which Kafka wrote before 4.1."""
        self._is_homogeneous: bool | None = None
        self.settled: dict[int, int] = {}
        """How many members are at each epoch and stable there."""
        self.static_members: dict[str, str] = {}
        self.target_owners: dict[bytes, dict[int, str]] = {}
        """By topic id and partition: the member whose target it is."""
        self.partition_epochs: dict[bytes, dict[int, int]] = {}
        """By topic id and partition: the epoch of the member that has it or has to give it up."""
        self.assignors: dict[str, int] = {}
        """How many members ask for each server assignor."""
        self.by_name: dict[str, int] = {}
        """How many members subscribe to each topic by its name."""
        self.by_regex: dict[str, int] = {}
        """How many resolved regular expressions have each topic."""
        self.regex_members: dict[str, int] = {}
        """How many members subscribe by each regular expression."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.checked_version: int | None = None
        """The version of the topics whose hash was last compared with the group's. It is not in the log."""

    @property
    def state(self) -> str:
        """The state that ListGroups and ConsumerGroupDescribe show."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        return STABLE if self.settled.get(self.assignment_epoch) == len(self.members) else RECONCILING

    def rests_with(self, updated: ConsumerMember, target_epoch: int) -> bool:
        """Whether all members have their target of this epoch, with ``updated`` among them. A member that is away
        counts as well."""
        if updated.topic_regex and updated.topic_regex not in self.regexes:
            return False
        others, at_rest = len(self.members), self.settled.get(target_epoch, 0) + self.settled.get(AWAY_EPOCH, 0)
        before = self.members.get(updated.member_id) or self.static_member(updated.instance_id)
        if before is not None:
            others, at_rest = others - 1, at_rest - before.rests_at(target_epoch)
        return updated.rests_at(target_epoch) and at_rest >= others

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics. As in Kafka, a change of what a regular expression matches counts
        from the next change of a member on."""
        if self._is_homogeneous is None:
            self._is_homogeneous = MemberSubscriptions(self).is_homogeneous
        return self._is_homogeneous

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Target:
        """The target of a member. A static one takes over that of the member that had its instance id."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, "")
        target: Target = self.target.get(member_id, NOTHING)
        return target

    def subscriptions_with(self, old: ConsumerMember, new: ConsumerMember) -> "MemberSubscriptions":
        """The subscriptions of the group as they are with ``new`` in the place of ``old``."""
        subscriptions = MemberSubscriptions(self)
        if old.topic_names != new.topic_names:
            subscriptions.count_names(old, -1)
            subscriptions.count_names(new, 1)
        if old.topic_regex != new.topic_regex:
            subscriptions.count_regex(old, -1)
            subscriptions.count_regex(new, 1)
        if new.member_id not in self.members and new.instance_id not in self.static_members:
            subscriptions.members += 1
        return subscriptions

    def subscriptions_without(self, members: Iterable[ConsumerMember]) -> "MemberSubscriptions":
        """The subscriptions of the group as they are when these members have left."""
        subscriptions = MemberSubscriptions(self)
        for member in members:
            subscriptions.count_names(member, -1)
            subscriptions.count_regex(member, -1)
            subscriptions.members -= 1
        return subscriptions

    # How records change it

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        old = self.replace(member)
        self._is_homogeneous = None
        if old is not None:
            self._count(old, -1)
            self._release(old)
        self._count(member, 1)
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, indexes in partitions.items():
                self.partition_epochs.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member.member_epoch))
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._is_homogeneous = None
        self._count(old, -1)
        self._release(old)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)

    def set_target(self, member_id: str, target: Target | None) -> None:
        """Set or remove the target of a member."""
        for topic_id, indexes in self.target.pop(member_id, NOTHING).items():
            owners = self.target_owners.get(topic_id, NOTHING)
            for index in indexes:
                if owners.get(index) == member_id:
                    del owners[index]
            if not owners:
                self.target_owners.pop(topic_id, None)
        if target is not None:
            self.target[member_id] = target
            for topic_id, indexes in target.items():
                self.target_owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member_id))

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set or remove the topics that a regular expression matches."""
        if self._is_homogeneous is None:
            self._is_homogeneous = MemberSubscriptions(self).is_homogeneous
        old = self.regexes.pop(regex, None)
        if old is not None:
            add_counts(self.by_regex, old.topics, -1)
        if resolved is not None:
            self.regexes[regex] = resolved
            add_counts(self.by_regex, resolved.topics, 1)

    def _count(self, member: ConsumerMember, by: int) -> None:
        if member.state == MEMBER_STABLE:
            add_counts(self.settled, (member.member_epoch,), by)
        add_counts(self.by_name, member.topic_names, by)
        if member.topic_regex:
            add_counts(self.regex_members, (member.topic_regex,), by)
        if member.server_assignor is not None:
            add_counts(self.assignors, (member.server_assignor,), by)

    def _release(self, member: ConsumerMember) -> None:
        """Forget the partitions of a member, except those that another one has got since."""
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, indexes in partitions.items():
                epochs = self.partition_epochs.get(topic_id)
                if epochs is None:
                    continue
                for index in indexes:
                    if epochs.get(index) == member.member_epoch:
                        del epochs[index]
                if not epochs:
                    del self.partition_epochs[topic_id]

    # What is asked of groups of every kind

    def facts(self) -> MembershipFacts:
        return self.facts_in(self.state, CONSUMER)

    def sessions(self, timers: Timers, settings: GroupSettings) -> dict[str, tuple[GroupTimer, int]]:
        return self.sessions_of(timers, settings.consumer_session_timeout_ms)

    def is_classic(self, member: ConsumerMember) -> bool:
        return member.classic is not None

    def granted_epoch(self, member: ConsumerMember, topic: str, partition: int, decision: GroupDecision) -> int | None:
        known = decision.topics.by_name.get(topic)
        return None if known is None else member.epoch_of(known.id, partition)

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.by_name or topic in self.by_regex

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        return group_tombstones(group_id, self.ordered_members(), self.regexes)


class MemberSubscriptions:
    """The topics that the members of a group read, with one of them changed or some of them gone."""

    __slots__ = ("by_name", "by_regex", "members", "regex_members", "regexes")

    def __init__(self, group: ConsumerGroup) -> None:
        self.by_name = dict(group.by_name)
        self.by_regex = dict(group.by_regex)
        self.regex_members = dict(group.regex_members)
        self.regexes: Mapping[str, ResolvedRegex] = group.regexes
        self.members = len(group.members)

    @property
    def topics(self) -> set[str]:
        """The names of all topics that somebody reads."""
        return {*self.by_name, *self.by_regex}

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        if not self.regex_members:
            return all(self.by_name.get(topic) == self.members for topic in self.topics)
        if next(iter(self.regex_members.values())) != self.members:
            return False
        return not self.by_name and all(count == 1 for count in self.by_regex.values())

    def count_names(self, member: ConsumerMember, by: int) -> None:
        """Count the names of a member in or out."""
        add_counts(self.by_name, member.topic_names, by)

    def count_regex(self, member: ConsumerMember, by: int) -> None:
        """Count the regular expression of a member in or out. The last subscriber takes its topics along."""
        regex = member.topic_regex
        if not regex:
            return
        add_counts(self.regex_members, (regex,), by)
        if by < 0 and regex not in self.regex_members and regex in self.regexes:
            add_counts(self.by_regex, self.regexes[regex].topics, -1)

    def resolve(self, regex: str, topics: frozenset[str]) -> None:
        """Replace the topics of a regular expression."""
        if regex in self.regexes:
            add_counts(self.by_regex, self.regexes[regex].topics, -1)
        add_counts(self.by_regex, topics, 1)


def is_away(member: ConsumerMember) -> bool:
    """Whether a static member has left and will come back."""
    return member.member_epoch == AWAY_EPOCH
