"""The cluster page: what this node knows of its cluster."""

import asyncio

from kpybroker.machines.console.cluster import ClusterView, DiskView, Tally, health_of, nodes_of
from kpybroker.machines.metadata.metadata_version import name_of
from kpybroker.monitoring.console.history import OF_CLIENTS, plotted
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpystorage.directory import LogDirectory


async def cluster(node: NodeParts, viewer: Viewer, query: Query) -> ClusterView:
    """The whole page."""
    viewer.must_see_node()
    role = node.role
    image = role.image
    tally = Tally(image.brokers)
    everything = (
        (topic.name, index, partition)
        for topic in list(image.topics.values())
        for index, partition in list(topic.partitions.items())
    )
    async for topic, index, partition in paced(everything):
        tally.add(topic, index, partition)
    totals = tally.totals()
    controller = role.controller.controller_id
    leader = controller if controller >= 0 else None
    nodes = nodes_of(image, totals, role.node_id, leader)
    disks = await _disks(node)
    troubles = tuple(each for each in totals.troubles if viewer.may_see_topic(each.topic))
    return ClusterView(
        image.cluster_id,
        role.node_id,
        "unknown" if image.metadata_version is None else name_of(image.level),
        leader,
        health_of(nodes, totals, disks, leader, role.unready),
        nodes,
        disks,
        len(image.topics),
        totals.partitions,
        totals.without_leader,
        totals.under_replicated,
        troubles,
        totals.without_leader + totals.under_replicated - len(troubles),
        await plotted(node, viewer, query, OF_CLIENTS),
    )


async def _disks(node: NodeParts) -> tuple[DiskView, ...]:
    if node.role.is_controller_role:
        return ()  # its one directory holds the metadata log, which the page of the quorum shows
    directories = node.broker.replicas.directories
    found = []
    for directory in list(directories):
        sizes = await asyncio.to_thread(_sizes, directory)
        log_bytes = 0
        async for log in paced(list(directory.logs.values())):
            log_bytes += log.size if log.is_open else 0
        state = "cordoned" if directories.is_cordoned(directory) else "working"
        found.append(DiskView(directory.path, *sizes, log_bytes, len(directory.logs), state))
    found += [DiskView(path, None, None, None, None, "failed") for path in directories.failed_paths]
    return tuple(found)


def _sizes(directory: LogDirectory) -> tuple[int | None, int | None]:
    """The total and usable bytes. In a thread: a disk may be slow to answer."""
    try:
        return directory.disk.total_bytes(directory.path), directory.disk.free_bytes(directory.path)
    except OSError:
        return None, None
