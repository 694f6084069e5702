"""A client of ours on an asyncio loop, for tests: it records what it saw."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from kpybroker.hosts.network.outgoing import Outgoing
from kpybroker.hosts.network.peer import Link
from kpybroker.hosts.network.peers import connect_over
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperSettings
from kpybroker.machines.zookeeper.client.addresses import parse
from kpybroker.machines.zookeeper.client.frames import WatchedEvent
from kpybroker.machines.zookeeper.client.session import SessionState
from kpybroker.runtime.io.scheduler import LoopScheduler
from support.waiting import as_written, until

PATIENCE_S = 30


def settings_of(connect: str, session_timeout_ms: int = 6_000, **more: Any) -> ZooKeeperSettings:
    return ZooKeeperSettings(parse(connect), session_timeout_ms, **more)


class Breakable:
    """A `Connect` whose connections a test can break."""

    def __init__(self) -> None:
        self.is_cut = False
        self.is_deaf = False
        """Whether what arrives is dropped."""
        self._open: list[tuple[Link, Callable[[str], object]]] = []

    def __call__(self, host: str, port: int, opened: Any, taken: Any, lost: Callable[[str], object]) -> Link:
        loop = asyncio.get_running_loop()
        if self.is_cut:
            loop.call_soon(lost, "the test cut it")
        link = Outgoing(opened, lambda frame: self.is_deaf or taken(frame), lost, 1 << 20)
        if not self.is_cut:
            link.connect(loop, host, port)
            self._open.append((link, lost))
        return link

    def cut(self) -> None:
        """End all connections, and let none be opened."""
        self.is_cut = True
        for link, lost in self._open:
            link.close()
            lost("the test cut it")
        self._open.clear()

    def mend(self) -> None:
        self.is_cut = self.is_deaf = False


class Recording:
    """A client, its events and its states."""

    def __init__(self, settings: ZooKeeperSettings, connect: Any = None, seed: int = 1) -> None:
        loop = asyncio.get_running_loop()
        self.scheduler = LoopScheduler(loop)
        connect = connect_over(loop) if connect is None else connect
        self.client = ZooKeeperClient(self.scheduler, connect, settings, random.Random(seed))
        self.events: list[WatchedEvent] = []
        self.states: list[SessionState] = []
        self.client.on_event = self.events.append
        self.client.on_state = self.states.append

    async def __aenter__(self) -> "Recording":
        self.client.open()
        await self.client.wait_until_connected(10_000)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.client.close()
        await self.scheduler.close()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so. It may block."""
        await until(lambda: asyncio.to_thread(is_so), as_written(is_so))


def play(story: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine in a loop of its own."""
    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_S))  # type: ignore[arg-type]
