"""Heartbeat (12), versions 0-4: a member of a classic group is alive.

- v1: throttle time. v3: static members (KIP-345).
- While the coordinator loads, the answer is NONE: it does not know the member yet, and the member need not rejoin.
"""

from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(broker: Context, request: HeartbeatRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator."""
    if not request.group_id:
        return HeartbeatResponse(error_code=error_codes.INVALID_GROUP_ID)
    again = broker.groups.answer_again(request.group_id, request)
    if again is not None:
        return again
    return broker.groups.submit(request.group_id, group_request(broker, request, call), _refused, writes=False)


def _refused(code: int) -> HeartbeatResponse:
    if code == error_codes.COORDINATOR_LOAD_IN_PROGRESS:
        code = error_codes.NONE
    return HeartbeatResponse(error_code=coordinator_error(code))
