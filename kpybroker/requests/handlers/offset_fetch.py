"""OffsetFetch (9), versions 1-10: the committed offsets of groups.

- v2: null topics means all committed ones; errors are at the top, in earlier versions in each partition. v3: throttle
  time.
- v5: leader epochs (KIP-320). v7: ``require_stable``; offsets that a transaction may still change are
  UNSTABLE_OFFSET_COMMIT (KIP-447). v8: several groups, answered in their order (KIP-709). v9: member id and epoch
  (KIP-848).
- v10: topics by id; unknown ones are UNKNOWN_TOPIC_ID, and come after the known ones (KIP-848).
- An offset that is not committed is -1 without an error, also if the group or the partition does not exist.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from kpybroker.machines.groups.offsets.offset_fetch import OffsetsSnapshot
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, Work, all_there, each
from kpywire import error_codes
from kpywire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

TOP_LEVEL_ERROR_FROM = 2
SEVERAL_FROM = 8
IDS_FROM = 10
NO_OFFSET = -1
MOST_ANSWERED = 1_000_000
"""The partitions in one answer. A request that names a group again and again would get more."""
_NOT_COORDINATOR = frozenset(
    (error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.NOT_ENOUGH_REPLICAS, error_codes.REQUEST_TIMED_OUT)
)
"""The errors that consumers older than 3.9 would not retry (``GroupCoordinatorService.handleOffsetFetchException``)."""


class _GroupQuestion(NamedTuple):
    """The question about one group, while its coordinator answers."""

    group: OffsetFetchRequestGroup
    unknown: list[OffsetFetchResponseTopics]
    """The refusals of topics whose ids are unknown."""
    topics: list[OffsetFetchRequestTopics] | None
    """All topics of the request."""
    answer: Any
    """The coordinator's answer, an error code, or a `Pending` of either."""


def handle(broker: Context, request: OffsetFetchRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    if call.api_version < SEVERAL_FROM:
        return (yield from _handle_one(broker, request, call))
    asked: list[_GroupQuestion] = []
    left = MOST_ANSWERED
    for group in request.groups:
        asking = yield from _ask(broker, group, call, require_stable=request.require_stable)
        asked.append(asking)
        left -= _answered(asking.answer)
        if left < 0:
            raise CloseConnection(f"a request for more than {MOST_ANSWERED} committed offsets")
        yield None
    answers = yield from all_there([asking.answer for asking in asked])
    groups: list[OffsetFetchResponseGroup] = []
    for asking, answer in zip(asked, answers, strict=True):
        groups.append((yield from _completed(broker, asking, answer, call)))
        if len(groups) % STEP_ELEMENTS == 0:
            yield None
    return OffsetFetchResponse(groups=groups)


def _answered(answer: Any) -> int:
    """The number of partitions in a coordinator's answer, if it is there."""
    if isinstance(answer, OffsetFetchResponseGroup):
        return sum(len(topic.partitions) for topic in answer.topics)
    return answer.positions if isinstance(answer, OffsetsSnapshot) else 0


def _handle_one(broker: Context, request: OffsetFetchRequest, call: Call) -> Work:
    """Handle a request of versions that have only one group."""
    topics = None
    if request.topics is not None:
        topics = yield from each(
            request.topics,
            lambda topic: OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes),
            STEP_ELEMENTS,
        )
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    asking = yield from _ask(broker, group, call, require_stable=request.require_stable)
    answer = asking.answer
    if isinstance(answer, Pending):
        answer = yield answer
    return (yield from _of_one((yield from _completed(broker, asking, answer, call))))


def _ask(
    broker: Context, group: OffsetFetchRequestGroup, call: Call, *, require_stable: bool
) -> Generator[None, None, _GroupQuestion]:
    asked = group.topics
    unknown: list[OffsetFetchResponseTopics] = []
    if call.api_version >= IDS_FROM and asked is not None:
        group.topics = []
        for topic in asked:
            known = broker.image.topics_by_id.get(topic.topic_id)
            if known is None:
                unknown.append((yield from _refused(topic, error_codes.UNKNOWN_TOPIC_ID)))
            else:
                topic.name = known.name
                group.topics.append(topic)
            if (len(unknown) + len(group.topics)) % STEP_ELEMENTS == 0:
                yield
    answer = broker.groups.submit(
        group.group_id,
        group_request(broker, group, call, require_stable=require_stable),
        int,
        writes=False,
        timeout_ms=commit_timeout_ms(broker),
    )
    return _GroupQuestion(group, unknown, asked, answer)


def _completed(
    broker: Context, asking: _GroupQuestion, answer: Any, call: Call
) -> Generator[None, None, OffsetFetchResponseGroup]:
    """Return the answer about a group, in steps."""
    if isinstance(answer, int):
        return (yield from _refused_whole(asking, answer, call))
    found: OffsetFetchResponseGroup = (yield from answer.response()) if isinstance(answer, OffsetsSnapshot) else answer
    if call.api_version >= IDS_FROM and found.error_code == error_codes.NONE:
        identified: list[OffsetFetchResponseTopics] = []
        for nth, topic in enumerate(found.topics, 1):
            if nth % STEP_ELEMENTS == 0:
                yield
            if _identified(broker, topic):
                identified.append(topic)
        found.topics = identified + asking.unknown
    return found


def _refused_whole(asking: _GroupQuestion, code: int, call: Call) -> Generator[None, None, OffsetFetchResponseGroup]:
    code = error_codes.NOT_COORDINATOR if code in _NOT_COORDINATOR else coordinator_error(code)
    if call.api_version >= TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponseGroup(group_id=asking.group.group_id, topics=[], error_code=code)
    topics: list[OffsetFetchResponseTopics] = []
    for topic in asking.topics or []:
        refused = yield from _refused(topic, code)
        topics.append(refused)
    return OffsetFetchResponseGroup(group_id=asking.group.group_id, topics=topics)


def _identified(broker: Context, topic: OffsetFetchResponseTopics) -> bool:
    """Set the id of a topic by its name. A deleted topic has no id, and is left out."""
    known = broker.image.topics.get(topic.name)
    if known is None:
        return False
    topic.topic_id = known.id
    return True


def _refused(topic: OffsetFetchRequestTopics, code: int) -> Generator[None, None, OffsetFetchResponseTopics]:
    partitions = yield from each(
        topic.partition_indexes,
        lambda index: OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
        ),
        STEP_ELEMENTS,
    )
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _of_one(group: OffsetFetchResponseGroup) -> Generator[None, None, OffsetFetchResponse]:
    """The answer of versions that have only one group, in steps."""
    response = OffsetFetchResponse(error_code=group.error_code, topics=[])
    for topic in group.topics:
        partitions = yield from each(topic.partitions, _partition_of_one, STEP_ELEMENTS)
        response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        if len(response.topics) % STEP_ELEMENTS == 0:
            yield
    return response


def _partition_of_one(found: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=found.partition_index,
        committed_offset=found.committed_offset,
        committed_leader_epoch=found.committed_leader_epoch,
        metadata=found.metadata,
        error_code=found.error_code,
    )
