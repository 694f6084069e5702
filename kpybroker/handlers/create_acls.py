"""CreateAcls (30), versions 1-3: allow or deny operations. Without an authorizer each is SECURITY_DISABLED."""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import NO_AUTHORIZER, SECURITY_DISABLED, check_acl_elements
from kpywire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(_broker: Context, request: CreateAclsRequest, _call: Call) -> CreateAclsResponse:
    """Refuse each ACL."""
    for creation in request.creations:
        check_acl_elements(
            creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type
        )
    return CreateAclsResponse(
        throttle_time_ms=0,
        results=[
            AclCreationResult(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER) for _ in request.creations
        ],
    )
