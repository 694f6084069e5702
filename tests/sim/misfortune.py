"""The misfortunes of a world, drawn from its seed: in each some things happen often and others never.

Nodes are killed at any moment or at a write, stopped, paused, cut off in one direction or both; disks are slow; clocks
drift and jump; packets are lost and connections reset. Power fails where replicas are left that have everything, and so
do file systems and flushes under machines that run on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .network import Conditions, Network

if TYPE_CHECKING:
    from random import Random

    from .machine import Machine
    from .world import World

EVERY_MS = 50.0


class Rates(NamedTuple):
    """How often things happen: probabilities of each 50 ms."""

    kill: float = 0.0
    kill_at_a_write: float = 0.0
    stop: float = 0.0
    power: float = 0.0
    wipe: float = 0.0
    blackout: float = 0.0
    pause: float = 0.0
    cut: float = 0.0
    mend: float = 0.1
    jump: float = 0.0
    restart_ms: float = 500.0
    leaders: float = 0.3
    """How often it is the leader of the quorum that something happens to."""
    remount: float = 0.0
    flush: float = 0.0
    """The chance that an fsync fails."""

    @classmethod
    def drawn(cls, rng: "Random") -> "Rates":
        """A kind of world."""
        return cls(
            kill=rng.choice((0.0, 0.005, 0.03)),
            kill_at_a_write=rng.choice((0.0, 0.005, 0.03)),
            stop=rng.choice((0.0, 0.01)),
            power=rng.choice((0.0, 0.01, 0.03)),
            wipe=rng.choice((0.0, 0.02)),
            blackout=rng.choice((0.0, 0.0, 0.01)),
            pause=rng.choice((0.0, 0.01, 0.05)),
            cut=rng.choice((0.0, 0.01, 0.05)),
            mend=rng.choice((0.02, 0.2)),
            jump=rng.choice((0.0, 0.02)),
            restart_ms=rng.choice((20.0, 500.0, 3_000.0)),
            leaders=rng.choice((0.0, 0.3, 0.8)),
        )


class Misfortune:
    """Goes over the world again and again until it ends."""

    def __init__(
        self,
        world: "World",
        network: Network,
        machines: "list[Machine]",
        may_lose_power: "Callable[[Machine], bool]",
        may_be_wiped: "Callable[[Machine], bool]",
    ) -> None:
        """Whether nothing that was promised is lost with what a machine has not synced, or with all that it has."""
        self.world = world
        self.network = network
        self.machines = machines
        self.may_lose_power = may_lose_power
        self.may_be_wiped = may_be_wiped
        self.rng = world.stream("misfortune")
        self.rates = Rates.drawn(self.rng)
        self.is_on = False
        self.kills_ending_nodes = world.stream("who ends").choice((0.0, 0.0, 0.1, 0.3))
        """How often a coordinator dies that is asked to end a transaction."""
        self.cuts_joining_nodes = world.stream("who joins").choice((0.0, 0.1, 0.5))
        """How often a replica that is about to be in sync cannot reach its leader, nor that hear of what is granted."""
        world.is_ending, world.is_proposed = self._ends, self._proposed
        self._caches = world.stream("caches")
        self.loses_nothing_unsynced = False
        """Whether every append is synced before it is acknowledged."""
        self.straggle = 0.0

    def lose_caches(self) -> None:
        """File systems and flushes fail, too, in some worlds."""
        rng = self.world.stream("end of storage")
        self.rates = self.rates._replace(remount=rng.choice((0.0, 0.0, 0.1)), flush=rng.choice((0.0, 0.0, 0.1)))

    def begin(self) -> None:
        """From now on things go wrong."""
        rng = self.rng
        self.is_on = True
        self.network.conditions = Conditions(
            latency_ms=rng.choice((0.1, 1.0, 10.0)),
            jitter_ms=rng.choice((0.1, 5.0, 50.0)),
            loss=rng.choice((0.0, 0.0, 0.01)),
            reset=rng.choice((0.0, 0.0, 0.002)),
            tear=rng.choice((0.0, 0.2)),
            window_bytes=rng.choice((512, 1 << 16, 1 << 18)),
            straggle=self.straggle,
        )
        for machine in self.machines:
            machine.slowest_thread_ms = rng.choice((1.0, 20.0, 300.0))
            machine.host.drift(rng.choice((0.97, 1.0, 1.0, 1.03)))
        self.world.tell(f"{self.rates}")
        self.world.tell(f"{self.network.conditions}")
        self._look()

    def end(self) -> None:
        """Nothing goes wrong any more, and everybody comes back."""
        self.is_on = False
        self.network.conditions = Conditions()
        self.network.heal()
        for machine in self.machines:
            machine.disk.crash_at = 0
            machine.disk.loses_pages = lambda: False
            machine.slowest_thread_ms = 2.0
            machine.host.drift(1.0)
            if not machine.is_alive:
                self.world.later(10.0, machine.power_back)

    def _look(self) -> None:
        if not self.is_on:
            return
        rng, rates = self.rng, self.rates
        machine = self._victim()
        if self.is_fragile:
            for each in self.machines:
                each.disk.crash_at = 0
        else:
            self._kill(machine)
        if rng.random() < rates.stop and not self.is_fragile:
            machine.stop()
        if rng.random() < rates.power and self._will_be_noticed and self.may_lose_power(machine):
            machine.lose_power()
        self._lose_a_cache(machine)
        if rng.random() < rates.wipe and self.may_wipe(machine):
            machine.kill()
            machine.wipe()
        if rng.random() < rates.pause and machine.loop is not None and not self.is_fragile:
            duration_ms = rng.choice((5.0, 200.0, 3_000.0))
            self.world.tell(f"{machine} stands still for {duration_ms:.0f} ms")
            machine.loop.pause(duration_ms)
        if rng.random() < rates.jump:
            jump_ms = rng.choice((-5_000.0, -50.0, 50.0, 60_000.0))
            self.world.tell(f"the clock of {machine} jumps by {jump_ms:.0f} ms")
            machine.host.wall_ms += jump_ms
        if rng.random() < rates.cut and not self.is_fragile:
            self._cut(machine)
        if self.network.cut and rng.random() < rates.mend:
            self.world.tell("the network heals")
            self.network.heal()
        self.world.later(EVERY_MS, self._look)

    def may_wipe(self, machine: "Machine") -> bool:
        """Whether nothing that was promised is lost with all that a machine has, and all will know of it."""
        return machine.is_only_broker and self._is_calm and self.may_be_wiped(machine)

    @property
    def is_fragile(self) -> bool:
        """Whether a machine has lost something, of which the controller does not know yet. Who dies now counts as one
        that may have lost it too (KIP-966), and then nobody is left who has it for sure. Who has something damaged that
        others lack loses it with its start after a death."""
        return any(
            each.is_empty
            or (each.is_suspect and not self.loses_nothing_unsynced)
            or (each.damaged and not self.may_be_wiped(each))
            for each in self.machines
        )

    @property
    def _is_calm(self) -> bool:
        """Whether everybody is heard: the controller would not fence those who have everything, and keep the one who
        has lost it as the last in sync (without KIP-966, Kafka's would)."""
        now_ms = self.world.now_ms
        is_heard = all(
            each.is_up and each.loop is not None and each.loop.resumes_ms <= now_ms for each in self.machines
        )
        return is_heard and not self.network.cut and not self.is_fragile

    @property
    def _will_be_noticed(self) -> bool:
        return (self.loses_nothing_unsynced and not self.is_fragile) or self._is_calm

    def _lose_a_cache(self, machine: "Machine") -> None:
        """Lose what a machine's memory holds for its disk, while the machine runs on."""
        rates = self.rates

        def may_lose() -> bool:
            return self.is_on and self._will_be_noticed and self.may_lose_power(machine)

        if rates.remount and self._caches.random() < rates.remount and may_lose():
            machine.lose_file_system()
        if rates.flush and self._caches.random() < rates.flush:
            machine.fail_a_flush(may_lose)

    def _kill(self, machine: "Machine") -> None:
        rng, rates = self.rng, self.rates
        if rng.random() < rates.kill:
            machine.kill()
        if rng.random() < rates.kill_at_a_write:
            machine.kill_at_a_write(rng.randint(1, 40))
        if rng.random() < rates.blackout:
            self._black_out()

    def _ends(self, node_id: int) -> None:
        rng = self.world.stream("who ends")
        if not self.is_on or self.is_fragile or rng.random() >= self.kills_ending_nodes:
            return
        machine = self.machines[node_id - 1]
        if rng.random() < 0.5:
            machine.kill_at_a_write(rng.randint(1, 8))
        else:
            self.world.later(rng.random() * rng.choice((1.0, 5.0, 20.0)), machine.kill)

    def _proposed(self) -> None:
        rng = self.world.stream("who joins")
        if not self.is_on or rng.random() >= self.cuts_joining_nodes:
            return
        for machine in self.machines:
            broker = machine.node.broker if machine.node is not None else None
            topics = broker.replicas.topics.values() if broker is not None and hasattr(broker, "replicas") else ()
            leaders = [each.leader for topic in topics for each in topic.replicas.values() if each.leader is not None]
            joining = {leader.in_sync.pending.added for leader in leaders if leader.in_sync.pending is not None}
            for node_id in joining - {None}:
                self.world.tell(f"{machine} hears neither n{node_id}, which is about to join, nor the controller")
                self.network.isolate(f"n{node_id}", machine.host.name)
                self.network.isolate(machine.host.name, f"n{node_id}")
                for other in self.machines:
                    if other.is_controller and other is not machine:
                        self.network.isolate(other.host.name, machine.host.name)

    def _victim(self) -> "Machine":
        """Any of them, often the one that leads the quorum."""
        leading = [each for each in self.machines if each.is_controller]
        if leading and self.rng.random() < self.rates.leaders:
            return leading[0]
        return self.rng.choice(self.machines)

    def _black_out(self) -> None:
        """All at once; with the power, where every machine may lose what it has not synced."""
        self.world.tell("all nodes are gone at once")
        for machine in self.machines:
            if self.rng.random() < 0.5 and self.loses_nothing_unsynced and self.may_lose_power(machine):
                machine.lose_power()
            else:
                machine.kill()

    def _cut(self, machine: "Machine") -> None:
        """Cut one node off: from everybody, from the other nodes, or from one; in both directions or one."""
        rng = self.rng
        nodes = [other.host.name for other in self.machines if other is not machine]
        everybody = [name for name in self.network.hosts if name != machine.host.name]
        others = rng.choice((everybody, nodes, nodes[:1]))
        directions = rng.choice(("to", "from", "both"))
        self.world.tell(f"{machine} is cut off {directions} {' '.join(others)}")
        for other in others:
            if directions != "from":
                self.network.isolate(machine.host.name, other)
            if directions != "to":
                self.network.isolate(other, machine.host.name)

    def died(self, machine: "Machine") -> None:
        """Its process is gone: it starts again after a while."""
        restart_ms = self.rng.random() * self.rates.restart_ms if self.is_on else 10.0
        self.world.later(restart_ms, machine.power_back)
