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
from typing import Any

from kpybroker.calls.call import Call
from kpybroker.calls.close_connection import CloseConnection
from kpybroker.calls.deferred import pass_on
from kpybroker.calls.gathered import gathered
from kpybroker.calls.pending import Pending
from kpybroker.calls.steps import STEP_ELEMENTS, at_once, each
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
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


def handle(broker: Context, request: OffsetFetchRequest, call: Call) -> Generator[None, None, Any]:
    """Ask the coordinator of each group."""
    if call.api_version >= SEVERAL_FROM:
        asked = []
        left = MOST_ANSWERED
        for group in request.groups:
            answer = yield from _ask(broker, group, call, require_stable=request.require_stable)
            asked.append(answer)
            if not isinstance(answer, Pending):
                left -= sum(len(topic.partitions) for topic in answer.topics)
            if left < 0:
                raise CloseConnection(f"a request for more than {MOST_ANSWERED} committed offsets")
            yield
        return gathered(asked, lambda groups: OffsetFetchResponse(groups=groups))
    topics = None
    if request.topics is not None:
        topics = yield from each(
            request.topics,
            lambda topic: OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes),
            STEP_ELEMENTS,
        )
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    answer = yield from _ask(broker, group, call, require_stable=request.require_stable)
    if not isinstance(answer, Pending):
        return (yield from _of_one(answer))
    later = Pending()
    later.when_cancelled(answer.cancel)
    answer.when_resolved(lambda found: pass_on(call.peer.share(_of_one(found)), later))
    return later


def _ask(
    broker: Context, group: OffsetFetchRequestGroup, call: Call, *, require_stable: bool
) -> Generator[None, None, Any]:
    by_id = call.api_version >= IDS_FROM
    asked = group.topics
    unknown: list[OffsetFetchResponseTopics] = []
    if by_id and asked is not None:
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

    def answer(found: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if by_id and found.error_code == error_codes.NONE:
            found.topics = [topic for topic in found.topics if _identified(broker, topic)] + unknown
        return found

    def refuse(code: int) -> OffsetFetchResponseGroup:
        code = error_codes.NOT_COORDINATOR if code in _NOT_COORDINATOR else coordinator_error(code)
        if call.api_version >= TOP_LEVEL_ERROR_FROM:
            return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
        topics = [at_once(_refused(topic, code)) for topic in asked or []]
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)

    return broker.groups.submit(
        group.group_id,
        group_request(broker, group, call, require_stable=require_stable),
        refuse,
        answer=answer,
        writes=False,
        timeout_ms=commit_timeout_ms(broker),
    )


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
