"""Heartbeat (12), versions 0-4: a member of a classic group is alive.

- v1: throttle time. v3: static members (KIP-345).
- While the coordinator loads the answer is NONE: it cannot know better, and nobody has to rejoin for that.
"""

from typing import Any

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.group_requests import coordinator_error, group_request
from kpywire import error_codes
from kpywire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(broker: Context, request: HeartbeatRequest, call: Call) -> Any:
    """Hand it to the group's coordinator."""
    if not request.group_id:
        return HeartbeatResponse(error_code=error_codes.INVALID_GROUP_ID)
    return broker.groups.submit(request.group_id, group_request(broker, request, call), _refused, writes=False)


def _refused(code: int) -> HeartbeatResponse:
    if code == error_codes.COORDINATOR_LOAD_IN_PROGRESS:
        code = error_codes.NONE
    return HeartbeatResponse(error_code=coordinator_error(code))
