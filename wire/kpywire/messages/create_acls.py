"""CreateAcls: API key 30."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@struct
class AclCreation:
    resource_type: i8  # The type of the resource.
    resource_name: string  # The resource name for the ACL.
    resource_pattern_type: i8 = field(default=3)  # The pattern type for the ACL.
    principal: string  # The principal for the ACL.
    host: string  # The host for the ACL.
    operation: i8  # The operation type for the ACL (read, write, etc.).
    permission_type: i8  # The permission type for the ACL (allow, deny, etc.).


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    """Version 1 adds resource pattern type.
    Version 2 enables flexible versions.
    Version 3 adds user resource type.
    """

    creations: list[AclCreation]  # The ACLs that we want to create.


@struct
class AclCreationResult:
    error_code: i16  # The result error, or zero if there was no error.
    error_message: string | None  # The result message, or null if there was no error.


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 enables flexible versions.
    Version 3 adds user resource type.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    results: list[AclCreationResult]  # The results for each ACL creation.
