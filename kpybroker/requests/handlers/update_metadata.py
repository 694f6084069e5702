"""UpdateMetadata (6), versions 7-8, sent by the controller in ZooKeeper mode alone.

- Tells this broker what clients get to know: live brokers, leaders, topic ids. A leader of -2 deletes a topic.
- Decided in `kpybroker.machines.zookeeper.broker.controller_requests`.
"""

from typing import Any, Protocol

from kpybroker.runtime.calls.call import Call
from kpywire.messages.update_metadata import UpdateMetadataRequest


class UpdateMetadataReceiver(Protocol):
    """A broker that takes orders."""

    @property
    def orders(self) -> Any: ...


def handle(broker: UpdateMetadataReceiver, request: UpdateMetadataRequest, _call: Call) -> Any:
    """Have the order decided, after those that came before it."""
    return broker.orders.take(request)
