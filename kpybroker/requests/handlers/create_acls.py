"""CreateAcls (30), versions 1-3: allow or deny operations. Without an authorizer each is SECURITY_DISABLED.

- UNKNOWN elements close the connection, before anything else is examined.
- Decided by the active controller in `kpybroker.machines.controller.acls`, and answered when it is committed. Brokers
  learn of it a moment later.
"""

from typing import Any

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.forwarding import forward
from kpybroker.requests.serving.no_security import NO_AUTHORIZER, SECURITY_DISABLED, check_acl_elements
from kpybroker.runtime.calls.call import Call
from kpywire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(broker: Context, request: CreateAclsRequest, call: Call) -> Any:
    """Forward the request to the controller, or refuse each ACL."""
    for creation in request.creations:
        check_acl_elements(
            creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type
        )
    if broker.authorizer is not None:
        return forward(broker, request, call)
    return CreateAclsResponse(
        throttle_time_ms=0,
        results=[
            AclCreationResult(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER) for _ in request.creations
        ],
    )
