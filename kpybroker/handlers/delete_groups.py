"""DeleteGroups (42), versions 0-2: groups without members go, and what they committed (KIP-229).

- Each group once, in the order of the request. NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND if there is
  none. The empty group id is one like any other.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.groups.events import DeleteGroup
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.group_requests import commit_timeout_ms, coordinator_error, gathered, group_request
from kpybroker.server.slices import each
from kpywire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(broker: Context, request: DeleteGroupsRequest, call: Call) -> Generator[None, None, Any]:
    """Ask the coordinator of each group."""
    asked = yield from each(dict.fromkeys(request.groups_names), lambda group_id: _ask(broker, group_id, call))
    return gathered(asked, lambda results: DeleteGroupsResponse(throttle_time_ms=0, results=results))


def _ask(broker: Context, group_id: str, call: Call) -> Any:
    return broker.groups.submit(
        group_id,
        group_request(broker, DeleteGroup(group_id), call),
        lambda code: DeletableGroupResult(group_id=group_id, error_code=coordinator_error(code)),
        timeout_ms=commit_timeout_ms(broker),
    )
