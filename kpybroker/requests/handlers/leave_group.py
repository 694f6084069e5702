"""LeaveGroup (13), versions 0-5: members leave, or an administrator removes them.

- Up to v2: one member, whose error is the error of the answer. v1: throttle time. v3: several members, static ones by
  their instance id, each with its own error (KIP-345). v5: the reason (KIP-800).
- In a group that does not exist, each member is UNKNOWN_MEMBER_ID.
"""

from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

SEVERAL_FROM = 3


def handle(broker: Context, request: LeaveGroupRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator."""
    if not request.group_id:
        return _refused(error_codes.INVALID_GROUP_ID)
    one = call.api_version < SEVERAL_FROM
    if one:
        request.members = [MemberIdentity(member_id=request.member_id)]
    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        _refused,
        answer=_of_one if one else None,
        timeout_ms=commit_timeout_ms(broker),
    )


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """The response of older versions: the only member's error is at the top."""
    if response.error_code == error_codes.NONE and response.members:
        response.error_code = response.members[0].error_code
    response.members = []
    return response


def _refused(code: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=coordinator_error(code), members=[])
