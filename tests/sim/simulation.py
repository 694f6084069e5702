"""One seed: nodes, clients and misfortune for a while, then everything heals, and the rules are checked.

What kind of world it is (how bad the network is, how slow the disks, how often nodes die) is drawn from the seed too.
"""

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from exactly_once.history import Seen
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

from . import kind
from .ahead import Ahead
from .churn import Churn
from .client import Client, NoAnswer
from .committing import commit
from .consuming import consume, read_to_the_end
from .guests import TOPICS as GUESTS_TOPICS
from .invariants import Invariants
from .layout import Layout
from .levelling import Levelling
from .listing import Listing
from .machine import Machine
from .meddling import Meddler
from .misfortune import Misfortune
from .network import Network
from .posing import Poser
from .processor import with_randomness
from .producing import Producer
from .protection import Protection
from .records import Records
from .relocating import relocate
from .sending import FILES
from .settling import know_the_same
from .sharing import Sharing
from .silence import a_follower_without_its_leader_leaves, a_silent_broker_is_fenced
from .witness import Witness
from .world import Violation, World
from .zookeeper_machine import ZooKeeperLayout, ZooKeeperMachine
from .zookeeper_rules import ZooKeeperRules
from .zookeeper_world import ZooKeeperWorld

if TYPE_CHECKING:
    from .lending import Lending
    from .tiering import TieredWorld

LOGGERS = ("kpybroker", "state.change.logger")
START_MS = 60_000.0
HEAL_MS = 120_000.0
DRAIN_MS = 60_000.0
ABORTED_MS = 4_000.0
"""So long after it, transactions without a client are aborted."""
SILENCE_SHARE = 0.15
MORE_TO_SHARE = 2
"""The partitions that a group of the consumer or streams protocol reads, in addition to those of other worlds."""
KILLS_OF_ROT = 0.02
"""The chance that a node is killed so that its start finds the damage."""


class Outcome(NamedTuple):
    """The outcome of a seed."""

    seed: int
    violation: str
    digest: int
    events: int
    virtual_ms: float
    acknowledged: int
    reported: list[str]


class Simulation:
    """The world of a seed with everything in it."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 1,
        world: str = "",
        records_everything: bool = False,
    ) -> None:
        """``world`` is one of `kind.WORLDS`, or empty for any kind."""
        self.world = World(seed, records_everything=records_everything)
        self.network = Network(self.world)
        FILES.reset(self.network)
        self.rng = self.world.stream("simulation")
        self.kind = kind.of(world, self.world.stream("kind"), nodes)
        has_zookeeper = self.kind.has_zookeeper
        self.machines: list[Any]
        if has_zookeeper:
            self.layout: Any = ZooKeeperLayout(self.world, self.kind)
            machine_type: type[Machine] = ZooKeeperMachine
        else:
            self.layout, machine_type = Layout(self.world, self.kind), Machine
        self.machines = [machine_type(self.world, self.network, node_id, self.layout) for node_id in self.kind.roles]
        self.records = Records(self.world)
        self.topics = {"one": self.rng.randint(1, 3) + (MORE_TO_SHARE if self.kind.protocol else 0), "two": 1}
        self.clients: list[Client] = []
        self.node_ids = self.kind.brokers
        self.listing = Listing(self.world)
        rules = ZooKeeperRules if has_zookeeper else Invariants
        self.invariants: Any = rules(self.world, self.machines, self.listing)
        self.zookeeper = ZooKeeperWorld(self, self.machines, self.invariants) if has_zookeeper else None
        self.witness = Witness(self.world)
        self.protection = Protection(self) if self.kind.is_guarded else None
        self.churn = None if self.kind.is_plain else Churn(self)
        self.lending = _lending(self) if self.kind.lends else None
        self.sharing = Sharing(self) if self.kind.shares else None
        self.levelling = Levelling(self) if self.kind.release else None
        self.misfortune = Misfortune(
            self.world, self.network, self.machines, self._may_lose_power, self.invariants.may_lose
        )
        self.misfortune.loses_nothing_unsynced = self.layout.flushes_every_message
        self.misfortune.straggle = self.kind.straggle
        if not self.kind.is_plain and not self.kind.is_slow:
            self.misfortune.lose_caches()
        if self.kind.rot:
            rates = self.misfortune.rates
            self.misfortune.rates = rates._replace(kill=max(rates.kill, KILLS_OF_ROT))
        self.tiering = _tiering(self) if self.kind.tiers else None
        self.ahead = Ahead(self.misfortune, self.invariants.reckless)
        for machine in self.machines:
            machine.before_death = self.ahead.look_at
            machine.when_dead = self._died

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """All that clients write to."""
        return [(topic, index) for topic, count in self.topics.items() for index in range(count)]

    def client(self, name: str) -> Client:
        """A new client."""
        return self.client_with(name, self.rng.choice((400.0, 2_000.0)))

    def client_with(self, name: str, request_timeout_ms: float) -> Client:
        """A new client that has so much patience."""
        client = Client(self.world, self.network, name, self.node_ids, request_timeout_ms)
        if self.zookeeper is not None:
            client.known_controller, client.adds_partitions = self.zookeeper.known_controller, True
        self.clients.append(client)
        return client

    def _died(self, machine: Machine) -> None:
        if self.churn is not None:
            self.churn.rot.died(machine)
        if self.protection is not None:
            self.protection.guarding.died(machine)
        if self.levelling is not None:
            self.levelling.died(machine)
        self.misfortune.died(machine)

    # The course of it

    def run(self) -> str:
        """The rule that does not hold, in a line; nothing if all do."""
        self.world.after_event = (self.invariants.look, self.ahead.look)
        if self.protection is not None:
            self.world.after_event = (self.protection.guarding.look, *self.world.after_event)
        if self.lending is not None:
            self.world.after_event = (self.lending.committed.look, *self.world.after_event)
            self.invariants.rewritten |= self.lending.rewritten
        if self.levelling is not None:
            self.world.after_event = (self.levelling.look, *self.world.after_event)
        if self.tiering is not None:
            self.world.after_event = (self.tiering.segments.look, self.tiering.truth.look, *self.world.after_event)
        try:
            self._start()
            self._clients()
            if self.tiering is not None:
                self.tiering.begin()
            if self.churn is not None:
                self.churn.begin()
            if self.protection is not None:
                self.protection.begin()
            if self.lending is not None:
                self.lending.begin()
            if self.sharing is not None:
                self.sharing.begin()
            if self.levelling is not None:
                self.levelling.begin()
            self.misfortune.begin()
            if self.zookeeper is not None:
                self.zookeeper.begin()
            self.world.run(self.rng.choice((2_000.0, 5_000.0)))
            self._heal()
            log = self._read_everything()
            wrong = self.churn.verdict(log) if self.churn is not None else ""
            if self.zookeeper is not None and not wrong:
                wrong = self.zookeeper.verdict()
            if self.protection is not None and not wrong:
                wrong = self.protection.verdict()
            if self.levelling is not None and not wrong:
                wrong = self.levelling.verdict()
            if self.sharing is not None and not wrong:
                wrong = self.sharing.verdict(log)
            if self.tiering is not None and not wrong:
                wrong = self.tiering.verdict()
            return wrong or self.records.verdict(log)
        except Violation as violation:
            return str(violation)

    def _start(self) -> None:
        early = [machine for machine in self.machines if machine.node_id not in self.kind.late]
        for machine in early:
            machine.start()
        self.within(START_MS, lambda: all(machine.is_up for machine in early), "all nodes are up")
        creator = self.client("creator")
        created: list[bool] = []
        creator.run(self._create(creator, created))
        self.within(START_MS, lambda: bool(created), "topics can be created")

    async def _create(self, client: Client, created: list[bool]) -> None:
        replicas = min(3, len(set(self.kind.brokers) - set(self.kind.late)))
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=replicas,
                assignments=[],
                configs=[
                    *self._topic_configs(replicas),
                    *(self.lending.configs(name) if self.lending else ()),
                    *(self.tiering.configs(name) if self.tiering else ()),
                ],
            )
            for name, count in {
                **self.topics,
                **(self.lending.topics if self.lending else {}),
                **(self.tiering.topics if self.tiering else {}),
                **(GUESTS_TOPICS if self.protection else {}),
                **dict.fromkeys(sorted(self.invariants.reckless), 1),
            }.items()
        ]
        if self.sharing is not None:
            await self.sharing.configure(client)
        while True:
            try:
                answer = await client.ask(client.controller_or_any(), CreateTopicsRequest(topics=topics))
            except NoAnswer:
                await client.pause(100)
                continue
            codes = {topic.error_code for topic in answer.topics}
            if codes <= {error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS}:
                created.append(True)
                return
            await client.pause(100)

    def _topic_configs(self, replicas: int) -> list[CreatableTopicConfig]:
        configs = [CreatableTopicConfig(name="min.insync.replicas", value=str(min(2, replicas)))]
        if self.kind.segment_bytes:
            segments = str(self.kind.segment_bytes)
            configs.append(CreatableTopicConfig(name="internal.segment.bytes", value=segments))
        return configs

    def _clients(self) -> None:
        plain, idempotent, transactional = (self.client(name) for name in ("plain", "idempotent", "transactional"))
        plain.run(Producer(plain, self.records, self.topics).plainly())
        idempotent.run(Producer(idempotent, self.records, self.topics).idempotently())
        transactional.run(Producer(transactional, self.records, self.topics, self.invariants).in_transactions())
        if not self.kind.tiers:
            self._clients_beside()
        if self.kind.is_slow:
            mover = self.client_with("mover", 1_000.0)
            mover.run(relocate(mover, self.partitions))
        for number in range(2):
            consumer = self.client(f"consumer{number}")
            consumer.run(consume(consumer, self.records, self.partitions))

    def _clients_beside(self) -> None:
        """The clients that have nothing to do with where records are kept."""
        meddler = self.client_with("meddler", 1_000.0)
        meddler.run(Meddler(meddler, self.records, self.topics).meddle())
        poser = self.client_with("poser", 1_000.0)
        poser.run(Poser(poser, self.machines).pose())
        committer = self.client("committer")
        committer.run(commit(committer, self.records, self.partitions[0], self.invariants))

    def _heal(self) -> None:
        self.world.tell("everything heals")
        self.misfortune.end()
        if self.zookeeper is not None:
            self.zookeeper.heal()
        if self.churn is not None:
            self.churn.heal()
        if self.levelling is not None:
            self.levelling.heal()
            self.levelling.get_through()
        self.within(HEAL_MS, self._all_up, "all nodes are up again")
        is_quick = self.layout.is_quick and not self.kind.is_slow  # an election waits for disks
        if is_quick and self.world.stream("silence").random() < SILENCE_SHARE:
            self.world.run(1_000.0)  # a controller is active, and knows everybody
            trial = self.world.stream("silence").choice(
                (a_silent_broker_is_fenced, a_follower_without_its_leader_leaves)
            )
            if any(each.is_controller for each in self.machines):
                trial(self)
        if self.zookeeper is not None:
            self.zookeeper.come_to_rest()  # clients go on, but nothing makes brokers disagree any more
        if self.sharing is not None:
            self.sharing.play()
        if self.tiering is not None:
            self.tiering.play()
        before = len(self.records.transactions)
        self.within(HEAL_MS, lambda: len(self.records.transactions) > before + 10, "clients get through")
        if self.churn is not None:
            self.churn.get_through()
        if self.lending is not None:
            self.lending.get_through()
        guests = [each for each in (self.protection, self.sharing, self.churn) if each is not None]
        for client in self.clients:
            client.is_over = not any(client in each.clients for each in guests)
        if self.protection is not None:
            self.protection.get_through()
        if self.sharing is not None:
            self.sharing.get_through()
        if self.churn is not None:
            self.churn.part()

    def _read_everything(self) -> list[Seen]:
        reader = self.client("reader")
        log: list[Seen] = []
        is_read: list[bool] = []

        async def read() -> None:
            log.extend(await read_to_the_end(reader, self.partitions))
            is_read.append(True)

        self.world.run(ABORTED_MS)
        if not self._all_ended():  # who waits long for a node that is silent may still write
            self.within(DRAIN_MS, self._all_ended, "clients come to their ends")
            self.world.run(ABORTED_MS)
        # Who has stood still answers as the leader that it was, until it hears that it is not.
        if self.zookeeper is None:
            self.within(DRAIN_MS, lambda: know_the_same(self.machines), "all nodes know the same metadata")
        else:
            self.zookeeper.come_to_rest()
            self.zookeeper.play_trials()
        reader.run(read())
        self.within(DRAIN_MS, lambda: bool(is_read), "everything can be read")
        return log

    def _all_ended(self) -> bool:
        return not any(client.tasks for client in self.clients)

    def _may_lose_power(self, machine: Machine) -> bool:
        """Any machine may, at any time, where every append is synced before it is acknowledged; a damaged one may not,
        since the records behind the damage would be cut off as a torn end."""
        if machine.damaged:
            return False
        if self.layout.flushes_every_message:
            return True
        return len(self.machines) > 1 and self.invariants.may_lose(machine)

    def _all_up(self) -> bool:
        return all(machine.is_up for machine in self.machines)

    def within(self, limit_ms: float, holds: Any, what: str) -> None:
        """Let time pass until something holds. Raises Violation."""
        if not self.world.run(limit_ms, holds):
            raise Violation(f"after {limit_ms / 1000:.0f} s it does not hold that {what}")


def _lending(simulation: Simulation) -> "Lending":
    with with_randomness():
        from .lending import Lending

    return Lending(simulation)


def _tiering(simulation: Simulation) -> "TieredWorld":
    with with_randomness():
        from .tiering import TieredWorld

    return TieredWorld(simulation)


class Complaints(logging.Handler):
    """A log handler that keeps the errors of nodes, which they should not have."""

    def __init__(self, world: World, *, are_disks_sound: bool) -> None:
        super().__init__(logging.INFO)
        self.world = world
        self._are_disks_sound = are_disks_sound

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "proposing the in-sync set" in line:
            self.world.later(0.0, self.world.is_proposed)
        if record.exc_info and record.exc_info[1] is not None:
            from traceback import format_exception

            for each in "".join(format_exception(record.exc_info[1])).splitlines():
                self.world.tell(f"    {each}")
            self.world.violated(f"logged with a traceback: {line}: {record.exc_info[1]!r}")
        else:
            self.world.tell(f"{record.levelname.lower()}: {line}")
            if self._are_disks_sound and line.startswith("log directory ") and " is offline: " in line:
                self.world.violated(line)


def simulate(
    seed: int,
    *,
    nodes: int = 1,
    world: str = "",
    records_everything: bool = False,
) -> Outcome:
    """Run a seed to its end."""
    simulation = Simulation(seed, nodes=nodes, world=world, records_everything=records_everything)
    handler = Complaints(simulation.world, are_disks_sound=simulation.kind.is_slow)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(handler)
    try:
        with ExitStack() as watching:
            watching.enter_context(simulation.witness.watching())
            watching.enter_context(simulation.listing.watching())
            if simulation.protection is not None:
                watching.enter_context(simulation.protection.guarding.watching())
            if simulation.lending is not None:
                watching.enter_context(simulation.lending.watching())
            if simulation.levelling is not None:
                watching.enter_context(simulation.levelling.watching())
            if simulation.tiering is not None:
                watching.enter_context(simulation.tiering.watching())
            if simulation.sharing is not None:
                watching.enter_context(simulation.sharing.watching())
            violation = simulation.run()
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    for machine in simulation.machines:
        if machine.loop is not None:
            machine.loop.end()
    for client in simulation.clients:
        client.loop.end()
    acknowledged = sum(1 for each in simulation.records.transactions if each.outcome.name == "COMMITTED")
    past = simulation.world
    return Outcome(seed, violation, past.digest, past.events, past.now_ms, acknowledged, list(past.reported))
