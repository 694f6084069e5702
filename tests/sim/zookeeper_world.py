"""A world with ZooKeeper: the ensemble, the brokers at it, and the failures between them.

Servers of the ensemble die or cannot hear each other, answers to writes get lost, followers lag. Sessions of brokers
expire while their processes live, controllers stand still for longer than their session lasts, brokers reach no server
while they reach one another, and somebody deletes ``/controller`` by hand.
"""

from typing import TYPE_CHECKING, NamedTuple

from kpybroker.machines.zookeeper.client.jute import JuteWriter
from kpybroker.machines.zookeeper.tree import paths
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

from . import passing
from .client import Client, NoAnswer
from .ensemble import Ensemble, Server
from .usurping import Usurper
from .world import Violation
from .zookeeper_machine import CHROOT, ZooKeeperMachine
from .zookeeper_rest import unsettled_znodes
from .zookeeper_rules import ZooKeeperRules
from .zookeeper_trials import Trials

if TYPE_CHECKING:
    from random import Random

    from .simulation import Simulation

EVERY_MS = 50.0
REST_MS = 30_000.0
REST_LOOK_MS = 1.0
"""A look at everything takes longer than an event."""
PAUSES = 1.2
"""A pause that ends a session is so much longer than it."""
DELETE = 2
BURIED_SHARE = 0.5
MOST_ATTEMPTS = 20


class Troubles(NamedTuple):
    """How often things happen: probabilities of each 50 ms."""

    kill: float
    part: float
    leave: float
    expire: float
    pause: float
    depose: float
    lost_answers: float
    restart_ms: float

    @classmethod
    def drawn(cls, rng: "Random") -> "Troubles":
        """A kind of world."""
        return cls(
            kill=rng.choice((0.0, 0.02, 0.05)),
            part=rng.choice((0.0, 0.0, 0.02)),
            leave=rng.choice((0.0, 0.02, 0.05)),
            expire=rng.choice((0.0, 0.02, 0.08)),
            pause=rng.choice((0.0, 0.02, 0.05)),
            depose=rng.choice((0.0, 0.02, 0.06)),
            lost_answers=rng.choice((0.0, 0.02, 0.1, 0.3)),
            restart_ms=rng.choice((50.0, 1_000.0)),
        )


class ZooKeeperWorld:
    """All that a simulation has of ZooKeeper."""

    controller_path = CHROOT + paths.CONTROLLER

    def __init__(self, simulation: "Simulation", machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.machines = machines
        self.rules = rules
        self.ensemble = Ensemble(self.world, simulation.network)
        rules.watch(self.ensemble)
        self.rng = self.world.stream("troubles")
        self.troubles = Troubles.drawn(self.rng)
        self._is_on = False

    def known_controller(self) -> int | None:
        """The broker that takes itself for the controller; None if none does."""
        return next((each.node_id for each in self.machines if each.is_controller), None)

    def begin(self) -> None:
        """From now on things go wrong."""
        rng, ensemble = self.rng, self.ensemble
        self._is_on = True
        self.world.tell(f"{self.troubles}")
        ensemble.lost_answers = self.troubles.lost_answers
        ensemble.patience_ms = rng.choice((100.0, 1_000.0, 5_000.0))
        for server in ensemble.servers:
            server.lag_ms = rng.choice((0.5, 5.0, 50.0, 400.0))
        client = self.simulation.client_with("usurper", 1_000.0)
        client.run(Usurper(client, self.machines, self.rules).usurp())
        self._look()

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._is_on = False
        self.ensemble.lost_answers = 0.0
        self.ensemble.patience_ms = 200.0
        for server in self.ensemble.servers:
            server.lag_ms = 1.0
            self.ensemble.restart(server)
        if self.simulation.kind.passes_topics and self.world.stream("burying").random() < BURIED_SHARE:
            client = self.simulation.client_with("undertaker", 2_000.0)
            client.run(self._bury(client))

    async def _bury(self, client: Client) -> None:
        """Make the topic that comes and goes, if it is not there, and delete it, once nothing goes wrong any more."""
        topic = CreatableTopic(
            name=passing.NAME, num_partitions=2, replication_factor=len(self.machines), assignments=[], configs=[]
        )
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=passing.NAME)], timeout_ms=1_000)
        for _ in range(MOST_ATTEMPTS):
            try:
                made = await client.ask(client.controller_or_any(), CreateTopicsRequest(topics=[topic]))
                if made.topics[0].error_code not in (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS):
                    raise NoAnswer("it is not there")
                await client.pause(500.0)
                answer = await client.ask(client.controller_or_any(), request)
                if answer.responses[0].error_code in (error_codes.NONE, error_codes.UNKNOWN_TOPIC_OR_PARTITION):
                    return
            except NoAnswer:
                pass
            await client.pause(500.0)

    def play_trials(self) -> None:
        """One trouble after the other, in a cluster at rest. Raises Violation."""
        Trials(self).play()

    def come_to_rest(self) -> None:
        """Let time pass until znodes, controller and brokers say the same. Raises Violation."""
        next_ms = 0.0

        def is_at_rest() -> bool:
            nonlocal next_ms
            if self.world.now_ms < next_ms:
                return False
            next_ms = self.world.now_ms + REST_LOOK_MS
            return not self.verdict()

        if not self.world.run(REST_MS, is_at_rest) and self.verdict():
            raise Violation(f"after {REST_MS / 1000:.0f} s {self.verdict()}")

    def verdict(self) -> str:
        """The first thing that is not at rest once nobody writes any more; empty if all is."""
        return unsettled_znodes(self.machines, self.rules)

    # Misfortune

    def _look(self) -> None:
        if not self._is_on:
            return
        rng, troubles = self.rng, self.troubles
        if rng.random() < troubles.kill:
            self._kill()
        if rng.random() < troubles.part:
            self._part()
        if rng.random() < troubles.leave:
            self._leave(self._victim())
        if rng.random() < troubles.expire:
            self._expire(self._victim())
        if rng.random() < troubles.pause:
            self._pause(self._victim())
        if rng.random() < troubles.depose:
            self.depose()
        self.world.later(EVERY_MS, self._look)

    def _victim(self) -> ZooKeeperMachine:
        """Any of the brokers, often the controller."""
        reigning = [each for each in self.machines if each.is_controller]
        return self.rng.choice(reigning if reigning and self.rng.random() < 0.6 else self.machines)

    def _server(self) -> Server:
        leader = self.ensemble.leader
        return leader if leader is not None and self.rng.random() < 0.5 else self.rng.choice(self.ensemble.servers)

    def _kill(self) -> None:
        server = self._server()
        if server.is_alive:
            server.kill()
            restart_ms = 100.0 + self.rng.random() * self.troubles.restart_ms
            self.world.later(restart_ms, self.ensemble.restart, server)

    def _part(self) -> None:
        """A server of the ensemble hears the others no more."""
        server = self._server()
        self.world.tell(f"{server} hears no other server")
        for other in self.ensemble.servers:
            if other is not server:
                self.simulation.network.isolate(other.host.name, server.host.name)

    def _leave(self, machine: ZooKeeperMachine) -> None:
        """A broker reaches no server, or one less."""
        servers = self.ensemble.servers if self.rng.random() < 0.6 else [self.rng.choice(self.ensemble.servers)]
        self.world.tell(f"{machine} does not reach {' '.join(map(str, servers))}")
        for server in servers:
            self.simulation.network.isolate(machine.host.name, server.host.name)
            self.simulation.network.isolate(server.host.name, machine.host.name)

    def _expire(self, machine: ZooKeeperMachine) -> None:
        client = None if machine.node is None else machine.node.source.client
        if client is not None:
            self.ensemble.expire(client.session.session_id)

    def _pause(self, machine: ZooKeeperMachine) -> None:
        """The process stands still until its session has expired."""
        if machine.loop is None or self.simulation.misfortune.is_fragile:
            return
        timeout_ms = int(machine.settings["zookeeper.session.timeout.ms"])
        duration_ms = timeout_ms * PAUSES + self.rng.random() * 500.0
        self.world.tell(f"{machine} stands still for {duration_ms:.0f} ms, longer than its session")
        machine.loop.pause(duration_ms)

    def depose(self) -> None:
        """Somebody deletes /controller."""
        body = JuteWriter()
        body.string(self.controller_path)
        body.int32(-1)
        if self.ensemble.change(DELETE, body.frame()):
            self.world.tell("somebody deletes /controller")
