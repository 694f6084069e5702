"""DescribeGroups (15), versions 0-6: the states, members and assignments of groups.

- v1: throttle time. v3: authorized operations, if asked for (KIP-430). v4: instance ids (KIP-345).
- In ZooKeeper mode groups have no configs, and no operations on them.
- An unknown group has the state Dead and no error; from v6 it is GROUP_ID_NOT_FOUND (KIP-1043).
- Answered in the order of the request. The empty group id is treated like any other.
"""

from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.requests.serving.permissions import allowed_operations
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work, asked_once
from kpywire import error_codes
from kpywire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_FROM = 6
NOT_ASKED = -(2**31)
_ON_CONFIGS = 1 << AclOperation.DESCRIBE_CONFIGS | 1 << AclOperation.ALTER_CONFIGS


def handle(broker: Context, request: DescribeGroupsRequest, call: Call) -> Work:
    """Ask the coordinator of each group."""
    operations = request.include_authorized_operations
    return (
        yield from asked_once(
            request.groups,
            lambda group_id: _ask(broker, group_id, call, with_operations=operations),
            lambda groups: DescribeGroupsResponse(groups=groups),
        )
    )


def _ask(broker: Context, group_id: str, call: Call, *, with_operations: bool) -> Any:
    has_no_configs = broker.config.is_in_zookeeper_mode

    def answer(group: DescribedGroup) -> DescribedGroup:
        if group.error_code == error_codes.GROUP_ID_NOT_FOUND and call.api_version < NOT_FOUND_FROM:
            group.error_code, group.error_message = error_codes.NONE, None
        if with_operations and group.error_code == error_codes.NONE:
            operations = allowed_operations(broker, call, ResourceType.GROUP, group_id)
            group.authorized_operations = operations & ~_ON_CONFIGS if has_no_configs else operations
        return group

    def refuse(code: int) -> DescribedGroup:
        return DescribedGroup(
            error_code=coordinator_error(code),
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
            authorized_operations=NOT_ASKED,
        )

    event = group_request(broker, DescribeGroup(group_id), call)
    return broker.groups.submit(group_id, event, refuse, answer=answer, writes=False)
