"""LeaderAndIsr (4), versions 5-7, sent by the controller in ZooKeeper mode alone.

- Orders this broker to lead or follow partitions. The epochs of the broker, the controller and each partition are
  compared as in Kafka 3.9 (KIP-380, KIP-516).
- The configs of new topics are read before their logs are made.
- Decided in `kpybroker.machines.zookeeper.broker.controller_requests`.
"""

from typing import Any, Protocol

from kpybroker.runtime.calls.call import Call
from kpywire.messages.leader_and_isr import LeaderAndIsrRequest


class LeaderAndIsrReceiver(Protocol):
    """A broker that takes orders."""

    @property
    def orders(self) -> Any: ...


def handle(broker: LeaderAndIsrReceiver, request: LeaderAndIsrRequest, _call: Call) -> Any:
    """Have the order decided, after those that came before it."""
    return broker.orders.take(request)
