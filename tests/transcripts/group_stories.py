"""The coordinator of classic groups, as stories play it: one partition of ``__consumer_offsets``, and its log."""

from collections.abc import Mapping
from random import Random
from typing import Any

from rendering import Changes, Input, Play, Rendering, title

from kpybroker.machines.coordination.events import Loaded
from kpybroker.machines.groups.classic.classic_group import ClassicGroup
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.events import DeleteGroup, DescribeGroup, GroupRequest, TimersDue
from kpybroker.machines.groups.offsets.commit_record import CommitRecord
from kpybroker.machines.groups.record import Record
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.metadata.topic_view import NO_TOPICS
from kpywire.codec import encode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

LEFT_OUT = ("throttle_time_ms", "client_host", "current_state_timestamp", "authorized_operations")
UUID_CHARS = 36


class GroupStory:
    """A coordinator whose records are committed at once. A client sends all requests in their newest versions."""

    def __init__(self) -> None:
        self.rendering = Rendering(LEFT_OUT)
        self.changes = Changes()
        self.settings = GroupSettings()
        self.log: list[Record] = []
        self.joined: dict[str, Input] = {}
        self.coordinator = GroupCoordinator(lambda: self.settings, lambda: NO_TOPICS, Random(4))
        self._submit(Loaded(0), 0)

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "settings": self.set,
            "join": self.join,
            "sync": self.sync,
            "heartbeat": self.heartbeat,
            "leave": self.leave,
            "commit": self.commit,
            "fetch": self.fetch,
            "describe": self.describe,
            "delete": self.delete,
            "timers": self.timers,
            "restart": self.restart,
        }

    # Inputs.

    def set(self, given: Input) -> list[str]:
        self.settings = self.settings._replace(**{name: given.number(name, 0) for name in list(given.fields)})
        return []

    def join(self, given: Input) -> list[str]:
        member, client = given.text("member"), given.text("client")
        topics = given.texts("topics", "t")
        subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=topics), 0)
        self.rendering.names.give(subscription, f"topics:{'+'.join(topics)}")
        message = JoinGroupRequest(
            group_id=given.text("group", "g"),
            session_timeout_ms=given.number("session_timeout_ms", 10_000),
            rebalance_timeout_ms=given.number("rebalance_timeout_ms", 60_000),
            member_id=self._member_id(member),
            group_instance_id=given.text("instance") or None,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription) for name in given.texts("protocols", "range")
            ],
        )
        return self._ask(given, message, 9, member or client, client or member.rpartition("-")[0])

    def sync(self, given: Input) -> list[str]:
        member = given.text("member")
        assignments = [each.split(":") for each in given.texts("assignments")]
        message = SyncGroupRequest(
            group_id=given.text("group", "g"),
            generation_id=given.number("generation_id", -1),
            member_id=self._member_id(member),
            group_instance_id=given.text("instance") or None,
            assignments=[
                SyncGroupRequestAssignment(member_id=self._member_id(name), assignment=assignment.encode())
                for name, assignment in assignments
            ],
        )
        return self._ask(given, message, 5, member)

    def heartbeat(self, given: Input) -> list[str]:
        member = given.text("member")
        message = HeartbeatRequest(
            group_id=given.text("group", "g"),
            generation_id=given.number("generation_id", -1),
            member_id=self._member_id(member),
            group_instance_id=given.text("instance") or None,
        )
        return self._ask(given, message, 4, member)

    def leave(self, given: Input) -> list[str]:
        member, instance = given.text("member"), given.text("instance")
        identity = MemberIdentity(member_id=self._member_id(member), group_instance_id=instance or None)
        message = LeaveGroupRequest(group_id=given.text("group", "g"), members=[identity])
        return self._ask(given, message, 5, member or instance)

    def commit(self, given: Input) -> list[str]:
        member = given.text("member")
        partition = OffsetCommitRequestPartition(
            partition_index=given.number("partition", 0),
            committed_offset=given.number("offset", 0),
            committed_metadata=given.text("metadata") or None,
        )
        message = OffsetCommitRequest(
            group_id=given.text("group", "g"),
            generation_id_or_member_epoch=given.number("generation_id", -1),
            member_id=self._member_id(member),
            topics=[OffsetCommitRequestTopic(name=given.text("topic", "t"), partitions=[partition])],
        )
        return self._ask(given, message, 9, member or "admin")

    def fetch(self, given: Input) -> list[str]:
        topic = OffsetFetchRequestTopics(
            name=given.text("topic", "t"), partition_indexes=[given.number("partition", 0)]
        )
        return self._ask(given, OffsetFetchRequestGroup(group_id=given.text("group", "g"), topics=[topic]), 9, "admin")

    def describe(self, given: Input) -> list[str]:
        return self._ask(given, DescribeGroup(given.text("group", "g")), 6, "admin")

    def delete(self, given: Input) -> list[str]:
        return self._ask(given, DeleteGroup(given.text("group", "g")), 2, "admin")

    def timers(self, given: Input) -> list[str]:
        return self._submit(TimersDue(given.now_ms), given.now_ms)

    def restart(self, given: Input) -> list[str]:
        """Another coordinator reads the log."""
        self.coordinator = GroupCoordinator(lambda: self.settings, lambda: NO_TOPICS, Random(5))
        for offset, record in enumerate(self.log):
            self.coordinator.apply(record, offset, None)
        return self._submit(Loaded(given.now_ms), given.now_ms)

    # What comes out.

    def _member_id(self, name: str) -> str:
        return str(self.rendering.names.value_of(name))

    def _ask(self, given: Input, message: Any, version: int, sender: str, client_id: str = "") -> list[str]:
        request = GroupRequest(f"{title(message)} to {sender}", message, version, given.now_ms, client_id, "/127.0.0.1")
        return self._submit(request, given.now_ms)

    def _submit(self, event: Any, now_ms: int) -> list[str]:
        effects = self.coordinator.decide(event, now_ms)
        for _, response in effects.replies:
            self._name_member(getattr(response, "member_id", ""))
        lines = []
        for record in effects.records:
            self.coordinator.apply(record, len(self.log), None)
            self.log.append(record)
            lines += self._record_lines(record)
        for ticket, response in effects.replies:
            lines += self.rendering.lines(f"= {ticket}:", response)
        return lines + self.changes.lines(self._states())

    def _name_member(self, member_id: str) -> None:
        client = member_id[: -UUID_CHARS - 1]
        if client and not self.rendering.names.knows(member_id):
            number = 1
            while self._member_id(f"{client}-{number}") != f"{client}-{number}":
                number += 1
            self.rendering.names.give(member_id, f"{client}-{number}")

    def _record_lines(self, record: Record | CommitRecord) -> list[str]:
        if isinstance(record, CommitRecord):
            record = record.messages()
        kind = type(record.key).__name__.removesuffix("Key")
        if record.value is None:
            return self.rendering.lines(f"+ {kind} tombstone", record.key)
        return self.rendering.lines(f"+ {kind}", record.key, record.value)

    def _states(self) -> dict[str, str]:
        states = {}
        for group_id, group in self.coordinator.shard.groups.items():
            membership = group.membership
            state = membership.state.value if isinstance(membership, ClassicGroup) else "not in memory"
            states[group_id] = f"group {group_id}: {state}"
        deadline_ms = self.coordinator.next_deadline_ms()
        states["*"] = "no timers" if deadline_ms is None else f"timers at {deadline_ms} ms"
        return states
