"""Requests about the states of share partitions: one group, one partition of a topic."""

from typing import Any

from kpywire import api
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

SOME_ID = bytes(range(16))


def initializing(topic_id: Any, partition: int = 0, *, group_id: str = "g", epoch: int = 1, start: int = 0) -> Any:
    module = initialize_share_group_state
    part = module.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
    topic = module.InitializeStateData(topic_id=topic_id, partitions=[part])
    return module.InitializeShareGroupStateRequest(group_id=group_id, topics=[topic])


def reading_state(topic_id: Any, partition: int = 0, *, group_id: str = "g", leader_epoch: int = 0) -> Any:
    module = read_share_group_state
    part = module.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = module.ReadStateData(topic_id=topic_id, partitions=[part])
    return module.ReadShareGroupStateRequest(group_id=group_id, topics=[topic])


def writing_state(
    topic_id: Any, partition: int = 0, *, group_id: str = "g", epoch: int = 1, leader_epoch: int = 0, start: int = -1
) -> Any:
    module = write_share_group_state
    batches = [
        module.StateBatch(first_offset=0, last_offset=9, delivery_state=0, delivery_count=1),
        module.StateBatch(first_offset=4, last_offset=5, delivery_state=2, delivery_count=2),
    ]
    part = module.PartitionData(
        partition=partition, state_epoch=epoch, leader_epoch=leader_epoch, start_offset=start, state_batches=batches
    )
    topic = module.WriteStateData(topic_id=topic_id, partitions=[part])
    return module.WriteShareGroupStateRequest(group_id=group_id, topics=[topic])


def deleting_state(topic_id: Any, partition: int = 0, *, group_id: str = "g") -> Any:
    module = delete_share_group_state
    topic = module.DeleteStateData(topic_id=topic_id, partitions=[module.PartitionData(partition=partition)])
    return module.DeleteShareGroupStateRequest(group_id=group_id, topics=[topic])


def summarizing(topic_id: Any, partition: int = 0, *, group_id: str = "g") -> Any:
    module = read_share_group_state_summary
    part = module.PartitionData(partition=partition, leader_epoch=0)
    topic = module.ReadStateSummaryData(topic_id=topic_id, partitions=[part])
    return module.ReadShareGroupStateSummaryRequest(group_id=group_id, topics=[topic])


def plausible_share() -> dict[int, Any]:
    """A request of each of these APIs."""
    return {
        api.INITIALIZE_SHARE_GROUP_STATE: initializing(SOME_ID),
        api.READ_SHARE_GROUP_STATE: reading_state(SOME_ID),
        api.WRITE_SHARE_GROUP_STATE: writing_state(SOME_ID),
        api.DELETE_SHARE_GROUP_STATE: deleting_state(SOME_ID),
        api.READ_SHARE_GROUP_STATE_SUMMARY: summarizing(SOME_ID),
    }
