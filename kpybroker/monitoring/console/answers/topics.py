"""The list of topics, and one topic: created and configured here, too."""

import logging

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.cluster import is_under_replicated, reason_of
from kpybroker.machines.console.listing import PER_PAGE, pages_of
from kpybroker.machines.console.retention import RetentionDeletion, next_deletion
from kpybroker.machines.console.topics import (
    TYPES,
    ConfigRow,
    PartitionRow,
    TopicPage,
    TopicRow,
    TopicsPage,
    config_row,
    is_internal,
    is_wanted,
    topic_row,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.configs import describe
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, bad, from_json
from kpybroker.monitoring.console.readers import readers_of
from kpybroker.monitoring.console.viewer import Viewer
from kpystorage.errors import DiskFailure
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.uuid import to_string

log = logging.getLogger("kpybroker.console")

SET, DELETE = 0, 1


async def topics(node: NodeParts, viewer: Viewer, query: Query) -> TopicsPage:
    """A page of the list."""
    search, with_internal = query.text("q")[:249], query.flag("internal")
    image = node.broker.image
    names = sorted(
        [
            name
            async for name in paced(list(image.topics))
            if is_wanted(name, search, with_internal=with_internal) and viewer.may_see_topic(name)
        ]
    )
    page, pages = pages_of(len(names), query.number("page", 1, lowest=1))
    rows: list[TopicRow] = []
    async for name in paced(names[(page - 1) * PER_PAGE : page * PER_PAGE]):
        topic = image.topics.get(name)
        if topic is not None:
            rows.append(topic_row(topic, lambda topic: _sizes(node, topic)))
    may_create = node.is_writable and viewer.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    return TopicsPage(search, with_internal, page, pages, len(names), tuple(rows), may_create)


def _sizes(node: NodeParts, topic: str) -> tuple[int, int]:
    held = node.broker.replicas.topics.get(topic)
    stored_bytes = records = 0
    for replica in () if held is None else list(held.replicas.values()):
        role = replica.role
        if role is not None and not replica.offline:
            stored_bytes += role.log.size
            records += max(0, role.high_watermark.offset - role.log.log_start_offset)
    return stored_bytes, records


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
    rows = [
        _partition_row(node, found, index, found.partitions[index])
        async for index in paced(sorted(found.partitions)[(page - 1) * PER_PAGE : page * PER_PAGE])
    ]
    configs, hidden = await _configs(node, viewer, found.name)
    may = {
        operation: viewer.may(operation, ResourceType.TOPIC, found.name)
        for operation in (AclOperation.ALTER_CONFIGS, AclOperation.READ, AclOperation.WRITE)
    }
    return TopicPage(
        found.name,
        to_string(found.id),
        is_internal(found.name),
        tuple(rows),
        page,
        pages,
        len(found.partitions),
        configs,
        hidden,
        *await readers_of(node, viewer, found.name),
        node.is_writable and may[AclOperation.ALTER_CONFIGS],
        may[AclOperation.READ],
        node.is_writable and may[AclOperation.WRITE],
    )


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
    for config in sorted(described, key=lambda each: (each.config_source != TOPIC_RESOURCE - 1, each.name)):
        below = [each.value for each in config.synonyms if each.source != 1]
        values = {"value": config.value, "default": below[0] if below else config.value}
        rows.append(
            config_row(config.name, values, config.config_source, TYPES[config.config_type], config.documentation or "")
        )
    return tuple(rows), hidden


# Changes


async def create(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Create a topic. Returns the page of the topic. Raises Refused."""
    name = query.needed("name")
    wanted = CreatableTopic(
        name=name,
        num_partitions=query.number("partitions", -1, lowest=-1, highest=2**31 - 1),
        replication_factor=query.number("replication_factor", -1, lowest=-1, highest=2**15 - 1),
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in _config_lines(query.text("configs"))],
    )
    response = await node.ask(viewer, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
    (answer,) = response.topics
    refuse(answer.error_code, f"topic {name[:249]}", answer.error_message)
    log.info("%s created topic %s with %d partitions", viewer.identity, name, answer.num_partitions)
    return f"/topics/{name}"


def _config_lines(text: str) -> list[tuple[str, str]]:
    """The configs of a form, ``name=value`` a line, or of a JSON object. Raises Refused."""
    if text.startswith("{"):
        named = from_json(text.encode()).values
        return list(named.items())
    pairs = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise bad(f"configs: {line[:100]!r} is not name=value")
        pairs.append((name.strip(), value.strip()))
    return pairs


async def configure(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Set a config of a topic, or remove it where no value is given. Returns the page of the topic. Raises Refused."""
    topic, name = query.needed("topic"), query.needed("name")
    is_removed = query.flag("remove") or "value" not in query.values
    value = None if is_removed else query.text("value")
    change = AlterableConfig(name=name, config_operation=DELETE if is_removed else SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change])
    response = await node.ask(viewer, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    (answer,) = response.responses
    refuse(answer.error_code, f"{name[:100]} of {topic[:249]}", answer.error_message)
    what = "removed" if is_removed else f"set to {value!a}"
    log.info("%s: config %s of topic %s is %s", viewer.identity, name, topic, what)
    return f"/topics/{topic}"
