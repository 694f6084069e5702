"""Groups that rebalance, and committed offsets, by the raw protocol."""

import selectors
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.figures import Figure
from benchmarks.raw import grouping, load
from benchmarks.raw.asking import Address, Conversation
from benchmarks.raw.load import Load
from benchmarks.rows.requesting import CPU_PER_REQUEST, P50, P99, P999, REQUEST_RATE, percentiles
from benchmarks.rows.row import BY_CONNECTIONS, BY_MEMBERS, Effort, Meter, Point, RoundError, Row
from benchmarks.sides import Side

REBALANCE = Figure("rebalance, p50", "ms", False)
SLOWEST = Figure("rebalance, slowest", "ms", False)
REBALANCE_CPU = Figure("broker CPU", "µs/member", False)
ASSIGNMENT = bytes(60)
WAIT_S = 60.0
LOOK_EVERY_S = 0.05
QUIET_S = 0.5
READ_BYTES = 1 << 18
MEMBERS_PER_ROUND = 2000
"""A round goes on until this number of members have been through a rebalance, and for three of them at least."""


def await_coordinator(address: Address, group: str) -> None:
    """Until the group's coordinator is loaded. Raises RoundError."""
    deadline = time.monotonic() + WAIT_S
    with Conversation(address) as conversation:
        while grouping.error_of(conversation.ask(grouping.find_coordinator(group))):
            if time.monotonic() > deadline:
                raise RoundError(f"no coordinator of {group} after {WAIT_S:.0f} s")
            time.sleep(LOOK_EVERY_S)
        while grouping.error_of(conversation.ask(grouping.heartbeat(group, 1, "nobody"))) in (14, 15, 16):
            time.sleep(LOOK_EVERY_S)


class Member:
    """A connection, and what the group knows of its owner."""

    def __init__(self, address: Address) -> None:
        self.connection = socket.create_connection(address, WAIT_S)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.id = ""
        self.generation = -1
        self.received = b""

    def answer(self) -> bytes | None:
        """A whole answer, if it is there by now."""
        data = self.connection.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker closed a member's connection")
        self.received += data
        if len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4], "big"):
            return None
        whole, self.received = self.received[4:], b""
        return whole


class Group:
    """All members, asking the same at the same time, as they would if all their heartbeats fell together."""

    def __init__(self, address: Address, name: str, count: int) -> None:
        self.name = name
        self.selector = selectors.DefaultSelector()
        self.members = [Member(address) for _ in range(count)]
        for member in self.members:
            self.selector.register(member.connection, selectors.EVENT_READ, member)
        self.rebalances = 0

    def ask(self, members: Sequence[Member], request: Callable[[Member], bytes]) -> dict[Member, bytes]:
        """Sends to all, then takes all answers. Raises RoundError, OSError."""
        for member in members:
            member.connection.sendall(request(member))
        return self.take_all(members)

    def take_all(self, members: Sequence[Member]) -> dict[Member, bytes]:
        missing = set(members)
        answers = self.take(missing, WAIT_S)
        if missing:
            raise RoundError(f"{len(missing)} members of {len(self.members)} wait for {WAIT_S:.0f} s")
        return answers

    def take(self, missing: set[Member], quiet_s: float) -> dict[Member, bytes]:
        """Answers until all are there or none comes for so long; who has one is missing no more."""
        answers: dict[Member, bytes] = {}
        while missing and (ready := self.selector.select(quiet_s)):
            for key, _ in ready:
                member: Member = key.data
                answer = member.answer()
                if answer is not None:
                    answers[member] = answer
                    missing.discard(member)
        return answers

    def gather(self) -> None:
        """Everybody gets an id, joins and is assigned something."""
        for member, answer in self.ask(self.members, self.join_request).items():
            seen = grouping.joined(answer)
            if seen.error_code != grouping.MEMBER_ID_REQUIRED:
                raise RoundError(f"error code {seen.error_code} where a member id was due")
            member.id = seen.member_id
        self.sync(self.assemble())
        self.rebalance()

    def assemble(self) -> str:
        """Everybody joins one generation; its leader. The first is answered alone, and then the others await it."""
        asking, awaited = set(self.members), set[Member]()
        leader, deadline = "", time.monotonic() + WAIT_S
        while asking or awaited:
            for member in asking:
                member.connection.sendall(self.join_request(member))
            awaited |= asking
            leader = self.learned(self.take(awaited, QUIET_S)) or leader
            newest = max(member.generation for member in self.members)
            answered = set(self.members) - awaited
            asking = answered if awaited else {member for member in answered if member.generation < newest}
            if time.monotonic() > deadline:
                raise RoundError(f"{len(awaited)} members of {len(self.members)} have not joined for {WAIT_S:.0f} s")
        return leader

    def join_request(self, member: Member) -> bytes:
        return grouping.join_group(self.name, member.id, grouping.subscription("any", self.rebalances))

    def learned(self, answers: dict[Member, bytes]) -> str:
        """Takes over generations; the leader's id."""
        leader = ""
        for member, answer in answers.items():
            seen = grouping.joined(answer)
            if seen.error_code:
                raise RoundError(f"a member joins with error code {seen.error_code}")
            member.generation, leader = seen.generation, seen.leader
        return leader

    def sync(self, leader: str) -> None:
        assignments = {member.id: ASSIGNMENT for member in self.members}

        def request(member: Member) -> bytes:
            mine = assignments if member.id == leader else {}
            return grouping.sync_group(self.name, member.generation, member.id, mine)

        for answer in self.ask(self.members, request).values():
            if grouping.error_of(answer) or len(answer) < len(ASSIGNMENT):
                raise RoundError(f"a member syncs with error code {grouping.error_of(answer)}")

    def rebalance(self) -> float:
        """One member's subscription changes; seconds until everybody has heard of it, joined and been assigned."""
        first, others = self.members[0], self.members[1:]
        self.rebalances += 1
        began = time.perf_counter()
        first.connection.sendall(self.join_request(first))
        waiting = others
        while waiting:
            beats = self.ask(waiting, lambda member: grouping.heartbeat(self.name, member.generation, member.id))
            codes = {member: grouping.error_of(answer) for member, answer in beats.items() if member is not first}
            if set(codes.values()) - {0, grouping.REBALANCE_IN_PROGRESS}:
                raise RoundError(f"heartbeats are answered with {set(codes.values())}")
            waiting = [member for member, code in codes.items() if not code]
        for member in others:
            member.connection.sendall(self.join_request(member))
        leader = self.learned(self.take_all(self.members))
        if len({member.generation for member in self.members}) > 1:
            raise RoundError("members of one rebalance have different generations")
        self.sync(leader)
        return time.perf_counter() - began

    def close(self) -> None:
        self.selector.close()
        for member in self.members:
            member.connection.close()


class Rebalance(Row):
    """A group of members on connections of their own, one of which changes its subscription."""

    figures = (REBALANCE, SLOWEST, REBALANCE_CPU)

    def __init__(self, effort: Effort, members: int) -> None:
        super().__init__(effort)
        self.members = members
        self.key = f"rebalance-{members}"
        self.title = f"rebalance of a group of {members}"
        self.points = (Point(BY_MEMBERS, "rebalance", members, REBALANCE.name),)
        self.groups: dict[Side, Group] = {}

    def open(self, side: Side) -> None:
        name = f"{self.key}-{uuid.uuid4().hex[:8]}"
        await_coordinator(side.address, name)
        group = self.groups[side] = Group(side.address, name, self.members)
        group.gather()

    def play(self, side: Side) -> dict[str, float]:
        group = self.groups[side]
        times = max(3, MEMBERS_PER_ROUND // 10 // (self.members + 9))
        meter = Meter(side)
        took_s = [group.rebalance() for _ in range(times)]
        _, cpu_s = meter.end()
        return {
            REBALANCE.name: median(took_s) * 1000,
            SLOWEST.name: max(took_s) * 1000,
            REBALANCE_CPU.name: cpu_s / times / self.members * 1e6,
        }

    def close(self, side: Side) -> None:
        if side in self.groups:
            self.groups.pop(side).close()


class Commit(Row):
    """OffsetCommit of one partition, each connection with a group of its own and waiting for its answer."""

    def __init__(self, effort: Effort, connections: int) -> None:
        super().__init__(effort)
        self.connections = connections
        words = "one connection" if connections == 1 else f"{connections} connections"
        self.key = f"commit-{connections}"
        self.title = f"OffsetCommit from {words}"
        self.figures = (REQUEST_RATE, CPU_PER_REQUEST, P50, P99, P999)
        self.points = (Point(BY_CONNECTIONS, "OffsetCommit", connections, REQUEST_RATE.name),)
        self.topics: dict[Side, str] = {}
        self.last: dict[Side, Load] = {}

    def open(self, side: Side) -> None:
        self.topics[side] = side.create_topic("commit", 1)
        for number in range(self.connections):
            await_coordinator(side.address, self.group(number))

    def group(self, number: int) -> str:
        return f"{self.key}-{number}"

    def play(self, side: Side) -> dict[str, float]:
        commits = [
            grouping.offset_commit(self.group(number), self.topics[side], 0, 7) for number in range(self.connections)
        ]
        meter = Meter(side)
        seen = self.last[side] = load.requests(
            side.address, commits, connections=self.connections, seconds=self.effort.load_s, ready=meter.begin
        )
        _, cpu_s = meter.end()
        return {
            REQUEST_RATE.name: seen.answers / seen.seconds,
            CPU_PER_REQUEST.name: cpu_s / seen.answers * 1e6,
            **percentiles(seen),
        }

    def close(self, side: Side) -> None:
        side.delete_topic(self.topics.pop(side))

    def histogram_us(self, side: Side) -> list[list[float]]:
        return self.last[side].histogram_us if side in self.last else []


def group_rows(effort: Effort) -> list[Row]:
    return [
        Rebalance(effort, 1),
        Rebalance(effort, 20),
        Rebalance(effort, 1000),
        Commit(effort, 1),
        Commit(effort, 50),
    ]
