"""DescribeAcls (29), versions 1-3: list permissions and prohibitions. Without an authorizer: SECURITY_DISABLED.

- UNKNOWN elements close the connection, before anything else is examined.
- Answered from the committed metadata of this node, broker or controller.
"""

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.no_security import SECURITY_DISABLED, check_acl_elements
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire import error_codes
from kpywire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_COMPARED_AT_ONCE = 1_000


def handle(broker: Context, request: DescribeAclsRequest, _call: Call) -> Work:
    """List the ACLs that match the filter, by resource pattern."""
    check_acl_elements(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    if broker.authorizer is None:
        return DescribeAclsResponse(
            throttle_time_ms=0,
            error_code=SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
            resources=[],
        )
    resources = yield from _matching(broker, request)
    return DescribeAclsResponse(throttle_time_ms=0, error_code=error_codes.NONE, error_message="", resources=resources)


def _matching(broker: Context, request: DescribeAclsRequest) -> Work:
    from kpybroker.machines.authorization.filters import filter_of

    wanted = filter_of(request)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for number, acl in enumerate(list(broker.image.acls.values()), 1):
        if number % _COMPARED_AT_ONCE == 0:
            yield None
        if not wanted.matches(acl):
            continue
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
        )
    return list(resources.values())
