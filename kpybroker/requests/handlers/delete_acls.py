"""DeleteAcls (31), versions 1-3: delete permissions and prohibitions. Without an authorizer: SECURITY_DISABLED.

- UNKNOWN elements close the connection, before anything else is examined.
- Decided by the active controller in `kpybroker.machines.controller.acls`. More than 10 000 deletions are refused as a
  whole.
"""

from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.forwarding import forward
from kpybroker.requests.serving.no_security import NO_AUTHORIZER, SECURITY_DISABLED, check_acl_elements
from kpybroker.runtime.calls.call import Call
from kpywire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(broker: Context, request: DeleteAclsRequest, call: Call) -> Any:
    """Forward the request to the controller, or refuse each filter."""
    for one in request.filters:
        check_acl_elements(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
    if broker.authorizer is not None:
        return forward(broker, request, call)
    return DeleteAclsResponse(
        throttle_time_ms=0,
        filter_results=[
            DeleteAclsFilterResult(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[])
            for _ in request.filters
        ],
    )
