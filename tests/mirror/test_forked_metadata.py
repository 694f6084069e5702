"""The metadata of a fork: one node is all that is left of the cluster, and the mirror's topics are ordinary."""

from typing import Any

from kpybroker.machines.metadata.image import MetadataImage, image_of
from kpybroker.machines.metadata.mirror_configs import LEADER_EPOCH, MIRRORS, SOURCE, TOPIC_ID
from kpybroker.machines.mirror.rehearsal import ForkedMetadata, HeldPartition
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
IDS = {name: bytes([number]) * 16 for number, name in enumerate(("orders", "other", "cold", "__consumer_offsets"), 1)}


def directory(node_id: int) -> bytes:
    return bytes([100 + node_id]) * 16


def partition(topic: str, index: int, replicas: list[int]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=IDS[topic],
        replicas=replicas,
        isr=replicas,
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0],
        leader_epoch=1_000,
        leader_recovery_state=1,
        partition_epoch=7,
        directories=[directory(each) for each in replicas],
    )


def config(kind: int, resource: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def broker(node_id: int, *, leaves: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id, incarnation_id=bytes(16), broker_epoch=node_id, end_points=[], features=[], rack=None,
        fenced=False, log_dirs=[directory(node_id)], in_controlled_shutdown=leaves,
    )  # fmt: skip


def forked() -> tuple[ForkedMetadata, MetadataImage]:
    """The fork of node 2 of three, and the image that its records describe."""
    records: list[Any] = [
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        *(broker(node_id, leaves=node_id == 2) for node_id in (1, 2, 3)),
        *(TopicRecord(name=name, topic_id=topic_id) for name, topic_id in IDS.items()),
        partition("orders", 0, [1, 2]),
        partition("orders", 1, [1, 3]),
        partition("other", 0, [2, 3, 1]),
        partition("cold", 0, [2]),
        partition("__consumer_offsets", 0, [2]),
        config(TOPIC, "orders", SOURCE, "dr"),
        config(TOPIC, "orders", TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAQ"),
        config(TOPIC, "orders", LEADER_EPOCH, "1000"),
        config(TOPIC, "orders", "retention.ms", "5"),
        config(TOPIC, "other", SOURCE, "another"),
        config(TOPIC, "cold", "remote.storage.enable", "true"),
        config(BROKER, "", MIRRORS, "dr:*"),
        config(BROKER, "", "log.retention.ms", "9"),
        config(CLIENT_METRICS, "all", "interval.ms", "1000"),
        config(BROKER, "2", "advertised.listeners", "PLAINTEXT://real:9092"),
    ]
    image, _ = image_of(records, "real", 100)
    metadata = ForkedMetadata(image, 2, "dr")
    made, _ = image_of(list(metadata.records()), "fork", 100)
    return metadata, made


def test_only_the_node_is_left_and_waits_for_its_registration() -> None:
    _, image = forked()
    assert {node_id: each.fenced for node_id, each in image.brokers.items()} == {2: True}
    assert not image.brokers[2].in_controlled_shutdown
    assert not image.controllers


def test_the_node_is_the_only_replica_of_its_partitions_in_the_fork() -> None:
    _, image = forked()
    for name in ("orders", "other"):
        found = image.topics[name].partitions[0]
        assert (found.replicas, found.isr, found.directories) == ((2,), (2,), (directory(2),))
        assert (found.leader, found.leader_epoch, found.partition_epoch) == (-1, 1_001, 8)
        assert found.leader_recovery_state == 0


def test_a_partition_that_the_node_does_not_hold_has_no_leader() -> None:
    metadata, image = forked()
    assert image.topics["orders"].partitions[1].leader == -1
    assert metadata.absent() == 1


def test_topics_of_the_mirror_are_ordinary_and_those_of_another_are_not() -> None:
    _, image = forked()
    assert image.configs_of(TOPIC, "orders") == {"retention.ms": "5"}
    assert image.configs_of(TOPIC, "other") == {SOURCE: "another"}
    assert image.configs_of(CLIENT_METRICS, "all") == {"interval.ms": "1000"}


def test_nothing_leads_to_the_source_the_store_or_the_real_addresses() -> None:
    metadata, image = forked()
    assert image.configs_of(BROKER, "") == {"log.retention.ms": "9"}
    assert image.configs_of(BROKER, "2") == {}
    assert "cold" not in image.topics
    assert metadata.tiered == {"cold"}


def test_logs_with_the_offsets_of_groups_are_forked_before_the_others() -> None:
    metadata, _ = forked()
    assert metadata.held() == [
        HeldPartition("__consumer_offsets", IDS["__consumer_offsets"], 0, 1_001, is_mirror=False),
        HeldPartition("orders", IDS["orders"], 0, 1_001, is_mirror=True),
        HeldPartition("other", IDS["other"], 0, 1_001, is_mirror=False),
    ]
