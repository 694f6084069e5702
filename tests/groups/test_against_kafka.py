"""Random histories of one group: every answer and every record is that of Apache Kafka's own coordinator.

Where Kafka takes what its hash tables say (the next leader, a tie of protocols) ours is made to choose the same, if
that is among what it may choose. Ours answers some requests that Kafka forgets: those of members that are removed, or
that have sent the same again.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from group_world import GroupWorld, Ticket, subscription
from kafka_shard import KafkaShard, Outcome, canonical, normal, started, wrapped

from kpybroker.machines.groups.classic import classic_group
from kpybroker.machines.groups.classic.classic_group import ClassicGroupState
from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpybroker.machines.groups.events import DeleteGroup, ExpireOffsets, GroupTimersDue, ListGroups
from kpywire import api, error_codes
from kpywire.codec import decode, encode
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kpywire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oracle.recorded import Play

HISTORIES = 80
RECORDED = 6
"""The histories that quick tests play with the answers that Kafka gave once."""
STEPS = 150
STEPS_SHOWN = 40
GROUP = "g"
INSTANCES = ("i", "j", "k")
TOPICS = ("t", "u", "v")
FORGOTTEN_BY_KAFKA = (error_codes.REBALANCE_IN_PROGRESS, error_codes.UNKNOWN_MEMBER_ID)


class IdsOfKafka:
    """Random bits that make the member id that Kafka has just made."""

    def __init__(self) -> None:
        self.next_id = ""

    def getrandbits(self, _: int) -> int:
        return int(self.next_id[-36:].replace("-", ""), 16) if self.next_id else 0


class Twins:
    """The same requests to both."""

    def __init__(self, kafka: KafkaShard, rng: Random) -> None:
        self.kafka = kafka
        delay_ms, max_size = rng.choice((0, 3_000)), rng.choice((3, 1_000))
        self.ours = GroupWorld(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.ids = IdsOfKafka()
        self.ours.rng = self.ids  # type: ignore[assignment]
        self.ours.restart()
        self.theirs = Outcome(kafka.ask("reset", delay_ms, max_size))
        self.tickets: dict[int, tuple[Ticket, int, int]] = {}
        self.requests = 0
        self.steps: list[str] = []

    def choose(self, candidates: Iterable[str]) -> str:
        """The choice of Kafka: its leader, if it is a choice, or the protocol that its hash table has first."""
        among = list(candidates)
        if self.theirs.leader_id in among:
            return self.theirs.leader_id
        return min(among, key=java_bucket)

    def request(self, key: int, version: int, message: Any, part: Any = None, require_stable: bool = False) -> None:
        """One request; ``part`` is what of it concerns the group, where that is not all."""
        self.steps.append(f"{self.ours.now_ms} v{version} {message}")
        self.requests += 1
        ticket = self.requests
        before = set(self.theirs.member_ids)
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask("do", key, version, ticket, encode(message, version).hex()))
        self.ids.next_id = next(iter(set(self.theirs.member_ids) - before), "")
        self.tickets[ticket] = (
            self.ours.send(part or message, version, require_stable=require_stable),
            key,
            version,
        )
        self.compare(known)

    def advance(self, now_ms: int) -> None:
        self.steps.append(f"advance to {now_ms}")
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask("advance", now_ms))
        self.ours.now_ms = now_ms
        while (deadline_ms := self.ours.coordinator.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self.ours.submit(GroupTimersDue(now_ms))
        self.compare(known)

    def event(self, event: Any, *words: object) -> None:
        """Something that is no request; what is due now comes before it."""
        self.advance(self.ours.now_ms)
        self.steps.append(" ".join(map(str, words)))
        known = len(self.ours.records)
        self.theirs = Outcome(self.kafka.ask(*words))
        if event is not None:
            self.ours.submit(event)
        self.ours.finish_sweeps()
        self.compare(known)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        self.steps.append(f"end {producer_id} {commit}")
        self.theirs = Outcome(self.kafka.ask("marker", producer_id, int(commit)))
        self.ours.end_transaction(producer_id, commit)

    def compare(self, known: int) -> None:
        ours = {
            number: normal(decode(api.response_class(key), version, wrapped(ticket.response, key, version)))
            for number, (ticket, key, version) in self.tickets.items()
            if ticket.is_answered
        }
        theirs = {
            number: normal(decode(api.response_class(self.tickets[number][1]), self.tickets[number][2], body))
            for number, body in self.theirs.answers.items()
        }
        for number in list(ours):
            del self.tickets[number]
            if number not in theirs:
                assert ours.pop(number).error_code in FORGOTTEN_BY_KAFKA, self.history()
        assert ours == theirs, f"{self.history()}\nours: {ours}\ntheirs: {theirs}"
        written = [record.encoded() for record in self.ours.records[known:]]
        assert canonical(written) == canonical(self.theirs.records), self.history()
        classic = self.ours.awake(GROUP)
        ids = {*classic.members, *classic.pending_members} if classic else set()
        if classic or not self.theirs.member_ids:
            assert ids == set(self.theirs.member_ids), self.history()

    def history(self) -> str:
        return "\n".join(self.steps[-STEPS_SHOWN:])


def java_bucket(name: str) -> int:
    """The bucket of a string in a small ``HashMap``."""
    hashed = 0
    for character in name:
        hashed = (31 * hashed + ord(character)) & 0xFFFF_FFFF
    return (hashed ^ hashed >> 16) & 15


class History:
    """Requests that make sense most of the time."""

    def __init__(self, twins: Twins, rng: Random) -> None:
        self.twins = twins
        self.rng = rng

    @property
    def classic(self) -> classic_group.ClassicGroup | None:
        return self.twins.ours.awake(GROUP)

    def step(self) -> None:
        name, _ = self.rng.choices(*zip(*((each, each[1]) for each in STEP_WEIGHTS), strict=True))[0]
        getattr(self, name)()

    def member_id(self) -> str:
        ids = self.twins.theirs.member_ids
        return self.rng.choice(ids) if ids and self.rng.random() < 0.95 else "client-unknown"

    def instance_of(self, member_id: str) -> str | None:
        if self.rng.random() < 0.03:
            return self.rng.choice((*INSTANCES, None))
        stem = member_id[:-37]
        return stem if stem in INSTANCES else None

    def generation_id(self) -> int:
        current = self.classic.generation_id if self.classic else 0
        return current if self.rng.random() < 0.93 else self.rng.choice((-1, current - 1, current + 1))

    def protocols(self) -> list[JoinGroupRequestProtocol]:
        names = self.rng.choice((["range"], ["range", "sticky"], ["sticky", "range"], ["range", "sticky", "zone"]))
        if self.rng.random() < 0.03:
            names = self.rng.choice(([], ["zone"]))
        topics = self.rng.choice((("t",), ("t",), ("t",), ("u", "t"), ()))
        metadata = subscription(*topics) if self.rng.random() < 0.97 else b"\xff"
        return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]

    def join(self, member_id: str, instance_id: str | None, version: int) -> None:
        message = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.rng.randrange(6_000, 30_000),
            rebalance_timeout_ms=self.rng.randrange(5_000, 60_000) if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance_id if version >= 5 else None,
            protocol_type="consumer" if self.rng.random() < 0.97 else "connect",
            protocols=self.protocols(),
        )
        self.twins.request(api.JOIN_GROUP, version, message)

    def join_new(self) -> None:
        instance_id = self.rng.choice((None, None, *INSTANCES))
        classic = self.classic
        if instance_id is not None and classic is not None and classic.state is ClassicGroupState.STABLE:
            awaits_sync = classic.static_members.get(instance_id) in classic.pending_sync
            if awaits_sync:
                return  # Kafka goes on to wait for a sync of the id that is no more, ours for that of the new one
        # Version 0 rebalances within its session timeout: then two timers are due together, and either may be first.
        self.join("", instance_id, self.rng.randrange(5 if instance_id else 1, 10))

    def join_again(self) -> None:
        member_id = self.member_id()
        self.join(member_id, self.instance_of(member_id), self.rng.randrange(5, 10))

    def join_all(self) -> None:
        for member_id in list(self.twins.theirs.member_ids):
            stem = member_id[:-37]
            self.join(member_id, stem if stem in INSTANCES else None, 9)

    def sync(self, member_id: str) -> None:
        version = self.rng.randrange(3, 6)
        classic = self.classic
        assignments = []
        if classic is not None and classic.leader_id == member_id:
            ids = [each for each in classic.members if self.rng.random() < 0.95]
            assignments = [SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in ids]
        named = version >= 5 and self.rng.random() < 0.5
        message = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation_id(),
            member_id=member_id,
            group_instance_id=self.instance_of(member_id),
            protocol_type="consumer" if named else None,
            protocol_name=self.rng.choice(("range", "range", "sticky")) if named else None,
            assignments=assignments,
        )
        self.twins.request(api.SYNC_GROUP, version, message)

    def sync_one(self) -> None:
        self.sync(self.member_id())

    def sync_leader(self) -> None:
        if self.classic is not None and self.classic.leader_id is not None:
            self.sync(self.classic.leader_id)

    def heartbeat(self) -> None:
        member_id = self.member_id()
        message = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation_id(),
            member_id=member_id,
            group_instance_id=self.instance_of(member_id),
        )
        self.twins.request(api.HEARTBEAT, 4, message)

    def leave(self) -> None:
        leaving = []
        for _ in range(self.rng.choice((1, 1, 2))):
            member_id = self.member_id()
            instance_id = self.instance_of(member_id)
            if instance_id is not None and self.rng.random() < 0.4:
                member_id = ""
            leaving.append(MemberIdentity(member_id=member_id, group_instance_id=instance_id))
        if len(leaving) == 1 and leaving[0].group_instance_id is None and self.rng.random() < 0.5:
            message = LeaveGroupRequest(group_id=GROUP, member_id=leaving[0].member_id)
            self.twins.request(api.LEAVE_GROUP, self.rng.randrange(0, 3), message)
        else:
            self.twins.request(api.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=GROUP, members=leaving))

    def commit(self) -> None:
        member_id, version = self.member_id(), self.rng.randrange(2, 10)
        instance_id = self.instance_of(member_id) if version >= 7 else None
        generation_id = self.generation_id()
        if self.rng.random() < 0.3:
            member_id, instance_id, generation_id = "", None, -1
        long = self.rng.random() < 0.1
        message = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=self.rng.choice((-1, -1, 5_000)) if version <= 4 else -1,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=self.rng.randrange(100),
                            committed_leader_epoch=3 if version >= 6 else -1,
                            committed_metadata="m" * 4_097 if long and partition else self.rng.choice((None, "m")),
                        )
                        for partition in range(self.rng.randrange(1, 3))
                    ],
                )
                for topic in self.rng.sample(TOPICS, 2)
            ],
        )
        self.twins.request(api.OFFSET_COMMIT, version, message)

    def commit_in_transaction(self) -> None:
        member_id = self.member_id()
        is_member = self.rng.random() < 0.5
        message = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=GROUP,
            producer_id=self.rng.randrange(2),
            producer_epoch=0,
            generation_id_or_member_epoch=self.generation_id() if is_member else -1,
            member_id=member_id if is_member else "",
            group_instance_id=self.instance_of(member_id) if is_member else None,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.rng.choice(TOPICS),
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=self.rng.randrange(100), committed_metadata=None
                        )
                    ],
                )
            ],
        )
        self.twins.request(api.TXN_OFFSET_COMMIT, 4, message)

    def end_transaction(self) -> None:
        self.twins.end_transaction(self.rng.randrange(2), self.rng.random() < 0.5)

    def fetch(self) -> None:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1]) for topic in TOPICS]
        part = OffsetFetchRequestGroup(group_id=GROUP, topics=topics if self.rng.random() < 0.7 else None)
        stable = self.rng.random() < 0.5
        message = OffsetFetchRequest(groups=[part], require_stable=stable)
        self.twins.request(api.OFFSET_FETCH, 9, message, part, stable)

    def delete_offsets(self) -> None:
        message = OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
                for topic in self.rng.sample(TOPICS, 2)
            ],
        )
        self.twins.request(api.OFFSET_DELETE, 0, message)

    def describe(self) -> None:
        version = self.rng.randrange(0, 7)
        message = DescribeGroupsRequest(groups=[GROUP])
        self.twins.request(api.DESCRIBE_GROUPS, version, message, DescribeGroup(GROUP))

    def list_groups(self) -> None:
        states = self.rng.choice(([], ["stable"], ["EMPTY", "Dead"], ["PreparingRebalance"]))
        types = self.rng.choice(([], ["classic"], ["CONSUMER"]))
        message = ListGroupsRequest(states_filter=states, types_filter=types)
        self.twins.request(api.LIST_GROUPS, 5, message, ListGroups(states, types))

    def delete(self) -> None:
        self.twins.request(api.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroup(GROUP))

    def wait(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + self.rng.randrange(1, 3_000))

    def wait_for_timer(self) -> None:
        deadline = self.twins.kafka.ask("next")
        if deadline:
            self.twins.advance(int(deadline))

    def wait_long(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + 4 * 24 * 3_600_000)

    def expire(self) -> None:
        if self.classic is None or not self.classic.pending_members:  # else Kafka forgets the group they will join
            self.twins.event(ExpireOffsets(self.twins.ours.now_ms), "expire")

    def delete_topics(self) -> None:
        topic = self.rng.choice(TOPICS)
        self.twins.event(self.twins.ours.deleted({topic: range(3)}), "topics", topic)

    def restart(self) -> None:
        twins = self.twins
        twins.steps.append("restart")
        twins.tickets.clear()
        twins.theirs = Outcome(twins.kafka.ask("restart"))
        twins.ours.restart()
        twins.ours.finish_sweeps()


STEP_WEIGHTS = (
    *(("join_new", 14), ("join_again", 14), ("join_all", 8), ("sync_one", 14), ("sync_leader", 10), ("heartbeat", 10)),
    *(("leave", 3), ("commit", 8), ("commit_in_transaction", 3), ("end_transaction", 2), ("fetch", 4)),
    *(("delete_offsets", 2), ("describe", 4), ("list_groups", 2), ("delete", 1), ("wait", 4), ("wait_for_timer", 8)),
    *(("wait_long", 1), ("expire", 2), ("delete_topics", 1), ("restart", 1)),
)


@pytest.mark.java
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_goes_as_in_kafka(kafka: KafkaShard, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    live(kafka, seed, monkeypatch)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_a_history_goes_as_it_went_in_kafka(recorded: Play, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    live(KafkaShard(recorded(started)), seed, monkeypatch)


def live(kafka: KafkaShard, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    twins = Twins(kafka, rng)
    monkeypatch.setattr(classic_group, "choose", twins.choose)
    history = History(twins, rng)
    for _ in range(STEPS):
        history.step()
