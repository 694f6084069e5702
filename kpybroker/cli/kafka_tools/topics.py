"""kafka-topics: creates, lists, describes, alters and deletes topics."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kpybroker.cli.kafka_tools.options import (
    Found,
    ToolOptions,
    ToolRefusal,
    cluster_of,
    is_internal,
    pattern_of,
    text_of,
)
from kpybroker.client import config_requests, topic_requests
from kpybroker.client.client import Client
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kpywire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kpywire.uuid import to_string

NAME: Final = "kafka-topics"
ACTIONS: Final = ("create", "list", "describe", "delete", "alter")
CHOICES: Final = (
    "topics-with-overrides",
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
ALLOWED: Final[Mapping[str, Sequence[str]]] = {
    "create": ("topic", "partitions", "replication-factor", "replica-assignment", "config", "if-not-exists"),
    "list": ("topic", "exclude-internal"),
    "describe": ("topic", "topic-id", "if-exists", "exclude-internal", *CHOICES),
    "delete": ("topic", "if-exists"),
    "alter": ("topic", "partitions", "replica-assignment", "if-exists"),
}
COLLIDING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To "
    "avoid issues it is best to use either, but not both."
)
MIN_ISR: Final = "min.insync.replicas"


def options_of() -> ToolOptions:
    """The options of the tool."""
    options = ToolOptions(NAME, "Create, delete, describe, or change a topic.")
    options.of_cluster()
    options.flags(*ACTIONS, "if-exists", "if-not-exists", "exclude-internal", *CHOICES)
    options.texts("topic", "topic-id", "replica-assignment")
    options.numbers("partitions", "replication-factor")
    options.lists("config")
    return options


def run(options: ToolOptions, found: Found) -> None:
    """Run the tool. Raises KafkaError, Refusal."""
    action = options.one_of(found, *ACTIONS)
    options.only_with(found, action, ALLOWED[action], {name for names in ALLOWED.values() for name in names})
    _check(options, found, action)
    try:
        with cluster_of(found) as client:
            _ACTIONS[action](client, found)
    except (KafkaError, ToolRefusal) as error:
        print(f"Error while executing topic command : {text_of(error)}")
        raise SystemExit(1) from None


def _check(options: ToolOptions, found: Found, action: str) -> None:
    if action in ("create", "delete", "alter"):
        options.require(found, "topic")
    if action == "alter":
        options.require(found, "partitions")
    if action == "create" and found.replica_assignment is not None:
        for name in ("partitions", "replication_factor"):
            if getattr(found, name) is not None:
                options.error(f"option replica-assignment cannot be used with option {name.replace('_', '-')}")
    if action == "describe" and sum(getattr(found, each.replace("-", "_")) for each in CHOICES) > 1:
        options.error(f"only one of {', '.join(CHOICES)} can be used")


def _create(client: Client, found: Found) -> None:
    for what, number in (("partitions", found.partitions), ("replication factor", found.replication_factor)):
        if number is not None and number < 1:
            raise ToolRefusal(f"The {what} must be greater than 0")
    configs = []
    for pair in found.config:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ToolRefusal(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs.append(CreatableTopicConfig(name=key.strip(), value=value.strip()))
    if any(sign in found.topic for sign in "._"):
        print(COLLIDING)
    assigned = _assignment(found.replica_assignment)
    topic = CreatableTopic(
        name=found.topic,
        num_partitions=-1 if assigned or found.partitions is None else found.partitions,
        replication_factor=-1 if assigned or found.replication_factor is None else found.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assigned)
        ],
        configs=configs,
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=topic_requests.TIMEOUT_MS)
    (answer,) = client.call(request, wait_s=topic_requests.TIMEOUT_MS / 1000).topics
    if answer.error_code == error_codes.TOPIC_ALREADY_EXISTS and found.if_not_exists:
        return
    _raise_for(answer)
    print(f"Created topic {found.topic}.")


def _raise_for(answer: CreatableTopicResult | CreatePartitionsTopicResult) -> None:
    """Raise Refusal with the words of the cluster, as Kafka's tool prints them."""
    if answer.error_code:
        raise ToolRefusal(answer.error_message or error_codes.message(answer.error_code))


def _assignment(text: str | None) -> list[list[int]]:
    """The brokers of each partition in ``1:2,2:3``."""
    try:
        found = [[int(broker) for broker in part.split(":")] for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise ToolRefusal(f"{text} is not a list of brokers such as 1:2,2:3") from None
    for brokers in found:
        if len(set(brokers)) < len(brokers):
            raise ToolRefusal(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, brokers))}"
            )
    if len({len(brokers) for brokers in found}) > 1:
        raise ToolRefusal("the partitions of a replica assignment have different numbers of replicas")
    return found


def _list(client: Client, found: Found) -> None:
    for topic in _topics(client, found):
        print(topic.name)


def _topics(client: Client, found: Found) -> list[MetadataResponseTopic]:
    """The topics that the options mean, by name."""
    is_wanted = _wanted(found)
    return [
        topic
        for topic in topic_requests.existing(client)
        if is_wanted(topic.name or "") and not (found.exclude_internal and is_internal(topic.name or ""))
    ]


def _wanted(found: Found) -> Callable[[str], bool]:
    return pattern_of(found.topic) if found.topic else lambda _name: True


def _existing(client: Client, found: Found) -> list[MetadataResponseTopic]:
    """The topics that the options mean. Raises Refusal if there are none, unless that is allowed."""
    topics = _topics(client, found)
    if found.topic_id is not None and found.topic is None:  # as for Kafka's tool, a name counts more
        topics = [topic for topic in topics if to_string(topic.topic_id) == found.topic_id]
    named = found.topic_id if found.topic is None else found.topic
    if not topics and named is not None and not found.if_exists:
        kind = "TopicId" if found.topic is None else "Topic"
        raise ToolRefusal(f"{kind} '{named}' does not exist as expected")
    return topics


def _describe(client: Client, found: Found) -> None:
    chosen = next((each for each in CHOICES if getattr(found, each.replace("-", "_"))), "")
    for topic in _existing(client, found):
        name = topic.name or ""
        described = config_requests.describe(client, ConfigResource(ConfigResourceType.TOPIC, name))
        configs = {each.name: each.value for each in described}
        overrides = {each.name: each.value for each in described if _is_override(each.config_source)}
        if not chosen or (chosen == "topics-with-overrides" and overrides):
            print(_heading(topic, overrides))
        if chosen == "topics-with-overrides":
            continue
        least = int(configs.get(MIN_ISR) or 1)
        for partition in topic.partitions:
            if _is_chosen(partition, chosen, least):
                print(_row(name, partition))


def _is_override(source: int) -> bool:
    """Whether a config is set by a request, at the topic or for brokers: neither a default nor in their files."""
    return source in (1, 2, 3)


def _heading(topic: MetadataResponseTopic, overrides: Mapping[str, str | None]) -> str:
    configs = ",".join(f"{name}={value}" for name, value in sorted(overrides.items()))
    replicas = len(topic.partitions[0].replica_nodes) if topic.partitions else 0
    return (
        f"Topic: {topic.name}\tTopicId: {to_string(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {replicas}\tConfigs: {configs}"
    )


def _is_chosen(partition: MetadataResponsePartition, chosen: str, least: int) -> bool:
    isr, replicas = len(partition.isr_nodes), len(partition.replica_nodes)
    is_led = partition.leader_id >= 0
    return {
        "": True,
        "under-replicated-partitions": isr < replicas,
        "unavailable-partitions": not is_led,
        "under-min-isr-partitions": not is_led or isr < least,
        "at-min-isr-partitions": is_led and isr == least,
    }[chosen]


def _row(name: str, partition: MetadataResponsePartition) -> str:
    leader = partition.leader_id if partition.leader_id >= 0 else "none"
    return (
        f"\tTopic: {name}\tPartition: {partition.partition_index}\tLeader: {leader}\t"
        f"Replicas: {_listed(partition.replica_nodes)}\tIsr: {_listed(partition.isr_nodes)}\tElr: \tLastKnownElr: "
    )


def _listed(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _delete(client: Client, found: Found) -> None:
    for topic in _existing(client, found):
        topic_requests.delete(client, topic.name or "")


def _alter(client: Client, found: Found) -> None:
    topics = _existing(client, found)
    assigned = _assignment(found.replica_assignment)
    for topic in topics:
        there = len(topic.partitions)
        new = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned[there:]]
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic.name or "", count=found.partitions, assignments=new or None)],
            timeout_ms=topic_requests.TIMEOUT_MS,
            validate_only=False,
        )
        for answer in client.call(request, wait_s=topic_requests.TIMEOUT_MS / 1000).results:
            _raise_for(answer)


_ACTIONS: Final[Mapping[str, Callable[[Client, Found], None]]] = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "alter": _alter,
}
