"""A share group in a world: its settings, its members, and how it has to end.

It reads a topic that all kinds of producers write, from the beginning, with aborted transactions or without. Once all
is well, its members stop to leave and to give back what they can read, and come to the end: then every committed record
was accepted, rejected, or counted out. In half of the worlds it has a dead-letter topic. Before that, nodes die now and
then while all else is well, so that leaders load what members have. At the end the group comes to rest: it has these
members alone, and stays at its epoch. When one of them leaves, the others go on at a later one.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from exactly_once.history import Seen
from kpywire import error_codes
from kpywire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest

from .client import GROUP, Client, NoAnswer, Refused
from .dead_letters import DeadLetters
from .deliveries import Deliveries
from .older_leader import OlderLeader
from .producing import Producer
from .share_member import NAME, TOPIC, ShareMember
from .world import Violation

if TYPE_CHECKING:
    from .simulation import Simulation

GROUP_RESOURCE = 32
SET = 0
LATEST = -1
MEMBERS = 3
KILLS = 2
MOST_ALIVE_MS = 700
"""The longest time between two of them."""
PATIENCE_MS = 3_000.0
END_MS = 120_000.0
REST_MS = 20_000.0
DEAD_LETTERS_SHARE = 0.5
"""How often the group has a dead-letter topic."""
RESTS_MS = 1_000.0
"""A group that stays at its epoch for this long is at rest."""
LOOK_MS = 200
COMMITTED = "read_committed"


class Sharing:
    """All of it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.deliveries = Deliveries(self.world, simulation.machines, NAME)
        self.clients: list[Client] = []
        self.members: list[ShareMember] = []
        self.is_calm = False
        """Whether members stay, and accept what is not poison."""
        self._ends: dict[int, tuple[int, int]] = {}
        """By partition: where the group is, and how far that is from the end of the partition."""
        self._epoch = -1
        """The epoch of the group, as it was described last."""
        self._since_ms = 0.0
        """The time since when it is at this epoch."""
        self._ids: set[str] = set()
        """Its members then."""
        rng = self.world.stream("sharing")
        self._isolation = rng.choice((COMMITTED, "read_uncommitted"))
        self.deliveries.limit = rng.choice((2, 5, 5, 10))
        has_dead_letters = self.world.stream("dead letters").random() < DEAD_LETTERS_SHARE
        letters = DeadLetters(self.world, simulation.machines, self.deliveries)
        self.dead_letters = letters if has_dead_letters else None

    async def configure(self, client: Client) -> None:
        """Set the configs of the group. All leaders of topics that are created later know them."""
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": self._isolation,
            "share.delivery.count.limit": str(self.deliveries.limit),
            **(self.dead_letters.configs if self.dead_letters is not None else {}),
        }
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=NAME,
            configs=[AlterableConfig(name=name, config_operation=SET, value=configs[name]) for name in configs],
        )
        wanted: list[Any] = [IncrementalAlterConfigsRequest(resources=[resource])]
        if self.dead_letters is not None:
            wanted.insert(0, self.dead_letters.creation(min(3, len(self.simulation.kind.brokers))))
        while wanted:
            try:
                answer = await client.ask(client.controller_or_any(), wanted[0])
                results = answer.topics if len(wanted) > 1 else answer.responses
                if results[0].error_code in (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS):
                    del wanted[0]
                    continue
            except NoAnswer:
                pass
            await client.pause(100)

    def begin(self) -> None:
        """From now on the group has members."""
        self.world.tell(f"share group: {self._isolation}, at most {self.deliveries.limit} deliveries")
        for number in range(MEMBERS):
            client = self._client(f"sharer{number}")
            member = ShareMember(client, self)
            self.members.append(member)
            client.run(member.come_and_go())
        older = self._client("older leader")
        older.run(OlderLeader(older, self.deliveries, self.simulation.machines).write(NAME, TOPIC))
        # one more that aborts transactions: those of two producers overlap
        writer = self.simulation.client("second transactional")
        topics = {TOPIC: self.simulation.topics[TOPIC]}
        writer.run(Producer(writer, self.simulation.records, topics, self.simulation.invariants).in_transactions())

    def _client(self, name: str) -> Client:
        client = Client(self.world, self.simulation.network, name, self.simulation.node_ids, PATIENCE_MS)
        self.simulation.clients.append(client)
        self.clients.append(client)
        return client

    def play(self) -> None:
        """Let members work while all is well but for nodes that die."""
        simulation, rng = self.simulation, self.world.stream("deaths among shares")
        for _ in range(KILLS):
            self.world.run(rng.random() * MOST_ALIVE_MS)
            if not simulation.misfortune.is_fragile:
                rng.choice(simulation.machines).kill()
                simulation.within(END_MS, lambda: all(each.is_up for each in simulation.machines), "the node is back")

    # The end of it

    def get_through(self) -> None:
        """Members come to the end, once nobody writes any more."""
        self.is_calm = True
        others = [client for client in self.simulation.clients if client not in self.clients]
        self.simulation.within(END_MS, lambda: not any(client.tasks for client in others), "writers come to their ends")
        looker = self._client("looker of shares")
        looker.run(self._look(looker))
        partitions = self.simulation.topics[TOPIC]
        at_the_end = lambda: len(self._ends) == partitions and all(not lag for _, lag in self._ends.values())  # noqa: E731
        if not self.world.run(END_MS, at_the_end):
            raise Violation(f"after {END_MS / 1000:.0f} s {NAME} are at {self._ends} (offset, lag)")
        self.simulation.within(REST_MS, self._rests, "the share group rests, with its living members alone")
        before = self._epoch
        self.members[0].retires = True
        goes_on = lambda: self._rests() and self._epoch > before and len(self._ids) == MEMBERS - 1  # noqa: E731
        self.simulation.within(REST_MS, goes_on, "the share group goes on when a member has left")
        for client in self.clients:
            client.is_over = True

    def _rests(self) -> bool:
        """Whether the group has its living members alone, and stays at its epoch."""
        living = {member.member_id for member in self.members} - {""}
        return self._ids == living and self.world.now_ms - self._since_ms >= RESTS_MS

    async def _describe(self, client: Client, node_id: int) -> None:
        """Note the epoch and the members of the group. Raises as asking does."""
        answer = await client.ask(
            node_id, ShareGroupDescribeRequest(group_ids=[NAME], include_authorized_operations=False)
        )
        (group,) = answer.groups
        if not group.error_code:
            if group.group_epoch != self._epoch:
                self._epoch, self._since_ms = group.group_epoch, self.world.now_ms
            self._ids = {member.member_id for member in group.members}

    async def _look(self, client: Client) -> None:
        """Ask again and again how far the group has come, and who is in it."""
        topic = DescribeShareGroupOffsetsRequestTopic(
            topic_name=TOPIC, partitions=list(range(self.simulation.topics[TOPIC]))
        )
        group = DescribeShareGroupOffsetsRequestGroup(group_id=NAME, topics=[topic])
        while not client.is_over:
            try:
                node_id = await client.coordinator(NAME, GROUP)
                await self._describe(client, node_id)
                answer = await client.ask(node_id, DescribeShareGroupOffsetsRequest(groups=[group]))
                parts = [part for topic in answer.groups[0].topics for part in topic.partitions]
                if not answer.groups[0].error_code and not any(part.error_code for part in parts):
                    self._ends = {
                        part.partition_index: (part.start_offset, await self._lag(client, part)) for part in parts
                    }
            except (NoAnswer, Refused):
                pass
            await client.pause(LOOK_MS)

    async def _lag(self, client: Client, part: Any) -> int:
        """The lag in a partition. Where the group never began, the broker does not know it. Raises as asking does."""
        if part.lag >= 0:
            return int(part.lag)
        wanted = ListOffsetsPartition(partition_index=part.partition_index, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])]
        )
        answer = await client.ask(await client.leader(TOPIC, part.partition_index), request)
        (found,) = answer.topics[0].partitions
        if found.error_code:
            client.forget()
            raise Refused(found.error_code, TOPIC)
        return int(found.offset)

    def verdict(self, log: list[Seen]) -> str:
        """The fault of the group; nothing if all is well. ``log``: the committed records of all topics."""
        there = [seen for seen in log if seen.partition[0] == TOPIC]
        self.world.tell(f"share group: {self.deliveries.done} records ended of {len(there)}")
        wrong = self.deliveries.verdict(there, committed_only=self._isolation == COMMITTED)
        if self.dead_letters is not None and not wrong:
            wrong = self.dead_letters.verdict({(*seen.partition, seen.offset) for seen in there})
        return wrong

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the brokers from inside as long as this lasts."""
        with self.deliveries.watching(), self.dead_letters.watching() if self.dead_letters else nullcontext():
            yield
