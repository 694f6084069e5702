"""Connections to other nodes that are not made in time, by a clock that the test moves."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.setup import SPREAD, TimedConnect
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.node.assembly.platform import Simulated
from kpybroker.node.node import Node
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.memory_disk import MemoryDisk

PATIENCE_S = 60
FIRST_MS, MOST_MS = 1000, 5000
SOON_MS, LATEST_MS = int(FIRST_MS * (1 - SPREAD)) - 1, int(FIRST_MS * (1 + SPREAD)) + 1


class PlayedLink:
    """A link whose fate is up to the test."""

    def __init__(self, opened: Callable[[], object], lost: Callable[[str], object]) -> None:
        self.opened, self.lost = opened, lost
        self.is_closed = False

    def send(self, frame: bytes) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Played:
    """A node that connects to others over played links."""

    def __init__(self, first_ms: int = FIRST_MS, most_ms: int = MOST_MS) -> None:
        self.scheduler = ManualScheduler()
        self.made: list[PlayedLink] = []
        self.opened = 0
        self.lost: list[str] = []
        self._connect = TimedConnect(self.scheduler, self._make, random.Random(1), first_ms, most_ms)

    def _make(self, _host: str, _port: int, opened: Any, _taken: Any, lost: Any) -> PlayedLink:
        self.made.append(PlayedLink(opened, lost))
        return self.made[-1]

    def connect(self, host: str = "there") -> Any:
        return self._connect(host, 9092, self._note_opened, lambda _frame: None, self.lost.append)

    def _note_opened(self) -> None:
        self.opened += 1

    def patience_ms(self) -> int:
        """After how long an attempt is given up."""
        self.connect()
        known, passed_ms = len(self.lost), 0
        while len(self.lost) == known:
            self.scheduler.advance(10)
            passed_ms += 10
        return passed_ms


@pytest.fixture
def played() -> Played:
    return Played()


def test_a_connection_that_is_not_made_in_time_is_given_up(played: Played) -> None:
    played.connect()
    played.scheduler.advance(SOON_MS)
    assert not played.lost
    played.scheduler.advance(LATEST_MS - SOON_MS)
    assert len(played.lost) == 1
    assert "no connection within" in played.lost[0]
    assert played.made[0].is_closed


def test_a_connection_that_is_made_stays(played: Played) -> None:
    played.connect()
    played.made[0].opened()
    played.scheduler.advance(10 * MOST_MS)
    assert (played.opened, played.lost, played.made[0].is_closed) == (1, [], False)


def test_a_closed_setup_calls_back_no_more(played: Played) -> None:
    played.connect().close()
    played.scheduler.advance(10 * MOST_MS)
    assert played.made[0].is_closed
    assert not played.lost


def test_each_attempt_in_vain_gives_the_next_twice_the_time_up_to_the_limit(played: Played) -> None:
    for expected_ms in (FIRST_MS, 2 * FIRST_MS, 4 * FIRST_MS):
        assert expected_ms * (1 - SPREAD) <= played.patience_ms() <= min(expected_ms * (1 + SPREAD), MOST_MS) + 10
    assert all(MOST_MS * (1 - SPREAD) <= played.patience_ms() <= MOST_MS + 10 for _ in range(100))


def test_a_refusal_counts_as_an_attempt_in_vain(played: Played) -> None:
    played.connect()
    played.made[0].lost("refused")
    assert played.lost == ["refused"]
    assert played.patience_ms() >= 2 * FIRST_MS * (1 - SPREAD)


def test_a_connection_that_was_made_begins_anew(played: Played) -> None:
    for _ in range(3):
        played.patience_ms()
    played.connect()
    played.made[-1].opened()
    played.made[-1].lost("the other side closed the connection")
    assert played.patience_ms() <= LATEST_MS + 10


def test_attempts_elsewhere_count_for_themselves(played: Played) -> None:
    for _ in range(3):
        played.patience_ms()
    played.connect("elsewhere")
    known = len(played.lost)
    played.scheduler.advance(LATEST_MS)
    assert len(played.lost) == known + 1


def test_a_limit_below_the_first_time_is_none() -> None:
    played = Played(FIRST_MS, FIRST_MS - 1)
    assert [played.patience_ms() for _ in range(3)] == [FIRST_MS] * 3


def test_a_node_gives_up_connections_by_its_config() -> None:
    settings = {
        "node.id": "1",
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "2@there:9093",
        "controller.quorum.request.timeout.ms": "600000",
        "socket.connection.setup.timeout.ms": "20",
        "kpybroker.http.listener": "",
        "log.dirs": "/data",
    }
    disk = MemoryDisk()
    disk.make_directory("/data")
    levels = choose_levels(None, {}, dynamic_quorum=False)
    formatting = Formatting("a3B5YnJva2VyLW9yYWNsZQ", 1, ["/data"], "/data", levels, None)
    format_directories(disk, formatting, random.Random(1), 1_700_000_000_000)
    made: list[PlayedLink] = []
    again = asyncio.Event()

    def make(_host: str, _port: int, opened: Any, _taken: Any, lost: Any) -> PlayedLink:
        made.append(PlayedLink(opened, lost))
        if len(made) > 1:
            again.set()
        return made[-1]

    async def run() -> None:
        node = Node(
            BrokerConfig.load(None, settings), asyncio.get_running_loop(), print, simulated=Simulated(connect=make)
        )
        starting = asyncio.ensure_future(node.start(disk))
        try:
            await asyncio.wait_for(again.wait(), PATIENCE_S)
        finally:
            starting.cancel()
            await node.stop()

    asyncio.run(run())
    assert made[0].is_closed
