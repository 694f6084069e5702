"""The guards of requests about groups."""

from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.failed_response import failed_response
from kpybroker.guards.parts import denied_names, divided, with_only
from kpybroker.guards.verdict import Reduced, Verdict, refused
from kpybroker.serving.permissions import GuardedImage, denied_topics, may, may_on_cluster
from kpywire import error_codes
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kpywire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kpywire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_GROUP, _TRANSACTION, _SHARE = range(3)
"""The key types of FindCoordinator."""
_KINDS = {
    _GROUP: (ResourceType.GROUP, error_codes.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (ResourceType.TRANSACTIONAL_ID, error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_SEVERAL_KEYS_FROM = 4


def member(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, StreamsGroupHeartbeat, ShareFetch, ShareAcknowledge and
    AlterShareGroupOffsets: READ on the group. The handlers ask for the topics."""
    if may(node, call, Operation.READ, ResourceType.GROUP, request.group_id):
        return None
    return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)


def owner(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """DeleteShareGroupOffsets: DELETE on the group. The handler asks for the topics."""
    if may(node, call, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return None
    return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)


def consumer_group_heartbeat(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """ConsumerGroupHeartbeat, ShareGroupHeartbeat: READ on the group, then DESCRIBE on every topic that is named."""
    if not may(node, call, Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    if denied_topics(node, call, Operation.DESCRIBE, request.subscribed_topic_names or ()):
        return refused(request, call, error_codes.TOPIC_AUTHORIZATION_FAILED)
    return None


def described_by_topics(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe: DESCRIBE on each group; refusals come first.
    The handler asks for the topics."""
    denied = denied_names(node, call, Operation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    if not denied:
        return None
    out = with_only(request, "group_ids", [group for group in request.group_ids if group in denied])
    refusals = failed_response(out, call.api_version, error_codes.GROUP_AUTHORIZATION_FAILED).groups

    def complete(response: Any) -> Any:
        response.groups = [*refusals, *response.groups]
        return response

    kept = [group for group in request.group_ids if group not in denied]
    return Reduced(with_only(request, "group_ids", kept), complete)


def find_coordinator(node: GuardedImage, request: FindCoordinatorRequest, call: Call) -> Verdict:
    """FindCoordinator: DESCRIBE on each group or transactional id; CLUSTER_ACTION for share partitions."""
    if request.key_type == _SHARE:
        if may_on_cluster(node, call, Operation.CLUSTER_ACTION):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)
    if request.key_type not in _KINDS:
        return None
    kind, code = _KINDS[request.key_type]
    if call.api_version < _SEVERAL_KEYS_FROM:
        if may(node, call, Operation.DESCRIBE, kind, request.key):
            return None
        return refused(request, call, code)
    denied = denied_names(node, call, Operation.DESCRIBE, kind, request.coordinator_keys)
    if not denied:
        return None

    def complete(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(response.coordinators)
        response.coordinators = [
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message="")
            if key in denied
            else next(found)
            for key in request.coordinator_keys
        ]
        return response

    return Reduced(
        with_only(request, "coordinator_keys", [key for key in request.coordinator_keys if key not in denied]), complete
    )


def describe_groups(node: GuardedImage, request: DescribeGroupsRequest, call: Call) -> Verdict:
    """DescribeGroups: DESCRIBE on each group; refusals come first."""
    denied = denied_names(node, call, Operation.DESCRIBE, ResourceType.GROUP, request.groups)
    if not denied:
        return None
    out = with_only(request, "groups", [group for group in request.groups if group in denied])
    code = error_codes.GROUP_AUTHORIZATION_FAILED
    refusals = failed_response(out, call.api_version, code).groups

    def complete(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        response.groups = [*refusals, *response.groups]
        return response

    return Reduced(with_only(request, "groups", [group for group in request.groups if group not in denied]), complete)


def list_groups(node: GuardedImage, request: ListGroupsRequest, call: Call) -> Verdict:
    """ListGroups: DESCRIBE on the cluster shows all groups, else those with DESCRIBE are shown."""
    if may_on_cluster(node, call, Operation.DESCRIBE, logs_denial=False):
        return None

    def complete(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [
            group
            for group in response.groups
            if may(node, call, Operation.DESCRIBE, ResourceType.GROUP, group.group_id, logs_denial=False)
        ]
        return response

    return Reduced(request, complete)


def delete_groups(node: GuardedImage, request: DeleteGroupsRequest, call: Call) -> Verdict:
    """DeleteGroups: DELETE on each group, which is answered once."""
    names = list(dict.fromkeys(request.groups_names))
    denied = denied_names(node, call, Operation.DELETE, ResourceType.GROUP, names)
    code = error_codes.GROUP_AUTHORIZATION_FAILED
    once = with_only(request, "groups_names", names)
    return divided(once, call, ("groups_names", "results"), lambda name: name in denied, code)
