"""A share group in a world: its settings, its members, and how it has to end.

It reads a topic that all kinds of producers write, from the beginning, with aborted transactions or without. Once all
is well, its members stop to leave and to give back what they can read, and come to the end: then every committed record
was accepted, rejected, or counted out.
"""

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

from .client import GROUP, Client, NoAnswer, Refused
from .deliveries import Deliveries
from .share_member import NAME, TOPIC, ShareMember
from .world import Violation

if TYPE_CHECKING:
    from .simulation import Simulation

GROUP_RESOURCE = 32
SET = 0
LATEST = -1
MEMBERS = 3
PATIENCE_MS = 3_000.0
END_MS = 120_000.0
LOOK_MS = 200
COMMITTED = "read_committed"


class Sharing:
    """All of it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.deliveries = Deliveries(self.world, simulation.machines, NAME)
        self.clients: list[Client] = []
        self.is_calm = False
        """Whether members stay, and accept what is not poison."""
        self._ends: dict[int, tuple[int, int]] = {}
        """By partition: where the group is, and how far that is from the end of the partition."""
        rng = self.world.stream("sharing")
        self._isolation = rng.choice((COMMITTED, "read_uncommitted"))
        self.deliveries.limit = rng.choice((2, 5, 5, 10))

    async def configure(self, client: Client) -> None:
        """Set the configs of the group. All leaders of topics that are created later know them."""
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": self._isolation,
            "share.delivery.count.limit": str(self.deliveries.limit),
        }
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=NAME,
            configs=[AlterableConfig(name=name, config_operation=SET, value=configs[name]) for name in configs],
        )
        while True:
            try:
                answer = await client.ask(client.any_node(), IncrementalAlterConfigsRequest(resources=[resource]))
                if answer.responses[0].error_code == error_codes.NONE:
                    return
            except NoAnswer:
                pass
            await client.pause(100)

    def begin(self) -> None:
        """From now on the group has members."""
        self.world.tell(f"share group: {self._isolation}, at most {self.deliveries.limit} deliveries")
        for number in range(MEMBERS):
            client = self._client(f"sharer{number}")
            client.run(ShareMember(client, self).come_and_go())

    def _client(self, name: str) -> Client:
        client = Client(self.world, self.simulation.network, name, self.simulation.node_ids, PATIENCE_MS)
        self.simulation.clients.append(client)
        self.clients.append(client)
        return client

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
        for client in self.clients:
            client.is_over = True

    async def _look(self, client: Client) -> None:
        """Ask again and again how far the group has come."""
        topic = DescribeShareGroupOffsetsRequestTopic(
            topic_name=TOPIC, partitions=list(range(self.simulation.topics[TOPIC]))
        )
        group = DescribeShareGroupOffsetsRequestGroup(group_id=NAME, topics=[topic])
        while not client.is_over:
            try:
                node_id = await client.coordinator(NAME, GROUP)
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
        return self.deliveries.verdict(there, committed_only=self._isolation == COMMITTED)
