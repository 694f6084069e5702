"""Requests to a controller with which Kafka and kpybroker must agree, in an order in which each finds what it needs.

Left out is what a broker answers before its controller sees it, and what Kafka answers by accident.
"""

from collections.abc import Sequence
from typing import Any

from controller_world import topic_request

from kpywire.messages.alter_configs import AlterableConfig as LegacyConfig
from kpywire.messages.alter_configs import AlterConfigsRequest
from kpywire.messages.alter_configs import AlterConfigsResource as LegacyResource
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.uuid import ZERO_UUID

SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN = b"u" * 16
topic = topic_request


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=5_000, validate_only=validate_only)


def widen(
    *wanted: tuple[str, int, Sequence[Sequence[int]] | None], validate_only: bool = False
) -> CreatePartitionsRequest:
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments],
        )
        for name, count, assignments in wanted
    ]
    return CreatePartitionsRequest(topics=topics, timeout_ms=5_000, validate_only=validate_only)


def change(
    kind: int, name: str, *configs: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    operations = [AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in configs]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=operations)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replace(kind: int, name: str, *configs: tuple[str, str | None]) -> AlterConfigsRequest:
    values = [LegacyConfig(name=key, value=value) for key, value in configs]
    resource = LegacyResource(resource_type=kind, resource_name=name, configs=values)
    return AlterConfigsRequest(resources=[resource], validate_only=False)


def elect(election_type: int, *wanted: tuple[str, Sequence[int]]) -> ElectLeadersRequest:
    partitions = [TopicPartitions(topic=name, partitions=list(numbers)) for name, numbers in wanted]
    return ElectLeadersRequest(election_type=election_type, topic_partitions=partitions, timeout_ms=1_000)


def update(name: str, level: int, upgrade_type: int) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[key], validate_only=True)


def delete(*names: str, states: Sequence[tuple[str | None, bytes]] = ()) -> DeleteTopicsRequest:
    topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    return DeleteTopicsRequest(topics=topics, topic_names=list(names), timeout_ms=5_000)


REQUESTS: list[tuple[Any, int]] = [
    (create(topic("x1", 3, 1)), 7),
    (create(topic("x1", 3, 1)), 7),
    (create(topic("x2", 3, 1)), 2),
    (create(topic("x3")), 4),
    *((create(topic("x4", count, factor)), 7) for count, factor in ((0, 1), (1, 0), (-2, 1), (1, -2), (1, 3))),
    (create(*(topic(name) for name in ("", ".", "..", "a/b", "x" * 250))), 7),
    (create(topic("twice"), topic("twice"), topic("once")), 7),
    (create(topic("__cluster_metadata")), 7),
    (create(topic("a.b")), 7),
    (create(topic("a_b")), 7),
    (create(topic("m1", assignments={0: [1], 1: [1]})), 7),
    *((create(topic("m2", assignments=each)), 7) for each in ({0: [1], 2: [1]}, {0: [2]}, {0: []}, {0: [1, 1]})),
    (create(topic("m2", 2, assignments={0: [1]})), 7),
    (create(topic("m2", -1, 1, assignments={0: [1]})), 7),
    (create(topic("c1", 1, 1, configs={"retention.ms": "99", "cleanup.policy": "compact"})), 7),
    *(
        (create(topic("c2", 1, 1, configs=configs)), 7)
        for configs in ({"nope": "9"}, {"retention.ms": "abc"}, {"retention.ms": None}, {"retention.ms": "-5"})
    ),
    (create(topic("v1", 2, 1), validate_only=True), 7),
    (create(topic("big", 10_001, 1)), 7),
    (create(), 7),
    (widen(("x1", 3, None)), 3),
    (widen(("x1", 2, None)), 3),
    (widen(("x1", 5, None)), 3),
    (widen(("none", 5, None)), 3),
    (widen(("x1", 6, None), ("x1", 7, None)), 3),
    *((widen(("x1", 6, each)), 3) for each in ([[1], [1]], [[9]], [[]], [[1, 1]], [[1]])),
    (widen(("x1", 7, None), validate_only=True), 3),
    (widen(("x1", -1, None)), 3),
    (widen(), 3),
    (change(2, "x1", ("retention.ms", SET, "55")), 1),
    (change(2, "x1", ("retention.ms", SET, "zz")), 1),
    (change(2, "none", ("retention.ms", SET, "5")), 1),
    (change(2, "x1", ("cleanup.policy", APPEND, "compact")), 1),
    (change(2, "x1", ("cleanup.policy", SUBTRACT, "delete")), 1),
    (change(2, "x1", ("retention.ms", APPEND, "5")), 1),
    (change(2, "x1", ("retention.ms", DELETE, None)), 1),
    (change(2, "", ("retention.ms", SET, "4")), 1),
    (change(2, "a/b", ("retention.ms", SET, "4")), 1),
    (change(2, "x1", ("nope", SET, "4")), 1),
    (change(2, "x1", ("nope", DELETE, None)), 1),
    (change(2, "x1", ("retention.ms", SET, "66"), validate_only=True), 1),
    (change(4, "", ("log.cleaner.threads", SET, "2")), 1),
    (change(32, "g", ("consumer.session.timeout.ms", SET, "46000")), 1),
    (change(32, "", ("consumer.session.timeout.ms", SET, "46000")), 1),
    (change(32, "g", ("nope", SET, "1")), 1),
    (change(16, "s", ("interval.ms", SET, "1000")), 1),
    (change(16, "s", ("nope", SET, "1000")), 1),
    (change(16, "", ("interval.ms", SET, "1000")), 1),
    (replace(2, "x1", ("retention.ms", "77"), ("segment.bytes", "2000000")), 2),
    (replace(2, "x1", ("segment.bytes", "5")), 2),
    (replace(2, "x1"), 2),
    (replace(2, "none", ("retention.ms", "1")), 2),
    (elect(0, ("x1", [0, 99]), ("none", [0])), 2),
    (elect(1, ("x1", [0])), 2),
    (elect(5, ("x1", [0])), 2),
    *((update("metadata.version", 29, kind), 2) for kind in (1, 2, 3)),
    (update("metadata.version", 31, 1), 2),
    (update("metadata.version", 34, 1), 2),
    (update("nope", 1, 1), 2),
    (update("metadata.version", 30, 1), 1),
    (update("metadata.version", -1, 1), 1),
    (update("metadata.version", 30, 0), 1),
    (update("kraft.version", 0, 2), 1),
    (update("kraft.version", 1, 1), 1),
    (UnregisterBrokerRequest(broker_id=44), 0),
    (UnregisterControllerRequest(controller_id=44), 0),
    (UnregisterControllerRequest(controller_id=1), 0),
    (delete("x1", "none"), 5),
    (delete("x2", "x2"), 5),
    (delete(states=[("x3", ZERO_UUID), (None, ZERO_UUID), ("x2", UNKNOWN), (None, UNKNOWN)]), 6),
    (delete(states=[("x2", ZERO_UUID), ("x2", ZERO_UUID)]), 6),
    (delete(states=[(None, UNKNOWN), (None, UNKNOWN)]), 6),
    (delete("m1", "c1"), 1),
]
