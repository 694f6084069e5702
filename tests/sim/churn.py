"""The changes that people make to a cluster in a world that is not plain: who makes them, and how they have to end."""

from typing import TYPE_CHECKING

from exactly_once.history import Seen

from . import passing
from .beating import BeatingMember, Owners
from .client import Client, NoAnswer, Refused
from .describing import Describer
from .grouping import PATIENCE_MS, Group, Member
from .kind import STREAMS
from .operating import change_voters, reassign
from .parting import part
from .passing import Passing
from .producing import Producer
from .records import Records
from .rot import Rot
from .settling import differing, unsettled
from .streaming import Processes, StreamingMember, tasks_for
from .tuning import Tuner

if TYPE_CHECKING:
    from .machine import Machine
    from .simulation import Simulation

RECKLESS = "reckless"
MEMBERS = 3
REPAIR_MS = 30_000.0
NEEDED_MS = 3_000.0
HEAL_MS = 60_000.0
COME_ON_MS = 20_000.0
"""For a group of the consumer or streams protocol, whose members hear of everything with their heartbeats."""
SETTLE_MS = 60_000.0
LOOK_MS = 60_000.0
TIMEOUT_MS = 2_000.0


class Churn:
    """All of it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.kind = simulation.kind
        self.rot = Rot(self.world, 0.0, simulation.invariants.may_lose)
        self._operators: list[Client] = []
        self._passing: Passing | None = None
        self._tuner: Tuner | None = None
        self._group: Group | None = None
        self._owners = Owners(self.world)
        self._processes = Processes(self.world)
        self._members: list[BeatingMember] = []
        self.clients: list[Client] = []
        """The clients of a group of the consumer or streams protocol: they go on when the others have ended."""
        self._describer: Describer | None = None
        if self.kind.tunes:
            simulation.invariants.reckless.add(RECKLESS)

    def begin(self) -> None:
        """From now on there is work for operators."""
        simulation, kind = self.simulation, self.kind
        self.world.tell(f"{kind}")
        self.rot.often = kind.rot
        if kind.passes_topics:
            self._pass_topics()
        if kind.groups:
            self._begin_group()
        if kind.tunes:
            reckless = self._client("reckless")
            reckless.run(Producer(reckless, Records(self.world), {RECKLESS: 1}).plainly())
            self._tuner = Tuner(
                self._operator("tuner"), sorted(simulation.topics), passing.NAME if self._passing else "", RECKLESS
            )
            self._tuner.client.run(self._tuner.tune())
        if kind.reassigns:
            mover = self._operator("mover")
            mover.run(reassign(mover, simulation.machines))
        if kind.changes_voters:
            elector = self._operator("elector")
            elector.run(change_voters(elector, kind.roles))
        for machine in simulation.machines:
            if machine.node_id in kind.late:
                self.world.later(self.world.stream("late").random() * 2_000.0, machine.start)

    def _client(self, name: str, timeout_ms: float = TIMEOUT_MS) -> Client:
        return self.simulation.client_with(name, timeout_ms)

    def _operator(self, name: str) -> Client:
        """A client that has nothing to do any more once all heals."""
        client = self._client(name)
        self._operators.append(client)
        return client

    @property
    def _replicas(self) -> int:
        """The number of replicas of a new topic."""
        return min(3, len(set(self.kind.brokers) - set(self.kind.late)))

    def _pass_topics(self) -> None:
        of_topic = self._passing = Passing(self.world, self._replicas)
        keeper, writer, reader = self._operator("keeper"), self._client("writer"), self._client("reader of all")
        keeper.run(of_topic.come_and_go(keeper))
        writer.run(of_topic.write(writer))
        reader.run(of_topic.read(reader))

    def _begin_group(self) -> None:
        simulation = self.simulation
        places = [place for place in simulation.partitions if place[0] == "one"]
        group = self._group = Group(self.world, simulation.records, places, ("two", 0))
        group.replicas, group.rules = self._replicas, simulation.invariants
        for number in range(MEMBERS):
            client = self._client(f"member{number}", PATIENCE_MS)
            exactly = self.kind.groups == "exactly"
            if not self.kind.protocol:
                client.run(Member(client, group, exactly=exactly).come_and_go())
                continue
            if self.kind.protocol == STREAMS:
                member: BeatingMember = StreamingMember(client, group, self._owners, self._processes, exactly=exactly)
            else:
                member = BeatingMember(client, group, self._owners, exactly=exactly)
            self._members.append(member)
            self.clients.append(client)
            client.run(member.come_and_go())
        if self.kind.protocol == STREAMS:
            self._describer = Describer(self._client("describer"), tasks_for(places))
            self.clients.append(self._describer.client)
            self._describer.client.run(self._describer.describe())

    # The end of it

    def heal(self) -> None:
        """Operators end their work, and repair what is damaged."""
        self.rot.often = 0.0
        if self._passing is not None:
            self._passing.is_over = True
        for client in self._operators:
            client.is_over = True
        while damaged := [machine for machine in self.simulation.machines if machine.damaged]:
            if self.world.run(NEEDED_MS, lambda: bool(self._repairable)):
                machine = self._repairable[0]
                self.rot.repair(machine)
            else:
                machine = damaged[0]
                self.rot.restore(machine)
            is_repaired = f"{machine} is repaired"
            self.simulation.within(REPAIR_MS, lambda each=machine: each.is_up and not each.damaged, is_repaired)

    @property
    def _repairable(self) -> "list[Machine]":
        """The machines that are damaged and not needed now."""
        return [each for each in self.simulation.machines if each.damaged and self.rot.may_be_lost(each)]

    def get_through(self) -> None:
        """Members of a group come on, once all is well."""
        group = self._group
        if group is not None:
            before = group.commits
            limit_ms = COME_ON_MS if self.kind.protocol else HEAL_MS
            self.simulation.within(limit_ms, lambda: group.commits > before + 1, "members of a group come on")

    def part(self) -> None:
        """A member parts with its group and comes back, once nobody writes any more."""
        group, describer = self._group, self._describer
        if group is not None and self._members:
            wanted = tasks_for(group.places) if self.kind.protocol == STREAMS else set(group.places)
            part(self.simulation, group, self._members, self._owners, wanted)
        if describer is not None:
            living = lambda: describer.ids <= {member.member_id for member in self._members}  # noqa: E731
            self.simulation.within(HEAL_MS, living, "the streams group has no member that is gone")
        for client in self.clients:
            client.is_over = True

    def verdict(self, log: list[Seen]) -> str:
        """The fault that is found once everything is read and nobody writes any more; nothing if all is well."""
        simulation = self.simulation
        machines = simulation.machines
        if not self.world.run(SETTLE_MS, lambda: not unsettled(machines)):
            return f"after {SETTLE_MS / 1000:.0f} s {unsettled(machines)}"
        return differing(machines) or self._asked(log)

    def _asked(self, log: list[Seen]) -> str:
        """The fault that a client finds."""
        client, answers = self._client("looker"), list[str]()

        async def look() -> None:
            for _ in range(20):
                try:
                    answers.append(await self._look(client, log))
                    return
                except (NoAnswer, Refused):
                    client.forget()
                    await client.pause(500)
            answers.append("nobody answers a client that looks how all has ended")

        client.run(look())
        self.simulation.within(LOOK_MS, lambda: bool(answers), "a client can look how all has ended")
        return answers[0]

    async def _look(self, client: Client, log: list[Seen]) -> str:
        """Raises NoAnswer or Refused."""
        wrong = ""
        if self._passing is not None:
            wrong = await self._passing.verdict(client)
        if self._tuner is not None and not wrong:
            self._tuner.client = client
            wrong = await self._tuner.look()
        if self._group is not None and not wrong:
            member = Member(client, self._group, exactly=False)
            wrong = self._group.verdict(log, await member.positions(self._group.places) or {})
        return wrong
