"""The guard of each API: what its sender needs, as the table of APIs has it (`kpybroker.machines.apis`)."""

from importlib import import_module
from typing import Any, Final

from kpybroker.machines.apis import APIS, AT_CONTROLLER, Api, Need, Reason
from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.requests.guards.verdict import Guard, InSteps, Verdict, refused
from kpybroker.requests.serving.permissions import GuardedImage, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpywire import api, error_codes

IN_ZOOKEEPER_MODE: Final[dict[int, Need]] = {
    api.LEADER_AND_ISR: AclOperation.CLUSTER_ACTION,
    api.STOP_REPLICA: AclOperation.CLUSTER_ACTION,
    api.UPDATE_METADATA: AclOperation.CLUSTER_ACTION,
    api.CONTROLLED_SHUTDOWN: AclOperation.CLUSTER_ACTION,
    api.ALTER_PARTITION: AT_CONTROLLER,
    api.ALLOCATE_PRODUCER_IDS: AT_CONTROLLER,
}
"""The needs of requests that a broker serves in ZooKeeper mode only: orders of the controller, and requests to it."""


def guard_of(node: Any, api_key: int) -> Guard | None:
    """The guard of an API at this node. An API that is not in the table is refused: it was forgotten."""
    if node.is_controller_role:
        return guard_for(_at_controller(APIS[api_key]))
    served = APIS.get(api_key)
    return guard_for(IN_ZOOKEEPER_MODE[api_key] if served is None or served.at_broker is None else served.at_broker)


def guard_for(need: Need) -> Guard | None:
    """The guard that examines a need; None if there is nothing to examine."""
    if isinstance(need, Reason):
        return None
    if isinstance(need, AclOperation):
        return _on_cluster(need)
    module, function = need.split(":")
    guard: Guard = getattr(import_module(f"kpybroker.requests.guards.{module}"), function)
    return guard


def _at_controller(served: Api) -> Need:
    """The need at a controller. Raises LookupError for an API that was forgotten."""
    if served.at_controller is None:
        raise LookupError("a controller does not serve this")
    return served.at_controller


def forwarded_guard(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    """The verdict of the controller on a request that a broker of the same process forwards. In ZooKeeper mode it is
    the broker itself that decides."""
    served = APIS.get(call.api_key)
    guard = guard_for(IN_ZOOKEEPER_MODE[call.api_key] if served is None else _at_controller(served))
    return None if guard is None else guard(node, request, call)


def _on_cluster(operation: AclOperation) -> Guard:
    def guard(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
        if may_on_cluster(node, call, operation):
            return None
        return refused(request, call, error_codes.CLUSTER_AUTHORIZATION_FAILED, _lacking(call, operation))

    return guard


def _lacking(call: Call, operation: AclOperation) -> str:
    """The reason in Kafka's words. In the brackets Kafka also names threads, connections and buffers."""
    asked = f"api={api.API_KEYS[call.api_key].name}, principal={call.principal}, clientAddress={call.host}"
    return f"Request Request({asked}) needs {operation.name} permission."
