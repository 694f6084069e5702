"""Random histories of one share group: every answer and every record is that of Apache Kafka's own coordinator."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import pytest
from consumer_twins import GROUP, ConsumerTwins, Outcome
from group_world import Ticket
from kafka_shard import KafkaShard, started

from kpybroker.machines.groups.events import DeleteGroup, ListGroups
from kpybroker.machines.groups.share.events import (
    DeleteStates,
    DescribeShareGroup,
    Initialize,
    InitializedPartitions,
    OffsetsDeleted,
    StatesInitialized,
)
from kpywire import api
from kpywire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kpywire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kpywire.uuid import to_string
from oracle.recorded import Play

HISTORIES = 24
RECORDED = 6
"""The histories that quick tests play with the answers that Kafka gave once."""
STEPS = 150
NAMES = ("t", "u", "v")
STEP_WEIGHTS = (
    *(("join", 14), ("join_again", 3), ("heartbeat", 45), ("heartbeat_all", 14), ("repeat", 4), ("change", 8)),
    *(("leave", 6), ("describe", 6), ("list_groups", 2), ("delete", 3), ("alter_offsets", 4), ("delete_offsets", 3)),
    *(("finish", 30), ("wait", 14), ("wait_long", 2), ("change_topics", 6), ("restart", 2), ("use_otherwise", 2)),
)


class Member:
    """A member as its client sees it."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.names: list[str] = []


class ShareHistory:
    """Requests that make sense most of the time."""

    def __init__(self, twins: ConsumerTwins, rng: Random) -> None:
        self.twins = twins
        self.rng = rng
        self.members: list[Member] = []
        self.made = 0
        self.partitions: dict[str, int] = {}
        self.waiting: list[dict[bytes, list[int]]] = []
        """States that the share coordinator initialises."""
        for name in NAMES[: rng.randrange(1, 4)]:
            self.grow(name)

    def step(self) -> None:
        names, weights = zip(*STEP_WEIGHTS, strict=True)
        getattr(self, self.rng.choices(names, weights)[0])()

    def grow(self, name: str) -> None:
        self.partitions[name] = self.partitions.get(name, 0) + self.rng.choice((1, 2, 3, 5))
        self.twins.put_topic(name, self.partitions[name], self.rng)

    def change_topics(self) -> None:
        name = self.rng.choice(NAMES)
        if name in self.partitions and self.rng.random() < 0.4:
            del self.partitions[name]
            self.twins.drop_topic(name)
        else:
            self.grow(name)

    # Members

    def names(self) -> list[str]:
        return self.rng.choice((["t"], ["t"], ["t", "u"], ["u", "v"], ["t", "u", "v"], ["missing"]))

    def send(self, member: Member, **fields: Any) -> None:
        message = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=member.member_id, **fields)
        answer: Initialize = self.twins.request(api.SHARE_GROUP_HEARTBEAT, 1, message)
        self.take_initialize(answer)
        response = answer.response
        if response.error_code == 0:
            member.epoch = max(response.member_epoch, 0)
        elif response.error_code in (25, 69, 110):
            member.epoch = 0

    def take_initialize(self, answer: Initialize) -> None:
        topics = {
            to_string(topic_id): ",".join(sorted(f"{index}:{offset}" for index, offset in offsets.items()))
            for topic_id, offsets in answer.start_offsets.items()
        }
        ours = f"{answer.state_epoch} {_topics(topics)}" if topics else ""
        assert ours == self.twins.states, f"{self.twins.history()}\nours:   {ours}\ntheirs: {self.twins.states}"
        if topics:
            self.waiting.append({topic_id: sorted(each) for topic_id, each in answer.start_offsets.items()})

    def finish(self) -> None:
        """The share coordinator answers."""
        if not self.waiting:
            return
        partitions = self.waiting.pop(self.rng.randrange(len(self.waiting)))
        if GROUP not in self.twins.ours.groups:
            return  # Kafka's coordinator fails
        code = self.rng.choice((0, 0, 0, 15))
        listed = _topics({to_string(topic_id): ",".join(map(str, each)) for topic_id, each in partitions.items()})
        self.tell(StatesInitialized(GROUP, partitions, code), "states", code, listed)

    def tell(self, message: Any, *words: object) -> Ticket:
        """Something that is no request of a client."""
        twins = self.twins
        twins.advance(twins.ours.now_ms)
        twins.steps.append(" ".join(map(str, words)))
        known = len(twins.ours.records)
        twins.theirs = Outcome(twins.kafka.ask(*words))
        ticket = twins.ours.send(message, 0)
        if words[0] == "offsets":
            twins.theirs.answers.clear()
        twins.compare(known)
        return ticket

    def join(self) -> None:
        if len(self.members) >= 9:
            return
        self.made += 1
        member = Member(f"m{self.made}")
        self.members.append(member)
        self.send(member, member_epoch=0, subscribed_topic_names=self.names(), rack_id=self.rng.choice((None, "r")))

    def member(self) -> Member:
        if not self.members or self.rng.random() < 0.02:
            return Member("nobody")
        return self.rng.choice(self.members)

    def join_again(self) -> None:
        self.send(self.member(), member_epoch=0, subscribed_topic_names=self.names())

    def heartbeat(self) -> None:
        member = self.member()
        if member.epoch == 0 and self.rng.random() < 0.8:
            self.send(member, member_epoch=0, subscribed_topic_names=self.names())
        else:
            self.send(member, member_epoch=member.epoch)

    def heartbeat_all(self) -> None:
        for member in self.members:
            self.send(member, member_epoch=member.epoch, subscribed_topic_names=None if member.epoch else ["t"])

    def repeat(self) -> None:
        member = self.member()
        self.send(member, member_epoch=max(member.epoch + self.rng.choice((-1, -2, 1)), 1))

    def change(self) -> None:
        member = self.member()
        self.send(member, member_epoch=member.epoch, subscribed_topic_names=self.names(), rack_id="q")

    def leave(self) -> None:
        member = self.member()
        self.send(member, member_epoch=-1)
        self.members = [each for each in self.members if each is not member]

    def use_otherwise(self) -> None:
        """Requests of groups of other kinds."""
        twins, position = self.twins, {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        if GROUP not in twins.ours.groups:
            return
        partition = OffsetCommitRequestPartition(committed_leader_epoch=-1, **position)
        commit = OffsetCommitRequestTopic(name="t", partitions=[partition])
        twins.request(
            api.OFFSET_COMMIT,
            9,
            OffsetCommitRequest(
                group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, topics=[commit]
            ),
        )
        deletion = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        twins.request(api.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id=GROUP, topics=[deletion]))
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="x",
            protocol_type="consumer",
            protocols=[protocol],
        )
        twins.request(api.JOIN_GROUP, 9, join)
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="x",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        twins.request(api.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)

    # Administrators

    def describe(self) -> None:
        request = ShareGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
        self.twins.request(api.SHARE_GROUP_DESCRIBE, 1, request, DescribeShareGroup(GROUP))
        self.twins.ours.send(InitializedPartitions(GROUP), 0)

    def list_groups(self) -> None:
        states, types = self.rng.choice((([], []), (["empty"], ["SHARE"]), (["Stable"], []), ([], ["consumer"])))
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        self.twins.request(api.LIST_GROUPS, 5, request, ListGroups(states, types))

    def delete(self) -> None:
        ours = self.twins.ours
        decide, ours.send = ours.send, self._send_deletion  # type: ignore[method-assign]
        self._sent = decide
        try:
            request = DeleteGroupsRequest(groups_names=[GROUP])
            self.twins.request(api.DELETE_GROUPS, 2, request, DeleteGroup(GROUP))
        finally:
            ours.send = decide  # type: ignore[method-assign]

    def _send_deletion(self, message: Any, version: int, **options: Any) -> Ticket:
        ticket = self._sent(message, version, **options)
        if isinstance(ticket.response, DeleteStates):
            listed = {
                to_string(topic_id): ",".join(sorted(map(str, each)))
                for topic_id, each in ticket.response.partitions.items()
            }
            assert _topics(listed) == self.twins.theirs.states, self.twins.history()
            ticket = self._sent(message._replace(states_deleted=True), version, **options)
        return ticket

    def alter_offsets(self) -> None:
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=self.rng.randrange(9))
                    for index in self.some(range(6))
                ],
            )
            for name in self.some(NAMES)
        ]
        request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        self.take_initialize(self.twins.request(api.ALTER_SHARE_GROUP_OFFSETS, 0, request))

    def delete_offsets(self) -> None:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in self.some(NAMES)]
        request = DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        answer: DeleteStates = self.twins.request(api.DELETE_SHARE_GROUP_OFFSETS, 0, request)
        listed = {to_string(topic_id): ",".join(sorted(map(str, each))) for topic_id, each in answer.partitions.items()}
        assert _topics(listed) == self.twins.states, self.twins.history()
        if listed and self.rng.random() < 0.8:
            by_id = {topic.id: topic.name for topic in self.twins.topics.values()}
            names = {topic_id: by_id[topic_id] for topic_id in answer.partitions}
            words = _topics({to_string(topic_id): name for topic_id, name in names.items()})
            self.tell(OffsetsDeleted(GROUP, names), "offsets", 0, words)

    def some(self, values: Iterable[Any]) -> list[Any]:
        return [each for each in values if self.rng.random() < 0.6]

    # Time

    def wait(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + self.rng.choice((10, 700, 1_000, 8_000)))

    def wait_long(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + 46_000)

    def restart(self) -> None:
        self.twins.restart()


def _topics(topics: Mapping[str, str]) -> str:
    return ";".join(f"{topic_id}={each}" for topic_id, each in sorted(topics.items()) if each)


def _some_settings(rng: Random) -> dict[str, int]:
    return {
        "share_max_size": rng.choice((4, 200)),
        "share_assignment_interval_ms": rng.choice((0, 1_000)),
        "share_initialize_retry_interval_ms": rng.choice((3_000, 30_000)),
    }


@pytest.mark.java
@pytest.mark.seeds(0, HISTORIES)
def test_a_history_of_a_share_group_goes_as_in_kafka(kafka: KafkaShard, seed: int) -> None:
    live(kafka, seed)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_a_history_of_a_share_group_goes_as_it_went_in_kafka(recorded: Play, seed: int) -> None:
    live(KafkaShard(recorded(started)), seed)


def live(kafka: KafkaShard, seed: int) -> None:
    rng = Random(seed)
    history = ShareHistory(ConsumerTwins(kafka, **_some_settings(rng)), rng)
    for _ in range(STEPS):
        history.step()
