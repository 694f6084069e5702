"""A kind of groups that only this test knows: a roster of names. It is one row of the table."""

from typing import Any, NamedTuple

import pytest
from group_world import GroupWorld

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.facts import MemberFacts, MembershipFacts
from kpybroker.machines.groups.group import NO_MEMBERS, Group, Membership
from kpybroker.machines.groups.kind import GroupKind, Tables, lowered
from kpybroker.machines.groups.kinds import KINDS
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.monitoring.metrics.readers import facts_of, names_of
from kpywire import error_codes
from kpywire.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)

Key, Value = ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
"""The record of a name. Kafka has none for rosters, so one of another kind is borrowed."""


class Enroll(NamedTuple):
    """A request: put a name on a roster. It is answered by an error code."""

    group_id: str
    name: str


class Closed(NamedTuple):
    """An event: all rosters end."""

    timestamp_ms: int


class RosterNotes:
    def __init__(self) -> None:
        self.begun: list[str] = []


class Roster(Membership):
    def __init__(self) -> None:
        self.names: list[str] = []

    @property
    def is_recorded(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return len(self.names)

    def facts(self) -> MembershipFacts:
        return MembershipFacts("roster", "Open", "roster", 7, len(self.names))

    def member_facts(self) -> list[MemberFacts]:
        return [MemberFacts(name, None, f"consumer-{name}-1", "/127.0.0.1", "") for name in self.names]

    def client_ids(self) -> list[str]:
        return [each.client_id for each in self.member_facts()]

    def check_deletion(self, _group: Group, _decision: GroupDecision) -> int:
        return error_codes.NON_EMPTY_GROUP

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        return [GroupRecord(Key(group_id=group_id, regular_expression=name)) for name in self.names]


def enroll(_shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    message: Enroll = request.message
    key = Key(group_id=message.group_id, regular_expression=message.name)
    decision.records.append(GroupRecord(key, Value(topics=[], version=0, timestamp=decision.timestamp_ms)))
    decision.reply(request.ticket, error_codes.NONE)


def refuse(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    decision.reply(request.ticket, error_code)


def take(shard: GroupShard, key: Any, value: Any | None) -> None:
    group = shard.groups.setdefault(key.group_id, Group(key.group_id))
    if not isinstance(group.membership, Roster):
        group.membership = Roster()
    if value is not None:
        group.membership.names.append(key.regular_expression)
        return
    group.membership.names.remove(key.regular_expression)
    if not group.membership.names:
        group.membership = NO_MEMBERS


def begin(shard: GroupShard, group_id: str, _decision: GroupDecision) -> bool:
    shard.notes(RosterNotes).begun.append(group_id)
    return True


def close(shard: GroupShard, _event: Closed, decision: GroupDecision) -> None:
    for group_id, group in shard.groups.items():
        decision.records += group.membership.tombstones(group_id)


ROSTER = GroupKind(
    "roster",
    "rosters",
    lowered("Open"),
    Tables(
        deciders={Enroll: enroll},
        refusals={Enroll: refuse},
        events={Closed: (close,)},
        replays={Key: take},
        begins={Roster: begin},
    ),
)


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld(kinds=(*KINDS, ROSTER))
    assert world.send(Enroll("g", "ann"), 0).response == error_codes.NONE
    return world


def test_requests_of_a_new_kind_are_decided_and_applied(world: GroupWorld) -> None:
    assert world.groups["g"].membership.names == ["ann"]


def test_records_of_a_new_kind_are_replayed_and_its_sessions_begin(world: GroupWorld) -> None:
    assert not world.coordinator.shard.notes(RosterNotes).begun
    world.restart()
    world.advance(10)
    assert world.groups["g"].membership.names == ["ann"]
    assert world.coordinator.shard.notes(RosterNotes).begun == ["g"]


def test_a_request_of_a_new_kind_that_is_too_large_is_refused(world: GroupWorld) -> None:
    world.largest_batch = 1
    assert world.send(Enroll("g", "bob"), 0).response == error_codes.UNKNOWN_SERVER_ERROR
    assert world.groups["g"].membership.names == ["ann"]


def test_events_of_a_new_kind_are_decided(world: GroupWorld) -> None:
    world.submit(Closed(world.now_ms))
    assert world.groups["g"].membership is NO_MEMBERS


def test_a_group_of_a_new_kind_is_listed_by_state_and_type(world: GroupWorld) -> None:
    expected = {"g": ("roster", "Open", "roster")}
    assert world.listed() == world.listed(["open"], ["Roster"]) == expected
    assert not world.listed(["empty"])
    assert not world.listed([], ["classic"])


def test_requests_about_every_kind_ask_a_new_kind(world: GroupWorld) -> None:
    assert world.delete() == error_codes.NON_EMPTY_GROUP
    assert world.commit({("t", 0): 5}) == {error_codes.NONE}
    world.restart()
    assert world.listed() == {"g": ("roster", "Open", "roster")}


def test_metrics_have_the_facts_of_a_new_kind(world: GroupWorld) -> None:
    facts = facts_of(world.groups["g"]).of_members
    assert (facts.kind, facts.state, facts.members, facts.generation) == ("roster", "Open", 1, 7)
    assert names_of(world.groups["g"]) == {"g", "ann"}
