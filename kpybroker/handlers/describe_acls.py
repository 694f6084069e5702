"""DescribeAcls (29), versions 1-3: list permissions and prohibitions. Without an authorizer: SECURITY_DISABLED."""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import SECURITY_DISABLED, check_acl_elements
from kpywire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_broker: Context, request: DescribeAclsRequest, _call: Call) -> DescribeAclsResponse:
    """Refuse the request: there are no ACLs."""
    check_acl_elements(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    return DescribeAclsResponse(
        throttle_time_ms=0,
        error_code=SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
