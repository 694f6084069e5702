"""DeleteGroups: API key 42."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    """Version 2 is the first flexible version.
    Version 3 corresponds to the addition of an ErrorMessage field on each per-group result in the response
    (populated when the broker needs to surface a cause to the caller). The request body shape is unchanged at
    version 3.
    """

    groups_names: list[string]  # The group names to delete.


@struct
class DeletableGroupResult:
    group_id: string  # The group id.
    error_code: i16  # The deletion error, or 0 if the deletion succeeded.
    # The error message, or null if there was no error.
    error_message: string | None = field("3+", default=None, ignorable=True)


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 is the first flexible version.
    Version 3 adds the per-group ErrorMessage field so the broker can surface a cause string when
    GROUP_DELETION_FAILED (or any other non-NONE error) is returned for a group.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    results: list[DeletableGroupResult]  # The deletion results.
