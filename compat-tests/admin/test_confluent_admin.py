"""confluent-kafka's admin client: what librdkafka asks of a broker beyond producing and fetching."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import ElectionType, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from conftest import NewTopic
from support.clients import Confluent, Record, Sending
from support.waiting import becomes

NOON_MS = 1_600_000_000_000
asking: Any = confluent_kafka.admin


def answer(futures: Mapping[Any, Any]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(30)


def refusal(futures: Mapping[Any, Any]) -> int:
    """The error code that the only future ends with."""
    with pytest.raises(KafkaException) as refused:
        answer(futures)
    return int(refused.value.args[0].code())


def resource(topic: str, **configs: str) -> Any:
    """A topic as a config resource, for the older form of altering; ``_`` stands for ``.``."""
    return asking.ConfigResource(
        asking.ResourceType.TOPIC, topic, set_config={key.replace("_", "."): value for key, value in configs.items()}
    )


def change(topic: str, **changes: tuple[Any, str | None]) -> Any:
    """A topic as a config resource with incremental changes; ``_`` stands for ``.``."""
    entries = [
        asking.ConfigEntry(key.replace("_", "."), value, incremental_operation=operation)
        for key, (operation, value) in changes.items()
    ]
    return asking.ConfigResource(asking.ResourceType.TOPIC, topic, incremental_configs=entries)


def changed_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    """The configs of a topic that are set on the topic itself."""
    configs = answer(admin.describe_configs([resource(topic)]))
    dynamic = asking.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in configs.items() if entry.source == dynamic}


def test_topics_are_created_described_and_deleted(admin: AdminClient, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    answer(admin.create_topics([asking.NewTopic(name, 3, 1)], operation_timeout=30))
    becomes(lambda: name in admin.list_topics(timeout=30).topics, True)
    described = answer(admin.describe_topics(TopicCollection([name]), include_authorized_operations=False))
    assert described.name == name
    assert not described.is_internal
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert all(partition.leader is not None for partition in described.partitions)
    answer(admin.delete_topics([name], operation_timeout=30))
    describe = partial(admin.describe_topics, TopicCollection([name]))
    becomes(lambda: next(iter(describe().values())).exception(30) is None, False)
    assert refusal(describe()) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_keeps_its_configs_and_its_assignment(admin: AdminClient, unused_topic: Callable[[], str]) -> None:
    name, broker_id = unused_topic(), next(iter(admin.list_topics(timeout=30).brokers))
    wanted = asking.NewTopic(name, 2, replica_assignment=[[broker_id], [broker_id]], config={"segment.ms": "60000"})
    answer(admin.create_topics([wanted], operation_timeout=30))
    becomes(lambda: name in admin.list_topics(timeout=30).topics, True)
    becomes(lambda: changed_configs(admin, name), {"segment.ms": "60000"})
    assert len(admin.list_topics(name, timeout=30).topics[name].partitions) == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"num_partitions": 1, "replication_factor": 9}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"num_partitions": 1, "config": {"retention.ms": "x"}}, KafkaError.INVALID_CONFIG),
        ({"num_partitions": 1, "config": {"no.such": "x"}}, KafkaError.INVALID_CONFIG),
        ({"num_partitions": 1, "replica_assignment": [[4711]]}, KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=str,
)
def test_topics_that_cannot_be_are_refused(
    admin: AdminClient, unused_topic: Callable[[], str], options: dict[str, Any], code: int
) -> None:
    assert refusal(admin.create_topics([asking.NewTopic(unused_topic(), **options)])) == code


def test_a_topic_that_exists_is_not_created_again(admin: AdminClient, topic: str) -> None:
    assert refusal(admin.create_topics([asking.NewTopic(topic, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS


def test_illegal_names_are_refused(admin: AdminClient) -> None:
    assert refusal(admin.create_topics([asking.NewTopic("no/slash", 1)])) == KafkaError.TOPIC_EXCEPTION


def test_validation_creates_nothing(admin: AdminClient, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    answer(admin.create_topics([asking.NewTopic(name, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=30).topics


def test_an_unknown_topic_cannot_be_deleted(admin: AdminClient, unused_topic: Callable[[], str]) -> None:
    assert refusal(admin.delete_topics([unused_topic()])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_partitions_are_added(admin: AdminClient, topic: str) -> None:
    answer(admin.create_partitions([asking.NewPartitions(topic, 3)], operation_timeout=30))
    becomes(lambda: len(answer(admin.describe_topics(TopicCollection([topic]))).partitions), 3)
    assert refusal(admin.create_partitions([asking.NewPartitions(topic, 3)])) == KafkaError.INVALID_PARTITIONS


def test_described_configs_carry_source_and_synonyms(admin: AdminClient, new_topic: NewTopic) -> None:
    configs = answer(admin.describe_configs([resource(new_topic(retention_ms="123000"))]))
    retention, segment = configs["retention.ms"], configs["segment.bytes"]
    assert (retention.value, retention.is_default, retention.is_read_only) == ("123000", False, False)
    assert (segment.value, segment.source) == ("1073741824", asking.ConfigSource.DEFAULT_CONFIG.value)
    assert segment.synonyms["log.segment.bytes"].value == "1073741824"
    assert retention.synonyms["retention.ms"].source == asking.ConfigSource.DYNAMIC_TOPIC_CONFIG.value


def test_configs_change_key_by_key(admin: AdminClient, new_topic: NewTopic) -> None:
    topic, do = new_topic(retention_ms="5000000"), asking.AlterConfigOpType
    answer(
        admin.incremental_alter_configs(
            [change(topic, cleanup_policy=(do.APPEND, "compact"), segment_ms=(do.SET, "70000"))]
        )
    )
    becomes(
        lambda: changed_configs(admin, topic),
        {
            "retention.ms": "5000000",
            "cleanup.policy": "delete,compact",
            "segment.ms": "70000",
        },
    )
    answer(
        admin.incremental_alter_configs(
            [change(topic, cleanup_policy=(do.SUBTRACT, "delete"), retention_ms=(do.DELETE, None))]
        )
    )
    becomes(lambda: changed_configs(admin, topic), {"cleanup.policy": "compact", "segment.ms": "70000"})


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_the_older_form_replaces_all_configs(admin: AdminClient, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="5000000")
    answer(admin.alter_configs([resource(topic, segment_ms="70000")]))
    becomes(lambda: changed_configs(admin, topic), {"segment.ms": "70000"})


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_bad_configs_are_refused(admin: AdminClient, topic: str) -> None:
    before, do = changed_configs(admin, topic), asking.AlterConfigOpType
    bad = [change(topic, retention_ms=(do.SET, "long")), change(topic, retention_ms=(do.APPEND, "1"))]
    assert [refusal(admin.incremental_alter_configs([one])) for one in bad] == [KafkaError.INVALID_CONFIG] * 2
    assert refusal(admin.alter_configs([resource(topic, segment_ms="x")])) == KafkaError.INVALID_CONFIG
    assert changed_configs(admin, topic) == before


def test_configs_of_an_unknown_topic(admin: AdminClient, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    assert refusal(admin.describe_configs([resource(name)])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    setting = change(name, segment_ms=(asking.AlterConfigOpType.SET, "70000"))
    assert refusal(admin.incremental_alter_configs([setting])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_records_are_deleted(admin: AdminClient, topic: str, bootstrap_servers: str) -> None:
    confluent = Confluent(bootstrap_servers)
    confluent.produce(topic, [Record(b"v")] * 10, Sending(linger_ms=10))
    assert answer(admin.delete_records([TopicPartition(topic, 0, 6)])).low_watermark == 6
    assert confluent.beginning_offsets(topic) == [6]
    assert refusal(admin.delete_records([TopicPartition(topic, 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED], ids=str)
def test_offsets_are_listed(admin: AdminClient, topic: str, bootstrap_servers: str, isolation: Any) -> None:
    confluent, spec = Confluent(bootstrap_servers), asking.OffsetSpec
    for stamp in (3, 8, 5):
        confluent.produce(topic, [Record(b"v", timestamp_ms=NOON_MS + stamp)])

    def offset(wanted: Any) -> int:
        found = answer(admin.list_offsets({TopicPartition(topic, 0): wanted}, isolation_level=isolation))
        return int(found.offset)

    assert [offset(spec.earliest()), offset(spec.latest()), offset(spec.max_timestamp())] == [0, 3, 1]
    assert [offset(spec.for_timestamp(NOON_MS + 4)), offset(spec.for_timestamp(NOON_MS + 9))] == [1, -1]


def test_the_cluster_is_described(admin: AdminClient, bootstrap_servers: str) -> None:
    cluster = admin.describe_cluster(request_timeout=30).result(30)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == bootstrap_servers
    assert cluster.controller.id == node.id
    assert cluster.cluster_id == admin.list_topics(timeout=30).cluster_id


def test_partitions_with_their_preferred_leader_need_no_election(
    admin: AdminClient, topic: str, in_zookeeper_mode: bool
) -> None:
    wanted = [TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)]
    outcomes = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(30)
    found = {partition.topic: error.str() for partition, error in outcomes.items()}
    assert found == {
        topic: "Leader election not needed for topic partition.",
        "no-such-topic": "The partition does not exist." if in_zookeeper_mode else "No such topic as no-such-topic",
    }


def test_acls_quotas_and_credentials_are_empty_at_first(admin: AdminClient) -> None:
    binding = asking.AclBinding(
        asking.ResourceType.TOPIC,
        "a",
        asking.ResourcePatternType.LITERAL,
        "User:somebody",
        "*",
        asking.AclOperation.READ,
        asking.AclPermissionType.ALLOW,
    )
    assert refusal(admin.create_acls([binding])) == KafkaError.SECURITY_DISABLED
    assert refusal(admin.describe_user_scram_credentials(["somebody"])) == KafkaError.RESOURCE_NOT_FOUND
