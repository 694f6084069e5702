"""A topic that is deleted and made again, under one name, while it is written and read.

Every value names the topic's id that its writer meant. So no record of one life of the name may be seen in another; and
of the last life everything is there that was acknowledged, unless its retention is over.
"""

from typing import TYPE_CHECKING, Any

from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .client import Client, NoAnswer, Refused
from .consuming import Reader
from .producing import ALL, Producer
from .records import Records

if TYPE_CHECKING:
    from .world import World

NAME = "passing"
EARLIEST = -2
UNCOMMITTED = 0
Place = tuple[str, int]


class Passing:
    """All lives of the name."""

    def __init__(self, world: "World", replicas: int) -> None:
        self.world = world
        self.replicas = replicas
        self.acknowledged: dict[bytes, dict[str, Place]] = {}
        """By the topic's id: values, and where they were sent."""
        self.is_over = False

    async def come_and_go(self, client: Client) -> None:
        """Make the topic and delete it, again and again."""
        rng = client.rng
        while not self.is_over:
            configs = [
                CreatableTopicConfig(name="min.insync.replicas", value=str(min(2, self.replicas))),
                CreatableTopicConfig(name="internal.segment.bytes", value=rng.choice(("300", "3000", "1000000"))),
                CreatableTopicConfig(name="retention.ms", value=rng.choice(("-1", "-1", "300"))),
            ]
            topic = CreatableTopic(
                name=NAME,
                num_partitions=rng.randint(1, 2),
                replication_factor=self.replicas,
                assignments=[],
                configs=configs,
            )
            try:
                await client.ask(client.controller_or_any(), CreateTopicsRequest(topics=[topic]))
                await client.pause(rng.choice((10, 500, 3_000)))
                if self.is_over:
                    return
                state = DeleteTopicState(name=NAME, topic_id=bytes(16))
                if rng.random() < 0.5:
                    await client.look()
                    if NAME not in client.topics:
                        continue
                    state = DeleteTopicState(name=None, topic_id=client.topics[NAME].id)
                await client.ask(client.controller_or_any(), DeleteTopicsRequest(topics=[state], timeout_ms=1_000))
                await client.pause(rng.choice((1, 100, 1_000)))
            except NoAnswer:
                await client.pause(100)

    async def write(self, client: Client) -> None:
        """Write to whichever life there is."""
        producer = Producer(client, Records(self.world), {NAME: 1})
        number = 0
        while not client.is_over:
            await client.pause(client.rng.choice((5, 60)))
            try:
                await client.leader(NAME, 0)
                topic = client.topics[NAME]
                place = (NAME, client.rng.choice(sorted(topic.leaders)))
                values = [f"{topic.id.hex()}-{client.name}-{number + each}" for each in range(3)]
                number += len(values)
                await producer._produce(place, values, ALL, None, None)
                self.acknowledged.setdefault(topic.id, {}).update(dict.fromkeys(values, place))
            except (NoAnswer, Refused):
                client.forget()

    async def read(self, client: Client) -> None:
        """Read whichever life there is from its beginning."""
        reader = _Surviving(client, b"")
        while not client.is_over:
            found = await self._current(client)
            if found is None:
                await client.pause(100)
                continue
            topic_id, places = found
            if topic_id != reader.topic_id:
                reader = _Surviving(client, topic_id, places)
            for seen in await reader.poll():
                self._look(seen.value, topic_id)
            await reader.go_on()

    def _look(self, value: str, topic_id: bytes) -> None:
        if not value.startswith(topic_id.hex()):
            self.world.violated(f"{value} was read of the topic {topic_id.hex()}, and was sent to another of its name")

    async def _current(self, client: Client) -> tuple[bytes, list[Place]] | None:
        """The id of the life there is, and its partitions."""
        try:
            if NAME not in client.topics:
                await client.look()
        except NoAnswer:
            return None
        found = client.topics.get(NAME)
        return None if found is None else (found.id, [(NAME, index) for index in sorted(found.leaders)])

    async def verdict(self, client: Client) -> str:
        """The fault of the last life, in a line, once nothing goes wrong any more."""
        for _ in range(3):
            client.forget()
            found = await self._current(client)
        if found is None:
            return ""
        topic_id, places = found
        reader = _Surviving(client, topic_id, places)
        values: list[str] = []
        while any(reader.positions[place] < reader.ends.get(place, 1 << 62) for place in places):
            values += [seen.value for seen in await reader.poll()]
            await reader.go_on()
        for value in values:
            self._look(value, topic_id)
        if len(set(values)) < len(values):
            return f"{NAME} has values twice"
        missing = set(self.acknowledged.get(topic_id, ())) - set(values)
        return f"{NAME} lacks {min(missing)}, of {len(missing)}" if missing and not reader.skipped else ""


class _Surviving(Reader):
    """Goes on where a topic begins now, when what it was about to read is over its retention."""

    def __init__(self, client: Client, topic_id: bytes, places: "list[Place] | tuple[()]" = ()) -> None:
        super().__init__(client, list(places), in_session=client.rng.random() < 0.5, level=UNCOMMITTED)
        self.topic_id = topic_id
        self.skipped = False
        self._lost: dict[Place, None] = {}

    def out_of_range(self, node_id: int, place: Place) -> None:
        """It may have begun later meanwhile."""
        del node_id
        self._lost[place] = None

    async def go_on(self) -> None:
        """Find out where the partitions begin that begin later."""
        while self._lost:
            topic, partition = place = self._lost.popitem()[0]
            wanted = ListOffsetsPartition(partition_index=partition, timestamp=EARLIEST)
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
            )
            try:
                answer: Any = await self.client.ask(await self.client.leader(*place), request)
            except (NoAnswer, Refused):
                return
            (found,) = answer.topics[0].partitions
            if found.error_code == error_codes.NONE and found.offset > self.positions[place]:
                self.positions[place] = found.offset
                self.skipped = True
