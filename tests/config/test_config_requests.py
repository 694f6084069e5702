"""DescribeConfigs and AlterConfigs as Apache Kafka answers them, under the same server.properties."""

import time
from collections.abc import Iterator, Mapping

import pytest

from kpybroker.config import alter, client_metrics, describe, group, topic
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import ConfigError
from kpybroker.runtime.calls.steps import at_once
from kpywire.messages import alter_configs as legacy
from kpywire.messages import create_topics
from kpywire.messages import incremental_alter_configs as incremental
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oracle.broker import ApacheKafka
from support.raw_client import RawClient

pytestmark = pytest.mark.java

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
STATIC = {
    "log.retention.hours": "5",
    "log.retention.minutes": "400",
    "message.max.bytes": "2000000 ",
    "ssl.keystore.password": "secret",
    "no.such.config": "x",
    "listener.name.plaintext.max.connections": "700",
    "log.flush.scheduler.interval.ms": "100000",
    "leader.replication.throttled.rate": "7",
    "log.initial.task.delay.ms": "60000",
}


class Ours:
    """A view of configs that are changed by the test as Kafka's were."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.base = BrokerConfig.load(None, properties, defaults={})
        self.config = self.base
        self.stored: dict[tuple[int, str], dict[str, str]] = {}

    def has_topic(self, name: str) -> bool:
        return (TOPIC, name) in self.stored

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        return self.stored.get((resource_type, name), {})

    def logger_levels(self) -> Mapping[str, str]:
        return {"root": "WARN"}

    def set_logger_level(self, name: str, level: str | None) -> None:
        raise AssertionError(f"only asked whether {name} may be {level}")

    def store(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        self.stored.setdefault((resource_type, name), {}).update(configs)
        self.config = self.base.with_dynamic(self.configs_of(BROKER, ""), self.configs_of(BROKER, "1"))

    def refusal(self, resource_type: int, name: str, operations: list[tuple[int, str, str | None]]) -> tuple:
        """The answer of this broker, and behind it of the rules of the resource, to one IncrementalAlterConfigs."""
        request = incremental_request((resource_type, name, operations), validate_only=True)
        error = at_once(alter.settle_incremental(request, self)).get(0)
        if error is None and resource_type in (TOPIC, GROUP, CLIENT_METRICS):
            after = dict(self.configs_of(resource_type, name))
            after.update((config, value or "") for operation, config, value in operations if operation == SET)
            try:
                if resource_type == TOPIC:
                    topic.validate(after, self.config)
                elif resource_type == GROUP:
                    group.validate(after, self.config)
                else:
                    client_metrics.validate(name, after)
            except ConfigError as refused:
                error = refused
        return (0, None) if error is None else (error.code, error.message)


def incremental_request(*resources, validate_only: bool = False) -> incremental.IncrementalAlterConfigsRequest:
    return incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=config, config_operation=operation, value=value)
                    for operation, config, value in operations
                ],
            )
            for resource_type, name, operations in resources
        ],
        validate_only=validate_only,
    )


def describe_request(*resources, documentation: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=True,
        include_documentation=documentation,
    )


def comparable(results) -> list:
    """Results with the entries of each by name, since Kafka's order is that of a hash table."""
    return [
        (
            result.error_code,
            result.error_message,
            result.resource_type,
            result.resource_name,
            {
                entry.name: (
                    entry.value,
                    entry.read_only,
                    entry.config_source,
                    entry.is_sensitive,
                    entry.config_type,
                    [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
                    entry.documentation,
                )
                for entry in result.configs
            },
        )
        for result in results
    ]


@pytest.fixture(scope="module")
def kafka() -> Iterator[tuple[ApacheKafka, RawClient, Ours]]:
    with ApacheKafka(STATIC) as broker, RawClient(broker.port) as client:
        ours = Ours(broker.properties)
        created = client.call(
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(
                        name="t",
                        num_partitions=1,
                        replication_factor=1,
                        assignments=[],
                        configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="77")],
                    )
                ],
                timeout_ms=20_000,
                validate_only=False,
            ),
            7,
        )
        assert created.topics[0].error_code == 0
        ours.store(TOPIC, "t", {"retention.ms": "77"})
        # A quorum that tracks eligible leader replicas keeps this one for all brokers.
        ours.store(BROKER, "", {"min.insync.replicas": "1"})
        yield broker, client, ours


def both(kafka, *resources, documentation: bool = False) -> tuple[list, list]:
    """Kafka's answer and ours; Kafka may still be applying what was just altered."""
    _, client, ours = kafka
    request = describe_request(*resources, documentation=documentation)
    answered = comparable(at_once(describe.respond(request, ours)).results)
    for _ in range(50):
        expected = comparable(client.call(request, 4).results)
        if expected == answered:
            break
        time.sleep(0.1)
    return answered, expected


def difference(answered: list, expected: list) -> dict:
    """Only what differs, so that a failure can be read."""
    found = {}
    for ours, theirs in zip(answered, expected, strict=True):
        if ours[:4] != theirs[:4]:
            found[str(theirs[2:4])] = (ours[:4], theirs[:4])
        for name in ours[4].keys() | theirs[4].keys():
            if ours[4].get(name) != theirs[4].get(name):
                found[name] = (ours[4].get(name), theirs[4].get(name))
    return found


def test_a_broker_is_described_as_by_kafka(kafka):
    assert difference(*both(kafka, (BROKER, "1", None), documentation=True)) == {}


def test_cluster_default_configs_are_described_as_by_kafka(kafka):
    assert difference(*both(kafka, (BROKER, "", None), documentation=True)) == {}


def test_a_topic_a_group_and_a_subscription_are_described_as_by_kafka(kafka):
    resources = ((TOPIC, "t", None), (GROUP, "g", None), (CLIENT_METRICS, "s", None))
    assert difference(*both(kafka, *resources, documentation=True)) == {}
    assert difference(*both(kafka, *resources)) == {}


@pytest.mark.parametrize(
    "resource",
    [
        (TOPIC, "t", ["retention.ms", "no.such", "segment.bytes"]),
        (TOPIC, "t", []),
        (TOPIC, "absent", None),
        (TOPIC, "a b", None),
        (TOPIC, "", None),
        (BROKER, "7", None),
        (BROKER, "x", None),
        (BROKER, "1", ["log.retention.ms"]),
        (BROKER_LOGGER, "1", ["root"]),
        (BROKER_LOGGER, "", None),
        (BROKER_LOGGER, "2", None),
        (BROKER_LOGGER, "x", None),
        (CLIENT_METRICS, "", None),
        (GROUP, "", None),
        (99, "x", None),
    ],
    ids=str,
)
def test_odd_questions_are_answered_as_by_kafka(kafka, resource):
    assert difference(*both(kafka, resource)) == {}


def test_a_question_of_a_wrong_type_spoils_all(kafka):
    assert difference(*both(kafka, (TOPIC, "t", None), (1, "x", None))) == {}


BROKER_CASES = [
    [(SET, "num.partitions", "6")],
    [(SET, "log.retention.ms", "x")],
    [(SET, "log.segment.bytes", "1")],
    [(SET, "ssl.keystore.location", "x")],
    [(SET, "advertised.listeners", "PLAINTEXT://a:1")],
    [(SET, "log.retention.hours", "5")],
    [(SET, "listener.name.plaintext.max.connections", "x")],
    [(SET, "num.io.threads", "100")],
    [(SET, "num.io.threads", "0")],
    [(SET, "background.threads", "99")],
    [(SET, "num.recovery.threads.per.data.dir", "9")],
    [(SET, "log.cleaner.threads", "9")],
    [(SET, "log.cleaner.dedupe.buffer.size", "9000000"), (SET, "log.cleaner.threads", "3")],
    [(SET, "log.roll.ms", "0")],
    [(SET, "log.retention.ms", "0")],
    [(SET, "log.local.retention.ms", "9999999999999")],
    [(SET, "log.local.retention.ms", "-1")],
    [(SET, "log.local.retention.bytes", "-1")],
    [(SET, "log.retention.bytes", "9"), (SET, "log.local.retention.bytes", "10")],
    [(SET, "log.remote.copy.lag.ms", "9999999999999")],
    [(SET, "log.remote.copy.lag.ms", "604800000")],
    [(SET, "log.remote.copy.lag.ms", "6"), (SET, "log.local.retention.ms", "5")],
    [(SET, "log.remote.copy.lag.ms", "-1"), (SET, "log.local.retention.ms", "5")],
    [(SET, "log.remote.copy.lag.bytes", "5")],
    [(SET, "log.remote.copy.lag.bytes", "6"), (SET, "log.local.retention.bytes", "5")],
    [(SET, "log.remote.copy.lag.bytes", "6"), (SET, "log.retention.bytes", "5")],
    [(SET, "log.remote.copy.lag.bytes", "6"), (SET, "log.retention.bytes", "5"), (SET, "log.remote.copy.lag.ms", "-2")],
    [(SET, "remote.log.reader.threads", "4")],
    [(SET, "remote.log.reader.threads", "5")],
    [(SET, "remote.log.reader.threads", "21")],
    [(SET, "remote.log.manager.copier.thread.pool.size", "21")],
    [(SET, "remote.log.manager.expiration.thread.pool.size", "0")],
    [(SET, "remote.log.manager.follower.thread.pool.size", "5")],
    [(SET, "remote.log.manager.copy.max.bytes.per.second", "0")],
    [(SET, "remote.log.manager.copy.max.bytes.per.second", "1")],
    [(SET, "remote.log.manager.copy.quota.window.num", "5")],
    [(SET, "remote.log.storage.system.enable", "true")],
    [(SET, "remote.fetch.max.wait.ms", "0")],
    [(SET, "follower.fetch.last.tiered.offset.enable", "true")],
    [(SET, "max.connections.per.ip", "0")],
    [(SET, "unclean.leader.election.enable", "maybe")],
    [(SET, "group.consumer.assignment.interval.ms", "99000")],
    [(SET, "cordoned.log.dirs", "/x")],
    [(SET, "listener.name.plaintext.ssl.client.auth", "x")],
    [(SET, "metric.reporters", "org.example.X")],
    [(APPEND, "log.retention.ms", "5")],
    [(SUBTRACT, "log.retention.ms", "5")],
    [(APPEND, "no.such", "5")],
    [(9, "log.retention.ms", "5")],
    [(SET, "log.retention.ms", None)],
    [(SET, "log.retention.ms", "5"), (SET, "log.retention.ms", "6")],
    [(SET, "no.such", "5")],
    [(DELETE, "node.id", None)],
    [(SET, "leader.replication.throttled.rate", "-1")],
    [(SET, "log.cleanup.policy", "delete,compact")],
    [(APPEND, "log.cleanup.policy", "x")],
]


def test_changes_of_a_broker_are_refused_in_kafkas_words(kafka):
    _, client, ours = kafka
    found = {}
    for operations in BROKER_CASES:
        for name in ("1", ""):
            request = incremental_request((BROKER, name, operations), validate_only=True)
            answer = client.call(request, 1).responses[0]
            expected = (answer.error_code, answer.error_message)
            if ours.refusal(BROKER, name, operations) != expected:
                found[f"{name} {operations}"] = (ours.refusal(BROKER, name, operations), expected)
    assert found == {}


@pytest.mark.parametrize(
    ("kind", "name", "operations"),
    [
        (BROKER, "2", [(SET, "log.retention.ms", "6")]),
        (BROKER, "x", [(SET, "log.retention.ms", "6")]),
        (BROKER, "", [(SET, "listeners", "PLAINTEXT://:1")]),
        (99, "x", [(SET, "a", "b")]),
        (BROKER_LOGGER, "", [(SET, "root", "INFO")]),
        (BROKER_LOGGER, "3", [(SET, "root", "INFO")]),
        (BROKER_LOGGER, "1", [(SET, "root", "FOO")]),
        (BROKER_LOGGER, "1", [(SET, "no.such", "INFO")]),
        (BROKER_LOGGER, "1", [(DELETE, "root", "")]),
        (BROKER_LOGGER, "1", [(APPEND, "root", "INFO")]),
        (BROKER_LOGGER, "1", [(SET, "root", "DEBUG")]),
        (TOPIC, "t", [(SET, "no.such", "1")]),
        (TOPIC, "t", [(SET, "retention.ms", "x")]),
        (TOPIC, "t", [(SET, "retention.ms", None)]),
        (TOPIC, "t", [(SET, "min.compaction.lag.ms", "9"), (SET, "max.compaction.lag.ms", "3")]),
        (TOPIC, "t", [(SET, "remote.storage.enable", "true")]),
        (TOPIC, "t", [(SET, "cleanup.policy", "compact,compact")]),
        (TOPIC, "t", [(SET, "retention.ms", "1"), (SET, "retention.ms", "2")]),
        (GROUP, "g", [(SET, "no.such", "1")]),
        (GROUP, "g", [(SET, "consumer.session.timeout.ms", "5")]),
        (GROUP, "g", [(SET, "consumer.session.timeout.ms", "60001")]),
        (GROUP, "g", [(SET, "consumer.heartbeat.interval.ms", "15001")]),
        (GROUP, "g", [(SET, "consumer.assignment.interval.ms", "15001")]),
        (GROUP, "g", [(SET, "share.record.lock.duration.ms", "60001")]),
        (GROUP, "g", [(SET, "share.delivery.count.limit", "11")]),
        (GROUP, "g", [(SET, "share.partition.max.record.locks", "4001")]),
        (GROUP, "g", [(SET, "streams.num.standby.replicas", "3")]),
        (GROUP, "g", [(SET, "streams.num.warmup.replicas", "21")]),
        (GROUP, "g", [(SET, "streams.task.offset.interval.ms", "14999")]),
        (GROUP, "g", [(SET, "streams.assignor.name", "nobody")]),
        (GROUP, "g", [(SET, "streams.rack.aware.assignment.tags", "zone , zone")]),
        (GROUP, "g", [(SET, "errors.deadletterqueue.topic.name", "__dead")]),
        (GROUP, "g", [(SET, "consumer.heartbeat.interval.ms", "15000"), (SET, "consumer.session.timeout.ms", "45000")]),
        (GROUP, "g", [(SET, "share.isolation.level", "x")]),
        (GROUP, "g", [(SET, "share.auto.offset.reset", "sometime")]),
        (GROUP, "g", [(SET, "share.auto.offset.reset", "by_duration:PT-1S")]),
        (GROUP, "g", [(SET, "share.auto.offset.reset", "by_duration:P1DT2H3M4.5S")]),
        (GROUP, "g", [(SET, "share.auto.offset.reset", "by_duration:PT")]),
        (CLIENT_METRICS, "s", [(SET, "no.such", "1")]),
        (CLIENT_METRICS, "s", [(SET, "interval.ms", "99")]),
        (CLIENT_METRICS, "s", [(SET, "interval.ms", "x")]),
        (CLIENT_METRICS, "s", [(SET, "match", "a=b")]),
        (CLIENT_METRICS, "s", [(SET, "match", "client_id")]),
        (CLIENT_METRICS, "s", [(SET, "match", "client_id=b[")]),
        (CLIENT_METRICS, "s", [(SET, "match", "client_id=b.*,client_software_name=x")]),
        (CLIENT_METRICS, "", [(SET, "interval.ms", "5000")]),
    ],
    ids=str,
)
def test_changes_are_refused_in_kafkas_words(kafka, kind, name, operations):
    _, client, ours = kafka
    answer = client.call(incremental_request((kind, name, operations), validate_only=True), 1).responses[0]
    assert ours.refusal(kind, name, operations) == (answer.error_code, answer.error_message)


@pytest.mark.parametrize(
    ("kind", "name", "configs"),
    [
        (BROKER, "1", [("node.id", "1")]),
        (BROKER, "1", [("message.max.bytes", "x")]),
        (BROKER, "1", [("message.max.bytes", None)]),
        (BROKER_LOGGER, "1", [("root", "INFO")]),
        (99, "x", [("a", "b")]),
        (TOPIC, "t", [("retention.ms", "5"), ("retention.ms", "6")]),
        (TOPIC, "t", [("retention.ms", None)]),
    ],
    ids=str,
)
def test_replacing_configs_is_refused_in_kafkas_words(kafka, kind, name, configs):
    _, client, ours = kafka
    altered = [legacy.AlterableConfig(name=config, value=value) for config, value in configs]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=altered)
    request = legacy.AlterConfigsRequest(resources=[resource], validate_only=True)
    answer = client.call(request, 2).responses[0]
    error = at_once(alter.settle_legacy(request, ours))[0]
    assert error is not None
    assert (error.code, error.message) == (answer.error_code, answer.error_message)


def test_changed_configs_are_described_as_by_kafka(kafka):
    _, client, ours = kafka
    changes = [
        (BROKER, "1", {"log.retention.ms": "5", "message.max.bytes": "6", "num.io.threads": "3"}),
        (BROKER, "1", {"log.cleanup.policy": "compact", "leader.replication.throttled.rate": "9", "no.such": "x"}),
        (
            BROKER,
            "",
            {"log.retention.ms": "7", "message.max.bytes": "8", "listener.name.plaintext.max.connections": "9"},
        ),
        (BROKER, "", {"no.such.either": "y", "log.roll.ms": "100000"}),
        (TOPIC, "t", {"cleanup.policy": " compact , delete ", "internal.segment.bytes": "5000"}),
        (GROUP, "g", {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"}),
        (GROUP, "g", {"streams.num.warmup.replicas": "3", "streams.rack.aware.assignment.tags": "zone , row"}),
        (CLIENT_METRICS, "s", {"interval.ms": "5000", "metrics": "org.apache., x", "match": "client_id=a"}),
    ]
    for kind, name, configs in changes:
        operations = [(SET, config, value) for config, value in configs.items()]
        assert ours.refusal(kind, name, operations) == (0, None)
        answer = client.call(incremental_request((kind, name, operations)), 1).responses[0]
        assert (answer.error_code, answer.error_message) == (0, None)
        ours.store(kind, name, configs)
    kinds = [
        (BROKER, "1", None),
        (BROKER, "", None),
        (TOPIC, "t", None),
        (GROUP, "g", None),
        (CLIENT_METRICS, "s", None),
    ]
    assert difference(*both(kafka, *kinds)) == {}
