"""DescribeAcls (29), versions 1-3: who may do what. Without an authorizer: SECURITY_DISABLED."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.no_security import SECURITY_DISABLED, check_acl_elements
from kpywire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_broker: Context, request: DescribeAclsRequest, _call: Call) -> DescribeAclsResponse:
    """There are no ACLs."""
    check_acl_elements(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    return DescribeAclsResponse(
        throttle_time_ms=0,
        error_code=SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
