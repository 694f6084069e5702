"""SyncGroup (14), versions 0-5: the group's leader sends the assignment, the other members wait for it.

- v1: throttle time. v3: static members (KIP-345).
- v5: the protocol's type and name. If they are missing or not the group's: INCONSISTENT_GROUP_PROTOCOL (KIP-559).
- Followers are answered when the leader's assignment is committed. Brokers do not read the bytes of assignments.
"""

from typing import Any, Final

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM: Final = 5


def handle(broker: Context, request: SyncGroupRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator."""
    if call.api_version >= PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        return _refused(error_codes.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return _refused(error_codes.INVALID_GROUP_ID)
    return broker.groups.submit(request.group_id, group_request(broker, request, call), _refused)


def _refused(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=coordinator_error(code), assignment=b"")
