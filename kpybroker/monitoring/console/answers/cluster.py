"""The cluster page: what this node knows of its cluster."""

import asyncio

from kpybroker.machines.console.cluster import ClusterView, DiskView, Tally, health_of, nodes_of
from kpybroker.machines.console.plots import Plot, PlotLine
from kpybroker.machines.metadata.metadata_version import name_of
from kpybroker.monitoring.console.history import TIMED, Sample
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpystorage.directory import LogDirectory

SAMPLE_S = 2.0


async def cluster(node: NodeParts, viewer: Viewer, _query: Query) -> ClusterView:
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
        plots_of(list(node.history.samples)),
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


def plots_of(samples: list[Sample]) -> tuple[Plot, ...]:
    """The plots of the recent past."""
    latencies = [(f"{name} {which}", f"{name} {which}") for _, name in TIMED for which in ("p50", "p99")]
    return (
        _plot("Bytes", "B/s", samples, [("in", "bytes in"), ("out", "bytes out")]),
        _plot("Records in", "records/s", samples, [("in", "records in")]),
        _plot("Requests", "requests/s", samples, [("all", "requests")]),
        _plot("Latency", "ms", samples, latencies),
    )


def _plot(title: str, unit: str, samples: list[Sample], lines: list[tuple[str, str]]) -> Plot:
    drawn = (PlotLine(name, tuple(sample.values.get(key) for sample in samples)) for name, key in lines)
    return Plot(title, unit, SAMPLE_S, tuple(drawn))
