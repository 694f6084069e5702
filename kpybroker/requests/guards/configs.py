"""The guards of requests about configs (``ConfigHelper``, ``ConfigAdminManager``, ``ControllerApis``)."""

from collections.abc import Callable
from copy import copy
from typing import Any

from kpybroker.config.describe import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.failed_response import failed_response
from kpybroker.requests.guards.parts import parted, with_only
from kpybroker.requests.guards.verdict import InSteps, Reduced
from kpybroker.requests.serving.permissions import GuardedImage, may
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes

_OF_CLUSTER = (BROKER, BROKER_LOGGER, CLIENT_METRICS)
_STEP_RESOURCES = 8
"""The number of resources that are examined in one step: to refuse one takes longer than an element elsewhere."""
_KINDS = {
    TOPIC: (ResourceType.TOPIC, error_codes.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (ResourceType.GROUP, error_codes.GROUP_AUTHORIZATION_FAILED),
}


def _denial(node: GuardedImage, call: Call, operation: AclOperation, resource: Any) -> int:
    """The error that refuses a resource; NONE if the sender may do this with it, or if its type is unknown."""
    kind, code = _KINDS.get(resource.resource_type, (ResourceType.CLUSTER, error_codes.CLUSTER_AUTHORIZATION_FAILED))
    if kind == ResourceType.CLUSTER and resource.resource_type not in _OF_CLUSTER:
        return error_codes.NONE
    name = CLUSTER_NAME if kind == ResourceType.CLUSTER else resource.resource_name
    return error_codes.NONE if may(node, call, operation, kind, name) else code


def _divided(request: Any, call: Call, denial_of: Callable[[Any], int], *, field: str, is_first: bool) -> InSteps:
    """The verdict on a request whose resources are refused with these errors, if any. Refusals come first or last."""
    refusals: list[Any] = []
    rest: list[Any] = []
    for nth, resource in enumerate(request.resources, 1):
        if nth % _STEP_RESOURCES == 0:
            yield
        code = denial_of(resource)
        if not code:
            rest.append(resource)
            continue
        part = with_only(request, "resources", [copy(resource)])
        (refusal,) = getattr(failed_response(part, call.api_version, code), field)
        refusal.error_message = error_codes.message(code)
        refusals.append(refusal)
    if not refusals:
        return None

    def complete(response: Any) -> Any:
        answered = getattr(response, field)
        setattr(response, field, [*refusals, *answered] if is_first else [*answered, *refusals])
        return response

    return Reduced(with_only(request, "resources", rest), complete)


def describe_configs(node: GuardedImage, request: Any, call: Call) -> InSteps:
    """DescribeConfigs: DESCRIBE_CONFIGS on each topic and group, and on the cluster for everything else."""
    unknown, _ = yield from parted(
        request.resources, lambda each: each.resource_type not in _KINDS and each.resource_type not in _OF_CLUSTER
    )
    if unknown:
        return None  # then all of them fail

    def denial_of(resource: Any) -> int:
        return _denial(node, call, AclOperation.DESCRIBE_CONFIGS, resource)

    return (yield from _divided(request, call, denial_of, field="results", is_first=False))


def loggers_of_broker(node: GuardedImage, request: Any, call: Call) -> InSteps:
    """IncrementalAlterConfigs at a broker, which sets only its loggers: ALTER_CONFIGS on the cluster."""

    def denial_of(resource: Any) -> int:
        is_logger = resource.resource_type == BROKER_LOGGER
        return _denial(node, call, AclOperation.ALTER_CONFIGS, resource) if is_logger else error_codes.NONE

    return (yield from _divided(request, call, denial_of, field="responses", is_first=True))


def alter_configs(node: GuardedImage, request: Any, call: Call) -> InSteps:
    """AlterConfigs, IncrementalAlterConfigs at a controller: ALTER_CONFIGS on each topic and group, and on the cluster
    for brokers and metrics; CLUSTER_ACTION for the controller's own loggers."""

    def denial_of(resource: Any) -> int:
        is_logger = resource.resource_type == BROKER_LOGGER
        operation = AclOperation.CLUSTER_ACTION if is_logger else AclOperation.ALTER_CONFIGS
        return _denial(node, call, operation, resource)

    return (yield from _divided(request, call, denial_of, field="responses", is_first=True))
