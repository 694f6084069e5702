"""The quorum page."""

from typing import Any, Final

from kpybroker.machines.console.quorum import FinalizedFeature, QuorumNode, QuorumPage
from kpybroker.machines.lag import lag_in_records
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)

METADATA: Final = "__cluster_metadata"


async def quorum(node: NodeParts, viewer: Viewer, _query: Query) -> QuorumPage:
    """The quorum as its leader describes it, and as this node sees it."""
    viewer.must_see_node()
    wanted = DescribeQuorumRequestTopicData(
        topic_name=METADATA, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    hidden: str | None = None
    nodes: tuple[QuorumNode, ...] = ()
    try:
        answer = await node.ask(viewer, DescribeQuorumRequest(topics=[wanted]))
        refuse(answer.error_code, "the quorum", answer.error_message)
        (partition,) = answer.topics[0].partitions
        refuse(partition.error_code, "the quorum", partition.error_message)
        nodes = _nodes(partition, node.role.node_id)
    except HttpRefused as refused:
        hidden = str(refused)
    state = node.role.controller.local_state
    features = tuple(FinalizedFeature(*each) for each in sorted(node.role.image.finalized_features.items()))
    leader = state.leader_id if state.leader_id >= 0 else None
    return QuorumPage(leader, state.epoch, state.high_watermark, state.role, state.next_offset, nodes, features, hidden)


def _nodes(partition: Any, here: int) -> tuple[QuorumNode, ...]:
    rows = []
    for role, replicas in (("voter", partition.current_voters), ("observer", partition.observers)):
        for each in replicas:
            is_leader = each.replica_id == partition.leader_id
            rows.append(
                QuorumNode(
                    each.replica_id,
                    "leader" if is_leader else role,
                    each.log_end_offset,
                    0 if is_leader else lag_in_records(partition.high_watermark, each.log_end_offset),
                    each.last_fetch_timestamp,
                    each.last_caught_up_timestamp,
                    each.replica_id == here,
                )
            )
    return tuple(rows)
