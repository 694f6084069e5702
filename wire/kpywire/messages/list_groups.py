"""ListGroups: API key 16."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Version 3 is the first flexible version.
    Version 4 adds the StatesFilter field (KIP-518).
    Version 5 adds the TypesFilter field (KIP-848).
    """

    # The states of the groups we want to list. If empty, all groups are returned with their state.
    states_filter: list[string] = field("4+", default=[])
    # The types of the groups we want to list. If empty, all groups are returned with their type.
    types_filter: list[string] = field("5+", default=[])


@struct
class ListedGroup:
    group_id: string  # The group ID.
    protocol_type: string  # The group protocol type.
    group_state: string = field("4+", default="", ignorable=True)  # The group state name.
    group_type: string = field("5+", default="", ignorable=True)  # The group type name.


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """Version 1 adds the throttle time.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Version 3 is the first flexible version.
    Version 4 adds the GroupState field (KIP-518).
    Version 5 adds the GroupType field (KIP-848).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    error_code: i16  # The error code, or 0 if there was no error.
    groups: list[ListedGroup]  # Each group in the response.
