"""Share partitions' states on a whole node: found, written, read after a restart, cut off the log, read by Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode, start
from test_node import create

from kpybroker.machines.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from kpywire import error_codes
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.uuid import to_string
from oracle import java
from support.raw_client import RawClient
from support.waiting import eventually

SETTINGS = {
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_state_topic_prune_interval_ms": "100",
    "share_coordinator_snapshot_update_records_per_snapshot": "2",
}
NODE_ID = 1
UNKNOWN = bytes(range(16))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path, **SETTINGS)
    yield running
    running.stop()


class Leader:
    """The leader of partition 0 of a topic, for one group."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        self.topic_id = client.call(asked, 12).topics[0].topic_id

    def find_coordinator(self) -> int:
        key = f"g:{to_string(self.topic_id)}:0"
        found = self.client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        return int(found.coordinators[0].error_code)

    def initialize(self, start_offset: int = 0, topic_id: bytes | None = None) -> int:
        part = initialize_share_group_state.PartitionData(partition=0, state_epoch=1, start_offset=start_offset)
        topic = initialize_share_group_state.InitializeStateData(
            topic_id=self.topic_id if topic_id is None else topic_id, partitions=[part]
        )
        request = initialize_share_group_state.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
        return int(self.client.call(request, 0).results[0].partitions[0].error_code)

    def write(self, first_offset: int, last_offset: int) -> int:
        batch = write_share_group_state.StateBatch(
            first_offset=first_offset, last_offset=last_offset, delivery_state=2, delivery_count=1
        )
        part = write_share_group_state.PartitionData(
            partition=0, state_epoch=1, leader_epoch=0, start_offset=-1, state_batches=[batch]
        )
        topic = write_share_group_state.WriteStateData(topic_id=self.topic_id, partitions=[part])
        request = write_share_group_state.WriteShareGroupStateRequest(group_id="g", topics=[topic])
        return int(self.client.call(request, 1).results[0].partitions[0].error_code)

    def read(self) -> read_share_group_state.PartitionResult:
        part = read_share_group_state.PartitionData(partition=0, leader_epoch=0)
        topic = read_share_group_state.ReadStateData(topic_id=self.topic_id, partitions=[part])
        request = read_share_group_state.ReadShareGroupStateRequest(group_id="g", topics=[topic])
        found: read_share_group_state.PartitionResult = self.client.call(request, 0).results[0].partitions[0]
        return found

    def start_offset(self) -> int:
        part = read_share_group_state_summary.PartitionData(partition=0, leader_epoch=0)
        topic = read_share_group_state_summary.ReadStateSummaryData(topic_id=self.topic_id, partitions=[part])
        request = read_share_group_state_summary.ReadShareGroupStateSummaryRequest(group_id="g", topics=[topic])
        return int(self.client.call(request, 1).results[0].partitions[0].start_offset)

    def delete(self) -> int:
        part = delete_share_group_state.PartitionData(partition=0)
        topic = delete_share_group_state.DeleteStateData(topic_id=self.topic_id, partitions=[part])
        request = delete_share_group_state.DeleteShareGroupStateRequest(group_id="g", topics=[topic])
        return int(self.client.call(request, 0).results[0].partitions[0].error_code)


def log_start(node: RunningNode) -> int:
    def of_leader() -> int:
        leader = node.node.broker.replicas.find(SHARE_GROUP_STATE_TOPIC, 0).leader  # type: ignore[union-attr]
        assert leader is not None
        return leader.log.log_start_offset

    return int(node.call(of_leader))


def begun(client: RawClient) -> Leader:
    create(client, "t")
    leader = Leader(client)
    assert leader.find_coordinator() == error_codes.NONE
    assert leader.initialize() == error_codes.NONE
    return leader


def test_a_state_outlives_a_restart_and_a_cut_of_its_log(node: RunningNode, tmp_path: Path) -> None:
    with RawClient(node.port) as client:
        leader = begun(client)
        for offset in range(0, 16, 2):
            assert leader.write(offset, offset + 1) == error_codes.NONE
        eventually(lambda: log_start(node) == 6)
    node.stop()
    again = start(tmp_path, **SETTINGS)
    try:
        with RawClient(again.port) as client:
            assert log_start(again) == 6
            found = Leader(client).read()
            assert (found.error_code, found.start_offset) == (error_codes.NONE, 0)
            assert [(each.first_offset, each.last_offset) for each in found.state_batches] == [(0, 15)]
    finally:
        again.stop()
        node.stop = lambda: None  # type: ignore[method-assign]


def test_a_request_is_answered_by_topic_and_partition(node: RunningNode) -> None:
    with RawClient(node.port) as client:
        leader = begun(client)
        assert leader.initialize(topic_id=UNKNOWN) == error_codes.UNKNOWN_TOPIC_OR_PARTITION
        assert leader.start_offset() == 0
        assert leader.delete() == error_codes.NONE
        assert leader.start_offset() == -1
        assert leader.read().error_code == error_codes.INVALID_REQUEST
        assert leader.write(0, 1) == error_codes.INVALID_REQUEST


def test_without_the_state_topic_there_is_no_share_coordinator(node: RunningNode) -> None:
    with RawClient(node.port) as client:
        create(client, "t")
        leader = Leader(client)
        part = initialize_share_group_state.PartitionData(partition=0, state_epoch=1, start_offset=0)
        topic = initialize_share_group_state.InitializeStateData(topic_id=leader.topic_id, partitions=[part, part])
        request = initialize_share_group_state.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
        (result,) = client.call(request, 0).results[0].partitions
        assert result.error_code == error_codes.NOT_COORDINATOR
        assert result.error_message == ("Unable to initialize share group state: This is not the correct coordinator.")
        request.group_id = ""
        assert client.call(request, 0).results == []


def test_a_name_that_is_not_a_share_partitions_creates_nothing(node: RunningNode) -> None:
    with RawClient(node.port) as client:
        for version, keys in ((6, ["g", "g:x:0", ""]), (5, [f"g:{to_string(UNKNOWN)}:0"])):
            found = client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), version)
            assert {each.error_code for each in found.coordinators} == {error_codes.INVALID_REQUEST}
        asked = MetadataRequest(topics=None)
        assert SHARE_GROUP_STATE_TOPIC not in {each.name for each in client.call(asked, 12).topics}


def test_a_deleted_topics_states_are_deleted(node: RunningNode) -> None:
    with RawClient(node.port) as client:
        begun(client)
        client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=bytes(16))], timeout_ms=10_000), 6)

        def states() -> int:
            (shard,) = node.node.broker.share_states.shards.values()  # type: ignore[union-attr]
            machine: Any = shard.machine
            return len(machine.shard.states)

        eventually(lambda: node.call(states) == 0)


@pytest.mark.java
def test_kafka_reads_the_log(node: RunningNode, tmp_path: Path) -> None:
    with RawClient(node.port) as client:
        leader = begun(client)
        leader.write(0, 4)
    files = ",".join(map(str, tmp_path.glob(f"{SHARE_GROUP_STATE_TOPIC}-0/*.log")))
    done = java("org.apache.kafka.tools.DumpLogSegments", "--share-group-state-decoder", "--files", files).stdout
    assert '"snapshotEpoch":0,"stateEpoch":1,"leaderEpoch":0,"startOffset":0' in done
    assert '"stateBatches":[{"firstOffset":0,"lastOffset":4,"deliveryState":2,"deliveryCount":1}]' in done
