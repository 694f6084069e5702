"""ListGroups (16), versions 0-5: the groups whose coordinator this node is.

- v1: throttle time. v4: only those in some states (KIP-518). v5: only those of some types (KIP-848).
- While any shard loads, the answer as a whole is COORDINATOR_LOAD_IN_PROGRESS: an incomplete list would look complete.
"""

from collections.abc import Sequence
from typing import Any

from kpybroker.groups.events import ListGroups
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.group_requests import coordinator_error, gathered, group_request
from kpybroker.server.slices import Work
from kpywire import error_codes
from kpywire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

STATES_AND_TYPES = frozenset(
    (
        *("empty", "preparingrebalance", "completingrebalance", "stable", "dead"),
        *("assigning", "reconciling", "notready", "unknown"),
        *("classic", "consumer", "share", "streams"),
    )
)
"""Of every kind of group, in lower case, in which filters are compared."""


def handle(broker: Context, request: ListGroupsRequest, call: Call) -> Work:
    """Ask every shard, and merge what they say."""
    listing = ListGroups(_that_exist(request.states_filter), _that_exist(request.types_filter))
    event = group_request(broker, listing, call)
    return gathered((yield from broker.groups.submit_to_all(event, coordinator_error)), _merged)


def _that_exist(names: Sequence[str]) -> Sequence[str]:
    """A filter without what lets nothing through, so that no shard looks at thousands of names for each of its own."""
    return list({name.lower() for name in names} & STATES_AND_TYPES) or names[:1]


def _merged(listed: list[Any]) -> ListGroupsResponse:
    """The groups of all shards; of an error code, which stands for a shard that could not say, one for all."""
    codes = {each for each in listed if isinstance(each, int)} - {error_codes.NOT_COORDINATOR}
    if codes:
        return ListGroupsResponse(error_code=min(codes), groups=[])
    groups = [group for each in listed if not isinstance(each, int) for group in each]
    return ListGroupsResponse(error_code=error_codes.NONE, groups=groups)
