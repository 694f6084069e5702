"""Groups of the consumer protocol (KIP-848): the time until they are even, and until a member that left is replaced.

Members do what Java's do: they send a heartbeat when the last answer says so, and at once when they have given up or
taken partitions.
"""

import heapq
import time
import uuid
from collections.abc import Sequence

from benchmarks.figures import Figure
from benchmarks.raw import heartbeats
from benchmarks.raw.asking import Conversation
from benchmarks.raw.heartbeats import JOINING, LEAVING
from benchmarks.rows.grouping import await_coordinator
from benchmarks.rows.row import Effort, RoundError, Row
from benchmarks.sides import Side

SETTLE = Figure("even after", "s", False)
LEAVE = Figure("even after a leave", "s", False)
MEMBERS = 20
PARTITIONS = 100
WAIT_S = 60.0
REST_S = 6.0
"""So long a group rests before a member leaves: longer than kpybroker keeps it at quick heartbeats."""


class Member:
    """A member on a connection of its own, at work as Java's consumer is."""

    def __init__(self, side: Side, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self.id = str(uuid.uuid4())
        self.conversation = Conversation(side.address)
        self.conversation.ask(heartbeats.java_client())
        self.epoch = JOINING
        self.owned: dict[bytes, list[int]] = {}
        self.is_changed = True
        """Whether the next heartbeat says what it owns."""

    @property
    def spots(self) -> set[tuple[bytes, int]]:
        """Its partitions."""
        return {(topic_id, index) for topic_id, indexes in self.owned.items() for index in indexes}

    def beat(self) -> float:
        """Send a heartbeat; the time until the next one in seconds. Raises RoundError, OSError."""
        joins = self.epoch == JOINING
        request = heartbeats.consumer_heartbeat(
            self.group, self.id, self.epoch, [self.topic] if joins else None, self.owned if self.is_changed else None
        )
        answer = heartbeats.beaten(self.conversation.ask(request))
        if answer.error_code:
            raise RoundError(f"a heartbeat is answered with error code {answer.error_code}")
        self.epoch = answer.epoch
        self.is_changed = answer.assigned is not None and answer.assigned != self.owned
        if answer.assigned is not None:
            self.owned = answer.assigned
        return 0.0 if self.is_changed else answer.interval_ms / 1000

    def leave(self) -> None:
        self.conversation.ask(heartbeats.consumer_heartbeat(self.group, self.id, LEAVING))
        self.close()

    def close(self) -> None:
        self.conversation.__exit__(None, None, None)


def beat_for(members: Sequence[Member], due: list[tuple[float, int]], until_s: float, partitions: int) -> float | None:
    """Let members send heartbeats when they are due, until the group is even; the time then, None if that is not
    reached. ``due`` has the time of each member's next heartbeat, and its number. With no ``partitions`` it goes on."""
    while due and due[0][0] < until_s:
        at_s, number = heapq.heappop(due)
        time.sleep(max(at_s - time.perf_counter(), 0.0))
        pause_s = members[number].beat()
        heapq.heappush(due, (time.perf_counter() + pause_s, number))
        if partitions and not members[number].is_changed and is_even(members, partitions):
            return time.perf_counter()
    return None


def is_even(members: Sequence[Member], partitions: int) -> bool:
    """Whether each partition has one member, and no member has two more than another."""
    counts = [len(member.spots) for member in members]
    owned = set[tuple[bytes, int]]().union(*(member.spots for member in members))
    return len(owned) == sum(counts) == partitions and max(counts) - min(counts) <= 1


class Settle(Row):
    """Members join together, and rest when they are even; then one leaves."""

    key = f"settle-{MEMBERS}"
    title = f"{MEMBERS} members of the consumer protocol share {PARTITIONS} partitions"
    figures = (SETTLE, LEAVE)
    expected_s = 150.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        self.topics[side] = side.create_topic("settle", PARTITIONS)

    def play(self, side: Side) -> dict[str, float]:
        group = f"{self.key}-{uuid.uuid4().hex[:8]}"
        await_coordinator(side.address, group)
        members = [Member(side, group, self.topics[side]) for _ in range(MEMBERS)]
        try:
            began = time.perf_counter()
            due = [(began, number) for number in range(MEMBERS)]
            settled = beat_for(members, due, began + WAIT_S, PARTITIONS)
            if settled is None:
                raise RoundError(f"the group is not even after {WAIT_S:.0f} s")
            beat_for(members, due, time.perf_counter() + REST_S, 0)
            members.pop().leave()
            left = time.perf_counter()
            due = [each for each in due if each[1] < len(members)]
            heapq.heapify(due)
            again = beat_for(members, due, left + WAIT_S, PARTITIONS)
            if again is None:
                raise RoundError(f"the group is not even {WAIT_S:.0f} s after a member left")
            return {SETTLE.name: settled - began, LEAVE.name: again - left}
        finally:
            for member in members:
                member.leave()

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))
