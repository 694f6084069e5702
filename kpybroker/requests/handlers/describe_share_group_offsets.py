"""DescribeShareGroupOffsets (90), versions 0-1: the start offsets of share groups, and how far they lag (KIP-932).

- Each group needs DESCRIBE, and so does each topic. A denied topic is TOPIC_AUTHORIZATION_FAILED if the request
  names it, and left out if not.
- A topic or partition without a state has the start offset -1. Without topics, all with a state are described.
- v1: the lag: records up to the high watermark that the group is not done with (KIP-1226), -1 if it is not known.
- Answered UNSUPPORTED_VERSION for each group while ``share.version`` is below 1.
"""

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.groups.share.events import InitializedPartitions
from kpybroker.machines.lag import kafkas_lag
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.requests.serving.permissions import denied_among, may
from kpybroker.requests.serving.share.end_offsets import EndOffset, NamedPartition, end_offsets
from kpybroker.requests.serving.share.group_states import Results, then
from kpybroker.requests.serving.share.protocol import serves_share_groups
from kpybroker.requests.serving.share.states import ask_all
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work, each, in_blocks
from kpywire import error_codes
from kpywire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kpywire.messages.read_share_group_state_summary import PartitionData
from kpywire.uuid import ZERO_UUID

UNKNOWN = -1

Topics = list[DescribeShareGroupOffsetsResponseTopic]


def handle(broker: Context, request: DescribeShareGroupOffsetsRequest, call: Call) -> Generator[None, None, Any]:
    """Describe each group."""
    asked = yield from each(request.groups, lambda group: _describe(broker, group, call))
    return gathered(asked, lambda groups: DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups))


def _describe(broker: Context, group: DescribeShareGroupOffsetsRequestGroup, call: Call) -> Any:
    group_id = group.group_id
    if not serves_share_groups(broker):
        return _group(group_id, [], error_codes.UNSUPPORTED_VERSION)
    if not may(broker, call, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return _group(group_id, [], error_codes.GROUP_AUTHORIZATION_FAILED)
    if group.topics is not None:
        return call.peer.share(_describe_named(broker, group_id, call, group.topics))
    found = broker.groups.submit(
        group_id,
        group_request(broker, InitializedPartitions(group_id), call),
        lambda code: coordinator_error(code),
        writes=False,
    )
    return then(found, lambda partitions: call.peer.share(_describe_all(broker, group_id, call, partitions)))


def _describe_named(
    broker: Context, group_id: str, call: Call, topics: list[DescribeShareGroupOffsetsRequestTopic]
) -> Work:
    names = (topic.topic_name for topic in topics)
    denied = yield from denied_among(broker, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    known: dict[bytes, Sequence[int]] = {}
    others: Topics = []
    for nth, topic in enumerate(topics, 1):
        if nth % STEP_ELEMENTS == 0:
            yield None
        here = broker.image.topics.get(topic.topic_name)
        if topic.topic_name in denied:
            code = error_codes.TOPIC_AUTHORIZATION_FAILED
            others.append((yield from _without_state(topic.topic_name, topic.partitions, code)))
        elif here is None:
            others.append((yield from _without_state(topic.topic_name, topic.partitions)))
        else:
            known[here.id] = topic.partitions
    return (yield from _read(broker, group_id, known, others))


def _describe_all(broker: Context, group_id: str, call: Call, found: Mapping[bytes, Sequence[int]] | int) -> Work:
    if isinstance(found, int):
        return _group(group_id, [], found, error_codes.message(found))
    names = {
        topic_id: broker.image.topics_by_id[topic_id].name
        for topic_id in found
        if topic_id in broker.image.topics_by_id
    }
    denied = yield from denied_among(
        broker, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names.values(), logs_denial=False
    )
    shown = {topic_id: found[topic_id] for topic_id, name in names.items() if name not in denied}
    return (yield from _read(broker, group_id, shown, []))


def _read(broker: Context, group_id: str, partitions: Mapping[bytes, Sequence[int]], others: Topics) -> Work:
    """Ask the share coordinators for the states, then the leaders for the ends of partitions."""
    parts: dict[bytes, list[PartitionData]] = {}
    for topic_id, indexes in partitions.items():
        parts[topic_id] = yield from in_blocks(indexes, _asked)
    names = {topic_id: broker.image.topics_by_id[topic_id].name for topic_id in partitions}
    read = Pending()
    ask_all(broker, group_id, parts, read.resolve)
    results: Results = read.response if read.resolved else (yield read)
    lagging: list[NamedPartition] = []
    for topic_id, some in results.items():
        for nth, result in enumerate(some, 1):
            if nth % STEP_ELEMENTS == 0:
                yield None
            if _has_lag(result):
                lagging.append((names[topic_id], result.partition))
    ends = yield from end_offsets(broker, lagging)
    topics: Topics = []
    for topic_id, some in results.items():
        name = names[topic_id]
        described = yield from in_blocks(some, partial(_partition, name, ends))
        topics.append(DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=described))
    return _group(group_id, topics + others)


def _asked(index: int) -> PartitionData:
    return PartitionData(partition=index, leader_epoch=UNKNOWN)


def _has_lag(result: Any) -> bool:
    """Whether the lag can be known: there is a state, and its group has begun to read."""
    return not result.error_code and UNKNOWN not in (result.start_offset, result.delivery_complete_count)


def _partition(
    name: str, ends: Mapping[NamedPartition, EndOffset], result: Any
) -> DescribeShareGroupOffsetsResponsePartition:
    end = ends.get((name, result.partition))
    if end is not None and end.error_code:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=result.partition,
            start_offset=0,
            leader_epoch=0,
            error_code=end.error_code,
            error_message=error_codes.message(end.error_code),
        )
    is_known = not result.error_code
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=result.partition,
        start_offset=result.start_offset if is_known else UNKNOWN,
        leader_epoch=result.leader_epoch if is_known else 0,
        lag=UNKNOWN if end is None else kafkas_lag(end.offset, result.start_offset, result.delivery_complete_count),
        error_code=error_codes.NONE,
    )


def _without_state(
    name: str, indexes: Sequence[int], code: int = error_codes.NONE
) -> Generator[None, None, DescribeShareGroupOffsetsResponseTopic]:
    text = error_codes.message(code) if code else None
    partitions = yield from in_blocks(
        indexes,
        lambda index: DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=UNKNOWN, leader_epoch=0, error_code=code, error_message=text
        ),
    )
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ZERO_UUID, partitions=partitions)


def _group(
    group_id: str, topics: Topics, code: int = error_codes.NONE, text: str | None = None
) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics, error_code=code, error_message=text)
