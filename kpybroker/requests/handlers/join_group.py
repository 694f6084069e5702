"""JoinGroup (11), versions 0-9: become a member of a group, or stay one while it rebalances.

- v0 has no rebalance timeout; the session timeout is used instead. v2: throttle time.
- v4: a client without a member id gets one with MEMBER_ID_REQUIRED, and joins with it (KIP-394).
- v5: static members (KIP-345). v7: the protocol's type in the answer, no protocol name in errors (KIP-559).
- v8: the reason (KIP-800). v9: a leader may have to skip a new assignment (KIP-814).
- Metadata too large for a record of the group is UNKNOWN_SERVER_ERROR here. Kafka keeps it in memory, and answers with
  this error when the group is to be written.
- Answered when the round of joins ends. A session timeout outside of the broker's bounds is INVALID_SESSION_TIMEOUT.
"""

from typing import Any, Final

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_NAME_FROM: Final = 7


def handle(broker: Context, request: JoinGroupRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator."""
    config = broker.config
    if not request.group_id:
        return _refused(call, error_codes.INVALID_GROUP_ID, request.member_id)
    bounds = config["group.min.session.timeout.ms"], config["group.max.session.timeout.ms"]
    if not bounds[0] <= request.session_timeout_ms <= bounds[1]:
        return _refused(call, error_codes.INVALID_SESSION_TIMEOUT, request.member_id)
    if sum(len(protocol.metadata) for protocol in request.protocols) > config["message.max.bytes"]:
        return _refused(call, error_codes.UNKNOWN_SERVER_ERROR, request.member_id)
    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        lambda code: _refused(call, coordinator_error(code)),
    )


def _refused(call: Call, code: int, member_id: str = "") -> JoinGroupResponse:
    protocol_name = None if call.api_version >= NULL_PROTOCOL_NAME_FROM else ""
    return JoinGroupResponse(error_code=code, protocol_name=protocol_name, leader="", member_id=member_id, members=[])
