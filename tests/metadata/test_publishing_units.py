"""Which records are one unit, and when subscribers hear of the units of a large batch."""

from typing import Any

import pytest
from test_units import configs, partitions, topic_id

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, MetadataImage
from kpybroker.machines.metadata.loader import UNITS_TOGETHER, MetadataLoader
from kpybroker.machines.metadata.units import STEP_RECORDS, NewPartitions, Unit, units_of
from kpybroker.runtime.calls.steps import at_once
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.no_op_record import NoOpRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id(name))


BROKER_CONFIG = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="a", name="c", value="v")


@pytest.mark.parametrize(
    ("records", "sizes"),
    [
        ([], [0]),
        ([NoOpRecord(), NoOpRecord()], [1, 1]),
        ([topic("a"), *configs("a", 2), *partitions("a", 0, 3), topic("b"), *partitions("b", 0, 1)], [6, 2]),
        ([topic("a"), *configs("b", 2)], [1, 2]),
        ([topic("a"), *partitions("b", 0, 2)], [1, 2]),
        ([*partitions("a", 0, 2), *partitions("a", 2, 2), *partitions("b", 0, 2)], [4, 2]),
        ([*configs("a", 2), *configs("b", 2), *partitions("b", 0, 1), *configs("b", 1)], [2, 2, 1, 1]),
        ([*configs("a", 1), BROKER_CONFIG, BROKER_CONFIG], [1, 2]),
        ([topic("a"), RemoveTopicRecord(topic_id=topic_id("a")), topic("a")], [1, 1, 1]),
        ([BeginTransactionRecord(name="x"), topic("a"), *partitions("a", 0, 1), NoOpRecord()], [3, 1]),
    ],
    ids=["nothing", "no relation", "topics", "configs of another", "partitions of another", "growing", "configs",
         "types of resources", "deleted", "transaction"],
)  # fmt: skip
def test_records_of_one_thing_are_one_unit(records: list[Any], sizes: list[int]) -> None:
    assert [unit.records for unit in at_once(units_of(records))] == sizes


def test_the_partitions_of_a_unit_are_prepared_by_their_numbers() -> None:
    ((unit),) = at_once(units_of([topic("a"), *partitions("a", 0, 3)]))
    first, added = unit.parts
    assert first == topic("a")
    assert isinstance(added, NewPartitions)
    assert (added.topic_id, list(added.partitions)) == (topic_id("a"), [0, 1, 2])


@pytest.mark.parametrize(("records", "pauses"), [(STEP_RECORDS - 1, 0), (STEP_RECORDS, 1), (3 * STEP_RECORDS, 3)])
def test_units_are_made_in_steps(records: int, pauses: int) -> None:
    assert sum(1 for _ in units_of([NoOpRecord()] * records)) == pauses


class Heard:
    """A loader, and what its subscriber heard: the end of each publication, and the topics that were new."""

    def __init__(self) -> None:
        self.loader = MetadataLoader(MetadataImage("cluster"))
        self.news: list[tuple[int, int, int]] = []
        self.loader.subscribe(self._hear)

    def _hear(self, image: MetadataImage, delta: MetadataDelta) -> None:
        assert image.next_offset == delta.next_offset
        self.news.append((delta.first_offset, delta.next_offset, len(delta.created_topics)))


def test_the_units_of_a_batch_are_published_some_at_a_time() -> None:
    heard = Heard()
    units = [Unit([topic(f"t{number}"), NoOpRecord()], 2) for number in range(2 * UNITS_TOGETHER + 1)]
    pauses = sum(1 for _ in heard.loader.publish_units(units, 1_000, epoch=4))
    end = 1_000 + 2 * UNITS_TOGETHER
    assert pauses == 2
    assert heard.news == [
        (0, 1_000, 0), (1_000, end, UNITS_TOGETHER), (end, end + 2 * UNITS_TOGETHER, UNITS_TOGETHER),
        (end + 2 * UNITS_TOGETHER, end + 2 * UNITS_TOGETHER + 2, 1),
    ]  # fmt: skip
    assert heard.loader.image.epoch == 4


def test_records_loaded_before_units_are_published_first() -> None:
    heard = Heard()
    heard.loader.load([topic("a")], 0, epoch=1)
    for _ in heard.loader.publish_units([Unit([topic("b")], 1)], 1, epoch=2):
        pytest.fail("one unit takes one step")
    assert heard.news == [(0, 1, 1), (1, 2, 1)]


def test_a_transaction_that_begins_at_offset_zero_is_held_back() -> None:
    heard = Heard()
    heard.loader.load([BeginTransactionRecord(name=None)], 0, epoch=1)
    heard.loader.publish(1)
    assert heard.news == []
    assert heard.loader.image.next_offset == 1


def test_partitions_that_are_added_after_others_changed_are_named_with_them() -> None:
    image, delta = MetadataImage("cluster"), MetadataDelta()
    for offset, record in enumerate([topic("a"), *partitions("a", 0, 1)]):
        image.apply(record, offset, MetadataDelta())
    before = image.topics["a"].partitions[0]
    image.apply(partitions("a", 0, 1)[0], 2, delta)
    image.apply(NewPartitions(topic_id("a"), {1: before, 2: before}), 3, delta)
    assert delta.partitions == {topic_id("a"): {0: before, 1: None, 2: None}}
