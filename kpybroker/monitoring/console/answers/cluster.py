"""The cluster page: what this node knows of its cluster."""

import asyncio
from collections import ChainMap
from collections.abc import Sequence

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.cluster import (
    CORDONED,
    FAILED,
    WORKING,
    ClusterView,
    DiskView,
    Tally,
    Totals,
    health_of,
)
from kpybroker.machines.console.moves import MOST_MOVES, LogSizes, MoveRow, ThrottleRow, left_of, throttles_of
from kpybroker.machines.console.nodes import SILENT_S, Away, NodeFacts, nodes_of
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.metadata_version import name_of
from kpybroker.machines.metadata.topic import Partition
from kpybroker.monitoring.console.answers.peers import PATIENCE_S, ask_peers, sizes_here
from kpybroker.monitoring.console.answers.quorum import described_quorum, may_change, time_of_leader
from kpybroker.monitoring.console.history import OF_CLIENTS, plotted
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpystorage.directory import LogDirectory


async def cluster(node: NodeParts, viewer: Viewer, query: Query) -> ClusterView:
    """The whole page."""
    viewer.must_see_node()
    role = node.role
    image = role.image
    totals = await _totals(image)
    moving = [each for each in totals.moving if viewer.may_see_topic(each[0])]
    spots = [(topic, index) for topic, index, _ in moving]
    controller = role.controller.controller_id
    leader = controller if controller >= 0 else None
    peers, sizes, silent = await asyncio.gather(
        ask_peers(node, viewer, spots), sizes_here(node, viewer, spots), _silent(node, viewer, leader)
    )
    away = {**{number: Away(seconds, is_older=False) for number, seconds in silent.items()}, **_absent(node)}
    consoles = {number: peer.console for number, peer in peers.items()}
    counts = totals.leaders, totals.replicas, totals.waiting
    nodes = nodes_of(image, NodeFacts(role.node_id, leader, *counts, away, consoles))
    disks = sorted([*await _disks(node), *(disk for peer in peers.values() for disk in peer.disks)], key=_node_of)
    troubles = tuple(each for each in totals.troubles if viewer.may_see_topic(each.topic))
    moves = _moves(node, moving, ChainMap(dict(sizes), *(dict(peer.sizes) for peer in peers.values())))
    return ClusterView(
        image.cluster_id,
        role.node_id,
        "unknown" if image.metadata_version is None else name_of(image.level),
        leader,
        health_of(nodes, totals, disks, leader, role.unready),
        nodes,
        tuple(disks),
        len(image.topics),
        totals.partitions,
        totals.without_leader,
        totals.under_replicated,
        troubles,
        totals.without_leader + totals.under_replicated - len(troubles),
        moves,
        totals.moves - len(moves),
        await _throttles(node, viewer),
        may_change(node, viewer),
        await plotted(node, viewer, query, OF_CLIENTS),
    )


async def _totals(image: MetadataImage) -> Totals:
    tally = Tally(image.brokers)
    everything = (
        (topic.name, index, partition)
        for topic in list(image.topics.values())
        for index, partition in list(topic.partitions.items())
    )
    async for topic, index, partition in paced(everything):
        tally.add(topic, index, partition)
    return tally.totals()


def _absent(node: NodeParts) -> dict[int, Away]:
    """The brokers that are away, and for how long as this node saw it."""
    now_ms = node.role.scheduler.monotonic_ms()
    absences = ((number, node.role.absences.of(number)) for number in node.role.image.brokers)
    return {
        number: Away((now_ms - absence.since_ms) / 1000, absence.is_older)
        for number, absence in absences
        if absence is not None
    }


async def _silent(node: NodeParts, viewer: Viewer, leader: int | None) -> dict[int, float]:
    """The controllers that do not fetch from the quorum's leader, and for how many seconds. None where it is not known:
    without a leader, or for a viewer that it does not answer."""
    if leader is None or not node.role.image.controllers:
        return {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            partition = await described_quorum(node, viewer)
    except (HttpRefused, TimeoutError):
        return {}
    now_ms = time_of_leader(partition)
    silent = {
        each.replica_id: (now_ms - each.last_fetch_timestamp) / 1000
        for each in partition.current_voters
        if each.last_fetch_timestamp >= 0 and each.replica_id != partition.leader_id
    }
    return {number: seconds for number, seconds in silent.items() if seconds >= SILENT_S}


def _moves(node: NodeParts, moving: Sequence[tuple[str, int, Partition]], sizes: LogSizes) -> tuple[MoveRow, ...]:
    known = {(topic, index): left_of(topic, index, each, sizes) for topic, index, each in moving}
    left_s = node.moves.left_s({spot: left for spot, (_, left) in known.items() if left is not None})
    return tuple(
        MoveRow(
            topic,
            index,
            each.leader if each.leader >= 0 else None,
            each.adding_replicas,
            each.removing_replicas,
            *known[topic, index],
            left_s.get((topic, index)),
        )
        for topic, index, each in moving
    )


async def _throttles(node: NodeParts, viewer: Viewer) -> tuple[ThrottleRow, ...]:
    """The throttles of brokers and topics whose configs the viewer may see."""
    rows = []
    async for each in paced(throttles_of(node.role.image.configs)):
        if each is None:
            continue
        is_topic = each.kind == "topic"
        kind, name = (ResourceType.TOPIC, each.name) if is_topic else (ResourceType.CLUSTER, CLUSTER_NAME)
        if viewer.may(AclOperation.DESCRIBE_CONFIGS, kind, name) and (not is_topic or viewer.may_see_topic(name)):
            rows.append(each)
    return tuple(sorted(rows, key=lambda row: (row.kind, row.name, row.config))[:MOST_MOVES])


def _node_of(disk: DiskView) -> int:
    return disk.node


async def _disks(node: NodeParts) -> tuple[DiskView, ...]:
    if node.role.is_controller_role:
        return ()  # its one directory holds the metadata log, which the page of the quorum shows
    directories, here = node.broker.replicas.directories, node.role.node_id
    found = []
    for directory in list(directories):
        total, usable = await asyncio.to_thread(_sizes, directory)
        log_bytes = 0
        async for log in paced(list(directory.logs.values())):
            log_bytes += log.size if log.is_open else 0
        state = CORDONED if directories.is_cordoned(directory) else WORKING
        state = FAILED if total is None else state
        found.append(DiskView(here, directory.path, total, usable, log_bytes, len(directory.logs), state))
    found += [DiskView(here, path, None, None, None, None, FAILED) for path in directories.failed_paths]
    return tuple(found)


def _sizes(directory: LogDirectory) -> tuple[int | None, int | None]:
    """The total and usable bytes. In a thread: a disk may be slow to answer."""
    try:
        return directory.disk.total_bytes(directory.path), directory.disk.free_bytes(directory.path)
    except OSError:
        return None, None
