"""DeleteGroups (42), versions 0-3: delete groups without members, and their committed offsets (KIP-229).

- The delivery states of a share group are deleted before it (KIP-932); if that fails, its error is the answer.
- v3: an error message for each group. Kafka fills it if its plug-in cannot delete the description of a topology
  (GROUP_DELETION_FAILED, KIP-1331). Here the description ends with the group's records, so it is never filled.
- Each group is answered once, in the order of the request. A group with members is NON_EMPTY_GROUP, an unknown one
  GROUP_ID_NOT_FOUND. The empty group id is treated like any other.
"""

from typing import Any

from kpybroker.machines.groups.events import DeleteGroup
from kpybroker.machines.groups.share.events import DeleteStates
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.requests.serving.share.group_states import Results, delete, first_error, then
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work, all_there, distinct, each
from kpywire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(broker: Context, request: DeleteGroupsRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    names = yield from distinct(request.groups_names)
    asked = yield from each(names, lambda group_id: _ask(broker, group_id, call))
    return DeleteGroupsResponse(throttle_time_ms=0, results=(yield from all_there(asked)))


def _ask(broker: Context, group_id: str, call: Call) -> Any:
    return then(
        _delete(broker, DeleteGroup(group_id), call), lambda found: _without_states(broker, group_id, call, found)
    )


def _delete(broker: Context, deletion: DeleteGroup, call: Call) -> Any:
    return broker.groups.submit(
        deletion.group_id,
        group_request(broker, deletion, call),
        lambda code: DeletableGroupResult(group_id=deletion.group_id, error_code=coordinator_error(code)),
        timeout_ms=commit_timeout_ms(broker),
    )


def _without_states(broker: Context, group_id: str, call: Call, found: DeletableGroupResult | DeleteStates) -> Any:
    """The result of a deletion. If a share group has states, they are deleted first."""
    if not isinstance(found, DeleteStates):
        return found
    pending = Pending()

    def done(results: Results) -> None:
        code, _ = first_error(results)
        if code:
            pending.resolve(DeletableGroupResult(group_id=group_id, error_code=code))
        else:
            then(_delete(broker, DeleteGroup(group_id, states_deleted=True), call), pending.resolve)

    delete(broker, group_id, found.partitions, done)
    return pending.response if pending.resolved else pending
