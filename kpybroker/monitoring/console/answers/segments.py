"""The log of one partition on this node: its segments, and the batches and indexes of one of them."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import islice

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.segments import (
    BATCHES_PER_PAGE,
    SEGMENT_KEYS,
    IndexEntry,
    PartitionPage,
    SegmentPage,
    SegmentRow,
    TimeEntry,
    batch_rows,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.topics import deletion_of, known_topic
from kpybroker.monitoring.console.asking import OtherNodeNeeded, refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.rendering import quoted
from kpybroker.monitoring.console.viewer import Viewer
from kpystorage import scan
from kpystorage.disk import Disk
from kpystorage.errors import DiskFailure
from kpystorage.segment import Segment
from kpywire import error_codes
from kpywire.batch import BatchHeader

ENTRIES_PER_PAGE = 100


def role_of(node: NodeParts, viewer: Viewer, query: Query) -> Role:
    """The role of this node in a partition whose records the viewer may read. Raises Refused."""
    topic = known_topic(node, viewer, query.text("topic"))
    viewer.must(AclOperation.READ, ResourceType.TOPIC, topic.name)
    index = query.number("partition", 0, highest=2**31 - 1)
    partition = topic.partitions.get(index)
    if partition is None:
        refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
        raise AssertionError
    if node.broker.node_id not in partition.replicas:
        where = " or ".join(map(str, partition.replicas))
        line = f"no replica of {topic.name}-{index} is on this node; open the console of node {where}"
        holder = partition.leader if partition.leader >= 0 else partition.replicas[0]
        raise OtherNodeNeeded(line, holder, f"/topics/{quoted(topic.name)}/{index}")
    try:
        return node.broker.replicas.find(topic.name, index).held()
    except KafkaError as error:
        refuse(error.code, f"{topic.name}-{index} on this node", error.message)
    except DiskFailure as failure:
        node.broker.replicas.directory_failed(failure)
        refuse(error_codes.KAFKA_STORAGE_ERROR, f"{topic.name}-{index}")
    raise AssertionError


async def partition(node: NodeParts, viewer: Viewer, query: Query) -> PartitionPage:
    """The log of a partition."""
    role = role_of(node, viewer, query)
    log = role.log
    deletion = deletion_of(node, role)
    if deletion is None:
        refuse(error_codes.KAFKA_STORAGE_ERROR, log.name)
        raise AssertionError
    following = [*log.base_offsets[1:], log.end.offset]
    try:
        with log.directory.failing():
            rows = [
                _segment_row(
                    segment, end, is_active=segment is log.active, is_expendable=number < deletion.segments_now
                )
                for number, (segment, end) in enumerate(zip(log.segments, following, strict=True))
            ]
    except DiskFailure as failure:
        node.broker.replicas.directory_failed(failure)
        refuse(error_codes.KAFKA_STORAGE_ERROR, log.name)
        raise
    return PartitionPage(
        log.topic,
        log.partition,
        log.path,
        "leader" if isinstance(role, PartitionLeader) else "follower",
        log.log_start_offset,
        role.high_watermark.offset,
        role.last_stable_offset().offset,
        log.end.offset,
        log.recovery_point,
        role.epoch,
        log.size,
        deletion,
        tuple(sorted_rows(rows, SEGMENT_KEYS, query.text("sort"))),
    )


def _segment_row(segment: Segment, next_offset: int, *, is_active: bool, is_expendable: bool) -> SegmentRow:
    return SegmentRow(
        segment.base_offset,
        next_offset,
        segment.size,
        segment.largest_timestamp,
        len(segment.offset_index),
        len(segment.time_index),
        is_active,
        is_expendable,
    )


async def segment(node: NodeParts, viewer: Viewer, query: Query) -> SegmentPage:
    """Some batches of a segment, which are read in a thread, and the entries of the indexes about them."""
    role = role_of(node, viewer, query)
    log, base_offset = role.log, query.number("segment", 0)
    found = next((each for each in log.segments if each.base_offset == base_offset), None)
    if found is None:
        raise bad(f"{log.name} has no segment {base_offset}; it may have been deleted or compacted")
    position, size = query.number("position", 0), found.size
    try:
        headers = await asyncio.to_thread(_headers, log.directory.disk, found.log.path, position, size)
        listed = headers[:BATCHES_PER_PAGE]
        index: tuple[IndexEntry, ...] = ()
        times: tuple[TimeEntry, ...] = ()
        if listed:
            first, last = listed[0][1].base_offset, listed[-1][1].last_offset
            offsets, timestamps = found.offset_index, found.time_index
            index = tuple(
                IndexEntry(*offsets.entry(number))
                for number in _about(len(offsets), lambda number: offsets.entry(number)[0], first, last)
            )
            times = tuple(
                TimeEntry(*timestamps.entry(number))
                for number in _about(len(timestamps), lambda number: timestamps.entry(number).offset, first, last)
            )
    except OSError as error:
        raise bad(f"segment {base_offset} cannot be read: {error.strerror}; it may have been deleted") from None
    next_position = headers[BATCHES_PER_PAGE][0] if len(headers) > BATCHES_PER_PAGE else None
    batches = batch_rows(listed)
    return SegmentPage(log.topic, log.partition, base_offset, size, position, next_position, batches, index, times)


def _headers(disk: Disk, path: str, position: int, size: int) -> list[tuple[int, BatchHeader]]:
    """The headers from a position on: one more than a page has, to know where the next page begins."""
    return list(islice(scan.headers(disk.file(path), position, size), BATCHES_PER_PAGE + 1))


def _about(count: int, offset_at: Callable[[int], int], first: int, last: int) -> range:
    """The numbers of the entries whose offsets are in a range. They ascend."""
    start = bisect_left(range(count), first, key=offset_at)
    return range(start, min(bisect_right(range(count), last, lo=start, key=offset_at), start + ENTRIES_PER_PAGE))
