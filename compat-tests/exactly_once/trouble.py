"""The faults of a run: programs are killed, paused and doubled, brokers killed, stopped and paused. In ZooKeeper mode
the controller and the leading server of ZooKeeper are, too.

Nothing here waits for a broker that was killed to answer again, so programs have trouble while it is away, too.
"""

import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final

from exactly_once.clients import TRANSACTION_TIMEOUT_MS
from exactly_once.processes import Program
from exactly_once.program import INPUT, OUTPUT
from failover.faults import AWAY_S, some_leader
from failover.zookeeper_faults import controller_of
from oracle import BrokerProcess
from oracle.process import BrokerProcessError
from support.clusters import Nodes
from support.zookeeper_clusters import ZooKeeperCluster

TROUBLE_EVERY_S: Final = (1.0, 4.0)
PAUSE_S: Final = TRANSACTION_TIMEOUT_MS / 1000 * 1.5
"""So long that the coordinator aborts the transaction of who is paused, who then is a zombie."""
SESSION_MS: Final = 3_000
BROKER_PAUSE_S: Final = SESSION_MS / 1000 * 2
"""So long that others lead and coordinate what a broker did that is paused, which then is a zombie."""
LED: Final = (INPUT, OUTPUT, "__transaction_state", "__consumer_offsets")
"""The topics whose leaders matter; a leader of the last two coordinates transactions and groups."""


class Trouble:
    """For one broker, or for the nodes of a cluster, of which those that lead have it."""

    def __init__(self, brokers: BrokerProcess | Nodes, programs: Sequence[Program], rng: random.Random) -> None:
        self.made: dict[str, int] = {}
        self._brokers = brokers
        self._nodes = [*brokers.nodes.values()] if isinstance(brokers, Nodes) else [brokers]
        self._forgotten_after_s = brokers.forgotten_after_s if isinstance(brokers, Nodes) else 0.0
        self._servers = brokers.servers if isinstance(brokers, ZooKeeperCluster) else {}
        self._programs = programs
        self._rng = rng
        self._next_s = time.monotonic()
        self._later: list[tuple[float, Program | BrokerProcess, Callable[[], object]]] = []
        """The time when each program or broker that is away or paused goes on, and the call that brings that about."""

    def make(self, now_s: float) -> None:
        """Something, when it is time for it."""
        for entry in [each for each in self._later if each[0] <= now_s]:
            self._later.remove(entry)
            entry[2]()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._rng.uniform(*TROUBLE_EVERY_S)
        kinds = [self._kill, self._kill, self._pause, self._double]
        if all(node not in self._troubled and node.answers for node in self._nodes):
            kinds += [self._kill_broker]
            if len(self._nodes) > 1:
                kinds += [self._kill_broker, self._kill_all_brokers, self._stop_broker, self._pause_broker]
            if self._servers and all(server not in self._troubled for server in self._servers.values()):
                kinds += [self._kill_controller, self._pause_controller, self._kill_zookeeper, self._pause_zookeeper]
        kind = self._rng.choice(kinds)
        kind()
        self._count(kind.__name__.strip("_"))

    def mend(self) -> None:
        """Kill programs that are stuck, and start others in their place. A broker that ended by itself is an error."""
        for node in self._nodes:
            if node.process is not None and (code := node.process.poll()) is not None:
                raise BrokerProcessError(f"{node.program} on port {node.port} ended with code {code}{node.tail()}")
        for program in self._programs:
            if program not in self._troubled and program.is_stuck:
                program.signal(signal.SIGKILL)
                program.start()
                self._count("stuck")

    def stop(self) -> None:
        """Let everybody go on in peace, and wait for the brokers to answer."""
        if self._later:
            time.sleep(self._forgotten_after_s)
        for _, _, go_on in self._later:
            go_on()
        self._later.clear()
        for process in (*self._servers.values(), *self._nodes):
            process.wait_until_it_answers()

    @property
    def _troubled(self) -> list[Program | BrokerProcess]:
        return [target for _, target, _ in self._later]

    def _count(self, what: str) -> None:
        self.made[what] = self.made.get(what, 0) + 1

    def _after(self, pause_s: float, target: Program | BrokerProcess, go_on: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + pause_s, target, go_on))

    def _any(self) -> Program:
        return self._rng.choice([program for program in self._programs if program not in self._troubled])

    def _leading(self) -> BrokerProcess:
        if not isinstance(self._brokers, Nodes):
            return self._brokers
        return self._brokers.nodes[some_leader(self._brokers, self._rng.choice(LED), self._rng)]

    def _away_s(self) -> float:
        """For how long a node is away."""
        return self._rng.uniform(self._forgotten_after_s, max(AWAY_S, 1.2 * self._forgotten_after_s))

    def _kill_broker(self) -> None:
        node = self._leading()
        node.kill()
        self._after(self._away_s(), node, node.launch)

    def _kill_all_brokers(self) -> None:
        for node in self._nodes:
            node.kill()
            self._after(self._away_s(), node, node.launch)

    def _stop_broker(self) -> None:
        node = self._leading()
        node.stop()
        self._after(self._away_s(), node, node.launch)

    def _pause_broker(self) -> None:
        node = self._leading()
        node.pause()
        self._after(BROKER_PAUSE_S, node, node.resume)

    def _controller(self) -> BrokerProcess:
        assert isinstance(self._brokers, ZooKeeperCluster)
        return self._brokers.nodes[controller_of(self._brokers)]

    def _kill_controller(self) -> None:
        node = self._controller()
        node.kill()
        self._after(self._away_s(), node, node.launch)

    def _pause_controller(self) -> None:
        node = self._controller()
        node.pause()
        self._after(BROKER_PAUSE_S, node, node.resume)

    def _leading_server(self) -> BrokerProcess:
        """The server of ZooKeeper that leads; any one while they elect."""
        assert isinstance(self._brokers, ZooKeeperCluster)
        return self._servers[self._brokers.leading_server or self._rng.choice(sorted(self._servers))]

    def _kill_zookeeper(self) -> None:
        server = self._leading_server()
        server.kill()
        self._after(self._rng.uniform(0, AWAY_S), server, server.launch)

    def _pause_zookeeper(self) -> None:
        server = self._leading_server()
        server.pause()
        self._after(BROKER_PAUSE_S, server, server.resume)

    def _kill(self) -> None:
        program = self._any()
        program.signal(signal.SIGKILL)
        program.start()

    def _pause(self) -> None:
        program = self._any()
        program.signal(signal.SIGSTOP)
        self._after(PAUSE_S, program, lambda: program.signal(signal.SIGCONT))

    def _double(self) -> None:
        """Another with the same transactional id: the one that was there is a zombie."""
        self._any().start()
