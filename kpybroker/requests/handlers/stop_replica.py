"""StopReplica (5), versions 3-4, sent by the controller in ZooKeeper mode alone.

- Orders this broker to stop partitions, or to delete their logs (KIP-570). Unknown partitions are no error.
- Decided in `kpybroker.machines.zookeeper.broker.controller_requests`.
"""

from typing import Any, Protocol

from kpybroker.runtime.calls.call import Call
from kpywire.messages.stop_replica import StopReplicaRequest


class StopReplicaReceiver(Protocol):
    """A broker that takes orders."""

    @property
    def orders(self) -> Any: ...


def handle(broker: StopReplicaReceiver, request: StopReplicaRequest, _call: Call) -> Any:
    """Have the order decided, after those that came before it."""
    return broker.orders.take(request)
