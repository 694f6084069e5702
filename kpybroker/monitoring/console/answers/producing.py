"""Producing one record: the form, empty or filled from a record, and what it sends."""

import logging
from typing import Final

from kpybroker.client.partitioning import partition_of
from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.content import TEXT
from kpybroker.machines.console.producing import ProducePage, bytes_in, empty_form, filled_form, headers_in
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import NO_LEADER, Topic
from kpybroker.monitoring.console.answers.one_record import one_record
from kpybroker.monitoring.console.answers.record_places import may_write, readable
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import give_way
from kpybroker.monitoring.console.query import Query, RefusedQuery, bad, partition_in
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire import error_codes
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kpywire.record import Header, Record, build_batch

log = logging.getLogger("kpybroker.console")

ALL_IN_SYNC: Final = -1
TIMEOUT_MS: Final = 10_000


async def produce_form(node: NodeParts, viewer: Viewer, query: Query) -> ProducePage:
    """The form that produces a record, filled from a record where an offset is given."""
    topic = known_topic(node, viewer, query.needed("topic"))
    partitions, may = len(topic.partitions), may_write(node, viewer, topic.name)
    empty = empty_form(topic.name, partitions, may_write=may)
    if not query.text("offset"):
        return empty
    try:
        readable(node, viewer, topic.name)
        index = query.number("partition", 0, highest=2**31 - 1)
        record = await one_record(node, viewer, topic, index, query.number("offset", 0))
        return filled_form(topic.name, partitions, record, may_write=may)
    except ValueError as error:
        raise RefusedQuery(bad(f"this record cannot be produced again here: {error}"), empty) from None
    except HttpRefused as refused:
        raise RefusedQuery(refused, empty) from None


async def produce(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Produce a record to the leader of a partition. Returns the page that shows it. Raises Refused."""
    topic = known_topic(node, viewer, query.text("topic"))
    record = _record(query, node.broker.scheduler.now_ms())
    index = _partition(node, topic, query, record.key)
    await give_way()  # a value may be large
    data = PartitionProduceData(index=index, records=memoryview(bytearray(build_batch([record]))))
    await give_way()
    request = ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[data])],
    )
    answer = await _produced(node, viewer, topic, index, request)
    refuse(answer.error_code, f"{topic.name}-{index}", answer.error_message)
    log.info("%s produced offset %d of %s-%d", viewer.identity, answer.base_offset, topic.name, index)
    return f"/records?topic={topic.name}&partition={index}&start=offset&offset={answer.base_offset}"


async def _produced(
    node: NodeParts, viewer: Viewer, topic: Topic, index: int, request: ProduceRequest
) -> PartitionProduceResponse:
    leader = topic.partitions[index].leader
    try:
        if leader not in (node.broker.node_id, NO_LEADER):
            viewer.must(AclOperation.WRITE, ResourceType.TOPIC, topic.name)
        response = await node.ask_at(viewer, leader, request)
    except KafkaError as error:
        refuse(error.code, f"{topic.name}-{index} at node {leader}", error.message)
        raise
    found: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return found


def _record(query: Query, now_ms: int) -> Record:
    """The record of a form. Raises Refused."""
    text = query.text("value")
    if query.text("newlines") == "lf":
        text = text.replace("\r\n", "\n")
    try:
        key = bytes_in(query.text("key"), query.text("key_as") or TEXT, "key") or None
        value = bytes_in(text, query.text("value_as") or TEXT, "value")
        headers: tuple[Header, ...] = headers_in(query.text("headers"), query.text("headers_as") or TEXT)
    except ValueError as error:
        raise bad(str(error)) from None
    is_null = query.flag("null_value") or "value" not in query.values
    return Record(timestamp=now_ms, key=key, value=None if is_null else value, headers=headers)


def _partition(node: NodeParts, topic: Topic, query: Query, key: bytes | None) -> int:
    """The partition: the one that is asked for, that of the key, or any that this node leads. Raises Refused."""
    index = partition_in(query)
    if index < 0 and key is not None:
        return partition_of(key, len(topic.partitions))
    if index < 0:
        led = (number for number, each in sorted(topic.partitions.items()) if each.leader == node.broker.node_id)
        index = next(led, 0)
    if index not in topic.partitions:
        refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
    return index
