"""The decisions of a broker on what its controller orders, as Kafka 3.9 makes them."""

import pytest

from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.broker.controller_requests import ControllerRequests, HeldReplica
from kpywire import error_codes
from kpywire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from kpywire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from kpywire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

NODE = 2
TOPIC, OTHER = b"\1" * 16, b"\2" * 16


class Side:
    """A broker without logs: its metadata, and the replicas that orders made."""

    def __init__(self) -> None:
        self.metadata = ZooKeeperMetadata("cluster")
        self.held: dict[tuple[str, int], HeldReplica] = {}
        self.requests = ControllerRequests(NODE, self.metadata.image, lambda *place: self.held.get(place), lambda: 50)

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def lead(
        self, leader_epoch: int, *, topic_id: bytes = TOPIC, replicas: tuple[int, ...] = (2, 3), **more: int
    ) -> int:
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=NODE,
            leader_epoch=leader_epoch,
            isr=[2, 3],
            partition_epoch=leader_epoch,
            replicas=list(replicas),
        )
        request = LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=more.get("controller_epoch", 1),
            broker_epoch=more.get("broker_epoch", 50),
            is_kraft_controller=bool(more.get("is_kraft", 0)),
            topic_states=[LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])],
            live_leaders=[],
        )
        decision = self.requests.leader_and_isr(request)
        self.metadata.apply(decision.records, decision.ordered)
        if decision.response.error_code:
            return int(decision.response.error_code)
        code: int = decision.response.topics[0].partition_errors[0].error_code
        if code == error_codes.NONE:
            assert decision.ordered == {(topic_id, 0)}
            self.held["t", 0] = HeldReplica(topic_id, leader_epoch, is_offline=False)
        return code

    def stop(self, leader_epoch: int, *, delete: bool) -> int:
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=delete)
        request = StopReplicaRequest(
            controller_id=1,
            controller_epoch=1,
            broker_epoch=50,
            topic_states=[StopReplicaTopicState(topic_name="t", partition_states=[state])],
        )
        decision = self.requests.stop_replica(request)
        self.metadata.apply(decision.records, decision.ordered)
        self.deleted = decision.deleted
        return int(decision.response.partition_errors[0].error_code)

    def update(
        self, *states: UpdateMetadataPartitionState, live: tuple[int, ...] = (1, 2), topic_id: bytes = TOPIC
    ) -> None:
        request = UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=1,
            broker_epoch=50,
            topic_states=[UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=list(states))],
            live_brokers=[
                UpdateMetadataBroker(
                    id=each,
                    endpoints=[
                        UpdateMetadataEndpoint(port=9000 + each, host="h", listener="PLAINTEXT", security_protocol=0)
                    ],
                    rack=None,
                )
                for each in live
            ],
        )
        decision = self.requests.update_metadata(request)
        assert not decision.ordered
        self.metadata.apply(decision.records)


def state(leader: int, leader_epoch: int, zk_version: int, index: int = 0) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=[2, 3],
        zk_version=zk_version,
        replicas=[2, 3],
    )


def test_only_a_newer_leader_epoch_is_applied() -> None:
    side = Side()
    assert side.lead(3) == error_codes.NONE
    assert side.lead(3) == error_codes.STALE_CONTROLLER_EPOCH
    assert side.lead(2) == error_codes.STALE_CONTROLLER_EPOCH
    assert side.lead(3, is_kraft=1) == error_codes.NONE, "a KRaft controller may repeat itself (KIP-866)"
    assert side.lead(4) == error_codes.NONE
    assert side.image.topics["t"].partitions[0].leader_epoch == 4


def test_a_former_controller_and_an_earlier_life_are_fenced() -> None:
    side = Side()
    assert side.lead(1, controller_epoch=5) == error_codes.NONE
    assert side.lead(2, controller_epoch=4) == error_codes.STALE_CONTROLLER_EPOCH
    assert side.lead(2, controller_epoch=5, broker_epoch=49) == error_codes.STALE_BROKER_EPOCH
    assert side.lead(2, controller_epoch=5, broker_epoch=51) == error_codes.NONE, (
        "faster than the registration's answer"
    )
    assert side.lead(3, controller_epoch=5, broker_epoch=-1) == error_codes.NONE


def test_partitions_that_cannot_be_held_have_errors_of_their_own() -> None:
    side = Side()
    assert side.lead(1, replicas=(3, 4)) == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert "t" not in side.image.topics
    assert side.lead(1) == error_codes.NONE
    assert side.lead(2, topic_id=OTHER) == error_codes.INCONSISTENT_TOPIC_ID
    side.held["t", 0] = HeldReplica(TOPIC, 1, is_offline=True)
    assert side.lead(2) == error_codes.KAFKA_STORAGE_ERROR
    assert side.stop(2, delete=True) == error_codes.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("epoch", "code"), [(-2, 0), (-1, 0), (3, 0), (4, 0), (2, error_codes.FENCED_LEADER_EPOCH)])
def test_a_replica_is_stopped_by_an_epoch_that_is_not_older(epoch: int, code: int) -> None:
    side = Side()
    side.lead(3)
    assert side.stop(epoch, delete=True) == code
    partition = side.image.topics["t"].partitions[0]
    assert (NODE in partition.replicas) is bool(code)


def test_a_replica_that_is_only_stopped_keeps_its_log() -> None:
    side = Side()
    side.lead(3)
    assert side.stop(4, delete=False) == error_codes.NONE
    partition = side.image.topics["t"].partitions[0]
    assert (partition.leader, partition.replicas) == (-1, (2, 3))


def test_the_log_of_a_partition_that_is_not_held_is_deleted_without_an_error() -> None:
    side = Side()
    assert side.stop(-2, delete=True) == error_codes.NONE
    assert side.deleted == (("t", 0),)
    assert side.stop(-2, delete=False) == error_codes.NONE
    assert side.deleted == ()


def test_clients_learn_of_brokers_and_leaders_by_update_metadata() -> None:
    side = Side()
    side.update(state(3, 1, 1), state(2, 0, 0, index=1))
    assert side.image.brokers.keys() == {1, 2}
    assert side.image.brokers[1].listeners["PLAINTEXT"][1:3] == ("h", 9001)
    side.update(state(3, 1, 0), live=(2,))
    assert side.image.brokers.keys() == {2}
    assert side.image.topics["t"].partitions[0].partition_epoch == 1, "epochs never go back"
    side.update(state(-1, 2, 2), live=(2,))
    assert side.image.topics["t"].partitions[0].leader == -1
    side.update(state(-2, -2, 3), state(-2, -2, 3, index=1))
    assert "t" not in side.image.topics


def test_a_topic_of_the_same_name_with_another_id_takes_the_place_of_the_former_one() -> None:
    side = Side()
    side.update(state(3, 5, 5))
    side.update(state(3, 0, 0), topic_id=OTHER)
    assert side.image.topics["t"].id == OTHER
    assert side.image.topics["t"].partitions[0].leader_epoch == 0
    assert TOPIC not in side.image.topics_by_id


def test_replicas_hear_of_what_was_ordered_and_clients_of_everything() -> None:
    side = Side()
    notified: list[dict[bytes, object]] = []
    known: list[dict[bytes, object]] = []
    side.metadata.order(lambda _image, delta: notified.append(dict(delta.partitions)))
    side.metadata.subscribe(lambda _image, delta: known.append(dict(delta.partitions)))
    side.update(state(2, 1, 1))
    assert (notified[-1], list(known[-1])) == ({}, [TOPIC])
    side.lead(2)
    assert list(notified[-1]) == [TOPIC]


def full(side: Side, *topics: tuple[str, bytes]) -> None:
    """The requests with which a KRaft controller takes over: those that name everything (KIP-866)."""
    shared = {"controller_id": 3000, "is_kraft_controller": True, "type": 2, "controller_epoch": 1, "broker_epoch": 301}
    ordered = LeaderAndIsrRequest(topic_states=[], live_leaders=[], **shared)
    decision = side.requests.leader_and_isr(ordered)
    side.metadata.apply(decision.records, decision.ordered)
    named = [
        UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=[state(3, 0, 0)])
        for name, topic_id in topics
    ]
    decision = side.requests.update_metadata(UpdateMetadataRequest(topic_states=named, live_brokers=[], **shared))
    side.metadata.apply(decision.records, decision.ordered)


def test_a_full_request_of_a_kraft_controller_ends_what_it_does_not_name() -> None:
    side = Side()
    side.requests = ControllerRequests(
        NODE, side.image, lambda *place: side.held.get(place), lambda: 50, lambda: 301, lambda: list(side.held)
    )
    side.lead(1)
    side.update(state(3, 0, 0), topic_id=TOPIC)
    assert NODE in side.image.topics["t"].partitions[0].replicas
    full(side, ("t", TOPIC))
    assert NODE not in side.image.topics["t"].partitions[0].replicas
    assert (side.requests.ruler.controller_id, side.requests.ruler.is_of_kraft) == (3000, True)
    full(side)
    assert "t" not in side.image.topics


def test_each_controller_names_the_epoch_of_its_own_registration() -> None:
    side = Side()
    side.requests = ControllerRequests(NODE, side.image, lambda *_place: None, lambda: 50, lambda: 301)
    for is_kraft, epoch, code in (
        (True, 300, error_codes.STALE_BROKER_EPOCH),
        (True, 301, error_codes.NONE),
        (False, 49, error_codes.STALE_BROKER_EPOCH),
        (False, 50, error_codes.NONE),
    ):
        request = UpdateMetadataRequest(
            controller_id=1, is_kraft_controller=is_kraft, controller_epoch=1, broker_epoch=epoch, live_brokers=[]
        )
        assert side.requests.update_metadata(request).response.error_code == code


def test_a_topic_is_unknown_until_its_name_has_this_id() -> None:
    side = Side()
    order = LeaderAndIsrRequest(topic_states=[LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC)])
    assert side.requests.unknown_topics(order) == ["t"]
    side.update(state(2, 0, 0), topic_id=OTHER)
    assert side.requests.unknown_topics(order) == ["t"]
    side.update(state(2, 0, 0), topic_id=TOPIC)
    assert side.requests.unknown_topics(order) == []
