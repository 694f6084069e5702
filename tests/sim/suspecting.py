"""Trials of suspicion: one thing happens to brokers whose sessions last very long, so that only suspicion fences them.

Brokers 1 to 3 hold every partition; the controller is a node of its own, or each node is both.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest

from .client import Client, NoAnswer
from .kind import BOTH, BROKER, CONTROLLER, Kind
from .layout import Layout
from .machine import Machine
from .network import Network
from .sending import FILES
from .world import Violation, World

LONG: Final = {
    "broker.session.timeout.ms": "3600000",
    "broker.heartbeat.interval.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "replica.lag.time.max.ms": "3600000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "1000",
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
}
"""Kafka's defaults, but for sessions and patience with followers."""
APART: Final = 4
BROKERS: Final = (1, 2, 3)
REPLACED_MS: Final = 3_000.0
"""The time within which others lead."""
QUIET_MS: Final = 20_000.0
LOAD_MS: Final = 300_000.0
TOPIC: Final = "one"


class Suspecting:
    """The cluster of one trial."""

    def __init__(self, seed: int, *, is_apart: bool) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        FILES.reset(self.network)
        self.rng = self.world.stream("suspecting")
        roles = {**dict.fromkeys(BROKERS, BROKER if is_apart else BOTH), **({APART: CONTROLLER} if is_apart else {})}
        layout = Layout(self.world, Kind(roles, [APART] if is_apart else list(BROKERS)))
        for settings in layout.settings.values():
            settings.update(LONG)
        self.machines = {node_id: Machine(self.world, self.network, node_id, layout) for node_id in roles}
        self._client = Client(self.world, self.network, "creator", BROKERS, 2_000.0)

    def begin(self) -> None:
        """Start all, and create a topic with three replicas."""
        for machine in self.machines.values():
            machine.start()
        self.within(60_000.0, lambda: all(each.is_up for each in self.machines.values()), "all nodes are up")
        self._client.run(self._create())
        self.within(60_000.0, lambda: all(self.leader_of(each) > 0 for each in range(3)), "all partitions are led")
        self.world.run(5_000.0)

    def end(self) -> None:
        """End all processes."""
        for machine in self.machines.values():
            if machine.loop is not None:
                machine.loop.end()
        self._client.loop.end()

    async def _create(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=3, assignments=[], configs=[])
        while self.leader_of(0) < 0:
            with suppress(NoAnswer):
                await self._client.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
            await self._client.pause(500)

    @property
    def controller(self) -> Machine:
        """The node whose controller is active in the newest epoch."""
        active = [each for each in self.machines.values() if each.is_controller]
        return max(active, key=lambda each: int(each.node.quorum.active_epoch))

    @property
    def image(self) -> Any:
        return self.controller.image

    def leader_of(self, index: int) -> int:
        topics = self.image.topics if any(each.is_controller for each in self.machines.values()) else {}
        return topics[TOPIC].partitions[index].leader if TOPIC in topics else -1

    def some_broker(self) -> Machine:
        """A broker that is not the controller."""
        return self.machines[self.rng.choice([each for each in BROKERS if self.machines[each] is not self.controller])]

    def cut(self, one: Machine, *others: Machine, ways: tuple[bool, bool] = (True, True)) -> None:
        """Let nothing arrive there, or back, or both."""
        for other in others:
            if ways[0]:
                self.network.isolate(one.host.name, other.host.name)
            if ways[1]:
                self.network.isolate(other.host.name, one.host.name)

    def all_but(self, machine: Machine) -> list[Machine]:
        return [each for each in self.machines.values() if each is not machine]

    def within(self, limit_ms: float, holds: Callable[[], bool], what: str) -> None:
        if not self.world.run(limit_ms, holds):
            raise Violation(f"after {limit_ms / 1000:.0f} s it does not hold that {what}")

    def is_replaced(self, machine: Machine) -> bool:
        """Return whether others lead all partitions, and no write waits for its replicas."""
        others = self.all_but(machine)
        if not any(each.is_controller for each in others):
            return False
        active = [each for each in others if each.is_controller]
        image = max(active, key=lambda each: int(each.node.quorum.active_epoch)).image
        return image.brokers[machine.node_id].fenced and all(
            each.leader not in (machine.node_id, -1) and machine.node_id not in each.isr
            for each in image.topics[TOPIC].partitions.values()
        )

    def _fencings(self) -> int:
        """The brokers that were fenced early since the start, some of which came back before anybody saw it."""
        hosts = [each.node.quorum for each in self.machines.values() if each.node is not None]
        return sum(host.local_state.early_fencings for host in hosts if host is not None)

    def expect_replaced(self, machine: Machine) -> None:
        self.within(REPLACED_MS, lambda: self.is_replaced(machine), f"others lead instead of {machine}")

    def expect_nothing(self, duration_ms: float = QUIET_MS) -> None:
        """Nobody is fenced for some time."""
        before = self._fencings()

        def is_anyone_fenced() -> bool:
            return self._fencings() != before

        if self.world.run(duration_ms, is_anyone_fenced):
            raise Violation("a broker is fenced that answers")


def paused(trial: Suspecting) -> None:
    """A broker stands still."""
    broker = trial.some_broker()
    assert broker.loop is not None
    broker.loop.pause(60_000.0)
    trial.expect_replaced(broker)


def back(trial: Suspecting) -> None:
    """A broker that stood still and was fenced goes on, and is a broker like others."""
    broker = trial.some_broker()
    assert broker.loop is not None
    broker.loop.pause(6_000.0)
    trial.expect_replaced(broker)
    trial.within(10_000.0, lambda: not trial.image.brokers[broker.node_id].fenced, f"{broker} is not fenced any more")
    partitions = trial.image.topics[TOPIC].partitions.values()
    trial.within(10_000.0, lambda: all(len(each.isr) == 3 for each in partitions), "all replicas are in sync")
    trial.expect_nothing()


def lost_controller(trial: Suspecting) -> None:
    """The active controller, which is a broker too, stands still, or it and all others cannot reach each other."""
    controller = trial.controller
    assert controller.loop is not None
    if trial.rng.random() < 0.5:
        controller.loop.pause(60_000.0)
    else:
        trial.cut(controller, *trial.all_but(controller))
    trial.expect_replaced(controller)


def cut_off(trial: Suspecting) -> None:
    """A broker and all others cannot reach each other."""
    broker = trial.some_broker()
    trial.cut(broker, *trial.all_but(broker))
    trial.expect_replaced(broker)


def mute(trial: Suspecting) -> None:
    """Nothing that a broker sends arrives."""
    broker = trial.some_broker()
    trial.cut(broker, *trial.all_but(broker), ways=(True, False))
    trial.expect_replaced(broker)


def deaf(trial: Suspecting) -> None:
    """Nothing that is sent to a broker arrives."""
    broker = trial.some_broker()
    trial.cut(broker, *trial.all_but(broker), ways=(False, True))
    trial.expect_replaced(broker)


def without_controller(trial: Suspecting) -> None:
    """A broker and the controller cannot reach each other, and all other brokers can."""
    trial.cut(trial.some_broker(), trial.controller)
    trial.expect_nothing()


def without_one_peer(trial: Suspecting) -> None:
    """Two brokers cannot reach each other, and the controller can both."""
    broker = trial.some_broker()
    other = next(trial.machines[each] for each in BROKERS if each != broker.node_id)
    trial.cut(broker, other)
    trial.expect_nothing()


def without_followers(trial: Suspecting) -> None:
    """A leader and its followers cannot reach each other, and the controller can all."""
    broker = trial.some_broker()
    trial.cut(broker, *[trial.machines[each] for each in BROKERS if each != broker.node_id])

    def is_replaced() -> bool:
        return all(each.leader != broker.node_id for each in trial.image.topics[TOPIC].partitions.values())

    trial.within(REPLACED_MS, is_replaced, f"others lead instead of {broker}")


def slow_controller(trial: Suspecting) -> None:
    """The controller stands still for a while, again and again."""
    for _ in range(5):
        controller = trial.controller
        assert controller.loop is not None
        controller.loop.pause(trial.rng.choice((1_000.0, 2_000.0, 8_000.0)))
        trial.expect_nothing()


def slow_both(trial: Suspecting) -> None:
    """A broker stands still for too little, and then the controller, before it knows that the broker goes on."""
    broker, controller = trial.some_broker(), trial.controller
    assert broker.loop is not None
    assert controller.loop is not None
    broker.loop.pause(1_500.0)
    trial.expect_nothing(1_450.0)
    controller.loop.pause(1_200.0)
    trial.expect_nothing()


def load(trial: Suspecting) -> None:
    """All nodes stand still again and again, each for up to a second, and go on for at least a tenth of one."""

    def stand_still() -> None:
        for machine in trial.machines.values():
            is_due = machine.loop is not None and trial.world.now_ms > machine.loop.resumes_ms + 100.0
            if machine.loop is not None and is_due and trial.rng.random() < 0.3:
                machine.loop.pause(trial.rng.choice((20.0, 100.0, 400.0, 1_000.0)) * trial.rng.random())
        trial.world.later(100.0, stand_still)

    stand_still()
    trial.expect_nothing(LOAD_MS)


TRIALS: Final[Mapping[str, tuple[Callable[[Suspecting], None], bool]]] = {
    "paused": (paused, True),
    "paused-and-back": (back, True),
    "lost-controller": (lost_controller, False),
    "cut-off": (cut_off, True),
    "mute": (mute, True),
    "deaf": (deaf, True),
    "without-controller": (without_controller, True),
    "without-one-peer": (without_one_peer, True),
    "without-followers": (without_followers, True),
    "slow-controller": (slow_controller, True),
    "slow-broker-and-controller": (slow_both, False),
    "load": (load, True),
}
"""Each trial, and whether the controller is a node of its own there."""


def failure(seed: int) -> str:
    """The rule that does not hold in the trial of a seed, in a line; nothing if all do."""
    name = list(TRIALS)[seed % len(TRIALS)]
    trial, is_apart = TRIALS[name]
    logging.getLogger("kpybroker").setLevel(logging.CRITICAL)
    suspecting = Suspecting(seed, is_apart=is_apart)
    try:
        suspecting.begin()
        trial(suspecting)
    except Violation as violation:
        return f"{name}: {violation}"
    finally:
        suspecting.end()
    return ""
