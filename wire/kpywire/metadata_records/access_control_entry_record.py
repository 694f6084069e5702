"""AccessControlEntryRecord: type 18 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i8, message, string, uuid


@message(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord:
    id: uuid  # The unique ID of this ACL.
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.
    pattern_type: i8  # The resource name pattern type.
    principal: string  # The principal name.
    host: string  # The host name.
    operation: i8  # The AclOperation.
    permission_type: i8  # The AclPermissionType.
