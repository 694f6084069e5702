"""A streams group under random members, topics and times: no task is in two hands, and silence leads to rest.

The members are honest: they use what they were given, and give up what they must when they say so.
"""

from typing import Any

from group_world import GroupWorld
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from topologies import COMPACTED, subtopology, topic, topology

from kpybroker.machines.groups.streams.streams_group import StreamsGroup
from kpybroker.machines.metadata.topic import Partition, Topic
from kpywire import error_codes
from kpywire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
)

ROUNDS = 5
"""The heartbeats of each member after which a group rests: to learn that it is no member any more, to learn of a
target, to give up, to get, and to see that it did."""
SHAPE = topology(
    subtopology("0", ("t",), sinks=("a-repartition",)),
    subtopology("1", repartition=(topic("a-repartition"),), changelogs=(topic("a-changelog", configs=COMPACTED),)),
)
NOT_KNOWN = (error_codes.UNKNOWN_MEMBER_ID, error_codes.FENCED_MEMBER_EPOCH, error_codes.GROUP_ID_NOT_FOUND)
Task = tuple[str, int]


class Member:
    """The state of a member as its client sees it."""

    def __init__(self, member_id: str, process_id: str) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.epoch = 0
        self.active: set[Task] = set()
        self.standby: set[Task] = set()
        self.given: tuple[set[Task], set[Task]] | None = None

    def adopt(self) -> None:
        """Use what was given, and nothing else."""
        if self.given is not None:
            (self.active, self.standby), self.given = self.given, None

    def forget(self) -> None:
        self.epoch, self.given = 0, None
        self.active, self.standby = set(), set()


class StreamsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld(streams_num_standby_replicas=1)
        self.members: dict[str, Member] = {}
        self.made = 0
        self.topics: dict[str, Topic] = {}
        self.put("t", 3)

    def put(self, name: str, partitions: int) -> None:
        known = self.topics.get(name)
        made = Topic(name, (len(self.topics) + 1).to_bytes(16, "big") if known is None else known.id)
        made.partitions = {index: Partition((0,), (0,), 0) for index in range(partitions)}
        self.topics[name] = made
        self.world.set_topics(known is None, *self.topics.values())

    @property
    def group(self) -> StreamsGroup | None:
        group = self.world.groups.get("g")
        return group.membership if group is not None and isinstance(group.membership, StreamsGroup) else None

    def beat(self, member: Member, epoch: int | None = None, **fields: Any) -> Any:
        message = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=member.member_id,
            member_epoch=member.epoch if epoch is None else epoch,
            endpoint_information_epoch=0,
            **fields,
        )
        answer = self.world.send(message, 0).response
        response = answer.response
        if response.error_code:
            assert response.error_code in NOT_KNOWN, response
            member.forget()
            return response
        member.epoch = max(response.member_epoch, 0)
        if response.active_tasks is not None:
            member.given = (_tasks(response.active_tasks), _tasks(response.standby_tasks))
        for each in answer.missing.values():
            if each.name not in self.topics:
                self.put(each.name, each.partitions)
        return response

    def join(self, member: Member) -> None:
        member.forget()
        empty: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        self.beat(member, 0, topology=SHAPE, process_id=member.process_id, rebalance_timeout_ms=30_000, **empty)

    def report(self, member: Member) -> None:
        """Give up what must be given up, take the rest, and say so; the next answer may bring more."""
        if member.epoch == 0:
            self.join(member)
            return
        member.adopt()
        lists = {"active_tasks": _listed(member.active), "standby_tasks": _listed(member.standby), "warmup_tasks": []}
        self.beat(member, **lists)

    @precondition(lambda self: len(self.members) < 6)
    @rule(process=st.sampled_from("pqr"))
    def a_member_joins(self, process: str) -> None:
        self.made += 1
        member = self.members[f"m{self.made}"] = Member(f"m{self.made}", process)
        self.join(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def a_member_reports(self, data: st.DataObject) -> None:
        self.report(self.members[data.draw(st.sampled_from(sorted(self.members)))])

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def a_member_only_renews_its_session(self, data: st.DataObject) -> None:
        member = self.members[data.draw(st.sampled_from(sorted(self.members)))]
        if member.epoch:
            self.beat(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def a_member_leaves(self, data: st.DataObject) -> None:
        self.beat(self.members.pop(data.draw(st.sampled_from(sorted(self.members)))), -1)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def a_process_dies(self, data: st.DataObject) -> None:
        """Its members say nothing more, and their sessions end."""
        process = data.draw(st.sampled_from(sorted({each.process_id for each in self.members.values()})))
        self.members = {name: each for name, each in self.members.items() if each.process_id != process}
        self.world.advance(self.world.settings.streams_session_timeout_ms)

    @rule(partitions=st.integers(1, 5))
    def the_input_grows(self, partitions: int) -> None:
        before = self.topics["t"]
        if partitions > len(before.partitions):
            for name in self.topics:
                self.put(name, partitions)

    @rule(milliseconds=st.sampled_from((1, 900, 3_500, 20_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    @rule()
    def the_coordinator_moves(self) -> None:
        before = self.group
        self.world.restart()
        after = self.group
        self.world.finish_sweeps()
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            for name in ("epoch", "metadata_hash", "assignment_epoch", "members", "target", "topology", "state"):
                assert getattr(before, name) == getattr(after, name), name
            assert before.active_processes == after.active_processes
            assert before.standby_processes == after.standby_processes

    @rule()
    def silence_leads_to_rest(self) -> None:
        """Nothing happens but heartbeats: each member has its target, and each task an owner."""
        for _ in range(ROUNDS):
            self.world.advance(4_000)
            for member in self.members.values():
                self.report(member)
        for member in self.members.values():
            member.adopt()
        group = self.group
        if group is None or not self.members:
            return
        assert group.state == "Stable", group.state
        counts = len(self.topics["t"].partitions)
        held = [task for member in self.members.values() for task in member.active]
        assert sorted(held) == [(name, index) for name in "01" for index in range(counts)]

    @invariant()
    def no_task_is_in_two_hands(self) -> None:
        """A member that the group still knows uses what it has; an active task is in one place."""
        group = self.group
        if group is None:
            return
        held = [
            task
            for member in self.members.values()
            if member.member_id in group.members and member.epoch
            for task in member.active
        ]
        assert len(held) == len(set(held))
        for member in group.members.values():
            assert member.member_epoch <= group.epoch


def _tasks(listed: Any) -> set[Task]:
    return {(each.subtopology_id, index) for each in listed for index in each.partitions}


def _listed(tasks: set[Task]) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    names = sorted({name for name, _ in tasks})
    return [
        StreamsGroupHeartbeatRequestTaskIds(
            subtopology_id=name, partitions=sorted(index for each, index in tasks if each == name)
        )
        for name in names
    ]


TestStreamsGroups = StreamsModel.TestCase
TestStreamsGroups.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
