"""Groups that change their protocol while they live, and members that send what cannot be read."""

from typing import Any

import pytest
from consumer_members import Member, topic
from group_world import GroupWorld, subscription

from kpybroker.machines.groups.classic.classic_group import ClassicGroup
from kpybroker.machines.groups.consumer.consumer_group import ConsumerGroup
from kpywire import error_codes
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.sync_group import SyncGroupRequest


@pytest.fixture
def world() -> GroupWorld:
    made = GroupWorld(initial_rebalance_delay_ms=0)
    made.set_topics(True, topic("t", 4))
    return made


def join(world: GroupWorld, member_id: str = "", **protocols: bytes) -> Any:
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()],
    )
    response = world.send(message, 9).response
    if response.error_code == error_codes.MEMBER_ID_REQUIRED:
        return join(world, response.member_id, **protocols)
    return response


def sync(world: GroupWorld, joined: Any) -> Any:
    message = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[]
    )
    return world.send(message, 5).response


def kind(world: GroupWorld) -> type:
    return type(world.groups["g"].membership)


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group_behind(world: GroupWorld) -> None:
    new = Member(world, "new")
    new.join()
    old = join(world, range=subscription("t"))
    assert kind(world) is ConsumerGroup
    assert sync(world, old).error_code == error_codes.NONE
    new.beat(member_epoch=-1)
    assert kind(world) is ClassicGroup
    again = Member(world, "again")
    assert again.join().error_code == error_codes.NONE
    assert kind(world) is ConsumerGroup


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"\0\0\0\0\0"])
def test_a_classic_member_whose_subscription_cannot_be_read_is_inconsistent(world: GroupWorld, metadata: bytes) -> None:
    Member(world, "new").join()
    assert join(world, range=metadata).error_code == error_codes.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_with_a_protocol_that_cannot_be_read_stays_what_it_is(world: GroupWorld) -> None:
    new = Member(world, "new")
    new.join()
    old = join(world, range=subscription("t"), other=b"\xff")
    assert sync(world, old).error_code == error_codes.NONE
    assert new.beat(member_epoch=-1).error_code == error_codes.NONE
    assert kind(world) is ConsumerGroup
    world.advance(60_000)
    assert world.groups["g"].membership.size == 0
