"""The quorum page, and the change of a feature's level."""

import logging
from typing import Final

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.quorum import QuorumNode, QuorumPage, features_of
from kpybroker.machines.lag import lag_in_records
from kpybroker.machines.metadata.image import KRAFT_VERSION
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
)
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

log = logging.getLogger("kpybroker.console")

METADATA: Final = "__cluster_metadata"
UPGRADE, SAFE_DOWNGRADE = 1, 2
HIGHEST_LEVEL: Final = 2**15 - 1


async def described_quorum(node: NodeParts, viewer: Viewer) -> DescribeQuorumResponsePartitionData:
    """The quorum as its leader describes it to this viewer. Raises Refused."""
    wanted = DescribeQuorumRequestTopicData(
        topic_name=METADATA, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    answer = await node.ask(viewer, DescribeQuorumRequest(topics=[wanted]))
    refuse(answer.error_code, "the quorum", answer.error_message)
    partition: DescribeQuorumResponsePartitionData = answer.topics[0].partitions[0]
    refuse(partition.error_code, "the quorum", partition.error_message)
    return partition


async def quorum(node: NodeParts, viewer: Viewer, _query: Query) -> QuorumPage:
    """The quorum as its leader describes it, and as this node sees it. There is none in ZooKeeper mode."""
    viewer.must_see_node()
    hidden: str | None = None
    nodes: tuple[QuorumNode, ...] = ()
    controller = node.role.controller
    state = controller.local_state
    in_zookeeper_mode = node.role.config.is_in_zookeeper_mode
    if in_zookeeper_mode:
        hidden = "There is no quorum in ZooKeeper mode. The leader is the broker that is the controller."
    else:
        try:
            nodes = _nodes(await described_quorum(node, viewer), node.role.node_id)
        except HttpRefused as refused:
            hidden = str(refused)
    return QuorumPage(
        state.leader_id if state.leader_id >= 0 else None,
        state.epoch,
        state.high_watermark,
        state.role,
        state.next_offset,
        nodes,
        () if in_zookeeper_mode else features_of(node.role.image, controller.kraft_version),
        not in_zookeeper_mode and may_change(node, viewer),
        hidden,
    )


def may_change(node: NodeParts, viewer: Viewer) -> bool:
    """Whether this console may change the cluster, and the viewer too."""
    may_write = node.is_writable and not node.role.is_controller_role
    return may_write and viewer.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


def time_of_leader(partition: DescribeQuorumResponsePartitionData) -> int:
    """The present time by the clock of the quorum's leader: it has always caught up with itself."""
    return max((each.last_caught_up_timestamp for each in partition.current_voters), default=-1)


def _nodes(partition: DescribeQuorumResponsePartitionData, here: int) -> tuple[QuorumNode, ...]:
    now_ms = time_of_leader(partition)
    rows = []
    for role, replicas in (("voter", partition.current_voters), ("observer", partition.observers)):
        for each in replicas:
            is_leader = each.replica_id == partition.leader_id
            caught_up_ms = each.last_caught_up_timestamp
            rows.append(
                QuorumNode(
                    each.replica_id,
                    "leader" if is_leader else role,
                    each.log_end_offset,
                    0 if is_leader else lag_in_records(partition.high_watermark, each.log_end_offset),
                    each.last_fetch_timestamp,
                    caught_up_ms,
                    max(0, now_ms - caught_up_ms) / 1000 if caught_up_ms >= 0 else None,
                    each.replica_id == here,
                )
            )
    return tuple(rows)


async def set_level(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Raise the level of a feature, or lower it where that is ticked. Returns the page of the quorum. Raises
    Refused."""
    name = query.needed("feature")
    query.needed("level")
    level = query.number("level", 0, highest=HIGHEST_LEVEL)
    role = node.role
    now = {**role.image.finalized_features, KRAFT_VERSION: role.controller.kraft_version}.get(name, 0)
    if level == now:
        raise bad(f"{name[:100]} is at level {level} already")
    kind = SAFE_DOWNGRADE if level < now and query.flag("lower") else UPGRADE
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    answer = await node.ask(viewer, UpdateFeaturesRequest(feature_updates=[update], validate_only=False))
    refuse(answer.error_code, name[:100], answer.error_message)
    for each in answer.results:
        refuse(each.error_code, each.feature, each.error_message)
    log.info("%s: feature %a is at level %d instead of %d", viewer.identity, name, level, now)
    return "/quorum"
