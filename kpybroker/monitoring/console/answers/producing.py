"""Producing one record."""

import logging
from http import HTTPStatus
from typing import Final

from kpybroker.client.partitioning import partition_of
from kpybroker.machines.metadata.topic import Topic
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire import error_codes
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Header, Record, build_batch

log = logging.getLogger("kpybroker.console")

ALL_IN_SYNC: Final = -1
TIMEOUT_MS: Final = 10_000


async def produce(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Produce a record to a partition that this node leads. Returns the page that shows it. Raises Refused."""
    topic = known_topic(node, viewer, query.text("topic"))
    key = query.text("key").encode() or None
    value = None if query.flag("null_value") or "value" not in query.values else query.text("value").encode()
    index = _partition(node, topic, query, key)
    record = Record(timestamp=node.broker.scheduler.now_ms(), key=key, value=value, headers=_headers(query))
    data = PartitionProduceData(index=index, records=memoryview(bytearray(build_batch([record]))))
    request = ProduceRequest(
        acks=ALL_IN_SYNC,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[data])],
    )
    answer = (await node.ask(viewer, request)).responses[0].partition_responses[0]
    refuse(answer.error_code, f"{topic.name}-{index}", answer.error_message)
    log.info("%s produced offset %d of %s-%d", viewer.identity, answer.base_offset, topic.name, index)
    return f"/records?topic={topic.name}&partition={index}&start=offset&offset={answer.base_offset}"


def _partition(node: NodeParts, topic: Topic, query: Query, key: bytes | None) -> int:
    """The partition: the one that is asked for, that of the key, or any that this node leads. Raises Refused."""
    index = query.number("partition", -1, lowest=-1, highest=2**31 - 1)
    led = [number for number, each in sorted(topic.partitions.items()) if each.leader == node.broker.node_id]
    if index < 0 and key is not None:
        index = partition_of(key, len(topic.partitions))
    elif index < 0:
        index = led[0] if led else 0
    partition = topic.partitions.get(index)
    if partition is None:
        refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
        raise AssertionError
    if index not in led:
        line = f"node {partition.leader} leads {topic.name}-{index}; its console can produce there"
        raise HttpRefused(HTTPStatus.MISDIRECTED_REQUEST, line)
    return index


def _headers(query: Query) -> tuple[Header, ...]:
    found: list[Header] = []
    for line in filter(None, map(str.strip, query.text("headers").splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise bad(f"headers: {line[:100]!r} is not name=value")
        found.append((name.strip(), value.strip().encode()))
    return tuple(found)
