"""Share groups (KIP-932), as stories play them: members that share partitions, and the states of these partitions.

The records that a member gets are the stories of `share_partition_stories`.
"""

from collections.abc import Mapping
from typing import Any

from group_stories import GroupStory, id_of, partitions_of
from rendering import Input, Play

from kpybroker.machines.groups.events import DeleteGroup
from kpybroker.machines.groups.share.events import DeleteStates, DescribeShareGroup, Initialize, StatesInitialized
from kpywire import error_codes
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

JOINING, LEAVING = 0, -1


class ShareGroupStory(GroupStory):
    """The coordinator and the heartbeats of its members. The share coordinator answers where a story says so."""

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            **super().inputs,
            "join": self.join,
            "heartbeat": self.heartbeat,
            "leave": self.leave,
            "describe": self.describe,
            "states-initialized": self.states_initialized,
            "delete": self.delete,
        }

    def join(self, given: Input) -> list[str]:
        return self._beat(given, JOINING, given.texts("topics", "t"))

    def heartbeat(self, given: Input) -> list[str]:
        topics = given.texts("topics") if "topics" in given.fields else None
        return self._beat(given, given.number("epoch", JOINING), topics)

    def leave(self, given: Input) -> list[str]:
        return self._beat(given, LEAVING, None)

    def _beat(self, given: Input, epoch: int, topics: list[str] | None) -> list[str]:
        member = given.text("member")
        message = ShareGroupHeartbeatRequest(
            group_id=given.text("group", "g"), member_id=member, member_epoch=epoch, subscribed_topic_names=topics
        )
        return self.ask(given, message, 1, member, f"client-{member}")

    def states_initialized(self, given: Input) -> list[str]:
        """The share coordinator has the states of ``partitions``, or answers with ``error``."""
        partitions = {id_of(name): indexes for name, indexes in partitions_of(given.text("partitions"))}
        error = getattr(error_codes, given.text("error", "NONE"))
        return self.ask(given, StatesInitialized(given.text("group", "g"), partitions, error), 0, "itself")

    def describe(self, given: Input) -> list[str]:
        return self.ask(given, DescribeShareGroup(given.text("group", "g")), 1, "admin")

    def delete(self, given: Input) -> list[str]:
        """``states_deleted=true`` follows when the share coordinator has deleted what the first answer lists."""
        is_done = given.flag("states_deleted")
        return self.ask(given, DeleteGroup(given.text("group", "g"), states_deleted=is_done), 2, "admin")

    def reply_lines(self, head: str, message: Any) -> list[str]:
        """An answer may wait for the share coordinator: then the request to it comes first."""
        if isinstance(message, int):
            return [f"= {head}: error_code={error_codes.name(message)}"]
        lines = []
        if isinstance(message, Initialize):
            if message.start_offsets:
                states = [
                    f"{self._named(topic_id)}:{'+'.join(map(str, offsets))}"
                    for topic_id, offsets in message.start_offsets.items()
                ]
                epoch = f"state_epoch={message.state_epoch}"
                lines.append(
                    f"= InitializeShareGroupState to the share coordinator: {epoch} topics={states_text(states)}"
                )
            message = message.response
        elif isinstance(message, DeleteStates):
            if message.partitions:
                states = [
                    f"{self._named(topic_id)}:{'+'.join(map(str, each))}"
                    for topic_id, each in message.partitions.items()
                ]
                lines.append(f"= DeleteShareGroupState to the share coordinator: topics={states_text(states)}")
            message = message.response
        return lines + super().reply_lines(head, message)

    def _named(self, topic_id: bytes) -> str:
        return self.rendering.names.render(topic_id).removeprefix("id-of-")


def states_text(states: list[str]) -> str:
    """Share partitions as a list of words."""
    return f"[{', '.join(states)}]"
