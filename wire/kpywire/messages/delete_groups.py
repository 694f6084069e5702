"""DeleteGroups: API key 42."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Version 2 is the first flexible version."""

    groups_names: list[string]  # The group names to delete.


@struct
class DeletableGroupResult:
    group_id: string  # The group id.
    error_code: i16  # The deletion error, or 0 if the deletion succeeded.


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 is the first flexible version.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    results: list[DeletableGroupResult]  # The deletion results.
