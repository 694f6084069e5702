"""Descriptions of topologies (KIP-1331): who is asked for one and when, what is kept, and how it ends."""

from random import Random
from typing import Any

import pytest
from group_world import GroupWorld, Ticket
from hypothesis import given
from hypothesis import strategies as st
from topologies import subtopology, topology

from kpybroker.machines.groups import described_topology
from kpybroker.machines.groups.counts import DELETED, NOT_SHOWN, REFUSED, SHOWN, STORED
from kpybroker.machines.groups.described_topology import DescribedTopologyValue
from kpybroker.machines.groups.events import DeleteGroup
from kpybroker.machines.groups.streams import descriptions
from kpybroker.machines.groups.streams.asking import (
    FIRST_DELAY_MS,
    LONGEST_DELAY_MS,
    DescriptionAsking,
    DescriptionNotes,
)
from kpybroker.machines.groups.streams.describe import AVAILABLE, NOT_STORED
from kpybroker.machines.groups.streams.events import DescribeStreamsGroup, DescriptionOf, StoreDescription
from kpybroker.machines.groups.timers import GroupTimer
from kpybroker.machines.metadata.topic import Partition, Topic
from kpywire import codec, error_codes
from kpywire.group_records.streams_group_topology import StreamsGroupTopologyKey, StreamsGroupTopologyValue
from kpywire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

SHAPE = topology(subtopology("0", ("t",)))
BYTES = b"nodes of the topology"
FAILED = error_codes.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED


class Application:
    """A group with one member, which does what a client of Kafka 4.4 does."""

    def __init__(self, world: GroupWorld, group_id: str = "g", version: int = 1) -> None:
        self.world = world
        self.group_id = group_id
        self.version = version
        self.epoch = 0
        self.beat(SHAPE)

    def beat(self, topology: Any = None, epoch: int | None = None) -> Any:
        joins = topology is not None
        message = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id="m",
            member_epoch=self.epoch if epoch is None else epoch,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=10_000 if joins else -1,
            topology=topology,
            process_id="p" if joins else None,
            active_tasks=[] if joins else None,
            standby_tasks=[] if joins else None,
            warmup_tasks=[] if joins else None,
        )
        self.answer = self.world.send(message, self.version).response.response
        assert self.answer.error_code == error_codes.NONE, self.answer
        self.epoch = self.answer.member_epoch
        return self.answer

    @property
    def is_asked(self) -> bool:
        asked: bool = self.beat().topology_description_required
        return asked

    def push(self, description: bytes | None = BYTES, **other: Any) -> Ticket:
        fields = {"group_id": self.group_id, "member_id": "m", "topology_epoch": 0, "description": description} | other
        return self.world.send(StoreDescription(**fields), 0)

    def status(self) -> int:
        asked = DescribeStreamsGroup(self.group_id, with_description=True)
        status: int = self.world.send(asked, 1).response.topology_description_status
        return status

    def shown(self, most_bytes: int = 1 << 20) -> bytes | None:
        shown: bytes | None = self.world.send(DescriptionOf(self.group_id, most_bytes), 1).response
        return shown

    def outcomes(self) -> dict[str, int]:
        return self.world.coordinator.shard.counts.descriptions


def world_with(**settings: Any) -> GroupWorld:
    world = GroupWorld(streams_initial_rebalance_delay_ms=0, **settings)
    source = Topic("t", bytes(15) + b"t")
    source.partitions = {index: Partition((0,), (0,), 0) for index in range(2)}
    world.set_topics(True, source)
    return world


def test_the_member_that_joins_is_asked_and_what_it_sends_is_shown() -> None:
    application = Application(world_with())
    assert application.answer.topology_description_required
    assert (application.status(), application.shown()) == (NOT_STORED, None)
    assert application.push().error == error_codes.NONE
    assert (application.status(), application.shown()) == (AVAILABLE, BYTES)
    assert not application.is_asked
    assert application.outcomes() == {STORED: 1, SHOWN: 2}


def test_members_are_asked_again_after_a_pause_that_doubles_up_to_an_hour() -> None:
    asking = DescriptionAsking(GroupTimer(print))
    now_ms, rng = 0, Random(1)
    for attempt in range(12):
        assert asking.may_ask(0, now_ms)
        delay_ms = asking.wait(0, now_ms, rng)
        usual_ms = FIRST_DELAY_MS * 2**attempt
        assert min(0.8 * usual_ms, LONGEST_DELAY_MS * 0.8) <= delay_ms <= min(1.2 * usual_ms, LONGEST_DELAY_MS)
        assert not asking.may_ask(0, now_ms + delay_ms - 1)
        assert asking.may_ask(1, now_ms)
        now_ms += delay_ms


def test_a_member_at_rest_is_asked_again_when_the_pause_is_over() -> None:
    world = world_with()
    application = Application(world)
    asked = []
    for _ in range(40):
        world.advance(1_000)
        asked.append(application.is_asked)
    assert asked.count(True) == 1
    assert 23 <= asked.index(True) <= 36
    assert world.given_again > 20, "the member was at rest meanwhile"


def test_a_client_of_version_0_is_not_asked() -> None:
    application = Application(world_with(), version=0)
    assert not application.answer.topology_description_required


def test_without_a_bound_for_descriptions_no_member_is_asked() -> None:
    application = Application(world_with(streams_description_max_bytes=0))
    assert not application.answer.topology_description_required
    assert application.status() == NOT_STORED


def test_a_description_outlives_the_coordinator_and_further_epochs_of_the_group() -> None:
    world = world_with()
    application = Application(world)
    application.push()
    for _ in range(2):
        world.restart()
        assert (application.status(), application.shown()) == (AVAILABLE, BYTES)
        application.beat(SHAPE, 0)
        assert not application.answer.topology_description_required
    assert world.coordinator.shard.notes(DescriptionNotes).bytes == len(BYTES)


def test_the_next_coordinator_asks_for_a_description_that_was_not_sent() -> None:
    world = world_with()
    application = Application(world)
    assert not application.is_asked
    world.restart()
    assert application.is_asked


def test_a_description_ends_with_its_group() -> None:
    world = world_with()
    application = Application(world)
    application.push()
    application.beat(epoch=-1)
    assert world.send(DeleteGroup("g"), 3).error == error_codes.NONE
    assert application.outcomes() == {STORED: 1, DELETED: 1}
    for _ in range(2):
        assert application.shown() is None
        assert world.coordinator.shard.notes(DescriptionNotes).bytes == 0
        world.restart()
    application.beat(SHAPE, 0)
    assert application.answer.topology_description_required


def test_a_classic_member_that_takes_over_an_empty_group_ends_the_description() -> None:
    world = world_with()
    application = Application(world)
    application.push()
    application.beat(epoch=-1)
    world.new_member()
    assert application.shown() is None
    assert world.coordinator.shard.notes(DescriptionNotes).bytes == 0


@pytest.mark.parametrize(
    ("push", "code", "text"),
    [
        ({"group_id": "none"}, error_codes.GROUP_ID_NOT_FOUND, "Group none not found."),
        ({"group_id": "classic"}, error_codes.GROUP_ID_NOT_FOUND, "Group classic is not a streams group."),
        ({"member_id": "n"}, error_codes.UNKNOWN_MEMBER_ID, "Member n is not a member of group g."),
        (
            {"topology_epoch": 3},
            error_codes.INVALID_REQUEST,
            "Topology epoch 3 does not match the group's current topology epoch 0.",
        ),
        ({"fault": "Unknown topology node type: 4"}, error_codes.INVALID_REQUEST, "Unknown topology node type: 4"),
    ],
)
def test_what_does_not_fit_the_group_is_refused_in_kafkas_words(push: dict[str, Any], code: int, text: str) -> None:
    world = world_with()
    world.new_member(group_id="classic")
    application = Application(world)
    response = application.push(**push).response
    assert (response.error_code, response.error_message) == (code, text)
    assert application.status() == NOT_STORED


def test_a_description_that_is_too_large_is_refused_and_not_asked_for_again() -> None:
    world = world_with(streams_description_max_bytes=10)
    application = Application(world)
    log_end = len(world.log)
    response = application.push(bytes(11)).response
    assert (response.error_code, len(world.log)) == (FAILED, log_end)
    assert response.error_message.startswith("The topology description is larger than the 10 bytes of ")
    assert application.push(None).error == FAILED
    for _ in range(120):
        world.advance(40_000)
        assert not application.is_asked
    assert application.push(bytes(10)).error == error_codes.NONE
    assert application.outcomes() == {REFUSED: 2, STORED: 1}


def test_all_descriptions_of_a_shard_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptions, "MOST_BYTES", 100)
    world = world_with()
    one, other = Application(world), Application(world, "h")
    assert one.push(bytes(60)).error == error_codes.NONE
    response = other.push(bytes(60)).response
    assert response.error_code == FAILED
    assert response.error_message == "The topology descriptions of other groups leave no memory for this one."
    assert one.push(bytes(90)).error == error_codes.NONE, "its own older one makes room"
    one.push(bytes(40))
    assert other.push(bytes(60)).error == error_codes.NONE
    assert world.coordinator.shard.notes(DescriptionNotes).bytes == 100


def test_a_description_that_fits_no_batch_is_refused() -> None:
    world = world_with()
    application = Application(world)
    world.largest_batch = 1_000
    assert application.push(bytes(2_000)).error == FAILED
    assert application.status() == NOT_STORED


def test_the_same_description_is_written_once() -> None:
    world = world_with()
    application = Application(world)
    application.push()
    log_end = len(world.log)
    assert application.push().error == error_codes.NONE
    assert len(world.log) == log_end


def test_a_description_larger_than_what_is_left_of_an_answer_is_not_shown() -> None:
    application = Application(world_with())
    application.push()
    assert application.shown(most_bytes=len(BYTES) - 1) == b""
    assert application.outcomes()[NOT_SHOWN] == 1


@given(st.binary(max_size=300) | st.none(), st.integers(0, 1 << 30))
def test_kafka_reads_the_topology_over_the_description(description: bytes | None, epoch: int) -> None:
    value = DescribedTopologyValue(epoch=epoch, subtopologies=[], description=description)
    ours = codec.encode(value, 0)
    assert codec.decode(DescribedTopologyValue, 0, ours) == value
    assert codec.decode(StreamsGroupTopologyValue, 0, ours) == StreamsGroupTopologyValue(epoch=epoch, subtopologies=[])
    assert StreamsGroupTopologyKey.KEY == DescribedTopologyValue.KEY  # type: ignore[attr-defined]
    if description is None:
        assert ours == codec.encode(StreamsGroupTopologyValue(epoch=epoch, subtopologies=[]), 0)


def test_the_tag_of_a_description_spells_the_name_of_this_broker() -> None:
    assert described_topology.DESCRIPTION_TAG.to_bytes(4, "big") == b"kpyb"
    ours = codec.encode(DescribedTopologyValue(epoch=0, subtopologies=[], description=b"x"), 0)
    assert codec.decode(DescribedTopologyValue, 0, ours).description == b"x"
