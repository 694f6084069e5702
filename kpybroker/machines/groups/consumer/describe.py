"""ConsumerGroupDescribe (KIP-848, KIP-1099): a consumer group as administrators see it."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kpybroker.machines.groups.consumer.consumer_group import CONSUMER, ConsumerGroup
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs import finding
from kpybroker.machines.groups.epochs.finding import find_group
from kpybroker.machines.groups.epochs.java_order import in_timeline_order
from kpybroker.machines.groups.epochs.member import NOTHING
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpywire import error_codes
from kpywire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


not_described = partial(finding.not_described, DescribedGroup, assignor_name="")
"""A group that is not described."""


class DescribeConsumerGroup(NamedTuple):
    """Describe one consumer group. It is answered by a ``DescribedGroup`` of ConsumerGroupDescribe."""

    group_id: str


def describe_consumer_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DescribeConsumerGroup`."""
    message: DescribeConsumerGroup = request.message
    try:
        described = _describe(find_group(shard, message.group_id, ConsumerGroup, CONSUMER), decision)
    except RequestRefused as refused:
        described = not_described(message.group_id, refused.error_code, refused.text)
    decision.reply(request.ticket, described)


def _describe(group: ConsumerGroup, decision: GroupDecision) -> DescribedGroup:
    return DescribedGroup(
        error_code=error_codes.NONE,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=_most_wanted(group.assignors) or decision.settings.consumer_assignors[0],
        members=[_member(group, group.members[member_id], decision) for member_id in group.ordered_members()],
    )


def _most_wanted(votes: Mapping[str, int]) -> str | None:
    return max(in_timeline_order(votes, len(votes)), key=lambda name: votes[name], default=None)


def _member(group: ConsumerGroup, member: ConsumerMember, decision: GroupDecision) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(decision, member.assigned, member.pending_revocation),
        target_assignment=_assignment(decision, group.target.get(member.member_id, NOTHING)),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(decision: GroupDecision, *parts: Mapping[bytes, Iterable[int]]) -> Assignment:
    """The partitions of topics that exist."""
    merged: dict[bytes, list[int]] = {}
    for part in parts:
        for topic_id, indexes in part.items():
            merged.setdefault(topic_id, []).extend(indexes)
    known = decision.topics.by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=indexes)
            for topic_id, indexes in merged.items()
            if topic_id in known
        ]
    )
