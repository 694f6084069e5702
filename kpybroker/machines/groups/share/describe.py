"""ShareGroupDescribe (KIP-932): a share group as administrators see it."""

from functools import partial

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs import finding
from kpybroker.machines.groups.epochs.finding import find_group
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.share_group import SHARE, ShareGroup
from kpywire import error_codes
from kpywire.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

not_described = partial(finding.not_described, DescribedGroup, assignor_name="")
"""A group that is not described."""


def describe_share_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DescribeShareGroup`."""
    group_id = request.message.group_id
    try:
        group = find_group(shard, group_id, ShareGroup, SHARE)
    except RequestRefused as refused:
        decision.reply(request.ticket, not_described(group_id, refused.error_code, refused.text))
        return
    described = DescribedGroup(
        error_code=error_codes.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=decision.settings.share_assignor,
        members=[_member(group.members[member_id], decision) for member_id in group.ordered_members()],
    )
    decision.reply(request.ticket, described)


def _member(member: ShareMember, decision: GroupDecision) -> Member:
    known = decision.topics.by_id
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=list(indexes))
                for topic_id, indexes in member.assigned.items()
                if topic_id in known
            ]
        ),
    )
