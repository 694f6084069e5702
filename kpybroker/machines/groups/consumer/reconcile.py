"""The next step of a member on its way to its target (Kafka: ``CurrentAssignmentBuilder``).

A member first gives up the partitions that are no longer in its target. Then it gets the others, as far as no other
member still has them. Each heartbeat of the member takes one step.

Invariant: a partition is assigned to one member only, and never to one while another has to give it up.
"""

from collections.abc import Iterable
from typing import Any

from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpybroker.machines.groups.consumer.member import STABLE, UNKNOWN, UNRELEASED, UNREVOKED, ConsumerMember, owns_any
from kpybroker.machines.groups.epochs.member import NOTHING, Target
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.metadata.topic_view import TopicView
from kpywire import error_codes


class MemberStep:
    """One step of a member towards ``target``, which is that of ``target_epoch``."""

    __slots__ = ("group", "member", "owned", "subscribed", "target", "target_epoch")

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Target,
        target_epoch: int,
        owned: Iterable[Any] | None,
        topics: TopicView,
    ) -> None:
        """``owned`` is what the member says it has; None if it says nothing."""
        self.group = group
        self.member = member
        self.target = target
        self.target_epoch = target_epoch
        self.owned = owned
        self.subscribed = subscribed_ids(group, member, topics)

    def take(self, *, subscription_changed: bool) -> ConsumerMember:
        """The member after the step."""
        member = self.member
        if member.state == STABLE:
            if member.member_epoch != self.target_epoch:
                return self._compute(member.member_epoch)
            return self._shrink() if subscription_changed else member
        if member.state == UNREVOKED:
            if not owns_any(self.owned, member.pending_revocation):
                return self._compute(member.member_epoch)
            return self._shrink() if subscription_changed else member
        if member.state == UNRELEASED:
            return self._compute(member.member_epoch)
        if member.state == UNKNOWN:
            if self.owned is None or list(self.owned):
                text = "The consumer group member is in a unknown state."
                text += " The member must abandon all its partitions and rejoin."
                raise RequestRefused(error_codes.FENCED_MEMBER_EPOCH, text)
            return self._compute(self.target_epoch)
        return member

    def _shrink(self) -> ConsumerMember:
        """The member without the topics that it no longer subscribes to."""
        member = self.member
        kept = {topic_id: each for topic_id, each in member.assigned.items() if topic_id in self.subscribed}
        reads_nothing = not subscribed_names(self.group, member) and not member.pending_revocation
        if len(kept) == len(member.assigned) and not (reads_nothing and member.assigned is not NOTHING):
            return member  # Kafka writes a record for each change of a member that had one and reads nothing
        pending: dict[bytes, Any] = dict(member.pending_revocation)
        for topic_id, each in member.assigned.items():
            if topic_id not in kept:
                pending[topic_id] = {**pending.get(topic_id, NOTHING), **each}
        if pending and owns_any(self.owned, pending):
            return member.moved_to(member.member_epoch, state=UNREVOKED, assigned=kept, pending_revocation=pending)
        return member.moved_to(member.member_epoch, assigned=kept)

    def _compute(self, member_epoch: int) -> ConsumerMember:
        member = self.member
        kept: dict[bytes, dict[int, int]] = {}
        revoked: dict[bytes, dict[int, int]] = {}
        new: dict[bytes, dict[int, int]] = {}
        waits = False
        for topic_id in dict.fromkeys((*self.target, *member.assigned)):
            target = self.target.get(topic_id, ()) if topic_id in self.subscribed else ()
            wanted = dict.fromkeys(target, self.target_epoch)
            assigned = member.assigned.get(topic_id, NOTHING)
            _put(kept, topic_id, {index: epoch for index, epoch in assigned.items() if index in wanted})
            _put(revoked, topic_id, {index: epoch for index, epoch in assigned.items() if index not in wanted})
            missing = {index: epoch for index, epoch in wanted.items() if index not in assigned}
            free = {index: epoch for index, epoch in missing.items() if not self._is_held(topic_id, index)}
            waits = waits or len(free) < len(missing)
            _put(new, topic_id, free)
        if revoked and owns_any(self.owned, revoked):
            return member.moved_to(member_epoch, state=UNREVOKED, assigned=kept, pending_revocation=revoked)
        for topic_id, each in new.items():
            kept[topic_id] = {**kept.get(topic_id, NOTHING), **each}
        state = UNRELEASED if waits else STABLE
        return member.moved_to(self.target_epoch, state=state, assigned=kept, pending_revocation=NOTHING)

    def _is_held(self, topic_id: bytes, index: int) -> bool:
        """Whether another member still has the partition."""
        if index not in self.group.partition_epochs.get(topic_id, NOTHING):
            return False
        return index not in self.member.pending_revocation.get(topic_id, NOTHING)


def subscribed_names(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    """The topics that a member subscribes to, by name and by a regular expression that is resolved."""
    resolved = group.regexes.get(member.topic_regex) if member.topic_regex else None
    return member.topic_names if resolved is None else member.topic_names | resolved.topics


def subscribed_ids(group: ConsumerGroup, member: ConsumerMember, topics: TopicView) -> dict[bytes, int]:
    """The ids of the existing topics that a member subscribes to, with the numbers of their partitions."""
    known = (topics.by_name.get(name) for name in subscribed_names(group, member))
    return {topic.id: len(topic.partitions) for topic in known if topic is not None}


def is_waiting(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a member waits for partitions of its target that others have not released."""
    if member.state != UNRELEASED:
        return False
    return any(
        index in group.partition_epochs.get(topic_id, NOTHING) and index not in member.assigned.get(topic_id, NOTHING)
        for topic_id, indexes in group.target.get(member.member_id, NOTHING).items()
        for index in indexes
    )


def _put(partitions: dict[bytes, dict[int, int]], topic_id: bytes, each: dict[int, int]) -> None:
    if each:
        partitions[topic_id] = each
