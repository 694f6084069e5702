"""The CPU time of a heartbeat of a group at rest, beside Apache Kafka in one run.

    python -m benchmarks.groups.resting [--members 1000] [--rounds 5] [--kpybroker FILE]

A group of each protocol lives on each broker. Its members are sockets in this process. When all have their partitions
and nothing has changed for a while, all of them send heartbeats in step, in alternating rounds. The time is that of all
threads of the broker's process, in user and in kernel mode, divided by the heartbeats. Time that a broker uses beside
them, such as Kafka's collector and compiler, counts as well.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import click

from benchmarks.groups.assigning import BeatingGroup
from benchmarks.groups.members import Group, ready
from benchmarks.sides import PROGRAMS, Kpybroker, Side
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

PROTOCOLS: Final = ("classic", "consumer")
SETTLES_S: Final = 6
"""A little longer than kpybroker's targets need to count as old."""
PAUSE_S: Final = 0.3
LONGEST_S: Final = 120

Beat = Callable[[], None]
"""A heartbeat of every member."""


def consumers(port: int, members: int) -> Beat:
    """Members of the consumer protocol, each with a partition."""
    group = BeatingGroup(port)
    for number in range(members):
        group.add().id = f"member-{number:020}"
    group.create(members)
    deadline_s = time.monotonic() + LONGEST_S
    while group.beat() < members or group.tells or not all(group.owned.get(member) for member in group.members):
        assert time.monotonic() < deadline_s, "the group does not settle"
        time.sleep(PAUSE_S)

    def beat() -> None:
        assert group.beat() == members
        assert not group.tells

    return beat


def classics(port: int, members: int) -> Beat:
    """Members of the classic protocol."""
    group = Group(port, b"\0\0" + encode(ConsumerProtocolSubscription(topics=["many"]), 0), "classics")
    for _ in range(members):
        group.add()
    group.join(group.members)
    group.sync(group.join(group.members))

    def beat() -> None:
        assert group.heartbeat(group.members) == {error_codes.NONE}

    return beat


def cost_us(side: Side, beat: Beat, beats: int, members: int) -> float:
    """The CPU time of one heartbeat."""
    began_s = side.cpu_seconds()
    for _ in range(beats):
        beat()
    return (side.cpu_seconds() - began_s) / beats / members * 1e6


@click.command()
@click.option("--members", default=1_000, show_default=True)
@click.option("--beats", default=20, show_default=True, help="Heartbeats of each member in a round.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--warm", default=10, show_default=True, help="Rounds that are not counted.")
@click.option("--sides", default=",".join(PROGRAMS), show_default=True)
@click.option("--kpybroker", type=click.Path(exists=True, path_type=Path), help="The command of another environment.")
def main(members: int, beats: int, rounds: int, warm: int, sides: str, kpybroker: Path | None) -> None:
    if kpybroker is not None:
        Kpybroker.path = kpybroker.absolute()
    programs = sides.split(",")
    with tempfile.TemporaryDirectory() as directory:
        running = [Side(letter, program, Path(directory, letter)) for letter, program in zip("AB", programs)]  # noqa: B905
        found: dict[tuple[str, str], list[float]] = {}
        try:
            playing = []
            for side in running:
                side.directory.mkdir()
                side.broker.start_timeout_s = LONGEST_S
                side.__enter__()
                ready(side.address.port)
                time.sleep(SETTLES_S)  # all coordinators have loaded
                for protocol, of in zip(PROTOCOLS, (classics, consumers), strict=True):
                    playing.append((side, protocol, of(side.address.port, members)))
            time.sleep(SETTLES_S)
            for number in range(-warm, rounds):
                for side, protocol, beat in playing:
                    us = cost_us(side, beat, beats, members)
                    if number >= 0:
                        print(f"{number:>4}  {side.program:12}  {protocol:8}  {us:7.1f} µs")
                        found.setdefault((protocol, side.program), []).append(us)
        finally:
            for side in running:
                side.__exit__(None, None, None)
    for (protocol, program), each in found.items():
        print(f"{protocol:8}  {program:12}  median {median(each):.1f} µs ({min(each):.1f}-{max(each):.1f})")


if __name__ == "__main__":
    main()
