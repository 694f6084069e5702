"""The replica that a consumer should read from: one in its own rack (KIP-392).

If ``replica.selector.class`` asks for it, a leader answers with this replica and without records, and the consumer then
reads there. The rule is that of Kafka's ``RackAwareReplicaSelector``: the leader if it is in the consumer's rack, or if
no replica is; else the in-sync replica in that rack with the largest end offset.
"""

from collections.abc import Callable
from typing import Final

from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.role import Role
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire.messages.fetch import FetchRequest

NO_PREFERENCE: Final = -1
FROM_VERSION: Final = 11
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

Chooser = Callable[[Role, int], int]
"""(role of this node, fetch offset) -> the broker to read from; `NO_PREFERENCE` means this one."""


def chooser_of(broker: Context, request: FetchRequest, call: Call) -> Chooser | None:
    """The chooser for a consumer that sent its rack; None if the broker does not choose."""
    if call.api_version < FROM_VERSION or broker.config["replica.selector.class"] != RACK_AWARE:
        return None
    rack, listener_name = request.rack_id, call.listener_name
    return lambda role, offset: preferred_replica(broker, role, offset, rack, listener_name)


def preferred_replica(broker: Context, leader: Role, fetch_offset: int, rack: str, listener_name: str) -> int:
    """The broker to read a partition from. Followers never send a consumer elsewhere."""
    brokers = broker.image.brokers
    own = brokers.get(broker.node_id)
    if not isinstance(leader, PartitionLeader) or (own is not None and own.rack == rack):
        return NO_PREFERENCE
    best: tuple[int, float, int] | None = None
    for follower in leader.in_sync.followers.values():
        node = brokers.get(follower.id)
        if node is None or node.fenced or node.rack != rack or listener_name not in node.listeners:
            continue
        if follower.id in leader.isr and follower.log_start_offset <= fetch_offset <= follower.log_end.offset:
            best = max(best or (-1, 0.0, -1), (follower.log_end.offset, follower.caught_up_ms, follower.id))
    return NO_PREFERENCE if best is None else best[2]
