"""The list of topics, and one topic."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.cluster import is_under_replicated, reason_of
from kpybroker.machines.console.configs import TOPIC_SOURCE, TYPES, ConfigRow, config_row
from kpybroker.machines.console.listing import DESCENDING, PER_PAGE, pages_of, sorted_rows
from kpybroker.machines.console.retention import RetentionDeletion, next_deletion
from kpybroker.machines.console.topics import (
    PARTITION_KEYS,
    READER_KEYS,
    PartitionRow,
    ReaderLag,
    TopicPage,
    TopicRow,
    TopicShape,
    TopicSize,
    TopicsPage,
    is_internal,
    is_wanted,
    policy_and_retention,
    topic_row,
    usual_deletion,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.configs import describe
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.readers import readers_of, worst_lags
from kpybroker.monitoring.console.remote_partitions import contents_of
from kpybroker.monitoring.console.viewer import Viewer
from kpystorage.errors import DiskFailure
from kpywire import error_codes
from kpywire.uuid import to_string

Lags = Mapping[str, ReaderLag]


async def topics(node: NodeParts, viewer: Viewer, query: Query) -> TopicsPage:
    """A page of the list."""
    search, with_internal, sort = query.text("q")[:249], query.flag("internal"), query.text("sort")
    image = node.broker.image
    names = sorted(
        [
            name
            async for name in paced(list(image.topics))
            if is_wanted(name, search, with_internal=with_internal) and viewer.may_see_topic(name)
        ]
    )
    names, lags = await _in_order(node, viewer, names, sort)
    page, pages = pages_of(len(names), query.number("page", 1, lowest=1))
    shown = names[(page - 1) * PER_PAGE : page * PER_PAGE]
    if lags is None:
        lags = await worst_lags(node, viewer, set(shown))
    rows: list[TopicRow] = []
    async for name in paced(shown):
        topic = image.topics.get(name)
        if topic is not None:
            rows.append(
                topic_row(topic, await _shape(topic), await _size(node, name), node.rates.of(name), lags.get(name))
            )
    here = node.broker.node_id
    may_create = node.is_writable and viewer.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    others = len(node.broker.alive_brokers - {here})
    return TopicsPage(search, with_internal, page, pages, len(names), tuple(rows), here, others, may_create)


async def _in_order(node: NodeParts, viewer: Viewer, names: list[str], sort: str) -> tuple[list[str], Lags | None]:
    """The names in the order of a column, and the lags of all of them if that is the column. Only the values of that
    column are gathered for all topics."""
    column = sort.removeprefix(DESCENDING)
    lags = await worst_lags(node, viewer, set(names)) if column == "lag" else None
    if column in ("", "name"):
        return (names[::-1] if sort.startswith(DESCENDING) else names), lags
    pairs = [(name, value) async for name, value in _values(node, names, column, lags or {})]
    return [name for name, _ in sorted_rows(pairs, {column: itemgetter(1)}, sort)], lags


async def _values(node: NodeParts, names: Collection[str], column: str, lags: Lags) -> AsyncIterator[tuple[str, Any]]:
    """The value of a column for each of these topics; None where it is not known, or for an unknown column."""
    known = node.broker.image.topics
    async for name in paced(names):
        value: Any = None
        topic = known.get(name)
        if topic is None:
            pass
        elif column == "partitions":
            value = len(topic.partitions)
        elif column == "replicas":
            value = (await _shape(topic)).replication
        elif column == "state":
            shape = await _shape(topic)
            value = -shape.without_leader, -shape.under_replicated  # the worst is the least
        elif column in ("records", "size"):
            size = await _size(node, name)
            value = (size.records if column == "records" else size.bytes) if size.partitions else None
        elif column in ("rate", "in", "out"):
            value = node.rates.of(name)[("rate", "in", "out").index(column)]
        elif name in lags:
            value = lags[name].lag
        yield name, value


async def _shape(topic: Topic) -> TopicShape:
    shape = TopicShape()
    async for each in paced(list(topic.partitions.values())):
        shape = shape.with_partition(each)
    return shape


async def _size(node: NodeParts, topic: str) -> TopicSize:
    """The contents of the partitions whose log is open on this node."""
    held = node.broker.replicas.topics.get(topic)
    partitions = records = stored_bytes = 0
    async for replica in paced(() if held is None else list(held.replicas.values())):
        role = replica.role
        if role is not None and not replica.offline:
            partitions += 1
            records += max(0, role.high_watermark.offset - role.log.log_start_offset)
            stored_bytes += role.log.size
    return TopicSize(partitions, records, stored_bytes)


def known_topic(node: NodeParts, viewer: Viewer, name: str) -> Topic:
    """A topic that the viewer may see. Raises Refused, which does not tell one that is not there from one that is
    hidden."""
    topic = node.broker.image.topics.get(name)
    if topic is None or not viewer.may_see_topic(name):
        refuse(
            error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name[:249]!r}", "it does not exist or is hidden from you"
        )
        raise AssertionError
    return topic


async def topic(node: NodeParts, viewer: Viewer, query: Query) -> TopicPage:
    """One topic."""
    found = known_topic(node, viewer, query.text("topic"))
    page, pages = pages_of(len(found.partitions), query.number("page", 1, lowest=1))
    rows = await _partition_rows(node, found, query.text("sort"), page)
    rows, remote, silent = await _with_remote(node, viewer, found.name, rows)
    here = await _size(node, found.name)
    configs, hidden = await _configs(node, viewer, found.name)
    readers, readers_left_out = await readers_of(node, viewer, found.name)

    def may(operation: AclOperation) -> bool:
        return viewer.may(operation, ResourceType.TOPIC, found.name)

    may_change = node.is_writable and not is_internal(found.name)
    return TopicPage(
        found.name,
        to_string(found.id),
        is_internal(found.name),
        tuple(rows),
        page,
        pages,
        len(found.partitions),
        (await _shape(found)).replication,
        here.partitions + remote.partitions,
        here.records + remote.records,
        here.bytes + remote.bytes,
        *node.rates.of(found.name),
        *policy_and_retention(configs),
        usual_deletion(rows),
        silent,
        configs,
        hidden,
        tuple(sorted_rows(readers, READER_KEYS, query.text("sort"))),
        readers_left_out,
        node.is_writable and may(AclOperation.ALTER_CONFIGS),
        may(AclOperation.READ),
        node.is_writable and may(AclOperation.WRITE),
        may_change and may(AclOperation.ALTER),
        may_change and may(AclOperation.DELETE),
        may_change and may(AclOperation.DELETE) and bool(node.broker.config["delete.topic.enable"]),
    )


async def _partition_rows(node: NodeParts, found: Topic, sort: str, page: int) -> list[PartitionRow]:
    """A page of the partitions, by a column as far as this node knows it."""
    indexes, shown = sorted(found.partitions), slice((page - 1) * PER_PAGE, page * PER_PAGE)
    if sort.removeprefix(DESCENDING) in PARTITION_KEYS:
        rows = [_partition_row(node, found, index, found.partitions[index]) async for index in paced(indexes)]
        return (await sorted_in_pieces(rows, PARTITION_KEYS, sort))[shown]
    return [_partition_row(node, found, index, found.partitions[index]) async for index in paced(indexes[shown])]


def _partition_row(node: NodeParts, found: Topic, index: int, partition: Partition) -> PartitionRow:
    role = _role(node, found.name, index)
    trouble = None
    if partition.leader < 0 or is_under_replicated(partition):
        trouble = reason_of(partition, node.broker.image.brokers)
    return PartitionRow(
        index,
        partition.leader if partition.leader >= 0 else None,
        partition.leader_epoch,
        tuple(partition.replicas),
        tuple(partition.isr),
        None if role is None else role.log.log_start_offset,
        None if role is None else role.high_watermark.offset,
        None if role is None else role.log.size,
        role is not None,
        None if role is None else deletion_of(node, role),
        trouble,
    )


async def _with_remote(
    node: NodeParts, viewer: Viewer, topic: str, rows: list[PartitionRow]
) -> tuple[list[PartitionRow], TopicSize, tuple[str, ...]]:
    """The rows with the offsets and sizes that other leaders report of theirs, the sums of these, and the leaders that
    do not answer."""
    by_leader: dict[int, list[int]] = {}
    for row in rows:
        if not row.is_here and row.leader in node.broker.alive_brokers - {node.broker.node_id}:
            by_leader.setdefault(row.leader, []).append(row.partition)
    if not by_leader:
        return rows, TopicSize(), ()
    found, silent = await contents_of(node.elsewhere, viewer, topic, by_leader)
    known = [each for each in found.values() if each.start_offset is not None and each.end_offset is not None]
    size = TopicSize(
        len(known),
        sum((each.end_offset or 0) - (each.start_offset or 0) for each in known),
        sum(each.bytes or 0 for each in known),
    )
    filled = [
        row
        if (there := found.get(row.partition)) is None
        else replace(row, start_offset=there.start_offset, end_offset=there.end_offset, bytes=there.bytes)
        for row in rows
    ]
    return filled, size, silent


def _role(node: NodeParts, topic: str, index: int) -> Role | None:
    """The role of this node in a partition; None where it has none, or its disk failed. It begins now if need be."""
    try:
        return node.broker.replicas.find(topic, index).held()
    except KafkaError:
        return None
    except DiskFailure as failure:
        node.broker.replicas.directory_failed(failure)
        return None


def deletion_of(node: NodeParts, role: Role) -> RetentionDeletion | None:
    """The next deletion by retention from the log of this role; None if its disk failed."""
    found = role.log
    try:
        with found.directory.failing():
            return next_deletion(
                found.segments,
                found.end.offset,
                found.local_log_start_offset,
                role.high_watermark.offset,
                found.config,
                node.broker.scheduler.now_ms(),
            )
    except DiskFailure as failure:
        node.broker.replicas.directory_failed(failure)
        return None


async def _configs(node: NodeParts, viewer: Viewer, topic: str) -> tuple[tuple[ConfigRow, ...], str | None]:
    described, hidden = await describe(node, viewer, TOPIC_RESOURCE, topic)
    rows = []
    async for config in paced(sorted(described, key=lambda each: (each.config_source != TOPIC_SOURCE, each.name))):
        below = next((each for each in config.synonyms if each.source != TOPIC_SOURCE), None)
        values = {"value": config.value}
        if below is not None:
            values |= {"default": below.value, "default_name": below.name}
        elif config.config_source != TOPIC_SOURCE:
            values["default"] = config.value
        rows.append(
            config_row(config.name, values, config.config_source, TYPES[config.config_type], config.documentation or "")
        )
    return tuple(rows), hidden
