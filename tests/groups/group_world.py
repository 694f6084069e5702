"""One partition's group coordinator on a log in memory, a clock that tests move, and clients that say every field."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.groups.classic.classic_group import ClassicGroup
from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.events import DeleteGroup, ExpireOffsets, GroupRequest, GroupTimersDue, ListGroups
from kpybroker.machines.groups.kind import GroupKind
from kpybroker.machines.groups.kinds import KINDS
from kpybroker.machines.groups.offsets.commit_record import CommitRecord
from kpybroker.machines.groups.record import GroupRecord, decode
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.journal import AppendRefused, BatchTooLarge, DecisionFailed, Journal, ProducerEpoch
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.metadata.topic_view import NO_TOPICS, TopicView
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

START_MS = 1_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Entry(NamedTuple):
    """The entry at one offset of the log: a record, or the marker that ends a producer's transaction."""

    record: GroupRecord | None
    producer: ProducerEpoch | None = None
    commit: bool = False


class Ticket:
    """A request that is answered once."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, message: Any) -> None:
        assert getattr(message, "throttle_time_ms", 0) == 0, "quotas are the node's"
        self.answers.append(message)

    def fail(self, error_code: int) -> None:
        self.answers.append(error_code)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    @property
    def response(self) -> Any:
        assert len(self.answers) == 1, self.answers
        return self.answers[0]

    @property
    def error(self) -> int:
        code: int = self.response.error_code
        return code


def subscription(*topics: str) -> bytes:
    """The metadata that a consumer joins with."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


PROTOCOLS = {"range": subscription("t")}


class GroupWorld:
    """A coordinator that is loaded and whose appends are committed at once, unless a test says otherwise."""

    def __init__(
        self, *, members_of_node: Callable[[], int] | None = None, kinds: Sequence[GroupKind] = KINDS, **settings: Any
    ) -> None:
        self.kinds = kinds
        self.members_of_node = members_of_node
        self.settings = GroupSettings(**settings)
        self.topics = NO_TOPICS
        self.topic_changes: dict[str, int] = {}
        self.now_ms = START_MS
        self.log: list[Entry] = []
        self.largest_batch = 1_000_000
        self.commits_at_once = True
        self.refuses_appends = False
        self.rng = Random(4)
        self.tickets: list[Ticket] = []
        self.sent: dict[tuple[str, ...], Any] = {}
        """The last message of each sender and text: who repeats a request is known by the object."""
        self.given_again = 0
        """How many answers were known before they were decided."""
        self._open([])

    def _open(self, log: Sequence[Entry]) -> None:
        self.coordinator = GroupCoordinator(
            lambda: self.settings,
            lambda: self.topics,
            self.rng,
            members_of_node=self.members_of_node,
            kinds=self.kinds,
        )
        self.journal = Journal(
            self.coordinator,
            self._append,
            closed_error=error_codes.COORDINATOR_LOAD_IN_PROGRESS,
            report=_raise,
        )
        for offset, (record, producer, commit) in enumerate(log):
            if record is not None:
                self.journal.replay(reread(record), offset, producer)
            elif producer is not None:
                self.journal.mark(producer, offset, commit=commit)
        self.journal.open(len(log), len(log))
        self.submit(Loaded(self.now_ms))

    def restart(self) -> None:
        """The log, through bytes, is loaded by another coordinator; what waited hears that this one is gone."""
        self.journal.drop(error_codes.NOT_COORDINATOR)
        self._open(self.log)

    def load(self, *records: GroupRecord) -> None:
        """Begin with a log that somebody else wrote."""
        self.log = [Entry(record) for record in records]
        self.restart()

    def _append(
        self, records: Sequence[GroupRecord | CommitRecord], producer: ProducerEpoch | None, _: int
    ) -> tuple[int, int]:
        if self.refuses_appends:
            raise AppendRefused(error_codes.KAFKA_STORAGE_ERROR)
        sizes = [len(key) + len(value or b"") for key, value in (record.encoded() for record in records)]
        if sum(sizes) > self.largest_batch:
            raise BatchTooLarge
        first = len(self.log)
        self.log += [Entry(as_messages(record), producer) for record in records]
        return first, len(self.log)

    @property
    def records(self) -> list[GroupRecord]:
        return [entry.record for entry in self.log if entry.record is not None]

    @property
    def groups(self) -> dict[str, Any]:
        return self.coordinator.shard.groups

    def awake(self, group_id: str) -> ClassicGroup | None:
        """The group's members, if it is a classic one and awake."""
        group = self.groups.get(group_id)
        return group.membership if group is not None and isinstance(group.membership, ClassicGroup) else None

    def classic(self, group_id: str) -> ClassicGroup:
        """A classic group that is awake."""
        found = self.awake(group_id)
        assert found is not None
        return found

    def set_topics(self, created: bool, *topics: Topic) -> None:
        """These topics are all that there are from now on."""
        version = self.topics.version + 1
        created_version = version if created else self.topics.created_version
        by_name, by_id = {each.name: each for each in topics}, {each.id: each for each in topics}
        before = self.topics.by_name
        for name in {*before, *by_name}:
            if (
                name not in before
                or name not in by_name
                or len(before[name].partitions) != len(by_name[name].partitions)
            ):
                self.topic_changes[name] = version
        self.topics = TopicView(by_name, by_id, {}, version, created_version, {}, self.topic_changes)

    def deleted(self, partitions: Mapping[str, Sequence[int]], topic_ids: Sequence[bytes] = ()) -> MetadataChanged:
        """The event that topics with these partitions were deleted."""
        return MetadataChanged({}, (), partitions, self.now_ms, topic_ids)

    def submit(self, event: Any, ticket: Ticket | None = None, key: str | None = None) -> None:
        self.journal.submit(event, self.now_ms, ticket=ticket, key=key)
        if self.commits_at_once:
            self.journal.committed(len(self.log), self.now_ms)

    def commit_log(self) -> None:
        self.journal.committed(len(self.log), self.now_ms)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer by timer."""
        until_ms = self.now_ms + milliseconds
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.submit(GroupTimersDue(self.now_ms))
        self.now_ms = until_ms

    def send(
        self,
        message: Any,
        api_version: int,
        *,
        client_id: str = "client",
        require_stable: bool = False,
        software: str = "",
    ) -> Ticket:
        """Send a request. If its answer is known beforehand, a decision must come to the same, and write nothing."""
        ticket = Ticket()
        self.tickets.append(ticket)
        message = self.sent.setdefault((repr(message), client_id, software), message)
        again = self._answer_again(message)
        log_end = len(self.log)
        request = GroupRequest(
            ticket,
            message,
            api_version,
            self.now_ms,
            client_id,
            "/127.0.0.1",
            require_stable=require_stable,
            software=software,
        )
        self.submit(request, ticket, getattr(message, "group_id", None))
        if again is not None:
            self.given_again += 1
            assert getattr(ticket.response, "response", ticket.response) == again
            assert len(self.log) == log_end
        return ticket

    def _answer_again(self, message: Any) -> Any | None:
        """The answer that a coordinator knows to a heartbeat, as its shell asks for it."""
        if not type(message).__name__.endswith("HeartbeatRequest") or not self.journal.is_open:
            return None
        return None if self.journal.waiting_gates else self.coordinator.answer_again(message, self.now_ms)

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] = PROTOCOLS,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
    ) -> Ticket:
        message = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=each) for name, each in protocols.items()],
        )
        return self.send(message, version)

    def new_member(self, **options: Any) -> tuple[str, Ticket]:
        """Get an id, and join with it: (member id, the parked join)."""
        first = self.join(**options).response
        assert first.error_code == error_codes.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        version: int = 5,
    ) -> Ticket:
        message = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        return self.send(message, version)

    def heartbeat(self, member_id: str, generation_id: int, **options: Any) -> int:
        return self.heartbeat_ticket(member_id, generation_id, **options).error

    def heartbeat_ticket(
        self, member_id: str, generation_id: int, *, group_id: str = "g", instance_id: str | None = None
    ) -> Ticket:
        message = HeartbeatRequest(
            group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
        )
        return self.send(message, 4)

    def leave(self, *members: tuple[str, str | None], group_id: str = "g") -> list[int]:
        response = self.leave_ticket(*members, group_id=group_id).response
        assert response.error_code == error_codes.NONE
        return [each.error_code for each in response.members]

    def leave_ticket(self, *members: tuple[str, str | None], group_id: str = "g") -> Ticket:
        message = LeaveGroupRequest(
            group_id=group_id,
            members=[MemberIdentity(member_id=identity, group_instance_id=which) for identity, which in members],
        )
        return self.send(message, 5)

    def commit(self, offsets: Mapping[tuple[str, int], int], *arguments: Any, **options: Any) -> set[int]:
        """Commit; the error codes of the partitions."""
        response = self.commit_ticket(offsets, *arguments, **options).response
        return {partition.error_code for topic in response.topics for partition in topic.partitions}

    def commit_ticket(
        self,
        offsets: Mapping[tuple[str, int], int],
        member_id: str = "",
        generation_id: int = -1,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        metadata: str | None = None,
        retention_ms: int = -1,
        version: int = 9,
    ) -> Ticket:
        message = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        return self.send(message, version)

    def commit_in_transaction(
        self, producer_id: int, offsets: Mapping[tuple[str, int], int], *arguments: Any, **options: Any
    ) -> set[int]:
        response = self.commit_in_transaction_ticket(producer_id, offsets, *arguments, **options).response
        return {partition.error_code for topic in response.topics for partition in topic.partitions}

    def commit_in_transaction_ticket(
        self,
        producer_id: int,
        offsets: Mapping[tuple[str, int], int],
        member_id: str = "",
        generation_id: int = -1,
        *,
        group_id: str = "g",
    ) -> Ticket:
        message = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=None
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        return self.send(message, 4)

    def fetch(
        self,
        partitions: Mapping[str, Sequence[int]] | None = None,
        *,
        group_id: str = "g",
        require_stable: bool = False,
    ) -> dict[tuple[str, int], int]:
        """Committed offsets, or minus the error code where there is one."""
        topics = None
        if partitions is not None:
            topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))
                for name, indexes in partitions.items()
            ]
        message = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        response = self.send(message, 9, require_stable=require_stable).response
        assert response.error_code == error_codes.NONE
        return {
            (topic.name, each.partition_index): -each.error_code or each.committed_offset
            for topic in response.topics
            for each in topic.partitions
        }

    def delete_offsets(self, partitions: Mapping[str, Sequence[int]], group_id: str = "g") -> Any:
        message = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
                )
                for name, indexes in partitions.items()
            ],
        )
        return self.send(message, 0).response

    def delete(self, group_id: str = "g") -> int:
        return self.delete_ticket(group_id).error

    def delete_ticket(self, group_id: str = "g") -> Ticket:
        return self.send(DeleteGroup(group_id), 2)

    def describe(self, group_id: str = "g", version: int = 6) -> Any:
        return self.send(DescribeGroup(group_id), version).response

    def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> dict[str, tuple[str, str, str]]:
        listed = self.send(ListGroups(states, types), 5).response
        return {each.group_id: (each.group_type, each.group_state, each.protocol_type) for each in listed}

    def expire(self) -> None:
        """Look for what expires, to the end."""
        self.submit(ExpireOffsets(self.now_ms))
        self.finish_sweeps()

    def delete_partitions(self, partitions: dict[str, Sequence[int]]) -> None:
        self.submit(self.deleted(partitions))
        self.finish_sweeps()

    def finish_sweeps(self) -> None:
        while self.coordinator.shard.sweeps.waiting:
            self.submit(GroupTimersDue(self.now_ms))

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        producer = ProducerEpoch(producer_id, 0)
        self.log.append(Entry(None, producer, commit))
        self.journal.mark(producer, len(self.log) - 1, commit=commit)
        self.commit_log()

    def stable_group(self, size: int, **options: Any) -> list[str]:
        """A group of this many members, the leader first, in its first generation."""
        members = [self.new_member(**options) for _ in range(size)]
        while not members[0][1].is_answered:
            self.advance(self.settings.initial_rebalance_delay_ms)
        generation_id = members[0][1].response.generation_id
        leader_id = members[0][1].response.leader
        ids = sorted((member_id for member_id, _ in members), key=lambda each: each != leader_id)
        group_id = options.get("group_id", "g")
        for member_id in reversed(ids):
            self.sync(member_id, generation_id, {each: each.encode() for each in ids}, group_id=group_id)
        assert self.describe(group_id).group_state == "Stable"
        return ids


def as_messages(record: GroupRecord | CommitRecord) -> GroupRecord:
    """A record as key and value, which have the same bytes."""
    if isinstance(record, GroupRecord):
        return record
    messages = record.messages()
    assert record.encoded() == messages.encoded()
    return messages


def reread(record: GroupRecord) -> GroupRecord:
    """A record from its bytes."""
    decoded = decode(*record.encoded())
    assert decoded is not None
    return decoded


def _raise(failed: DecisionFailed) -> None:
    raise failed from failed.__cause__


MakeWorld = Callable[..., GroupWorld]
