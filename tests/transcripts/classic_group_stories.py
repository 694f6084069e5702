"""Classic groups, as stories play them: members that join, sync, heartbeat and leave."""

from collections.abc import Mapping
from typing import Any

from group_stories import GroupStory
from rendering import Input, Play

from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpywire.codec import encode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

UUID_CHARS = 36


class ClassicGroupStory(GroupStory):
    """The coordinator and the requests of the classic protocol."""

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            **super().inputs,
            "join": self.join,
            "sync": self.sync,
            "heartbeat": self.heartbeat,
            "leave": self.leave,
            "describe": self.describe,
        }

    def join(self, given: Input) -> list[str]:
        member, client = given.text("member"), given.text("client")
        topics = given.texts("topics", "t")
        subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=topics), 0)
        self.rendering.names.give(subscription, f"topics:{'+'.join(topics)}")
        message = JoinGroupRequest(
            group_id=given.text("group", "g"),
            session_timeout_ms=given.number("session_timeout_ms", 10_000),
            rebalance_timeout_ms=given.number("rebalance_timeout_ms", 60_000),
            member_id=self.member_id(member),
            group_instance_id=given.text("instance") or None,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription) for name in given.texts("protocols", "range")
            ],
        )
        return self.ask(given, message, 9, member or client, client or member.rpartition("-")[0])

    def sync(self, given: Input) -> list[str]:
        member = given.text("member")
        assignments = [each.split(":") for each in given.texts("assignments")]
        message = SyncGroupRequest(
            group_id=given.text("group", "g"),
            generation_id=given.number("generation_id", -1),
            member_id=self.member_id(member),
            group_instance_id=given.text("instance") or None,
            assignments=[
                SyncGroupRequestAssignment(member_id=self.member_id(name), assignment=assignment.encode())
                for name, assignment in assignments
            ],
        )
        return self.ask(given, message, 5, member)

    def heartbeat(self, given: Input) -> list[str]:
        member = given.text("member")
        message = HeartbeatRequest(
            group_id=given.text("group", "g"),
            generation_id=given.number("generation_id", -1),
            member_id=self.member_id(member),
            group_instance_id=given.text("instance") or None,
        )
        return self.ask(given, message, 4, member)

    def leave(self, given: Input) -> list[str]:
        member, instance = given.text("member"), given.text("instance")
        identity = MemberIdentity(member_id=self.member_id(member), group_instance_id=instance or None)
        message = LeaveGroupRequest(group_id=given.text("group", "g"), members=[identity])
        return self.ask(given, message, 5, member or instance)

    def describe(self, given: Input) -> list[str]:
        return self.ask(given, DescribeGroup(given.text("group", "g")), 6, "admin")

    def name_what_is_new(self, message: Any) -> None:
        """The first member id that client ``a`` gets is ``a-1``."""
        member_id = getattr(message, "member_id", "")
        client = member_id[: -UUID_CHARS - 1]
        if client and not self.rendering.names.knows(member_id):
            number = 1
            while self.member_id(f"{client}-{number}") != f"{client}-{number}":
                number += 1
            self.rendering.names.give(member_id, f"{client}-{number}")
