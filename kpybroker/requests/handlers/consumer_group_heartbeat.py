"""ConsumerGroupHeartbeat (68), versions 0-1: be a member of a group of the consumer protocol (KIP-848).

- Answered UNSUPPORTED_VERSION while ``group.version`` is below 1.
- v0: a client without a member id gets one. v1: clients make their own (KIP-1082); regular expressions.
- A request that cannot be right is INVALID_REQUEST, with Kafka's words; an unknown assignor UNSUPPORTED_ASSIGNOR.
- Each answer says when the next heartbeat is due; an assignment comes only with a change, or when it is asked for.
"""

from collections.abc import Collection
from typing import Any, Final

from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.machines.groups.settings import assignor_names
from kpybroker.requests.serving.consumer_protocol import serves_consumer_groups
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request, is_blank
from kpybroker.requests.serving.permissions import denied_topics
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

JOINING: Final = 0
LEAVING: Final = -1
AWAY: Final = -2
OWN_IDS_FROM: Final = 1


def handle(broker: Context, request: ConsumerGroupHeartbeatRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator."""
    if not serves_consumer_groups(broker):
        return _refused(error_codes.UNSUPPORTED_VERSION)
    again = broker.groups.answer_again(request.group_id, request)
    if again is not None:
        return again
    text = _what_is_wrong(request, call.api_version)
    if text is not None:
        return _refused(error_codes.INVALID_REQUEST, text)
    assignors = assignor_names(broker.config["group.consumer.assignors"])
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        return _refused(error_codes.UNSUPPORTED_ASSIGNOR, text)

    def visible(names: Collection[str]) -> Collection[str]:
        return set(names) - denied_topics(broker, call, AclOperation.DESCRIBE, names, logs_denial=False)

    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call, visible=None if broker.authorizer is None else visible),
        lambda code: _refused(coordinator_error(code)),
        timeout_ms=commit_timeout_ms(broker),
    )


def _what_is_wrong(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Kafka's words for what cannot be right; None if nothing is wrong."""
    epoch = request.member_epoch
    if (version >= OWN_IDS_FROM or epoch > JOINING or epoch == LEAVING) and is_blank(request.member_id):
        return "MemberId can't be empty."
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if is_blank(value):
            return f"{name} can't be empty."
    if epoch == JOINING:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions is None or request.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    elif epoch == AWAY:
        if request.instance_id is None:
            return "InstanceId can't be null."
    elif epoch < AWAY:
        return "MemberEpoch is invalid."
    return None


def _refused(code: int, text: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, error_message=text, member_epoch=0, heartbeat_interval_ms=0
    )
