"""ListGroups (16), versions 0-5: the groups that this node coordinates.

- v1: throttle time. v4: filter by state (KIP-518). v5: filter by type (KIP-848).
- While any shard loads, the whole answer is COORDINATOR_LOAD_IN_PROGRESS: an incomplete list would look complete.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from kpybroker.machines.groups.events import ListGroups
from kpybroker.machines.groups.kinds import KINDS
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.steps import Work
from kpywire import error_codes
from kpywire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

STATES_AND_TYPES = frozenset((*(kind.name for kind in KINDS), *chain(*(kind.states.values() for kind in KINDS))))
"""The states and types of all kinds of groups, in lower case for comparison with filters."""


def handle(broker: Context, request: ListGroupsRequest, call: Call) -> Work:
    """Ask every shard, and merge the answers."""
    listing = ListGroups(_that_exist(request.states_filter), _that_exist(request.types_filter))
    event = group_request(broker, listing, call)
    return gathered((yield from broker.groups.submit_to_all(event, coordinator_error)), _merged)


def _that_exist(names: Sequence[str]) -> Sequence[str]:
    """A filter without names that match nothing, so that no shard compares each group with thousands of names."""
    return list({name.lower() for name in names} & STATES_AND_TYPES) or names[:1]


def _merged(listed: list[Any]) -> ListGroupsResponse:
    """The groups of all shards. If a shard answered with an error other than NOT_COORDINATOR, that is the answer."""
    codes = {each for each in listed if isinstance(each, int)} - {error_codes.NOT_COORDINATOR}
    if codes:
        return ListGroupsResponse(error_code=min(codes), groups=[])
    groups = [group for each in listed if not isinstance(each, int) for group in each]
    return ListGroupsResponse(error_code=error_codes.NONE, groups=groups)
