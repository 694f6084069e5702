"""A snapshot of an image, written and read again, is the same image; at every level that changes the records."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_histories import apply_all, histories

from kpybroker.machines.metadata.image import image_of
from kpybroker.machines.metadata.image_records import image_records, record_version
from kpywire.metadata_records import decode_record, encode_record
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord

VERSION = ("metadata.version", 33)
LEVELS = [7, 8, 11, 14, 15, 17, 23, 29, 30, 33]


def through_bytes(records: list[Any], level: int) -> list[Any]:
    return [decode_record(encode_record(record, record_version(record, level))) for record in records]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_snapshot_equals_its_image(data: st.DataObject) -> None:
    level = data.draw(st.sampled_from(LEVELS))
    image = apply_all(data.draw(histories(level)))
    image.features["eligible.leader.replicas.version"] = 1  # or the snapshot has no eligible leader replicas
    records = through_bytes(list(image_records(image)), level)
    again, delta = image_of(records, "cluster", image.next_offset)
    assert again.state() == image.state()
    assert again.next_offset == image.next_offset
    assert delta.from_snapshot
    assert set(delta.created_topics) == set(image.topics_by_id)
    assert set(delta.brokers) == set(image.brokers)


@settings(deadline=None, max_examples=50)
@given(histories())
def test_the_records_of_a_history_survive_the_log(history: list[Any]) -> None:
    assert apply_all(through_bytes(history, 30)).state() == apply_all(history).state()


@settings(deadline=None, max_examples=50)
@given(histories(), histories())
def test_a_copy_goes_its_own_way(history: list[Any], more: list[Any]) -> None:
    image = apply_all(history)
    before = apply_all(history).state()
    copy = image.copy()
    assert copy.state() == before
    for topic in list(copy.topics.values()):
        topic.own().clear()
    copy.configs.setdefault((2, "a"), {})["retention.ms"] = "changed"
    copy.brokers.clear()
    copy.topics.clear()
    for configs in copy.configs.values():
        configs["new"] = "value"
    for quotas in copy.client_quotas.values():
        quotas["new"] = 1.0
    copy.features["new"] = len(more)
    assert image.state() == before


def test_features_come_first_and_metadata_version_before_all() -> None:
    image = apply_all([FeatureLevelRecord(name=name, feature_level=level) for name, level in (("x", 1), VERSION)])
    names = [record.name for record in image_records(image)]
    assert names == ["metadata.version", "x"]


@pytest.mark.parametrize(
    ("level", "versions"), [(7, (1, 0, 0)), (8, (2, 0, 0)), (17, (3, 1, 1)), (23, (3, 2, 2)), (30, (4, 2, 2))]
)
def test_record_versions_follow_the_level(level: int, versions: tuple[int, int, int]) -> None:
    kinds = (RegisterBrokerRecord, PartitionRecord, PartitionChangeRecord)
    records = [kind.__new__(kind) for kind in kinds]
    assert tuple(record_version(record, level) for record in records) == versions
