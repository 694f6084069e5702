"""The guards of requests about groups."""

from collections.abc import Generator
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.failed_response import failing
from kpybroker.requests.guards.parts import divided, merged, parted, with_only
from kpybroker.requests.guards.verdict import InSteps, Reduced, Verdict, refused
from kpybroker.requests.serving.permissions import GuardedImage, denied_among, may, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, distinct
from kpywire import error_codes
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kpywire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_GROUP, _TRANSACTION, _SHARE = range(3)
"""The key types of FindCoordinator."""
_KINDS = {
    _GROUP: (ResourceType.GROUP, error_codes.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (ResourceType.TRANSACTIONAL_ID, error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_SEVERAL_KEYS_FROM = 4


def member(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, StreamsGroupHeartbeat, StreamsGroupTopologyDescriptionUpdate,
    ShareFetch, ShareAcknowledge and AlterShareGroupOffsets: READ on the group. The handlers ask for the topics."""
    if may(node, call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return None
    return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)


def owner(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    """DeleteShareGroupOffsets: DELETE on the group. The handler asks for the topics."""
    if may(node, call, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return None
    return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)


def consumer_group_heartbeat(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    """ConsumerGroupHeartbeat, ShareGroupHeartbeat: READ on the group, then DESCRIBE on every topic that is named."""
    if not may(node, call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, call, error_codes.GROUP_AUTHORIZATION_FAILED)
    if not request.subscribed_topic_names:
        return None
    return _subscribed(node, request, call)


def _subscribed(node: GuardedImage, request: Any, call: Call) -> InSteps:
    names = request.subscribed_topic_names
    if not (yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)):
        return None
    return (yield from refused(request, call, error_codes.TOPIC_AUTHORIZATION_FAILED))


def described_by_topics(node: GuardedImage, request: Any, call: Call) -> InSteps:
    """ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe: DESCRIBE on each group; refusals come first.
    The handler asks for the topics."""
    return (yield from _described(node, request, call, "group_ids"))


def describe_groups(node: GuardedImage, request: DescribeGroupsRequest, call: Call) -> InSteps:
    """DescribeGroups: DESCRIBE on each group; refusals come first."""
    return (yield from _described(node, request, call, "groups"))


def _described(node: GuardedImage, request: Any, call: Call, field: str) -> InSteps:
    groups = getattr(request, field)
    denied = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.GROUP, groups)
    if not denied:
        return None
    out, rest = yield from parted(groups, lambda group: group in denied)
    code = error_codes.GROUP_AUTHORIZATION_FAILED
    refusals = (yield from failing(with_only(request, field, out), call.api_version, code)).groups

    yield from denied.emptied()

    def complete(response: Any) -> Any:
        response.groups = [*refusals, *response.groups]
        return response

    return Reduced(with_only(request, field, rest), complete)


def find_coordinator(node: GuardedImage, request: FindCoordinatorRequest, call: Call) -> Verdict | InSteps:
    """FindCoordinator: DESCRIBE on each group or transactional id; CLUSTER_ACTION for share partitions."""
    if request.key_type == _SHARE:
        if may_on_cluster(node, call, AclOperation.CLUSTER_ACTION):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED)
    if request.key_type not in _KINDS:
        return None
    kind, code = _KINDS[request.key_type]
    if call.api_version < _SEVERAL_KEYS_FROM:
        if may(node, call, AclOperation.DESCRIBE, kind, request.key):
            return None
        return refused(request, call, code)
    return _found(node, request, call, kind, code)


def _found(node: GuardedImage, request: FindCoordinatorRequest, call: Call, kind: ResourceType, code: int) -> InSteps:
    keys = request.coordinator_keys
    denied = yield from denied_among(node, call, AclOperation.DESCRIBE, kind, keys)
    if not denied:
        return None
    out, rest = yield from parted(keys, lambda key: key in denied)
    refusals: list[Coordinator] = []
    for nth, key in enumerate(out, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        refusals.append(Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=""))

    def complete(response: FindCoordinatorResponse) -> Generator[None, None, FindCoordinatorResponse]:
        response.coordinators = yield from merged(keys, lambda key: key in denied, refusals, response.coordinators)
        yield from denied.emptied()
        return response

    return Reduced(with_only(request, "coordinator_keys", rest), complete)


def list_groups(node: GuardedImage, request: ListGroupsRequest, call: Call) -> Verdict:
    """ListGroups: DESCRIBE on the cluster shows all groups, else those with DESCRIBE are shown."""
    if may_on_cluster(node, call, AclOperation.DESCRIBE, logs_denial=False):
        return None

    def is_hidden(group: ListedGroup) -> bool:
        return not may(node, call, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, logs_denial=False)

    def complete(response: ListGroupsResponse) -> Generator[None, None, ListGroupsResponse]:
        _, response.groups = yield from parted(response.groups, is_hidden)
        return response

    return Reduced(request, complete)


def delete_groups(node: GuardedImage, request: DeleteGroupsRequest, call: Call) -> InSteps:
    """DeleteGroups: DELETE on each group, which is answered once."""
    names = yield from distinct(request.groups_names)
    denied = yield from denied_among(node, call, AclOperation.DELETE, ResourceType.GROUP, names)
    code = error_codes.GROUP_AUTHORIZATION_FAILED
    once = with_only(request, "groups_names", names)
    verdict = yield from divided(once, call, ("groups_names", "results"), lambda name: name in denied, code)
    yield from denied.emptied()
    return verdict
