"""The guards of requests about configs (``ConfigHelper``, ``ConfigAdminManager``, ``ControllerApis``)."""

from copy import copy
from typing import Any

from kpybroker.authorization.resources import CLUSTER_NAME, Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.config.describe import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kpybroker.failed_response import failed_response
from kpybroker.guards.parts import with_only
from kpybroker.guards.verdict import Reduced, Verdict
from kpybroker.serving.permissions import GuardedImage, may
from kpywire import error_codes

_OF_CLUSTER = (BROKER, BROKER_LOGGER, CLIENT_METRICS)
_KINDS = {
    TOPIC: (ResourceType.TOPIC, error_codes.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (ResourceType.GROUP, error_codes.GROUP_AUTHORIZATION_FAILED),
}


def _denial(node: GuardedImage, call: Call, operation: Operation, resource: Any) -> int:
    """The error that refuses a resource; NONE if the sender may do this with it, or if its type is unknown."""
    kind, code = _KINDS.get(resource.resource_type, (ResourceType.CLUSTER, error_codes.CLUSTER_AUTHORIZATION_FAILED))
    if kind == ResourceType.CLUSTER and resource.resource_type not in _OF_CLUSTER:
        return error_codes.NONE
    name = CLUSTER_NAME if kind == ResourceType.CLUSTER else resource.resource_name
    return error_codes.NONE if may(node, call, operation, kind, name) else code


def _divided(request: Any, call: Call, denials: list[int], *, field: str, is_first: bool) -> Verdict:
    """The verdict on a request whose resources have these errors. Refusals come first or last."""
    if not any(denials):
        return None
    refusals: list[Any] = []
    for resource, code in zip(request.resources, denials, strict=True):
        if code:
            part = with_only(request, "resources", [copy(resource)])
            (refusal,) = getattr(failed_response(part, call.api_version, code), field)
            refusal.error_message = error_codes.message(code)
            refusals.append(refusal)
    rest = [resource for resource, code in zip(request.resources, denials, strict=True) if not code]

    def complete(response: Any) -> Any:
        answered = getattr(response, field)
        setattr(response, field, [*refusals, *answered] if is_first else [*answered, *refusals])
        return response

    return Reduced(with_only(request, "resources", rest), complete)


def describe_configs(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """DescribeConfigs: DESCRIBE_CONFIGS on each topic and group, and on the cluster for everything else."""
    if any(each.resource_type not in _KINDS and each.resource_type not in _OF_CLUSTER for each in request.resources):
        return None  # then all of them fail
    denials = [_denial(node, call, Operation.DESCRIBE_CONFIGS, resource) for resource in request.resources]
    return _divided(request, call, denials, field="results", is_first=False)


def loggers_of_broker(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """IncrementalAlterConfigs at a broker, which sets only its loggers: ALTER_CONFIGS on the cluster."""
    denials = [
        _denial(node, call, Operation.ALTER_CONFIGS, resource) if resource.resource_type == BROKER_LOGGER else 0
        for resource in request.resources
    ]
    return _divided(request, call, denials, field="responses", is_first=True)


def alter_configs(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """AlterConfigs, IncrementalAlterConfigs at a controller: ALTER_CONFIGS on each topic and group, and on the cluster
    for brokers and metrics; CLUSTER_ACTION for the controller's own loggers."""
    denials = [
        _denial(
            node,
            call,
            Operation.CLUSTER_ACTION if resource.resource_type == BROKER_LOGGER else Operation.ALTER_CONFIGS,
            resource,
        )
        for resource in request.resources
    ]
    return _divided(request, call, denials, field="responses", is_first=True)
