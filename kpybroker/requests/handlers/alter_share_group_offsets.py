"""AlterShareGroupOffsets (91), version 0: set the start offsets of a share group without members (KIP-932).

- A group with members is NON_EMPTY_GROUP. A group that does not exist is made.
- Each topic needs READ. An unknown topic or partition is UNKNOWN_TOPIC_OR_PARTITION.
- Answered UNSUPPORTED_VERSION while ``share.version`` is below 1.
"""

from typing import Any

from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.machines.groups.share.events import Initialize, StatesInitialized
from kpybroker.machines.groups.share.offsets import alter_error
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.requests.serving.permissions import denied_topics
from kpybroker.requests.serving.share.group_states import Results, first_error, initialize, then
from kpybroker.requests.serving.share.protocol import serves_share_groups
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes
from kpywire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kpywire.uuid import ZERO_UUID


def handle(broker: Context, request: AlterShareGroupOffsetsRequest, call: Call) -> Any:
    """Ask the group's coordinator, then have the states initialised again."""
    if not serves_share_groups(broker):
        return alter_error(error_codes.UNSUPPORTED_VERSION)
    group_id = request.group_id
    if not group_id:
        return alter_error(error_codes.INVALID_GROUP_ID)
    denied = denied_topics(broker, call, AclOperation.READ, [topic.topic_name for topic in request.topics])
    refused = [
        _refused(broker, topic, error_codes.TOPIC_AUTHORIZATION_FAILED)
        for topic in request.topics
        if topic.topic_name in denied
    ]
    allowed = [topic for topic in request.topics if topic.topic_name not in denied]
    answer = broker.groups.submit(
        group_id,
        group_request(broker, AlterShareGroupOffsetsRequest(group_id=group_id, topics=allowed), call),
        lambda code: Initialize(alter_error(coordinator_error(code)), 0, {}),
        timeout_ms=commit_timeout_ms(broker),
    )

    def answered(found: Initialize) -> Any:
        if not found.response.error_code:
            found.response.responses = [*refused, *found.response.responses]
        return _initialized(broker, group_id, call, found)

    return then(answer, answered)


def _initialized(broker: Context, group_id: str, call: Call, found: Initialize) -> Any:
    """The response, once the states begin where they should."""
    if not found.start_offsets:
        return found.response
    pending = Pending()

    def done(results: Results) -> None:
        code, _ = first_error(results)
        if code:
            pending.resolve(_with_errors(found.response, results))
            return
        partitions = {topic_id: [each.partition for each in some] for topic_id, some in results.items()}
        decided = broker.groups.submit(
            group_id,
            group_request(broker, StatesInitialized(group_id, partitions, code), call),
            coordinator_error,
            timeout_ms=commit_timeout_ms(broker),
        )
        then(decided, lambda _code: pending.resolve(found.response))

    initialize(broker, group_id, found, done)
    return pending.response if pending.resolved else pending


def _with_errors(response: AlterShareGroupOffsetsResponse, results: Results) -> AlterShareGroupOffsetsResponse:
    errors = {(topic_id, each.partition): each for topic_id, some in results.items() for each in some}
    for topic in response.responses:
        for partition in topic.partitions:
            result = errors.get((topic.topic_id, partition.partition_index))
            if result is not None and result.error_code:
                partition.error_code, partition.error_message = result.error_code, result.error_message
    return response


def _refused(broker: Context, topic: Any, code: int) -> AlterShareGroupOffsetsResponseTopic:
    known = broker.image.topics.get(topic.topic_name)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID if known is None else known.id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code, error_message=error_codes.message(code)
            )
            for each in topic.partitions
        ],
    )
