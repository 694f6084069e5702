"""kafka-python's admin client: topics, partitions, configs, records, cluster; and the errors Kafka gives for each."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kafka.errors as errors
import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    OffsetSpec,
    ResourcePatternFilter,
    ResourceType,
)

from conftest import NewTopic
from support.clients import KafkaPython, Record, Refused, Sending
from support.waiting import becomes, eventually

NOON_MS = 1_600_000_000_000
TOPIC_CONFIG_SOURCE = 1
DEFAULT_CONFIG_SOURCE = 5


@pytest.fixture(scope="module")
def client(bootstrap_servers: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    yield client
    client.close()


def topic_configs(client: Any, topic: str, which: str = "modified") -> Mapping[str, Mapping[str, Any]]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    described: Mapping[str, Mapping[str, Any]] = client.describe_configs([resource], config_filter=which)["topic"][
        topic
    ]
    return described


def values(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: config["value"] for name, config in configs.items()}


def alter(client: Any, topic: str, configs: Mapping[str, Any], **options: Any) -> str:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
    return str(client.alter_configs([resource], **options)["topic"][topic])


def test_a_created_topic_is_described_as_it_was_asked_for(client: Any, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    created = client.create_topics(
        {name: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "123456"}}},
        wait_for_metadata=True,
    )
    (answer,) = created["topics"]
    assert (answer["error_code"], answer["num_partitions"], answer["replication_factor"]) == (0, 3, 1)
    assert answer["configs"]["retention.ms"]["value"] == "123456"
    (described,) = client.describe_topics([name])
    assert described["topic_id"] == answer["topic_id"] != str(uuid.UUID(int=0))
    assert sorted(one["partition_index"] for one in described["partitions"]) == [0, 1, 2]
    assert {(one["error_code"], tuple(one["offline_replicas"])) for one in described["partitions"]} == {(0, ())}
    assert not described["is_internal"]
    assert name in client.list_topics()


def test_topics_are_described_by_their_id(client: Any, topic: str) -> None:
    (by_name,) = client.describe_topics([topic])
    (by_id,) = client.describe_topics([uuid.UUID(str(by_name["topic_id"]))])
    assert (by_id["name"], by_id["partitions"]) == (topic, by_name["partitions"])


def test_broker_defaults_apply_where_nothing_is_asked(client: Any, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    (answer,) = client.create_topics([name])["topics"]
    assert (answer["num_partitions"], answer["replication_factor"]) == (1, 1)


def test_replicas_are_assigned_by_hand(client: Any, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    broker_id = client.describe_cluster()["brokers"][0]["broker_id"]
    client.create_topics({name: {"assignments": {0: [broker_id], 1: [broker_id]}}}, wait_for_metadata=True)
    (described,) = client.describe_topics([name])
    assert [tuple(one["replica_nodes"]) for one in described["partitions"]] == [(broker_id,)] * 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_partitions": 0}, errors.InvalidPartitionsError),
        ({"replication_factor": 4}, errors.InvalidReplicationFactorError),
        ({"replication_factor": 0}, errors.InvalidReplicationFactorError),
        ({"configs": {"retention.ms": "soon"}}, errors.InvalidConfigurationError),
        ({"configs": {"no.such.config": "1"}}, errors.InvalidConfigurationError),
        ({"configs": {"cleanup.policy": "shred"}}, errors.InvalidConfigurationError),
        ({"assignments": {0: [4711]}}, errors.InvalidReplicationAssignmentError),
        ({"assignments": {1: [1]}}, errors.InvalidReplicationAssignmentError),
    ],
    ids=str,
)
def test_topics_that_cannot_be_are_refused(
    client: Any, unused_topic: Callable[[], str], options: dict[str, Any], error: type[Exception]
) -> None:
    name = unused_topic()
    with pytest.raises(error):
        client.create_topics({name: options})
    assert name not in client.list_topics()


@pytest.mark.parametrize("name", ["", ".", "..", "white space", "slash/", "ü", "x" * 250])
def test_illegal_topic_names_are_refused(client: Any, name: str) -> None:
    with pytest.raises(errors.InvalidTopicError):
        client.create_topics([name])


def test_names_that_differ_in_dot_and_underscore_collide(client: Any, unused_topic: Callable[[], str]) -> None:
    name = unused_topic() + ".a"
    client.create_topics([name], wait_for_metadata=True)
    with pytest.raises(errors.InvalidTopicError):
        client.create_topics([name[:-2] + "_a"])
    client.delete_topics([name])


def test_a_topic_is_created_once_and_deleted_once(client: Any, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    client.create_topics([name], wait_for_metadata=True)
    with pytest.raises(errors.TopicAlreadyExistsError):
        client.create_topics([name])
    client.delete_topics([name])
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        client.delete_topics([name])
    becomes(lambda: name in client.list_topics(), False)


def created_as_soon_as_free(client: Any, name: str) -> Any:
    """Create a topic. In ZooKeeper mode, a name that was deleted is free when all replicas are gone."""

    def created() -> Any:
        try:
            return client.create_topics([name], wait_for_metadata=True)
        except errors.TopicAlreadyExistsError as error:
            if "is marked for deletion" not in str(error):
                raise
            return None

    return eventually(created, f"the name {name} to be free")


def test_a_topic_created_again_is_another_topic(
    client: Any, unused_topic: Callable[[], str], bootstrap_servers: str
) -> None:
    name, python = unused_topic(), KafkaPython(bootstrap_servers)
    identities = []
    for _ in range(2):
        (answer,) = created_as_soon_as_free(client, name)["topics"]
        identities.append(answer["topic_id"])
        python.produce(name, [Record(b"v")])
        assert python.end_offsets(name) == [1]
        client.delete_topics([name])
    assert identities[0] != identities[1]


def test_validation_creates_nothing(client: Any, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    (answer,) = client.create_topics({name: {"num_partitions": 2}}, validate_only=True)["topics"]
    assert (answer["error_code"], answer["num_partitions"]) == (0, 2)
    assert name not in client.list_topics()


def test_an_error_of_one_topic_does_not_affect_the_others(client: Any, unused_topic: Callable[[], str]) -> None:
    good, bad = unused_topic(), unused_topic()
    created = client.create_topics({good: {}, bad: {"num_partitions": 0}}, raise_errors=False)
    assert {one["name"]: one["error_code"] for one in created["topics"]} == {good: 0, bad: 37}


def test_partitions_are_added_and_never_taken_away(client: Any, topic: str) -> None:
    client.create_partitions({topic: 4})
    client.wait_for_topics([topic])
    assert len(client.describe_topics([topic])[0]["partitions"]) == 4
    for count in (4, 2):
        with pytest.raises(errors.InvalidPartitionsError):
            client.create_partitions({topic: count})
    client.create_partitions({topic: 6}, validate_only=True)
    assert len(client.describe_topics([topic])[0]["partitions"]) == 4


def test_partitions_of_an_unknown_topic_cannot_be_added(client: Any, unused_topic: Callable[[], str]) -> None:
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        client.create_partitions({unused_topic(): 4})


def test_described_configs_carry_value_source_type_and_default(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="86400000", cleanup_policy="compact,delete")
    configs = topic_configs(client, topic, "all")
    assert configs["retention.ms"]["value"] == "86400000"
    assert configs["cleanup.policy"]["value"] == "compact,delete"
    becomes(
        lambda: values(topic_configs(client, topic)), {"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
    )
    assert (
        values(configs).items()
        >= {
            "segment.bytes": "1073741824",
            "max.message.bytes": "1048588",
            "compression.type": "producer",
            "message.timestamp.type": "CreateTime",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
            "index.interval.bytes": "4096",
        }.items()
    )
    assert not any(config["read_only"] or config["is_sensitive"] for config in configs.values())


def test_configs_change_key_by_key(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000")
    assert alter(client, topic, {"segment.ms": "60000", "cleanup.policy": "compact"}) == "OK"
    changed = {"retention.ms": "1000000", "segment.ms": "60000", "cleanup.policy": "compact"}
    becomes(lambda: values(topic_configs(client, topic)), changed)
    assert alter(client, topic, {"cleanup.policy": ("APPEND", "delete"), "segment.ms": ("DELETE", None)}) == "OK"
    becomes(
        lambda: values(topic_configs(client, topic)), {"retention.ms": "1000000", "cleanup.policy": "compact,delete"}
    )
    assert alter(client, topic, {"cleanup.policy": ("SUBTRACT", "compact")}) == "OK"
    becomes(lambda: values(topic_configs(client, topic))["cleanup.policy"], "delete")


def test_the_older_form_replaces_all_configs(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000", segment_ms="60000")
    assert alter(client, topic, {"max.message.bytes": "5000"}, incremental=False) == "OK"
    expected = {"retention.ms": "1000000", "segment.ms": "60000", "max.message.bytes": "5000"}
    becomes(lambda: values(topic_configs(client, topic)), expected)  # kafka-python adds the configs that it found
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": None})
    assert client.reset_configs([resource], incremental=False) == {"topic": {topic: "OK"}}
    becomes(lambda: values(topic_configs(client, topic)), {"retention.ms": "1000000", "segment.ms": "60000"})


def test_reset_configs_fall_back_to_the_default(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000", segment_ms="60000")
    assert client.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})]) == {
        "topic": {topic: "OK"}
    }
    becomes(lambda: values(topic_configs(client, topic)), {"segment.ms": "60000"})
    assert topic_configs(client, topic, "all")["retention.ms"]["value"] == "604800000"


def test_validation_changes_no_config(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000")
    assert alter(client, topic, {"retention.ms": "5"}, validate_only=True) == "OK"
    becomes(lambda: values(topic_configs(client, topic)), {"retention.ms": "1000000"})


def test_bad_configs_are_refused_and_change_nothing(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000")
    for name, value in (("retention.ms", "long"), ("segment.bytes", "-1"), ("message.timestamp.type", "Never")):
        assert "InvalidConfigurationError" in alter(client, topic, {name: value})
    assert "InvalidConfigurationError" in alter(client, topic, {"no.such.config": "1"}, raise_on_unknown=False)
    becomes(lambda: values(topic_configs(client, topic)), {"retention.ms": "1000000"})


def test_a_changed_size_limit_holds_at_once(client: Any, topic: str, bootstrap_servers: str) -> None:
    python = KafkaPython(bootstrap_servers)
    python.produce(topic, [Record(b"x" * 5_000)])
    assert alter(client, topic, {"max.message.bytes": "1000"}) == "OK"
    with pytest.raises(Refused) as refusal:
        python.produce(topic, [Record(b"x" * 5_000)])
    assert refusal.value.code == errors.MessageSizeTooLargeError.errno


def test_broker_configs_are_described(client: Any) -> None:
    broker_id = str(client.describe_cluster()["brokers"][0]["broker_id"])
    resource = ConfigResource(ConfigResourceType.BROKER, broker_id)
    configs = client.describe_configs([resource], config_filter="all")["broker"][broker_id]
    assert values(configs).items() >= {"message.max.bytes": "1048588", "num.partitions": "1"}.items()
    assert configs["num.partitions"]["read_only"]
    assert not configs["message.max.bytes"]["read_only"]
    assert {"log.dirs", "listeners", "log.retention.ms", "node.id"} <= configs.keys()


def test_records_are_deleted_up_to_an_offset(client: Any, topic: str, bootstrap_servers: str) -> None:
    python, partition = KafkaPython(bootstrap_servers), TopicPartition(topic, 0)
    python.produce(topic, [Record(str(n).encode()) for n in range(10)])
    assert client.delete_records({partition: 4})[partition]["low_watermark"] == 4
    assert [record.value for record in python.read(topic, {0: 4})] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    assert client.delete_records({partition: 2})[partition]["low_watermark"] == 4
    assert client.delete_records({partition: -1})[partition]["low_watermark"] == 10
    assert python.beginning_offsets(topic) == python.end_offsets(topic) == [10]


def test_records_beyond_the_end_cannot_be_deleted(client: Any, topic: str) -> None:
    with pytest.raises(errors.OffsetOutOfRangeError):
        client.delete_records({TopicPartition(topic, 0): 1})


def test_offsets_are_listed_by_every_special_timestamp(client: Any, topic: str, bootstrap_servers: str) -> None:
    python, partition = KafkaPython(bootstrap_servers), TopicPartition(topic, 0)
    stamps = [5, 90, 20, 90, 30]
    for stamp in stamps:
        python.produce(topic, [Record(b"v", timestamp_ms=NOON_MS + stamp)])
    client.delete_records({partition: 1})

    def offset(spec: Any) -> tuple[int, int]:
        answer = client.list_partition_offsets({partition: spec})[partition]
        return answer.offset, answer.timestamp

    assert offset(OffsetSpec.EARLIEST) == (1, -1)
    assert offset(OffsetSpec.LATEST) == (5, -1)
    assert offset(OffsetSpec.MAX_TIMESTAMP) == (1, NOON_MS + 90)
    assert offset(OffsetSpec.EARLIEST_LOCAL) == (1, -1)
    assert offset(OffsetSpec.LATEST_TIERED) == (-1, -1)
    assert offset(NOON_MS + 10) == (1, NOON_MS + 90)
    assert offset(NOON_MS + 91) == (-1, -1)


def test_the_largest_timestamp_is_found_inside_a_compressed_batch(
    client: Any, topic: str, bootstrap_servers: str
) -> None:
    python, partition = KafkaPython(bootstrap_servers), TopicPartition(topic, 0)
    records = [Record(b"v", timestamp_ms=NOON_MS + stamp) for stamp in (1, 9, 3, 9, 2)]
    python.produce(topic, records, Sending(codec="gzip", linger_ms=100))
    answer = client.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
    assert (answer.offset, answer.timestamp) == (1, NOON_MS + 9)


def test_the_cluster_is_described(client: Any, bootstrap_servers: str) -> None:
    cluster = client.describe_cluster()
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap_servers
    assert cluster["controller_id"] == broker["broker_id"]
    assert cluster["cluster_id"]


def test_partitions_are_described_page_by_page(client: Any, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=5)
    first = client.describe_topic_partitions([topic], response_partition_limit=3)
    assert [one["partition_index"] for one in first["topics"][0]["partitions"]] == [0, 1, 2]
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 3}
    second = client.describe_topic_partitions([topic], response_partition_limit=3, cursor=first["next_cursor"])
    assert [one["partition_index"] for one in second["topics"][0]["partitions"]] == [3, 4]
    assert second["next_cursor"] is None


def test_log_directories_show_what_partitions_weigh(client: Any, new_topic: NewTopic, bootstrap_servers: str) -> None:
    topic = new_topic(partitions=2)
    KafkaPython(bootstrap_servers).produce(topic, [Record(b"x" * 10_000, partition=1)])
    (broker,) = client.describe_log_dirs({topic: [0, 1]})
    (directory,) = broker["log_dirs"]
    (found,) = directory["topics"]
    sizes = {one["partition_index"]: one["partition_size"] for one in found["partitions"]}
    assert directory["error_code"] == 0
    assert found["name"] == topic
    assert sizes[0] == 0
    assert 10_000 < sizes[1] < 10_200
    assert {(one["offset_lag"], one["is_future_key"]) for one in found["partitions"]} == {(0, False)}
    assert directory["total_bytes"] > directory["usable_bytes"] > 0


def test_the_served_versions_can_be_requested(client: Any, in_zookeeper_mode: bool) -> None:
    if in_zookeeper_mode:
        assert client.api_versions()
    else:  # kafka-python knows no API that is newer than itself
        with pytest.raises(ValueError, match=r"9[34] is not a valid ApiKey"):
            client.api_versions()
    features = client.describe_features()
    assert ("metadata.version" in str(features)) is not in_zookeeper_mode


def test_the_quorum_its_producers_and_what_has_configs_are_described(client: Any, topic: str) -> None:
    (metadata,) = client.describe_metadata_quorum()["topics"]
    (partition,) = metadata["partitions"]
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [partition["leader_id"]]
    producers = client.describe_producers([TopicPartition(topic, 0)])
    assert producers[TopicPartition(topic, 0)].active_producers == []
    resources = client.list_config_resources()
    assert resources["broker"] == resources["broker_logger"] == [str(partition["leader_id"])]
    assert topic in resources["topic"]
    assert client.list_partition_reassignments() == {}


def test_without_an_authorizer_acls_are_disabled(client: Any) -> None:
    everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)
    with pytest.raises(errors.SecurityDisabledError, match="No Authorizer is configured on the broker"):
        client.describe_acls(wanted)
