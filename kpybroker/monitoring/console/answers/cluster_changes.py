"""Changes of the cluster: a broker is unregistered, leaders are elected, a move is cancelled, a throttle is removed.

Each is the request that a client would send, with the viewer's identity, and one line in the log.
"""

import logging
from typing import Final

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.moves import KINDS, THROTTLES
from kpybroker.monitoring.console.answers.configs import alter
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.unregister_broker import UnregisterBrokerRequest

log = logging.getLogger("kpybroker.console")

CLUSTER_PAGE: Final = "/"
ELECTIONS: Final = {"preferred": 0, "unclean": 1}
TIMEOUT_MS: Final = 25_000
MOST_ID: Final = 2**31 - 1


async def unregister(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Let the cluster forget a broker that will not come back. Returns the page of the cluster. Raises Refused."""
    query.needed("broker")
    broker = query.number("broker", 0, highest=MOST_ID)
    if query.text("typed").strip() != str(broker):
        raise bad(f"type {broker} to unregister broker {broker}")
    viewer.must(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    known = node.role.image.brokers.get(broker)
    if known is not None and not known.fenced:
        raise bad(f"broker {broker} is alive: only one that is away is unregistered here")
    answer = await node.ask(viewer, UnregisterBrokerRequest(broker_id=broker))
    refuse(answer.error_code, f"broker {broker}", answer.error_message)
    log.info("%s unregistered broker %d", viewer.identity, broker)
    return CLUSTER_PAGE


async def elect(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Elect leaders of a partition, or of all partitions that need it. Returns the page of the cluster. Raises
    Refused, also if the election of one of them failed."""
    topic, kind = query.text("topic").strip(), query.text("kind", "preferred")
    partition = query.number("partition", -1, highest=MOST_ID)
    if kind not in ELECTIONS:
        raise bad(f"kind is none of {', '.join(ELECTIONS)}")
    if kind == "unclean" and query.text("typed").strip() != kind:
        raise bad("an unclean election loses records that only the former leader has: type unclean to confirm it")
    if bool(topic) != (partition >= 0):
        raise bad("an election is for a topic and a partition, or for all: fill in both or none")
    wanted = [TopicPartitions(topic=topic, partitions=[partition])] if topic else None
    request = ElectLeadersRequest(election_type=ELECTIONS[kind], topic_partitions=wanted, timeout_ms=TIMEOUT_MS)
    answer = await node.ask(viewer, request)
    refuse(answer.error_code, "the election")
    elected = 0
    failed: list[tuple[int, str, str | None]] = []
    for each in answer.replica_election_results:
        for part in each.partition_result:
            if not part.error_code:
                elected += 1
            elif topic or part.error_code != error_codes.ELECTION_NOT_NEEDED:
                failed.append((part.error_code, f"{each.topic}-{part.partition_id}", part.error_message))
    where = f"{topic}-{partition}" if topic else "all partitions"
    log.info("%s: %s election for %a: %d elected, %d failed", viewer.identity, kind, where, elected, len(failed))
    if failed:
        refuse(*failed[0])
    return CLUSTER_PAGE


async def cancel_move(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Cancel the move of a partition: its new replicas are given up. Returns the page of the cluster. Raises
    Refused."""
    topic = query.needed("topic")
    query.needed("partition")
    index = query.number("partition", 0, highest=MOST_ID)
    part = ReassignablePartition(partition_index=index, replicas=None)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[part])])
    answer = await node.ask(viewer, request)
    refuse(answer.error_code, "the move", answer.error_message)
    for each in answer.responses:
        for result in each.partitions:
            refuse(result.error_code, f"{each.name}-{result.partition_index}", result.error_message)
    log.info("%s cancelled the move of %a", viewer.identity, f"{topic}-{index}")
    return CLUSTER_PAGE


async def remove_throttle(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Remove a config that slows replication down. Returns the page of the cluster. Raises Refused."""
    config, name = query.needed("config"), query.text("name")
    kind = next((number for number, text in KINDS.items() if text == query.text("kind")), None)
    if kind is None or config not in THROTTLES[kind]:
        raise bad(f"{config[:100]} is no throttle of a broker or topic")
    what = f"{KINDS[kind]} {name}" if name else "all brokers"
    await alter(node, viewer, kind, name, config, None, f"{config} of {what[:260]}")
    log.info("%s removed the throttle %s of %a", viewer.identity, config, what)
    return CLUSTER_PAGE
