"""ShareGroupHeartbeat (76), version 1: be a member of a share group (KIP-932).

- Answered UNSUPPORTED_VERSION while ``share.version`` is below 1.
- A request that cannot be right is INVALID_REQUEST, with Kafka's words.
- If the group gets partitions without a delivery state, the answer waits until the share coordinator has initialised
  them. Members get them with one of the next heartbeats.
"""

from typing import Any

from kpybroker.machines.groups.share.events import Initialize, StatesInitialized
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request, is_blank
from kpybroker.requests.serving.share.group_states import first_error, initialize, then
from kpybroker.requests.serving.share.protocol import is_member_id, serves_share_groups
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOINING, LEAVING = 0, -1


def handle(broker: Context, request: ShareGroupHeartbeatRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator, then have states initialised."""
    if not serves_share_groups(broker):
        return _refused(error_codes.UNSUPPORTED_VERSION)
    again = broker.groups.answer_again(request.group_id, request)
    if again is not None:
        return again
    if not is_member_id(request.member_id):
        return _refused(error_codes.INVALID_REQUEST)
    text = _what_is_wrong(request)
    if text is not None:
        return _refused(error_codes.INVALID_REQUEST, text)
    answer = broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        lambda code: Initialize(_refused(coordinator_error(code)), 0, {}),
        timeout_ms=commit_timeout_ms(broker),
    )
    return then(answer, lambda found: _initialized(broker, request.group_id, call, found))


def _initialized(broker: Context, group_id: str, call: Call, found: Initialize) -> Any:
    """The response, once the states are initialised and the group knows it."""
    if not found.start_offsets:
        return found.response
    pending = Pending()

    def done(results: dict[bytes, list[Any]]) -> None:
        code, text = first_error(results)
        partitions = {topic_id: [each.partition for each in some] for topic_id, some in results.items()}
        decided = broker.groups.submit(
            group_id,
            group_request(broker, StatesInitialized(group_id, partitions, code), call),
            coordinator_error,
            timeout_ms=commit_timeout_ms(broker),
        )
        then(decided, lambda error: pending.resolve(_refused(error, text) if error else found.response))

    initialize(broker, group_id, found, done)
    return pending.response if pending.resolved else pending


def _what_is_wrong(request: ShareGroupHeartbeatRequest) -> str | None:
    """Kafka's words for what cannot be right; None if nothing is wrong."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if is_blank(value):
            return f"{name} can't be empty."
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if request.member_epoch < LEAVING else None


def _refused(code: int, text: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, error_message=text, member_epoch=0, heartbeat_interval_ms=0
    )
