"""The image, record by record: what each one changes, what the delta tells about it, what is refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_histories import apply_all, histories

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, InvalidMetadata, MetadataImage
from kpybroker.machines.metadata.topic import MIGRATING_DIRECTORY, Partition
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

ID = b"t" * 16
DIRECTORY = b"d" * 16


class Written:
    """An image with the delta since the last look."""

    def __init__(self) -> None:
        self.image = MetadataImage("cluster")
        self.offset = 0

    def write(self, *records: Any) -> MetadataDelta:
        delta = MetadataDelta(self.offset)
        for record in records:
            self.image.apply(record, self.offset, delta)
            self.offset += 1
        return delta


def topic(name: str = "orders", topic_id: bytes = ID) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def partition(number: int = 0, replicas: tuple[int, ...] = (1, 2), **fields: Any) -> PartitionRecord:
    replicas_list = list(replicas)
    fields = {"isr": replicas_list, "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0, **fields}
    fields.setdefault("directories", [DIRECTORY] * len(replicas))
    return PartitionRecord(
        topic_id=ID, partition_id=number, replicas=replicas_list, removing_replicas=[], adding_replicas=[], **fields
    )


def broker(broker_id: int = 1, epoch: int = 5, fenced: bool = True) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=b"i" * 16,
        broker_epoch=epoch,
        end_points=[],
        features=[],
        rack=None,
        fenced=fenced,
        log_dirs=[DIRECTORY],
    )


def test_a_topic_and_its_partitions_appear_by_name_and_by_id() -> None:
    log = Written()
    delta = log.write(topic(), partition(0), partition(1))
    assert log.image.topics["orders"] is log.image.topics_by_id[ID]
    assert list(log.image.topics["orders"].partitions) == [0, 1]
    assert list(delta.created_topics) == [ID]
    assert delta.partitions == {ID: {0: None, 1: None}}


def test_a_partition_change_raises_the_partition_epoch_and_with_a_leader_the_leader_epoch() -> None:
    log = Written()
    log.write(topic(), partition())
    before = log.image.topics["orders"].partitions[0]
    delta = log.write(PartitionChangeRecord(topic_id=ID, partition_id=0, isr=[1]))
    after = log.image.topics["orders"].partitions[0]
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1,), 1, 0, 1)
    log.write(PartitionChangeRecord(topic_id=ID, partition_id=0, leader=2))
    moved = log.image.topics["orders"].partitions[0]
    assert (moved.isr, moved.leader, moved.leader_epoch, moved.partition_epoch) == ((1,), 2, 1, 2)
    assert delta.partitions == {ID: {0: before}}
    assert (before.isr, before.partition_epoch) == ((1, 2), 0)


def test_the_delta_remembers_the_first_state_of_what_changed_twice() -> None:
    log = Written()
    log.write(topic(), partition(), broker())
    before, known = log.image.topics["orders"].partitions[0], log.image.brokers[1]
    change = PartitionChangeRecord(topic_id=ID, partition_id=0, isr=[1])
    unfence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1)
    shut_down = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1)
    delta = log.write(change, change, unfence, shut_down)
    assert delta.partitions[ID][0] is before
    assert delta.brokers[1] is known
    assert (log.image.brokers[1].fenced, log.image.brokers[1].in_controlled_shutdown) == (False, True)


def test_a_deleted_topic_takes_its_configs_along() -> None:
    log = Written()
    config = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="orders", name="retention.ms", value="1")
    log.write(topic(), partition(), config)
    delta = log.write(RemoveTopicRecord(topic_id=ID))
    assert not log.image.topics
    assert not log.image.topics_by_id
    assert log.image.configs_of(TOPIC_RESOURCE, "orders") == {}
    assert [gone.name for gone in delta.deleted_topics.values()] == ["orders"]
    assert list(delta.deleted_topics[ID].partitions) == [0]
    assert delta.configs == {(TOPIC_RESOURCE, "orders"): {"retention.ms"}}
    assert delta.partitions == {}


def test_a_topic_created_and_deleted_within_one_delta_leaves_no_trace_of_itself() -> None:
    delta = Written().write(topic(), partition(), RemoveTopicRecord(topic_id=ID))
    assert delta.created_topics == delta.deleted_topics == {}
    assert delta.is_empty


def test_a_topic_deleted_and_created_again_is_both_in_the_delta() -> None:
    log = Written()
    log.write(topic(), partition())
    again = topic("orders", b"n" * 16)
    delta = log.write(RemoveTopicRecord(topic_id=ID), again)
    assert (list(delta.deleted_topics), list(delta.created_topics)) == ([ID], [b"n" * 16])


def test_records_of_a_transaction_take_effect_together() -> None:
    log = Written()
    delta = log.write(BeginTransactionRecord(name="t"), topic(), partition())
    assert delta.is_empty
    assert not log.image.topics
    assert log.image.next_offset == 3
    delta = log.write(EndTransactionRecord())
    assert list(delta.created_topics) == [ID]
    assert 0 in log.image.topics["orders"].partitions


def test_records_of_an_aborted_transaction_never_take_effect() -> None:
    log = Written()
    delta = log.write(BeginTransactionRecord(name="t"), topic(), partition(), AbortTransactionRecord(reason="r"))
    assert delta.is_empty
    assert log.write(topic()).created_topics


@settings(deadline=None, max_examples=60)
@given(histories(), st.data())
def test_a_transaction_around_a_history_changes_nothing_but_when(history: list[Any], data: st.DataObject) -> None:
    plain = [
        record
        for record in history
        if not isinstance(record, BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord)
    ]
    try:
        expected = apply_all(plain).state()
    except InvalidMetadata:
        return  # what an aborted transaction had left out was needed by what came after
    first = data.draw(st.integers(0, len(plain)))
    wrapped = [*plain[:first], BeginTransactionRecord(name=None), *plain[first:], EndTransactionRecord()]
    assert apply_all(wrapped).state() == expected


def test_a_feature_at_level_0_is_off_and_the_quorum_keeps_its_own() -> None:
    log = Written()
    log.write(*(FeatureLevelRecord(name=name, feature_level=1) for name in ("metadata.version", "x", "kraft.version")))
    assert log.image.finalized_features == {"metadata.version": 1, "x": 1}
    delta = log.write(FeatureLevelRecord(name="x", feature_level=0))
    assert log.image.finalized_features == {"metadata.version": 1}
    assert delta.features == {"x"}


def test_a_config_without_value_is_gone() -> None:
    log = Written()
    for value, left in (("1", {"retention.ms": "1"}), (None, {})):
        delta = log.write(ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=value))
        assert log.image.configs_of(2, "orders") == left
        assert delta.configs == {(2, "orders"): {"retention.ms"}}
    assert log.image.configs == {}


def test_partitions_from_before_directory_assignment_are_migrating() -> None:
    log = Written()
    log.write(topic(), partition(directories=[]))
    assert log.image.topics["orders"].partitions[0].directories == (MIGRATING_DIRECTORY,) * 2


@pytest.mark.parametrize(
    "record",
    [
        partition(),
        PartitionChangeRecord(topic_id=ID, partition_id=0),
        RemoveTopicRecord(topic_id=ID),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=5),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5),
        RemoveAccessControlEntryRecord(id=ID),
        EndTransactionRecord(),
        AbortTransactionRecord(reason="r"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_about_what_is_not_there_is_refused(record: Any) -> None:
    with pytest.raises(InvalidMetadata):
        Written().write(record)


@pytest.mark.parametrize(
    "record",
    [
        topic(),
        topic("orders", b"n" * 16),
        topic("other", ID),
        PartitionChangeRecord(topic_id=ID, partition_id=7),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=4),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=3),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
        BeginTransactionRecord(name="inner"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_an_earlier_one_is_refused(record: Any) -> None:
    log = Written()
    log.write(topic(), broker(), ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000))
    if isinstance(record, BeginTransactionRecord):
        log.write(BeginTransactionRecord(name="outer"))
    with pytest.raises(InvalidMetadata):
        log.write(record)


def test_an_unknown_metadata_record_is_refused() -> None:
    with pytest.raises(InvalidMetadata, match="object"):
        Written().write(object())


def test_equal_replicas_and_isr_share_memory() -> None:
    one = Partition([1, 2, 3], [1, 2, 3], 1)
    assert one.isr is one.replicas
    assert Partition([1, 2], [2], 1).isr == (2,)


def test_directories_that_do_not_match_the_replicas_are_refused() -> None:
    with pytest.raises(ValueError, match="do not match"):
        Partition([1, 2], [1], 1, directories=[DIRECTORY])


def test_the_level_of_a_log_that_has_none_yet_is_asked_for_in_vain() -> None:
    log = Written()
    with pytest.raises(InvalidMetadata, match=r"has not said its metadata\.version yet"):
        _ = log.image.level
    log.write(FeatureLevelRecord(name="metadata.version", feature_level=25))
    assert log.image.level == 25
