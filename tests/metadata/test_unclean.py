"""Which changes of a partition count as elections that may have lost records."""

import pytest

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.machines.metadata.unclean import unclean_elections
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.topic_record import TopicRecord

TOPIC_ID = b"t" * 16


def image_of(isr: list[int], elr: list[int], leader: int) -> tuple[MetadataImage, MetadataDelta]:
    image, made = MetadataImage("cluster"), MetadataDelta()
    image.apply(TopicRecord(name="flights", topic_id=TOPIC_ID), 0, made)
    partition = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[1, 2, 3],
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        eligible_leader_replicas=elr,
    )
    image.apply(partition, 1, made)
    return image, made


@pytest.mark.parametrize(
    ("leader", "count"),
    [
        pytest.param(1, 0, id="in sync"),
        pytest.param(2, 0, id="eligible"),
        pytest.param(3, 1, id="neither"),
        pytest.param(NO_LEADER, 0, id="nobody"),
    ],
)
def test_a_leader_that_was_neither_in_sync_nor_eligible_may_lack_records(leader: int, count: int) -> None:
    image, made = image_of([1], [2], NO_LEADER)
    assert unclean_elections(image, made) == 0, "new partitions have no elections behind them"
    delta = MetadataDelta()
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[leader], leader=leader), 2, delta)
    assert unclean_elections(image, delta) == count
