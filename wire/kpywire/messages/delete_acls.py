"""DeleteAcls: API key 31."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: i8  # The resource type.
    resource_name_filter: string | None  # The resource name, or null to match any resource name.
    pattern_type_filter: i8 = field(default=3)  # The pattern type.
    principal_filter: string | None  # The principal filter, or null to accept all principals.
    host_filter: string | None  # The host filter, or null to accept all hosts.
    operation: i8  # The ACL operation.
    permission_type: i8  # The permission type.


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """Version 1 adds the pattern type.
    Version 2 enables flexible versions.
    Version 3 adds the user resource type.
    """

    filters: list[DeleteAclsFilter]  # The filters to use when deleting ACLs.


@struct
class DeleteAclsMatchingAcl:
    error_code: i16  # The deletion error code, or 0 if the deletion succeeded.
    error_message: string | None  # The deletion error message, or null if the deletion succeeded.
    resource_type: i8  # The ACL resource type.
    resource_name: string  # The ACL resource name.
    pattern_type: i8 = field(default=3)  # The ACL resource pattern type.
    principal: string  # The ACL principal.
    host: string  # The ACL host.
    operation: i8  # The ACL operation.
    permission_type: i8  # The ACL permission type.


@struct
class DeleteAclsFilterResult:
    error_code: i16  # The error code, or 0 if the filter succeeded.
    error_message: string | None  # The error message, or null if the filter succeeded.
    matching_acls: list[DeleteAclsMatchingAcl]  # The ACLs which matched this filter.


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    """Version 1 adds the resource pattern type.
    Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 enables flexible versions.
    Version 3 adds the user resource type.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    filter_results: list[DeleteAclsFilterResult]  # The results for each filter.
