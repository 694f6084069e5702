"""Facts that follow from a level of ``metadata.version``, each to its level; and what a replaced image reports."""

from collections.abc import Callable
from typing import Any

import pytest

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.features import default_level
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.metadata_version import fetch_request_version, partition_record_version
from kpybroker.machines.metadata.replacement import replace
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.topic_record import TopicRecord


@pytest.mark.parametrize(
    ("name", "from_level", "level"),
    [
        ("transaction.version", 24, 2),
        ("group.version", 22, 1),
        ("streams.version", 29, 1),
        ("eligible.leader.replicas.version", 26, 1),
        ("share.version", 28, 1),
        ("kraft.version", 21, 1),
    ],
)
def test_a_new_cluster_has_a_feature_from_its_level_on(name: str, from_level: int, level: int) -> None:
    assert [default_level(name, each) for each in (7, from_level - 1, from_level, 30)] == [0, 0, level, level]


def test_dead_letters_of_share_groups_come_with_their_level() -> None:
    assert [default_level("share.version", level) for level in (30, 31, 33)] == [1, 2, 2]


def test_a_new_cluster_has_the_level_that_it_is_formatted_with_and_no_unknown_feature() -> None:
    assert [default_level("metadata.version", level) for level in (7, 30)] == [7, 30]
    assert default_level("other", 30) == 0


@pytest.mark.parametrize(("from_level", "version"), [(9, 14), (10, 15), (19, 16), (21, 17), (27, 18)])
def test_followers_fetch_in_the_version_of_their_level(from_level: int, version: int) -> None:
    assert fetch_request_version(from_level) == version
    assert fetch_request_version(from_level - 1) == version - 1


@pytest.mark.parametrize(("level", "version"), [(16, 0), (17, 1), (22, 1), (23, 2), (30, 2)])
def test_records_of_partitions_are_written_in_the_version_of_their_level(level: int, version: int) -> None:
    assert partition_record_version(level) == version


class Noted:
    """All changes, by the names of their methods."""

    def __init__(self) -> None:
        self.changes: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.changes.append((name, *arguments))


def image_of(*records: Any) -> MetadataImage:
    image = MetadataImage("cluster")
    for offset, record in enumerate(records):
        image.apply(record, offset, MetadataDelta())
    return image


def level(name: str, number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


def config(name: str, value: str, resource: str = "t") -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=resource, name=name, value=value)


BEFORE = (
    level("metadata.version", 29),
    level("group.version", 1),
    config("same", "1"),
    config("other", "1"),
    config("gone", "1"),
)


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        (BEFORE, set()),
        ((level("metadata.version", 30), *BEFORE[1:]), {("feature_changed", "metadata.version")}),
        ((*BEFORE, level("share.version", 1)), {("feature_changed", "share.version")}),
        ((*BEFORE, level("group.version", 0)), {("feature_changed", "group.version")}),
        (
            (*BEFORE[:3], config("other", "2"), config("new", "1")),
            {("config_changed", (2, "t"), name) for name in ("other", "gone", "new")},
        ),
        ((*BEFORE, config("same", "1", "u")), {("config_changed", (2, "u"), "same")}),
        (
            (*BEFORE, ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1_000)),
            {("producer_ids_changed",)},
        ),
    ],
)
def test_a_replaced_image_reports_what_differs_and_nothing_else(
    after: tuple[Any, ...], changes: set[tuple[Any, ...]]
) -> None:
    image, noted = image_of(*BEFORE), Noted()
    replace(image, image_of(*after), noted)
    assert set(noted.changes) == changes
    assert len(noted.changes) == len(changes)
    assert image.state() == image_of(*after).state()


def test_a_topic_that_stays_is_the_same_object_and_others_are_reported() -> None:
    one, two, three = (TopicRecord(name=name, topic_id=name.encode() * 16) for name in "abc")
    image, noted = image_of(one, two), Noted()
    kept, gone = image.topics["a"], image.topics["b"]
    replace(image, image_of(one, three), noted)
    assert image.topics["a"] is kept
    assert image.topics_by_id[kept.id] is kept
    assert noted.changes == [("topic_deleted", gone), ("topic_created", image.topics["c"])]
