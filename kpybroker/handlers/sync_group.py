"""SyncGroup (14), versions 0-5: the leader says who reads what, everybody else waits for it.

- v1: throttle time. v3: static members (KIP-345).
- v5: the protocol's type and name, which must be there and the group's, or INCONSISTENT_GROUP_PROTOCOL (KIP-559).
- Followers are answered when the leader's assignment is committed. Assignments are bytes that no broker reads.
"""

from typing import Any

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.group_requests import coordinator_error, group_request
from kpywire import error_codes
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM = 5


def handle(broker: Context, request: SyncGroupRequest, call: Call) -> Any:
    """Hand it to the group's coordinator."""
    if call.api_version >= PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        return _refused(error_codes.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return _refused(error_codes.INVALID_GROUP_ID)
    return broker.groups.submit(request.group_id, group_request(broker, request, call), _refused)


def _refused(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=coordinator_error(code), assignment=b"")
