"""The platform of a node: the loop, the clock, randomness, sockets, and connections to other nodes.

Simulations replace most of it.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peer import Connect
from kpybroker.hosts.network.peers import Peers
from kpybroker.node.assembly.connecting import Ways, ways_of
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpybroker.runtime.io.system_sockets import SYSTEM_SOCKETS, Sockets


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
    secret_rng: random.Random
    """Random numbers for ids that nobody must foresee from the ones that it sees. Each takes a system call."""
    sockets: Sockets
    ways: Ways
    """How this node connects to others."""
    failed: Callable[[str], None]
    """Called with one line if the node cannot go on."""
    ends: ExitStack
    """The functions that end the parts, in the order in which the parts were built."""

    def broker_peers(self, config: BrokerConfig, purpose: str) -> Peers:
        """Connections to brokers, not delayed by requests for other purposes."""
        return self._peers(self.ways.brokers, config, purpose, config.request_timeout_ms)

    def controller_peers(self, config: BrokerConfig, purpose: str, timeout_ms: int) -> Peers:
        """Connections to controllers and voters, not delayed by requests for other purposes."""
        return self._peers(self.ways.controllers, config, purpose, timeout_ms)

    def _peers(self, connect: Connect, config: BrokerConfig, purpose: str, timeout_ms: int) -> Peers:
        return Peers(self.scheduler, connect, f"{config.node_id}-to-{purpose}", timeout_ms)


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
    secret_rng = random.SystemRandom() if simulated.rng is None else simulated.rng
    ways = ways_of(config, loop, scheduler, rng, simulated.connect)
    return Platform(loop, scheduler, rng, secret_rng, simulated.sockets, ways, failed, ExitStack())
