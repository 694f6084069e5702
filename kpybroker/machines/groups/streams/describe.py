"""StreamsGroupDescribe (KIP-1071): a streams group as administrators see it."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs import finding
from kpybroker.machines.groups.epochs.finding import find_group
from kpybroker.machines.groups.epochs.java_order import string_key
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.streams.configured import ConfiguredSubtopology, InternalTopic
from kpybroker.machines.groups.streams.events import DescribeStreamsGroup
from kpybroker.machines.groups.streams.member import StreamsMember
from kpybroker.machines.groups.streams.streams_group import STREAMS, StreamsGroup
from kpybroker.machines.groups.streams.tasks import TargetTasks, TaskOffsets
from kpywire import error_codes
from kpywire.group_records import streams_group_topology as recorded
from kpywire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

NOT_STORED: Final = 1
FAILED: Final = 2
AVAILABLE: Final = 3
"""The statuses of the description of a topology: none is kept, it could not be had, here it is."""


not_described = partial(finding.not_described, DescribedGroup)
"""A group that is not described."""


def describe_streams_group(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a `DescribeStreamsGroup`."""
    message: DescribeStreamsGroup = request.message
    group_id = message.group_id
    try:
        group = find_group(shard, group_id, StreamsGroup, STREAMS)
    except RequestRefused as refused:
        decision.reply(request.ticket, not_described(group_id, refused.error_code, refused.text))
        return
    if group.topology is None:
        described = not_described(group_id, error_codes.UNKNOWN_SERVER_ERROR)
    else:
        described = _describe(group)
        described.assignor_name = decision.settings_of(group_id).streams_assignor_name
        if message.with_description:
            is_kept = group.topology.description is not None
            described.topology_description_status = AVAILABLE if is_kept else NOT_STORED
    decision.reply(request.ticket, described)


def _describe(group: StreamsGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=error_codes.NONE,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, group.members[each]) for each in group.ordered_members()],
    )


def _topology(group: StreamsGroup) -> Topology:
    configured = group.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        ready = [_configured(name, each) for name, each in configured.subtopologies.items()]
        return Topology(epoch=configured.epoch, subtopologies=ready)
    topology = group.topology
    assert topology is not None
    ids = sorted(topology.subtopologies, key=string_key)
    return Topology(epoch=topology.epoch, subtopologies=[_recorded(topology.subtopologies[each]) for each in ids])


def _configured(name: str, subtopology: ConfiguredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=name,
        source_topics=sorted(subtopology.source_topics, key=string_key),
        repartition_sink_topics=sorted(subtopology.repartition_sinks, key=string_key),
        state_changelog_topics=_by_name(map(_internal, subtopology.changelogs.values())),
        repartition_source_topics=_by_name(map(_internal, subtopology.repartition_sources.values())),
    )


def _recorded(subtopology: recorded.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics, key=string_key),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics, key=string_key),
        state_changelog_topics=_by_name(map(_stated, subtopology.state_changelog_topics)),
        repartition_source_topics=_by_name(map(_stated, subtopology.repartition_source_topics)),
    )


def _by_name(topics: Iterable[TopicInfo]) -> list[TopicInfo]:
    return sorted(topics, key=lambda topic: string_key(topic.name))


def _internal(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs.items()],
    )


def _stated(topic: recorded.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
    )


def _offsets(offsets: TaskOffsets) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=name, partition=partition, offset=offsets[name][partition])
        for name in sorted(offsets, key=string_key)
        for partition in sorted(offsets[name])
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint = member.user_endpoint
    target = group.target.get(member.member_id, TargetTasks())
    reported = group.offsets_of(member.member_id)
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_assignment(*member.assigned),
        target_assignment=_assignment(*target),
        is_classic=False,
    )


def _assignment(active: Mapping[str, Any], standby: Mapping[str, Any], warmup: Mapping[str, Any]) -> Assignment:
    return Assignment(active_tasks=_tasks(active), standby_tasks=_tasks(standby), warmup_tasks=_tasks(warmup))


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks, key=string_key)]
