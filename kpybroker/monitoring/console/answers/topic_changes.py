"""Changes of topics: create and configure one, add partitions, delete its records or all of it.

Each is a request of the viewer that Kafka authorises, and one line in the log.
"""

import logging
from typing import Any, Final

from kpybroker.config.topic_configs import TOPIC_CONFIGS
from kpybroker.machines.console.config_words import value_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import Topic
from kpybroker.monitoring.console.answers.configs import alter
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse, until_known
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query, bad, check_parts, from_json, partition_in
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.uuid import ZERO_UUID

log = logging.getLogger("kpybroker.console")

TIMEOUT_MS: Final = 30_000
RECORDS_TIMEOUT_MS: Final = 4_000
"""Below the patience with other nodes, so that a leader whose followers are slow says so itself."""
PER_REQUEST: Final = 200
"""The partitions of one request to a leader."""
ALL: Final = "all"
HIGH_WATERMARK: Final = -1


async def create(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Create a topic. Returns the page of the topic. Raises Refused."""
    name = query.needed("name")
    wanted = CreatableTopic(
        name=name,
        num_partitions=query.number("partitions", -1, lowest=-1, highest=2**31 - 1),
        replication_factor=query.number("replication_factor", -1, lowest=-1, highest=2**15 - 1),
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key, value=_value_of(key, value))
            for key, value in _config_lines(query.text("configs"))
        ],
    )
    response = await node.ask(viewer, CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS))
    (answer,) = response.topics
    refuse(answer.error_code, f"topic {name[:249]}", answer.error_message)
    log.info("%s created topic %s with %d partitions", viewer.identity, name, answer.num_partitions)
    await until_known(lambda: name in node.broker.image.topics)
    return f"/topics/{name}"


def _config_lines(text: str) -> list[tuple[str, str]]:
    """The configs of a form, ``name=value`` a line, or of a JSON object. Raises Refused."""
    if text.startswith("{"):
        check_parts(text.encode())
        named = from_json(text.encode()).values
        return list(named.items())
    pairs = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise bad(f"configs: {line[:100]!r} is not name=value")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _value_of(name: str, text: str) -> str:
    """The value of a config of topics that was typed, perhaps in words."""
    key = TOPIC_CONFIGS.get(name)
    return text if key is None else value_of(name, key.type, text)


async def configure(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Set a config of a topic, or remove it where no value is given. Returns the page of the topic. Raises Refused."""
    topic, name = query.needed("topic"), query.needed("name")
    is_removed = query.flag("remove") or "value" not in query.values
    value = None if is_removed else _value_of(name, query.text("value"))
    await alter(node, viewer, TOPIC_RESOURCE, topic, name, value, f"{name[:100]} of {topic[:249]}")
    what = "removed" if is_removed else f"set to {value!a}"
    log.info("%s: config %s of topic %s is %s", viewer.identity, name, topic, what)
    return f"/topics/{topic}"


async def add_partitions(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Raise the number of partitions of a topic. Returns the page of the topic. Raises Refused."""
    name = known_topic(node, viewer, query.needed("topic")).name
    query.needed("count")
    count = query.number("count", 0, lowest=1, highest=2**31 - 1)
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=False)
    (answer,) = (await node.ask(viewer, request)).results
    refuse(answer.error_code, f"topic {name}", answer.error_message)
    log.info("%s added partitions to topic %s: it has %d", viewer.identity, name, count)

    def is_known() -> bool:
        topic = node.broker.image.topics.get(name)
        return topic is None or len(topic.partitions) >= count

    await until_known(is_known)
    return f"/topics/{name}"


async def delete(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Delete a topic whose name was typed. Returns the list of topics. Raises Refused."""
    found = known_topic(node, viewer, query.needed("topic"))
    name = found.name
    if query.text("confirm").strip() != name:
        raise bad(f"topic {name} is not deleted: its name has to be typed to confirm that")
    state = DeleteTopicState(name=name, topic_id=ZERO_UUID)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS)
    (answer,) = (await node.ask(viewer, request)).responses
    refuse(answer.error_code, f"topic {name}", answer.error_message)
    log.info("%s deleted topic %s with %d partitions", viewer.identity, name, len(found.partitions))
    await until_known(lambda: found.id not in node.broker.image.topics_by_id)
    return "/topics"


# Records


async def delete_records(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Delete the records before an offset, or all, at the leaders of their partitions. Returns the page of the topic.
    Raises Refused."""
    topic = known_topic(node, viewer, query.needed("topic"))
    partition = partition_in(query)
    before = query.needed("before").strip()
    offset = HIGH_WATERMARK if before.lower() == ALL else query.number("before", 0)
    if partition < 0 and offset != HIGH_WATERMARK and len(topic.partitions) > 1:
        raise bad("an offset is one of a partition: choose the partition, or delete all records")
    if partition >= 0 and partition not in topic.partitions:
        refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{partition}")
    wanted = sorted(topic.partitions) if partition < 0 else [partition]
    done, failure = await _deleted(node, viewer, topic, wanted, offset)
    if done:
        where = f"partition {done[0]}" if len(done) == 1 else f"{len(done)} partitions"
        what = "all records" if offset == HIGH_WATERMARK else f"the records before offset {offset}"
        log.info("%s deleted %s of %s of topic %s", viewer.identity, what, where, topic.name)
    if failure is not None:
        index, error = failure
        refuse(error.code, f"{topic.name}-{index}", error.message)
    return f"/topics/{topic.name}"


async def _deleted(
    node: NodeParts, viewer: Viewer, topic: Topic, partitions: list[int], offset: int
) -> tuple[list[int], tuple[int, KafkaError] | None]:
    """Delete at each leader. Returns the partitions where that is done, and the first one where it failed."""
    by_leader: dict[int, list[int]] = {}
    for index in partitions:
        by_leader.setdefault(topic.partitions[index].leader, []).append(index)
    done: list[int] = []
    failed: dict[int, KafkaError] = {}
    for leader, led in sorted(by_leader.items()):
        for first in range(0, len(led), PER_REQUEST):
            asked = led[first : first + PER_REQUEST]
            try:
                answers = await _answers(node, viewer, leader, _deletion(topic.name, asked, offset))
            except KafkaError as error:
                failed |= dict.fromkeys(asked, error)
                continue
            for each in answers:
                if each.error_code:
                    failed[each.partition_index] = KafkaError(each.error_code)
                else:
                    done.append(each.partition_index)
    return sorted(done), min(failed.items(), key=lambda each: each[0]) if failed else None


async def _answers(node: NodeParts, viewer: Viewer, leader: int, request: DeleteRecordsRequest) -> Any:
    """The answers of a leader for each partition. Raises KafkaError."""
    if leader < 0:
        raise KafkaError(error_codes.LEADER_NOT_AVAILABLE)
    response = await node.ask_at(viewer, leader, request)
    return response.topics[0].partitions


def _deletion(topic: str, partitions: list[int], offset: int) -> DeleteRecordsRequest:
    spots = [DeleteRecordsPartition(partition_index=each, offset=offset) for each in partitions]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=spots)], timeout_ms=RECORDS_TIMEOUT_MS
    )
