"""Steps that create, change, describe and delete topics and configs."""

from collections.abc import Callable, Mapping

from differential.steps import Step
from differential.world import World, call
from kpywire import api
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kpywire.messages.create_topics import CreatableTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.raw_requests import INVALID_NAMES, TOPIC, alteration, creation, incremental_alteration, topic_named

ADMIN = "admin"
CONFIGS: Mapping[str, tuple[str, ...]] = {
    "cleanup.policy": ("delete", "compact", "compact,delete", "none", ""),
    "compression.type": ("producer", "gzip", "lz4", "zstd", "snappy", "uncompressed", "brotli"),
    "max.message.bytes": ("300", "1000", "0", "-1", "1048588"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "logappendtime"),
    "message.timestamp.after.max.ms": ("1000", "3600000", "-5"),
    "message.timestamp.before.max.ms": ("1000", "9223372036854775807"),
    "retention.ms": ("-1", "3600000", "-2", "x"),
    "retention.bytes": ("-1", "1000000", "0", "1.5"),
    "segment.bytes": ("1048576", "100", "13"),
    "segment.ms": ("60000", "0"),
    "index.interval.bytes": ("0", "4096", "-1"),
    "flush.messages": ("1", "0"),
    "unclean.leader.election.enable": ("true", "maybe"),
    "preallocate": ("TRUE", "false"),
    "min.cleanable.dirty.ratio": ("0.1", "2", "nan"),
    "leader.replication.throttled.replicas": ("*", "0:1", "nonsense"),
    "local.retention.ms": ("-2", "1000"),
    "remote.storage.enable": ("false",),
    "no.such.config": ("1",),
}
"""Values that are taken, and values that are not."""


def new_configs(world: World) -> dict[str, str | None]:
    wanted = world.rng.sample(sorted(CONFIGS), world.rng.choice([0, 0, 1, 1, 2]))
    return {name: None if world.chance(0.03) else world.rng.choice(CONFIGS[name]) for name in wanted}


def good_configs(world: World) -> dict[str, str | None]:
    """Configs as records need them: always taken."""
    names = ("cleanup.policy", "compression.type", "message.timestamp.type")
    configs: dict[str, str | None] = {name: CONFIGS[name][world.rng.choice([0, 0, 1])] for name in names}
    configs["max.message.bytes"] = world.pick("300", "1048588", "1048588", "1048588")
    return configs


def create_for_records(world: World) -> list[Step]:
    """A topic to write to."""
    name, partitions = f"~t{len(world.topics) + len(world.deleted)}", world.rng.choice([1, 1, 2, 3])
    world.topics[name] = partitions
    configs = good_configs(world) if world.chance(0.5) else {}
    return [call(ADMIN, 7, creation(topic_named(name, partitions, configs=configs)))]


def _new_topic(world: World) -> CreatableTopic:
    name = world.pick("~t0", "~t1", "~t2", "~t3", "~t.4", "~t_4")
    if world.chance(0.06):
        name = world.rng.choice(sorted(INVALID_NAMES))
    partitions, factor = world.rng.choice([1, 1, 2, 3, -1]), world.rng.choice([1, 1, 1, -1])
    if world.chance(0.12):
        partitions, factor = world.pick((0, 1), (1, 0), (1, 2), (1, 3), (-2, 1), (1, -2), (100_000, 1))
    assignments: list[tuple[int, list[int]]] = []
    if world.chance(0.12):
        partitions, factor = world.pick((-1, -1), (-1, -1), (2, -1), (-1, 1))
        assignments = world.pick(
            [(0, [1])], [(0, [1]), (1, [1])], [(1, [1])], [(0, [2])], [(0, [])], [(0, [1, 1])], [(0, [1]), (0, [1])],
            [(0, [1]), (2, [1])], [(0, [-1])],
        )  # fmt: skip
    if name not in INVALID_NAMES:
        world.topics.setdefault(name, max(1, min(partitions, 3)))
    return topic_named(name, partitions, factor, assignments, new_configs(world))


def create(world: World) -> list[Step]:
    wanted = [_new_topic(world) for _ in range(world.rng.choice([1, 1, 1, 2, 3]))]
    version = world.version(api.CREATE_TOPICS)
    return [call(ADMIN, version, creation(*wanted, validate_only=world.chance(0.12)))]


def delete(world: World) -> list[Step]:
    names = [world.topic() for _ in range(world.rng.choice([1, 1, 1, 2]))]
    version = world.version(api.DELETE_TOPICS)
    if version < 6:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
    else:
        states = []
        for name in names:
            by_id = DeleteTopicState(name=None, topic_id=world.topic_id(name))
            states.append(by_id if world.chance(0.5) else DeleteTopicState(name=name, topic_id=bytes(16)))
            if world.chance(0.05):
                states.append(DeleteTopicState(name=name, topic_id=world.topic_id(name)))
        request = DeleteTopicsRequest(topics=states, timeout_ms=30_000)
    for name in names:
        world.topics.pop(name, None)
        world.deleted.add(name)
    return [call(ADMIN, version, request)]


def recreate(world: World) -> list[Step]:
    """A topic deleted, and another one of its name."""
    name = world.topic()
    partitions = world.rng.choice([1, 2])
    world.topics[name] = partitions
    return [
        call(ADMIN, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)),
        call(ADMIN, 7, creation(topic_named(name, partitions))),
    ]


def add_partitions(world: World) -> list[Step]:
    name = world.topic()
    count = world.topics.get(name, 1) + world.rng.choice([1, 1, 1, 2, 0, -1])
    assignments = None
    if world.chance(0.2):
        chosen: list[list[int]] = world.pick([[1]], [[1], [1]], [[2]], [[]], [[1, 1]], [])
        assignments = [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in chosen]
    wanted = [CreatePartitionsTopic(name=name, count=count, assignments=assignments)]
    if world.chance(0.1):
        wanted.append(CreatePartitionsTopic(name=world.pick(name, "~nowhere"), count=4, assignments=None))
    validate = world.chance(0.2)
    if not validate and name in world.topics and count > 0:
        world.topics[name] = max(count, world.topics[name])
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=30_000, validate_only=validate)
    return [call(ADMIN, world.version(api.CREATE_PARTITIONS), request)]


def alter_incrementally(world: World) -> list[Step]:
    operations = []
    for name in world.rng.sample(sorted(CONFIGS), world.rng.choice([1, 1, 2, 3])):
        operation = world.rng.choice([0, 0, 0, 1, 1, 2, 3] if world.chance(0.5) else [0, 1])
        value = None if operation == 1 or world.chance(0.04) else world.rng.choice(CONFIGS[name])
        operations.append((name, operation, value))
    if world.chance(0.05):
        operations.append(operations[0])
    kind = world.rng.choice([1, 3, 64]) if world.chance(0.04) else TOPIC
    request = incremental_alteration((kind, world.topic(), operations), validate_only=world.chance(0.15))
    return [call(ADMIN, world.version(api.INCREMENTAL_ALTER_CONFIGS), request)]


def alter(world: World) -> list[Step]:
    request = alteration((TOPIC, world.topic(), new_configs(world)), validate_only=world.chance(0.15))
    return [call(ADMIN, world.version(api.ALTER_CONFIGS), request)]


def describe_configs(world: World) -> list[Step]:
    keys = world.rng.sample(sorted(CONFIGS), 3) if world.chance(0.5) else None
    kind = world.rng.choice([0, 1, 3, 16, 32, 99]) if world.chance(0.1) else TOPIC
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=world.topic(), configuration_keys=keys)
    request = DescribeConfigsRequest(
        resources=[wanted], include_synonyms=world.flag(), include_documentation=world.flag(0.2)
    )
    return [call(ADMIN, world.version(api.DESCRIBE_CONFIGS), request)]


def metadata(world: World) -> list[Step]:
    version = world.version(api.METADATA)
    wanted = []
    for _ in range(world.rng.choice([1, 1, 2, 3])):
        name = world.topic()
        if version >= 12 and world.chance(0.4):
            wanted.append(MetadataRequestTopic(name=None, topic_id=world.topic_id(name)))
        else:
            wanted.append(MetadataRequestTopic(name=name))
    if world.chance(0.05):
        wanted.append(MetadataRequestTopic(name=world.rng.choice(sorted(INVALID_NAMES))))
    request = MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=world.chance(0.1),
        include_topic_authorized_operations=world.flag(),
        include_cluster_authorized_operations=world.flag(),
    )
    if world.chance(0.1):
        request.topics = None
    return [call(ADMIN, version, request)]


def describe_partitions(world: World) -> list[Step]:
    names = sorted({world.topic() for _ in range(world.rng.choice([1, 2, 3]))})
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=world.rng.choice([2000, 1, 2, 0, -1]),
    )
    if world.chance(0.3):
        request.cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=world.topic(), partition_index=world.rng.choice([0, 1, 5, -1])
        )
    return [call(ADMIN, 0, request)]


def describe_log_dirs(world: World) -> list[Step]:
    name = world.topic()
    wanted = [DescribableLogDirTopic(topic=name, partitions=[0, world.partition(name)])]
    request = DescribeLogDirsRequest(topics=None if world.chance(0.3) else wanted)
    return [call(ADMIN, world.version(api.DESCRIBE_LOG_DIRS), request)]


MAKERS: Mapping[Callable[[World], list[Step]], float] = {
    create: 4,
    delete: 1.5,
    recreate: 1,
    add_partitions: 2,
    alter_incrementally: 3,
    alter: 1.5,
    describe_configs: 2.5,
    metadata: 3,
    describe_partitions: 2,
    describe_log_dirs: 0.7,
}
"""And how often each is taken, against the others."""
