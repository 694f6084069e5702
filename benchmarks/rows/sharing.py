"""Share groups (KIP-932): the time to the first record of a fresh group, and records that are read and accepted."""

import selectors
import time
import uuid
from collections.abc import Sequence

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.raw import heartbeats, sharing
from benchmarks.raw.asking import Conversation
from benchmarks.raw.heartbeats import JOINING, LEAVING
from benchmarks.rows.grouping import await_coordinator
from benchmarks.rows.producing import RATE
from benchmarks.rows.row import BY_CONNECTIONS, Effort, Meter, Point, RoundError, Row
from benchmarks.rows.shape import Shape
from benchmarks.sides import Side

FIRST = Figure("first record after", "s", False)
CPU_PER_RECORD = Figure("broker CPU", "µs/record", False)
RECORD_BYTES = 100
MAX_RECORDS = 500
MAX_WAIT_MS = 500
WAIT_S = 60.0
EMPTY_S = 2.0
"""After this time without records everything is read."""


class Member:
    """A member on a connection of its own, at work as Java's share consumer is."""

    def __init__(self, side: Side, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self.id = str(uuid.uuid4())
        self.conversation = Conversation(side.address)
        self.beating = Conversation(side.address)
        for each in (self.conversation, self.beating):
            each.ask(heartbeats.java_client())
        self.epoch = JOINING
        self.due_s = 0.0
        self.topic_id = b""
        self.assigned: set[int] = set()
        self.session_epoch = 0
        self.in_session: set[int] = set()
        self.accepted: dict[int, list[tuple[int, int]]] = {}

    def keep_up(self) -> None:
        """Send a heartbeat if it is due. Raises RoundError, OSError."""
        if time.perf_counter() < self.due_s:
            return
        topics = [self.topic] if self.epoch == JOINING else None
        answer = heartbeats.beaten(
            self.beating.ask(heartbeats.share_heartbeat(self.group, self.id, self.epoch, topics))
        )
        if answer.error_code:
            raise RoundError(f"a heartbeat is answered with error code {answer.error_code}")
        self.epoch, self.due_s = answer.epoch, time.perf_counter() + answer.interval_ms / 1000
        for topic_id, indexes in (answer.assigned or {}).items():
            self.topic_id, self.assigned = topic_id, set(indexes)

    def ask(self, max_wait_ms: int = MAX_WAIT_MS) -> None:
        """Accept what was read, and ask for more."""
        asked = {index: self.accepted.get(index, []) for index in (self.assigned - self.in_session) | {*self.accepted}}
        self.in_session |= self.assigned
        self.conversation.send(
            sharing.share_fetch(
                self.group,
                self.id,
                self.session_epoch,
                self.topic_id,
                asked,
                max_records=MAX_RECORDS,
                max_wait_ms=max_wait_ms,
            )
        )

    def take(self) -> int:
        """Take an answer; the number of its records. Raises RoundError, OSError."""
        found = sharing.shared(self.conversation.answer())
        if found.error_code or found.failures:
            raise RoundError(f"a ShareFetch is answered with error code {found.error_code}, {found.failures}")
        self.session_epoch += 1
        self.accepted = {index: ranges for index, ranges in found.acquired.items() if ranges}
        return found.records

    def leave(self) -> None:
        self.beating.ask(heartbeats.share_heartbeat(self.group, self.id, LEAVING))
        for each in (self.conversation, self.beating):
            each.__exit__(None, None, None)


def fresh_group(side: Side) -> str:
    """A share group that begins with the first record of its topics, and whose coordinator is there."""
    group = f"share-{uuid.uuid4().hex[:8]}"
    with Conversation(side.address) as conversation:
        code = sharing.configs_error(
            conversation.ask(sharing.group_configs(group, {"share.auto.offset.reset": "earliest"}))
        )
    if code:
        raise RoundError(f"the configs of a group are refused with error code {code}")
    await_coordinator(side.address, group)
    return group


def joined(side: Side, group: str, topic: str, count: int) -> list[Member]:
    """Members that all have partitions. Raises RoundError, OSError."""
    members = [Member(side, group, topic) for _ in range(count)]
    deadline = time.perf_counter() + WAIT_S
    while not all(member.assigned for member in members):
        for member in members:
            member.keep_up()
        if time.perf_counter() > deadline:
            raise RoundError(f"members of a share group have nothing to read after {WAIT_S:.0f} s")
        time.sleep(0.002)
    return members


class FirstShareRecord(Row):
    """A group that was never there: from its first heartbeat to its first record."""

    key = "share-first"
    title = "first record of a fresh share group"
    figures = (FIRST,)
    expected_s = 60.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("share-first", 1)
        running.confluent_produce(side.bootstrap_servers, topic, 1, Shape(record_bytes=RECORD_BYTES, partitions=1))

    def play(self, side: Side) -> dict[str, float]:
        group = fresh_group(side)
        began = time.perf_counter()
        (member,) = joined(side, group, self.topics[side], 1)
        records = 0
        while not records and time.perf_counter() < began + WAIT_S:
            member.ask()
            records = member.take()
            member.keep_up()
        took_s = time.perf_counter() - began
        member.leave()
        if not records:
            raise RoundError(f"no record after {WAIT_S:.0f} s")
        return {FIRST.name: took_s}

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


class ShareRead(Row):
    """Members of a fresh group read a topic together: each accepts what it read with its next request."""

    figures = (RATE, CPU_PER_RECORD)

    def __init__(self, effort: Effort, clients: int) -> None:
        super().__init__(effort)
        self.clients = clients
        words = "one client" if clients == 1 else f"{clients} clients"
        self.key = f"share-read-{clients}"
        self.title = f"share group, {words} that read and accept"
        self.points = (Point(BY_CONNECTIONS, "share group", clients, RATE.name),)
        self.topics: dict[Side, str] = {}

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("share-read", self.effort.partitions)
        shape = Shape(record_bytes=RECORD_BYTES, partitions=self.effort.partitions)
        running.confluent_produce(side.bootstrap_servers, topic, self.effort.records(RECORD_BYTES), shape)

    def play(self, side: Side) -> dict[str, float]:
        members = joined(side, fresh_group(side), self.topics[side], self.clients)
        meter = Meter(side)
        began = last = time.perf_counter()
        records, until_s = 0, began + self.effort.load_s
        with selectors.DefaultSelector() as selector:
            for member in members:
                selector.register(member.conversation, selectors.EVENT_READ, member)
                member.ask()
            while time.perf_counter() < min(until_s, last + EMPTY_S):
                for key, _ in selector.select(MAX_WAIT_MS / 1000):
                    count = key.data.take()
                    if count:
                        records, last = records + count, time.perf_counter()
                    key.data.keep_up()
                    key.data.ask()
        took_s = last - began
        _, cpu_s = meter.end()
        end(members)
        if not records:
            raise RoundError("nothing was read")
        return {RATE.name: records / took_s, CPU_PER_RECORD.name: cpu_s / records * 1e6}

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))


def end(members: Sequence[Member]) -> None:
    """Take the last answers, and leave."""
    for member in members:
        member.take()
        member.leave()


def share_rows(effort: Effort) -> list[Row]:
    return [FirstShareRecord(effort), ShareRead(effort, 1), ShareRead(effort, 4)]
