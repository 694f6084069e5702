"""The group coordinator, as stories play it: one partition of ``__consumer_offsets``. Records are committed at once.

Each kind of group has stories of its own, which add the requests of its members.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_stories import CoordinatorStory, StoryTicket
from group_world import GroupWorld
from rendering import Input, Play, Rendering, title

from kpybroker.machines.groups.classic.classic_group import ClassicGroup
from kpybroker.machines.groups.events import DeleteGroup, GroupRequest, GroupTimersDue
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.metadata.topic import Partition, Topic
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

LEFT_OUT = (
    "throttle_time_ms", "client_host", "current_state_timestamp", "authorized_operations", "heartbeat_interval_ms",
    "metadata_hash", "assignment_timestamp", "last_assignment_configs", "endpoint_information_epoch",
)  # fmt: skip
CODES: dict[tuple[str, str], Mapping[int, str]] = {
    ("ConsumerGroupCurrentMemberAssignmentValue", "state"): {
        0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS",
    },
    ("ShareGroupCurrentMemberAssignmentValue", "state"): {0: "STABLE"},
    ("StreamsGroupCurrentMemberAssignmentValue", "state"): {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"},
    ("Status", "status_code"): {
        0: "STALE_TOPOLOGY", 1: "MISSING_SOURCE_TOPICS", 2: "INCORRECTLY_PARTITIONED_TOPICS",
        3: "MISSING_INTERNAL_TOPICS", 4: "SHUTDOWN_APPLICATION", 5: "ASSIGNMENT_DELAYED",
    },
}  # fmt: skip
"""The states of members and the statuses of streams groups, by Kafka's names."""
TURNS = 100
"""More decisions on timers that are due together than a story has."""


class GroupRendering(Rendering):
    """Partitions of a topic and tasks of a subtopology are one word: ``t:0+1``; with the epochs of their assignment
    ``t:0@2+1@3``."""

    def word(self, value: Any) -> str | None:
        owner = next((name for name in ("topic_id", "subtopology_id") if hasattr(value, name)), None)
        if owner is None or any(not isinstance(index, int) for index in getattr(value, "partitions", [None])):
            return None
        epochs = getattr(value, "assignment_epochs", None) or [None] * len(value.partitions)
        numbers = [
            f"{index}" if epoch is None else f"{index}@{epoch}"
            for index, epoch in zip(value.partitions, epochs, strict=True)
        ]
        return f"{self.names.render(getattr(value, owner)).removeprefix('id-of-')}:{'+'.join(numbers)}"


class GroupStory(CoordinatorStory):
    """A coordinator whose clients send all requests in their newest versions."""

    def __init__(self) -> None:
        super().__init__(GroupRendering(LEFT_OUT))
        self.rendering.codes |= CODES
        self.world = GroupWorld()
        self.world.now_ms = 0
        self.world.restart()
        self.changes.lines(self.states())

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "settings": self.set,
            "topics": self.set_topics,
            "commit": self.commit,
            "fetch": self.fetch,
            "delete": self.delete,
            "timers": self.timers,
            "restart": self.restart,
        }

    # Inputs.

    def set(self, given: Input) -> list[str]:
        values = {name: given.number(name, 0) for name in list(given.fields)}
        self.world.settings = self.world.settings._replace(**values)
        return []

    def set_topics(self, given: Input) -> list[str]:
        """``t=2 u=1``: from now on there are these topics, with 2 and 1 partitions."""
        counts = {name: given.number(name, 0) for name in list(given.fields)}
        is_created = not counts.keys() <= self.world.topics.by_name.keys()
        self.world.set_topics(is_created, *(topic_of(name, count) for name, count in counts.items()))
        for name in counts:
            self.rendering.names.give(id_of(name), f"id-of-{name}")
        return []

    def commit(self, given: Input) -> list[str]:
        member = given.text("member")
        partition = OffsetCommitRequestPartition(
            partition_index=given.number("partition", 0),
            committed_offset=given.number("offset", 0),
            committed_metadata=given.text("metadata") or None,
        )
        message = OffsetCommitRequest(
            group_id=given.text("group", "g"),
            generation_id_or_member_epoch=given.number("epoch", given.number("generation_id", -1)),
            member_id=self.member_id(member),
            topics=[OffsetCommitRequestTopic(name=given.text("topic", "t"), partitions=[partition])],
        )
        return self.ask(given, message, 9, member or "admin")

    def fetch(self, given: Input) -> list[str]:
        topic = OffsetFetchRequestTopics(
            name=given.text("topic", "t"), partition_indexes=[given.number("partition", 0)]
        )
        return self.ask(given, OffsetFetchRequestGroup(group_id=given.text("group", "g"), topics=[topic]), 9, "admin")

    def delete(self, given: Input) -> list[str]:
        return self.ask(given, DeleteGroup(given.text("group", "g")), 2, "admin")

    def timers(self, given: Input) -> list[str]:
        """Everything that is due now."""
        self.world.now_ms = given.now_ms
        for _ in range(TURNS):
            self.world.submit(GroupTimersDue(given.now_ms))
            deadline_ms = self.world.coordinator.next_deadline_ms()
            if deadline_ms is None or deadline_ms > given.now_ms:
                break
        return self.outcome()

    def restart(self, given: Input) -> list[str]:
        """Another coordinator reads the log."""
        self.world.now_ms = given.now_ms
        self.world.restart()
        return self.outcome()

    # What comes out.

    def member_id(self, name: str) -> str:
        return str(self.rendering.names.value_of(name))

    def ask(self, given: Input, message: Any, version: int, sender: str, client_id: str = "") -> list[str]:
        """Send a request."""
        self.world.now_ms = given.now_ms
        ticket = StoryTicket(self, f"{title(message)} to {sender}")
        request = GroupRequest(ticket, message, version, given.now_ms, client_id, "/127.0.0.1")
        self.world.submit(request, ticket, message.group_id)  # type: ignore[arg-type]
        return self.outcome()

    def records(self) -> Sequence[GroupRecord]:
        return self.world.records

    def record_lines(self, record: GroupRecord) -> list[str]:
        kind = type(record.key).__name__.removesuffix("Key")
        if record.value is None:
            return self.rendering.lines(f"+ {kind} tombstone", record.key)
        return self.rendering.lines(f"+ {kind}", record.key, record.value)

    def states(self) -> dict[str, str]:
        states = {}
        for group_id, group in self.world.groups.items():
            states[group_id] = f"group {group_id}: {state_of(group.membership)}"
        deadline_ms = self.world.coordinator.next_deadline_ms()
        states["*"] = "no timers" if deadline_ms is None else f"timers at {deadline_ms} ms"
        return states


def state_of(membership: Any) -> str:
    """The state of a group, and its epochs if it has some."""
    if isinstance(membership, ClassicGroup):
        return str(membership.state.value)
    if not hasattr(membership, "epoch"):
        return "not in memory"
    return f"{membership.state} epoch={membership.epoch} assignment_epoch={membership.assignment_epoch}"


def id_of(name: str) -> bytes:
    """The id of a topic."""
    return name.encode().ljust(16, b"-")


def topic_of(name: str, partitions: int) -> Topic:
    """A topic on one broker."""
    made = Topic(name, id_of(name))
    made.partitions = {index: Partition((0,), (0,), 0) for index in range(partitions)}
    return made


def partitions_of(text: str) -> list[tuple[str, list[int]]]:
    """The topics, or subtopologies, of ``t:0+1,u:2``, with their partitions."""
    pairs = [word.partition(":") for word in text.split(",") if word]
    return [(name, [int(index) for index in indexes.split("+") if index]) for name, _, indexes in pairs]
