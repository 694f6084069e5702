"""DescribeAcls: API key 29."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """Version 1 adds resource pattern type.
    Version 2 enables flexible versions.
    Version 3 adds user resource type.
    """

    resource_type_filter: i8  # The resource type.
    resource_name_filter: string | None  # The resource name, or null to match any resource name.
    pattern_type_filter: i8 = field(default=3)  # The resource pattern to match.
    principal_filter: string | None  # The principal to match, or null to match any principal.
    host_filter: string | None  # The host to match, or null to match any host.
    operation: i8  # The operation to match.
    permission_type: i8  # The permission type to match.


@struct
class AclDescription:
    principal: string  # The ACL principal.
    host: string  # The ACL host.
    operation: i8  # The ACL operation.
    permission_type: i8  # The ACL permission type.


@struct
class DescribeAclsResource:
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.
    pattern_type: i8 = field(default=3)  # The resource pattern type.
    acls: list[AclDescription]  # The ACLs.


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    """Version 1 adds PatternType.
    Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 enables flexible versions.
    Version 3 adds user resource type.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The error message, or null if there was no error.
    resources: list[DescribeAclsResource]  # Each Resource that is referenced in an ACL.
