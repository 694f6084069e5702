"""How late the event loop is while a group of many members rebalances.

    python -m benchmarks.groups.members [--members 1000] [--rounds 5] [--topics 3]

The broker runs in a process of its own, and reports the lag of its loop; all members are sockets in this one. A round
is what happens when one more member comes: everybody learns of it by a heartbeat, joins again, and syncs. The members
are in step, so each phase is a thousand requests at once, which is worse than life.
"""

import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from kpywire import api, error_codes
from kpywire.codec import decode, encode
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

BROKER = """
import asyncio, json, sys
from pathlib import Path
from benchmarks.groups.lag import LoopLag
from kpybroker.config.broker import BrokerConfig
from kpybroker.runtime.io.collector import GarbageCollector
from kpybroker.runtime.io.event_loop import new_event_loop
from kpybroker.node.node import Node
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors

async def main():
    config = BrokerConfig.load(None, {
        "log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0", "kpybroker.http.listener": "",
        "group.initial.rebalance.delay.ms": "2000",
    })
    loop = asyncio.get_running_loop()
    node = Node(config, loop, print)
    await node.start(RealDisk(Descriptors(512)))
    GarbageCollector(node.scheduler).start()
    print(node.ports["PLAINTEXT"], flush=True)
    lag = LoopLag(loop)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while await commands.readline():
        print(lag.stop(), flush=True)
        lag = LoopLag(loop)
    await node.stop()

loop = new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(main())
"""
CLIENT_ID = "bench"
Result = TypeVar("Result")


class Member:
    """A socket, and what the group knows of its owner."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.id = ""
        self.generation = -1
        self.buffer = b""

    def send(self, request: Any, key: int, version: int) -> None:
        body = encode_request_header(key, version, 1, CLIENT_ID) + encode(request, version)
        self.sock.sendall(struct.pack(">i", len(body)) + body)

    def receive(self) -> bytes | None:
        """A whole answer, if it is there by now."""
        self.buffer += self.sock.recv(1 << 18)
        if len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4], "big"):
            return None
        answer, self.buffer = self.buffer[4:], b""
        return answer


class Group:
    """All members, asking the same at the same time."""

    def __init__(self, port: int, subscription: bytes, group_id: str = "many") -> None:
        self.group_id = group_id
        self.port = port
        self.subscription = subscription
        self.members: list[Member] = []
        self.selector = selectors.DefaultSelector()

    def add(self) -> Member:
        member = Member(self.port)
        self.members.append(member)
        self.selector.register(member.sock, selectors.EVENT_READ, member)
        return member

    def ask(
        self, members: Sequence[Member], request: Callable[[Member], Any], key: int, version: int
    ) -> dict[Member, Any]:
        """Send to all, then take all answers."""
        for member in members:
            member.send(request(member), key, version)
        answers: dict[Member, Any] = {}
        while len(answers) < len(members):
            for ready, _ in self.selector.select():
                answer = ready.data.receive()
                if answer is not None:
                    _, position = decode_response_header(key, version, answer)
                    answers[ready.data] = decode(api.response_class(key), version, answer, position)
        return answers

    def join_request(self, member: Member) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=120_000,
            rebalance_timeout_ms=120_000,
            member_id=member.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.subscription)],
        )

    def join(self, members: Sequence[Member]) -> str:
        """A round of joins; the leader."""
        leader = ""
        for member, answer in self.ask(members, self.join_request, api.JOIN_GROUP, 5).items():
            if answer.error_code == error_codes.MEMBER_ID_REQUIRED:
                member.id = answer.member_id
                continue
            assert answer.error_code == error_codes.NONE, answer
            member.generation, leader = answer.generation_id, answer.leader
        return leader

    def sync(self, leader: str) -> None:
        assigned = [SyncGroupRequestAssignment(member_id=each.id, assignment=bytes(60)) for each in self.members]

        def request(member: Member) -> SyncGroupRequest:
            mine = assigned if member.id == leader else []
            return SyncGroupRequest(
                group_id=self.group_id, generation_id=member.generation, member_id=member.id, assignments=mine
            )

        for answer in self.ask(self.members, request, api.SYNC_GROUP, 3).values():
            assert (answer.error_code, len(answer.assignment)) == (error_codes.NONE, 60)

    def heartbeat(self, members: Sequence[Member]) -> set[int]:
        def request(member: Member) -> HeartbeatRequest:
            return HeartbeatRequest(group_id=self.group_id, generation_id=member.generation, member_id=member.id)

        return {answer.error_code for answer in self.ask(members, request, api.HEARTBEAT, 3).values()}


@contextmanager
def broker() -> Iterator[tuple[int, Callable[[], str]]]:
    """The port of a broker, and a function that tells how late its loop was since it was called last."""
    with tempfile.TemporaryDirectory(prefix="kpy-members-") as directory:
        process = subprocess.Popen(
            [sys.executable, "-c", BROKER, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def lag() -> str:
            stdin.write("lag\n")
            stdin.flush()
            return stdout.readline().strip()

        try:
            yield int(stdout.readline()), lag
        finally:
            stdin.close()
            process.wait()


def ready(port: int) -> None:
    """The coordinator is there."""
    member = Member(port)
    while True:
        member.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["many"]), api.FIND_COORDINATOR, 4)
        while (answer := member.receive()) is None:
            pass
        _, position = decode_response_header(api.FIND_COORDINATOR, 4, answer)
        if not decode(api.response_class(api.FIND_COORDINATOR), 4, answer, position).coordinators[0].error_code:
            return
        time.sleep(0.1)


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result of a phase, and the seconds that it took."""
    began_s = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began_s


@click.command()
@click.option("--members", default=1_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--topics", default=3, show_default=True)
def main(members: int, rounds: int, topics: int) -> None:
    names = [f"topic-number-{number}" for number in range(topics)]
    subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=names), 0)
    with broker() as (port, lag):
        ready(port)
        group = Group(port, subscription)
        for _ in range(members):
            group.add()
        lag()
        print(f"{'':28} {'seconds':>8}  loop lag of the broker")

        def phase(title: str, work: Callable[[], Any]) -> Any:
            result, took_s = timed(work)
            print(f"{title:28} {took_s:8.3f}  {lag()}")
            return result

        phase(f"{members} ask for an id", lambda: group.join(group.members))
        leader = phase("join, with the first delay", lambda: group.join(group.members))
        phase("sync", lambda: group.sync(leader))
        for number in range(1, rounds + 1):
            newcomer = group.add()
            group.join([newcomer])
            newcomer.send(group.join_request(newcomer), api.JOIN_GROUP, 5)
            others = group.members[:-1]
            while group.heartbeat(others[:1]) != {error_codes.REBALANCE_IN_PROGRESS}:
                pass
            assert phase(f"round {number}: heartbeat", lambda: group.heartbeat(others)) == {27}  # noqa: B023
            leader = phase(f"round {number}: join", lambda: _join_all(group, newcomer))  # noqa: B023
            phase(f"round {number}: sync", lambda: group.sync(leader))  # noqa: B023
        assert phase("heartbeat", lambda: group.heartbeat(group.members)) == {error_codes.NONE}


def _join_all(group: Group, newcomer: Member) -> str:
    """Everybody joins; the newcomer has asked already."""
    for member in group.members:
        if member is not newcomer:
            member.send(group.join_request(member), api.JOIN_GROUP, 5)
    leader, missing = "", set(group.members)
    while missing:
        for key, _ in group.selector.select():
            answer = key.data.receive()
            if answer is None:
                continue
            _, position = decode_response_header(api.JOIN_GROUP, 5, answer)
            decoded = decode(api.response_class(api.JOIN_GROUP), 5, answer, position)
            assert decoded.error_code == error_codes.NONE, decoded
            key.data.generation, leader = decoded.generation_id, decoded.leader
            missing.discard(key.data)
    return leader


if __name__ == "__main__":
    main()
