"""The answers of a leader to followers, to consumers that may read from a follower, and to misdirected requests."""

from typing import Any

import pytest
from replica_world import LISTENER, PORT, TOPIC, TOPIC_ID, VERSIONS, AtOnce, World, WorldNode

from kpybroker.hosts.replicas.leader_throttle import LeaderThrottle
from kpybroker.machines.replica_fetcher import FetchState
from kpybroker.requests.handlers import delete_records, list_offsets, produce
from kpybroker.requests.serving.preferred_replica import RACK_AWARE
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import at_once
from kpywire import api, codec, error_codes
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import ProduceResponse
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.produce import Produce
from kpywire.record import Record, build_batch

NEWEST = 18
EPOCH = 7
TIMEOUT_MS = 2_000
LAG = {"replica.lag.time.max.ms": "2000", "replica.fetch.wait.max.ms": "500"}


def call(key: int, version: int) -> Call:
    return Call(key, version, "test", ConnectedClient("test", 0, LISTENER), AtOnce(), VERSIONS)


def fetch(
    node: WorldNode,
    offset: int,
    *,
    replica_id: int = -1,
    replica_epoch: int = -1,
    epoch: int = -1,
    last_epoch: int = -1,
    version: int = NEWEST,
    max_wait_ms: int = 0,
    rack: str = "",
    session: tuple[int, int] = (0, -1),
) -> Any:
    """The response to a Fetch of the partition, or what is parked."""
    wanted = FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
        log_start_offset=0,
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[wanted])],
        rack_id=rack,
    )
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
    else:
        request.replica_id = replica_id
    return node.handle(request, call(api.FETCH, version))


def only(response: Any) -> PartitionData:
    (topic,) = response.responses
    (partition,) = topic.partitions
    assert isinstance(partition, PartitionData)
    return partition


def alone(nodes: int = 3, **world: Any) -> World:
    """A world whose node 1 leads, and whose other nodes fetch only what the test fetches for them."""
    made = World(nodes, **world)
    for node_id in range(2, nodes + 1):
        made.nodes[node_id].stop()
    made.nodes[1].fetch_sessions.sessions.clear()
    return made


def test_a_follower_reads_to_the_end_and_a_consumer_what_is_committed() -> None:
    node = alone().nodes[1]
    node.produce(3)
    read = only(fetch(node, 0, replica_id=2, replica_epoch=EPOCH, epoch=0))
    assert (read.error_code, read.high_watermark, bool(read.records)) == (error_codes.NONE, 0, True)
    assert not only(fetch(node, 0)).records
    for node_id in (2, 3):
        read = only(fetch(node, 3, replica_id=node_id, replica_epoch=EPOCH, epoch=0))
    assert read.high_watermark == 3, "its own fetch is noted before it is answered"
    assert only(fetch(node, 0)).records


def test_a_parked_fetch_of_a_follower_leaves_with_the_append_and_a_consumers_with_the_commit() -> None:
    world = alone(2)
    node = world.nodes[1]
    follower = fetch(node, 0, replica_id=2, replica_epoch=EPOCH, epoch=0, max_wait_ms=500)
    consumer = fetch(node, 0, max_wait_ms=500)
    node.produce()
    world.run()
    assert (follower.resolved, consumer.resolved) == (True, False)
    fetch(node, 1, replica_id=2, replica_epoch=EPOCH, epoch=0, max_wait_ms=500)
    world.run()
    assert only(consumer.response).records


def test_a_follower_fetch_is_refused_with_kafkas_errors() -> None:
    world = alone()
    node = world.nodes[1]
    node.produce(3)

    def code(replica_id: int, **fetched: Any) -> int:
        return only(fetch(node, 0, replica_id=replica_id, **fetched)).error_code

    assert code(9, epoch=0) == error_codes.UNKNOWN_LEADER_EPOCH
    assert code(9) == error_codes.NOT_LEADER_OR_FOLLOWER
    assert code(2, epoch=0, replica_epoch=EPOCH - 1) == error_codes.NOT_LEADER_OR_FOLLOWER
    assert code(2, epoch=1) == error_codes.UNKNOWN_LEADER_EPOCH
    world.lead(1)
    assert code(2, epoch=0) == error_codes.FENCED_LEADER_EPOCH
    assert only(fetch(node, 9, replica_id=2, epoch=1)).error_code == error_codes.OFFSET_OUT_OF_RANGE


def test_a_diverging_fetch_records_no_position_and_reads_nothing() -> None:
    world = alone(2)
    node = world.nodes[1]
    node.produce(3)
    world.lead(1)
    node.produce(2)
    read = only(fetch(node, 5, replica_id=2, epoch=1, last_epoch=0))
    assert (read.diverging_epoch.epoch, read.diverging_epoch.end_offset, read.records) == (0, 3, b"")
    assert node.high_watermark() == 0


@pytest.mark.parametrize("version", [4, 8, 9, 11, 12, 13, 14, 15, 18])
def test_every_version_of_a_followers_fetch_is_served(version: int) -> None:
    node = alone(2).nodes[1]
    node.produce()
    response = fetch(node, 0, replica_id=2, version=version)
    assert only(response).records
    parts: list[Any] = []
    codec.encoder(type(response), version)(response, parts)
    only(fetch(node, 1, replica_id=2, version=version))
    assert node.high_watermark() == 1


def test_the_isr_shrinks_and_grows_with_replicas_that_leave_and_return() -> None:
    world = World(3, partitions=2, overrides=LAG)
    world.settle()
    world.nodes[3].kill()
    for index in (0, 1):
        world.nodes[1].produce(index=index)
    world.run(1_000)
    assert world.nodes[1].high_watermark() == 0
    world.settle(4_000)
    keeper = world.nodes[1].in_sync
    assert [world.nodes[1].replica(index).led().isr for index in (0, 1)] == [(1, 2), (1, 2)]
    assert (keeper.shrinks, keeper.expands, world.nodes[1].high_watermark()) == (2, 0, 1)
    world.nodes[3].start()
    world.settle()
    assert [world.nodes[1].replica(index).led().isr for index in (0, 1)] == [(1, 2, 3), (1, 2, 3)]
    assert (keeper.shrinks, keeper.expands) == (2, 2)
    world.assert_equal()


@pytest.mark.parametrize("in_sync", [True, False])
def test_a_follower_that_omits_one_partition_leaves_only_its_isr(in_sync: bool) -> None:
    world = World(2, partitions=2, overrides=LAG)
    world.settle()
    (feed,) = {each for each in world.nodes[2].fetchers if (TOPIC_ID, 0) in each.fetcher.followings}
    following = feed.fetcher.followings[TOPIC_ID, 0]
    feed.fetcher.stop(following, FetchState.FAILED)
    if not in_sync:
        world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    world.run(1_000)
    world.nodes[1].produce()
    assert world.nodes[1].high_watermark() == 0
    world.settle(5_000)
    assert [world.nodes[1].replica(index).led().isr for index in (0, 1)] == [(1,), (1, 2)]
    assert world.nodes[1].high_watermark() == 1


def test_a_fenced_replica_joins_with_a_fetch_after_it_is_unfenced() -> None:
    world = World(2, overrides=LAG)
    world.tell(
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=EPOCH, fenced=1),
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]),
    )
    world.nodes[1].produce()
    world.settle()
    assert world.nodes[1].replica().led().isr == (1,)
    assert world.nodes[1].high_watermark() == 1
    world.tell(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=EPOCH, fenced=-1))
    world.settle(1_500)
    assert world.nodes[1].replica().led().isr == (1, 2)


def test_a_fenced_replica_does_not_hold_the_high_watermark_back() -> None:
    world = alone(2)
    node = world.nodes[1]
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    node.in_sync.stop()
    fetch(node, 0, replica_id=2, replica_epoch=EPOCH, epoch=0)
    node.replica().led().in_sync.pending = None
    node.produce()
    assert node.high_watermark() == 0
    world.tell(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=EPOCH, fenced=1))
    assert node.high_watermark() == 1


# Deleting records.


def delete(node: WorldNode, offset: int) -> Any:
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])],
        timeout_ms=TIMEOUT_MS,
    )
    return at_once(delete_records.handle(node, request, call(api.DELETE_RECORDS, 2)))  # type: ignore[arg-type]


def outcome(response: Any) -> tuple[int, int]:
    """Error code and low watermark."""
    (topic,) = (response.response if isinstance(response, Pending) else response).topics
    (partition,) = topic.partitions
    return partition.error_code, partition.low_watermark


def test_records_are_deleted_when_all_live_replicas_have_followed() -> None:
    world = World(3)
    world.nodes[1].produce(5)
    world.settle()
    response = delete(world.nodes[1], 3)
    assert not response.resolved
    world.run(100)
    assert outcome(response) == (error_codes.NONE, 3)
    assert [world.nodes[node_id].log().log_start_offset for node_id in (1, 2, 3)] == [3, 3, 3]
    assert outcome(delete(world.nodes[1], 2)) == (error_codes.NONE, 3)


def test_a_replica_that_does_not_fetch_is_waited_for_until_it_is_fenced() -> None:
    world = World(2)
    world.nodes[1].produce(5)
    world.settle()
    world.nodes[2].kill()
    response, again = delete(world.nodes[1], 3), delete(world.nodes[1], 3)
    world.run(TIMEOUT_MS + 100)
    assert outcome(response) == outcome(again) == (error_codes.REQUEST_TIMED_OUT, 0)
    response = delete(world.nodes[1], 4)
    world.run(100)
    world.tell(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=EPOCH, fenced=1))
    assert outcome(response) == (error_codes.NONE, 4)


def test_a_leader_that_is_none_any_more_says_so() -> None:
    world = World(2)
    world.nodes[1].produce(5)
    world.settle()
    world.cut = {(2, 1), (1, 2)}
    response = delete(world.nodes[1], 3)
    world.run(10)
    world.lead(2)
    assert outcome(response) == (error_codes.NOT_LEADER_OR_FOLLOWER, -1)


# Offsets.


def latest(node: WorldNode, *, replica_id: int = -1, version: int = 11) -> tuple[int, int]:
    """Error code and offset."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=replica_id, isolation_level=0, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])]
    )
    handled = list_offsets.handle(node, request, call(api.LIST_OFFSETS, version))  # type: ignore[arg-type]
    (topic,) = at_once(handled).topics
    (partition,) = topic.partitions
    return partition.error_code, partition.offset


def test_a_new_leader_does_not_tell_an_end_that_it_does_not_know() -> None:
    world = World(3)
    world.settle()
    world.nodes[1].produce(5)
    world.run(1)
    world.cut = {(1, node_id) for node_id in (2, 3)}
    world.lead(2, only=(2,))
    node = world.nodes[2]
    assert node.log().log_end_offset == 5
    assert node.high_watermark() < 5
    assert latest(node) == (error_codes.OFFSET_NOT_AVAILABLE, -1)
    assert latest(node, version=4) == (error_codes.LEADER_NOT_AVAILABLE, -1)
    assert latest(node, replica_id=3) == (error_codes.NONE, 5)
    world.cut = set()
    world.tell()
    world.settle()
    assert latest(node) == (error_codes.NONE, 5)
    assert latest(world.nodes[1])[0] == error_codes.NOT_LEADER_OR_FOLLOWER
    assert latest(world.nodes[1], replica_id=-2) == (error_codes.NONE, 5)


# Consumers elsewhere.


def test_a_consumer_may_read_from_a_follower_what_that_knows_to_be_committed() -> None:
    world = World(2)
    world.nodes[1].produce(5)
    world.settle()
    world.cut = {(2, 1)}
    world.nodes[1].produce(2)
    node = world.nodes[2]
    read = only(fetch(node, 0))
    assert (read.error_code, read.high_watermark) == (error_codes.NONE, 5)
    assert read.records
    assert only(fetch(node, 5)).error_code == error_codes.NONE
    assert only(fetch(node, 6)).error_code == error_codes.OFFSET_OUT_OF_RANGE
    assert only(fetch(node, 0, version=10)).error_code == error_codes.NOT_LEADER_OR_FOLLOWER
    assert only(fetch(node, 0, epoch=4)).error_code == error_codes.UNKNOWN_LEADER_EPOCH
    assert only(fetch(node, 0, replica_id=1)).error_code == error_codes.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_in_another_rack_is_sent_to_the_replica_there() -> None:
    world = World(3, overrides={"replica.selector.class": RACK_AWARE})
    registrations = [world.registration(node_id) for node_id in (1, 2, 3)]
    for registration, rack in zip(registrations, "abb", strict=True):
        registration.rack = rack
    world.tell(*registrations)
    node = world.nodes[1]
    node.produce(5)
    world.settle()

    def preferred(rack: str, offset: int = 0, version: int = NEWEST) -> int:
        read = only(fetch(node, offset, rack=rack, version=version))
        assert bool(read.records) == (read.preferred_read_replica < 0 and offset < 5)
        return read.preferred_read_replica

    assert preferred("b") == 3
    assert [preferred("a"), preferred("c"), preferred("")] == [-1, -1, -1]
    assert preferred("b", version=11) == 3
    assert preferred("b", 9) == -1, "nobody has that, the leader says what it is"
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1, 2]))
    assert preferred("b") == 2
    parked = fetch(node, 5, rack="b", max_wait_ms=500)
    assert not isinstance(parked, Pending), "good news is sent at once"


# Who leads (KIP-951).


def test_a_fetch_from_the_wrong_node_gets_the_leader_and_its_address() -> None:
    world = World(2)
    world.lead(2)
    node = world.nodes[1]

    def hint(of: WorldNode, version: int, **asked: int) -> tuple[int, int, list[tuple[int, str, int]]]:
        response = fetch(of, 0, version=version, **asked)
        leader = only(response).current_leader
        nodes = [(each.node_id, each.host, each.port) for each in response.node_endpoints]
        return leader.leader_id, leader.leader_epoch, nodes

    assert hint(world.nodes[2], 18, epoch=0) == (2, 1, [(2, "node2", PORT)])
    assert hint(node, 18, replica_id=2) == (2, 1, []), "a broker knows where the others are"
    assert hint(node, 15, replica_id=2) == (-1, -1, [])
    fenced = fetch(world.nodes[2], 0, epoch=0)
    assert only(fenced).error_code == error_codes.FENCED_LEADER_EPOCH
    world.tell(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=EPOCH, fenced=1))
    assert hint(world.nodes[2], 18, epoch=0) == (2, 1, [])


def produced(node: WorldNode, version: int, *, acks: int = 1, name: str = TOPIC) -> Any:
    """The response to a Produce of one record, or what is parked."""
    records = memoryview(bytearray(build_batch([Record(timestamp=node.scheduler.now_ms(), value=b"v")])))
    key = TOPIC_ID if version >= 13 else name
    request = Produce(None, acks, TIMEOUT_MS, [(key, [(0, records)])])
    return produce.handle(node, request, call(api.PRODUCE, version))  # type: ignore[arg-type]


def decoded(answers: Any, version: int) -> ProduceResponse:
    parts: list[Any] = []
    produce.codec(version).encode(answers, parts)
    response = codec.decode(ProduceResponse, version, b"".join(parts))
    assert isinstance(response, ProduceResponse)
    return response


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_produce_to_the_wrong_node_gets_the_leader_and_its_address(version: int) -> None:
    world = World(2)
    world.lead(2)
    response = decoded(produced(world.nodes[1], version), version)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == error_codes.NOT_LEADER_OR_FOLLOWER
    nodes = [(each.node_id, each.host, each.port) for each in response.node_endpoints]
    leader = answer.current_leader.leader_id, answer.current_leader.leader_epoch
    assert (leader, nodes) == (((2, 1), [(2, "node2", PORT)]) if version >= 10 else ((-1, -1), []))


def test_a_partition_of_another_node_is_known_and_a_missing_one_is_not() -> None:
    world = World(3)
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[2, 3], isr=[2, 3], leader=2))
    (answer,) = decoded(produced(world.nodes[1], 12), 12).responses[0].partition_responses
    assert (answer.error_code, answer.current_leader.leader_id) == (error_codes.NOT_LEADER_OR_FOLLOWER, 2)
    (answer,) = decoded(produced(world.nodes[1], 12, name="other"), 12).responses[0].partition_responses
    assert answer.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION


# Promises to all replicas.


def test_a_produce_to_all_is_answered_with_the_next_fetch_of_the_last_replica() -> None:
    world = World(3)
    world.settle()
    pending = produced(world.nodes[1], 12, acks=-1)
    assert not pending.resolved
    world.run(4)
    assert pending.resolved, "records there and the next fetch back, over a way that takes 1 ms"
    (answer,) = decoded(pending.response, 12).responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (error_codes.NONE, 0)


def test_a_produce_that_waits_goes_on_under_the_next_epoch_of_its_leader_and_not_under_another() -> None:
    world = World(2)
    world.settle()
    world.cut = {(2, 1)}
    pending = produced(world.nodes[1], 12, acks=-1)
    world.lead(1)
    assert not pending.resolved
    world.lead(2)
    response = decoded(pending.response, 12)
    (answer,) = response.responses[0].partition_responses
    assert (answer.error_code, answer.current_leader.leader_id) == (error_codes.NOT_LEADER_OR_FOLLOWER, 2)
    assert [each.node_id for each in response.node_endpoints] == [2]


def test_too_few_in_sync_refuse_at_once_and_hold_back_what_comes_without_that_promise() -> None:
    world = World(2, topic={"min.insync.replicas": "2"}, overrides=LAG)
    world.settle()
    node = world.nodes[1]
    world.cut = {(1, 2), (2, 1)}
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1]))
    (answer,) = decoded(produced(node, 12, acks=-1), 12).responses[0].partition_responses
    assert answer.error_code == error_codes.NOT_ENOUGH_REPLICAS
    assert not isinstance(produced(node, 12), Pending)
    world.run(4_000)
    assert (node.log().log_end_offset, node.high_watermark()) == (1, 0)
    world.tell(ConfigRecord(resource_type=2, resource_name=TOPIC, name="min.insync.replicas", value="1"))
    assert node.high_watermark() == 1


# The throttle.


def test_only_replicas_out_of_sync_are_throttled() -> None:
    world = alone(3, topic={"leader.replication.throttled.replicas": "0:1"})
    node = world.nodes[1]
    rate = [1_000_000_000]
    node.leader_throttle = LeaderThrottle(1, lambda: rate[0])
    world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1, 2]))
    for _ in range(10):
        node.produce(value_bytes=1_000)
    node.in_sync.stop()

    def reads(node_id: int) -> int:
        records = only(fetch(node, 0, replica_id=node_id, replica_epoch=EPOCH, epoch=0)).records
        return len(records or b"")

    assert reads(3) > 10_000
    rate[0] = 1_000
    assert reads(3) > 10_000, "what was left of the other rate"
    assert (reads(3), reads(2) > 10_000) == (0, True)
    world.run(9_000)
    assert reads(3) == 0
    world.run(15_000)
    assert reads(3) > 10_000
    rate[0] = 2**63 - 1
    assert reads(3) > 10_000
