"""DeleteGroups (42), versions 0-2: delete groups without members, and their committed offsets (KIP-229).

- Each group is answered once, in the order of the request. A group with members is NON_EMPTY_GROUP, an unknown one
  GROUP_ID_NOT_FOUND. The empty group id is treated like any other.
"""

from collections.abc import Generator
from typing import Any

from kpybroker.calls.call import Call
from kpybroker.calls.gathered import gathered
from kpybroker.calls.steps import each
from kpybroker.groups.events import DeleteGroup
from kpybroker.serving.context import Context
from kpybroker.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
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
