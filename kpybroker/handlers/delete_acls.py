"""DeleteAcls (31), versions 1-3: delete permissions and prohibitions. Without an authorizer: SECURITY_DISABLED."""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import NO_AUTHORIZER, SECURITY_DISABLED, check_acl_elements
from kpywire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(_broker: Context, request: DeleteAclsRequest, _call: Call) -> DeleteAclsResponse:
    """Refuse each filter: nothing is deleted."""
    for one in request.filters:
        check_acl_elements(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
    return DeleteAclsResponse(
        throttle_time_ms=0,
        filter_results=[
            DeleteAclsFilterResult(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[])
            for _ in request.filters
        ],
    )
