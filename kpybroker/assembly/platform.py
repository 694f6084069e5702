"""The platform of a node: the loop, the clock, randomness, sockets, and connections to other nodes.

Simulations replace most of it.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.io.scheduler import LoopScheduler
from kpybroker.network.peer import Connect
from kpybroker.network.peers import Peers, connect_over
from kpybroker.network.setup import TimedConnect
from kpybroker.server.system_sockets import SYSTEM_SOCKETS, Sockets


class Simulated(NamedTuple):
    """The parts of a platform that simulations replace; None leaves the real one."""

    connect: Connect | None = None
    sockets: Sockets = SYSTEM_SOCKETS
    rng: random.Random | None = None


class Platform(NamedTuple):
    """The platform of one node."""

    loop: asyncio.AbstractEventLoop
    scheduler: LoopScheduler
    rng: random.Random
    sockets: Sockets
    connect: Connect
    connect_fetchers: Connect
    """Connects with the buffers that are configured for fetching from leaders."""
    failed: Callable[[str], None]
    """Called with one line if the node cannot go on."""
    ends: ExitStack
    """The functions that end the parts, in the order in which the parts were built."""

    def peers(self, config: BrokerConfig, purpose: str, timeout_ms: int | None = None) -> Peers:
        """Connections to other nodes, not delayed by requests for other purposes."""
        most_ms = config.request_timeout_ms if timeout_ms is None else timeout_ms
        return Peers(self.scheduler, self.connect, f"{config.node_id}-to-{purpose}", most_ms)


def platform_of(
    config: BrokerConfig,
    loop: asyncio.AbstractEventLoop,
    scheduler: LoopScheduler | None,
    simulated: Simulated,
    failed: Callable[[str], None],
) -> Platform:
    """The platform of a node with this configuration. ``scheduler`` is another clock than the loop's."""
    scheduler = LoopScheduler(loop) if scheduler is None else scheduler
    rng = random.Random(random.SystemRandom().getrandbits(128)) if simulated.rng is None else simulated.rng
    first_ms = config["socket.connection.setup.timeout.ms"]
    most_ms = config["socket.connection.setup.timeout.max.ms"]

    def connect(buffer_bytes: int = -1) -> Connect:
        plain = connect_over(loop, buffer_bytes) if simulated.connect is None else simulated.connect
        return TimedConnect(scheduler, plain, rng, first_ms, most_ms)

    fetch_buffer_bytes = config.asked("replica.socket.receive.buffer.bytes")
    return Platform(
        loop, scheduler, rng, simulated.sockets, connect(), connect(fetch_buffer_bytes), failed, ExitStack()
    )
