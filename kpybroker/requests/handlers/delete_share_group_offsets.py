"""DeleteShareGroupOffsets (92), version 0: delete the offsets of a share group in whole topics (KIP-932).

- A group with members is NON_EMPTY_GROUP, one that does not exist GROUP_ID_NOT_FOUND.
- Each topic needs READ. A topic that is unknown, or for which there is no state, is UNKNOWN_TOPIC_OR_PARTITION.
- Answered UNSUPPORTED_VERSION while ``share.version`` is below 1.
"""

from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.groups.share.events import DeleteStates, OffsetsDeleted
from kpybroker.machines.groups.share.offsets import delete_error, deleted
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.requests.serving.permissions import denied_among
from kpybroker.requests.serving.share.group_states import Results, delete, first_error, then
from kpybroker.requests.serving.share.protocol import serves_share_groups
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work
from kpywire import error_codes
from kpywire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)
from kpywire.uuid import ZERO_UUID


def handle(broker: Context, request: DeleteShareGroupOffsetsRequest, call: Call) -> Work:
    """Ask the group's coordinator, have the states deleted, and tell it."""
    if not serves_share_groups(broker):
        return delete_error(error_codes.UNSUPPORTED_VERSION)
    group_id = request.group_id
    if not group_id:
        return delete_error(error_codes.INVALID_GROUP_ID)
    names = [topic.topic_name for topic in request.topics]
    denied = yield from denied_among(broker, call, AclOperation.READ, ResourceType.TOPIC, names)
    yield None
    allowed = [topic for topic in request.topics if topic.topic_name not in denied]
    refused = [
        _topic(name, ZERO_UUID, error_codes.TOPIC_AUTHORIZATION_FAILED, None)
        for name in dict.fromkeys(names)
        if name in denied
    ]
    answer = broker.groups.submit(
        group_id,
        group_request(broker, DeleteShareGroupOffsetsRequest(group_id=group_id, topics=allowed), call),
        lambda code: DeleteStates(delete_error(coordinator_error(code)), {}),
        timeout_ms=commit_timeout_ms(broker),
    )

    def answered(found: DeleteStates) -> Any:
        if not found.response.error_code:
            found.response.responses = [*refused, *found.response.responses]
        return _delete(broker, group_id, call, found)

    return then(answer, answered)


def _delete(broker: Context, group_id: str, call: Call, found: DeleteStates) -> Any:
    if not found.partitions:
        return found.response
    pending = Pending()
    by_id = broker.image.topics_by_id
    names = {topic_id: by_id[topic_id].name if topic_id in by_id else "" for topic_id in found.partitions}

    def done(results: Results) -> None:
        gone = {}
        for topic_id, some in results.items():
            code, text = first_error({topic_id: some})
            if code:
                found.response.responses.append(_topic(names[topic_id], topic_id, code, text))
            else:
                gone[topic_id] = names[topic_id]
        decided = broker.groups.submit(
            group_id,
            group_request(broker, OffsetsDeleted(group_id, gone), call),
            coordinator_error,
            timeout_ms=commit_timeout_ms(broker),
        )
        then(decided, lambda topics: pending.resolve(_response(found, topics)))

    delete(broker, group_id, found.partitions, done)
    return pending.response if pending.resolved else pending


def _response(found: DeleteStates, topics: list[Any] | int) -> Any:
    if isinstance(topics, int):
        return delete_error(topics)
    return deleted([*found.response.responses, *topics])


def _topic(name: str, topic_id: bytes, code: int, text: str | None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id, error_code=code, error_message=text or error_codes.message(code)
    )
