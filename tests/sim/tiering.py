"""Tiered topics in a world: most of their records are in a store that all nodes share, and that fails.

Beside the clients of every world some write to topics with retention, and to one with a single replica, whose disk may
be lost. Readers begin at the start again and again, so they read from the store: each batch has to be the committed
one, and none may be missing. One topic is compacted, on disks and in the store
(:mod:`tests.sim.compacted_tier`). Topics are deleted while they are copied. In the end nothing is in the store that no
segment knows, and of deleted topics nothing at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from exactly_once.history import Seen
from kpybroker.hosts.remote_log.metadata_topic import RemoteLogMetadataTopic
from kpybroker.machines.remote_log.segments import DELETING, STARTED
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .client import Client, NoAnswer, Refused
from .compacted_tier import (
    CONFIGS,
    PLACE,
    SQUEEZED,
    CompactedTruth,
    KeyedProducer,
    read_last_view,
    read_views,
)
from .consuming import READ_COMMITTED, Reader
from .network import Conditions
from .producing import Producer
from .records import Records
from .settling import newest_image
from .store import SimulatedStorage, SimulatedStore
from .stored_segments import StoredSegments

if TYPE_CHECKING:
    from .simulation import Simulation

BRIEF, ALONE, DOOMED = "brief", "alone", "doomed"
"""Topics with a retention, with one replica, and topics that are deleted."""
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
BRIEFLY = {"retention.bytes": "1500"}
ALONE_CONFIGS = {"unclean.leader.election.enable": "true", "retention.bytes": "-1"}
REPLICAS = 3
TIMEOUT_MS = 1_000.0
EARLIEST = -2
READERS = 2
MISSING_MS = 3_000.0
"""So long has a topic to be missing that a node has never seen; hours would be simulated otherwise."""
LOOK_MS = 250.0
REST_MS = 400_000.0
"""Longer than the longest pause after failures."""
READ_MS = 60_000.0
WIPE_SHARE = 0.5
WIPES = 0.04
MISHAPS = 4
MOST_ALIVE_MS = 800.0
PAUSE_SHARE = 0.3
PAUSE_MS = 2_000.0
Place = tuple[str, int]


class TieredWorld:
    """All of it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.store = SimulatedStore(self.world)
        self.segments = StoredSegments(self.world, simulation.machines, self.store, simulation.invariants)
        self.topics = {BRIEF: 2, SQUEEZED: 1}
        self.truth = CompactedTruth(self.world, simulation.machines)
        self.is_healing = False
        self._places: list[Place] = [*simulation.partitions, *((BRIEF, index) for index in range(self.topics[BRIEF]))]
        self.segments.rewritten.add(SQUEEZED)
        simulation.invariants.rewritten.add(SQUEEZED)
        if self.world.stream("wipes").random() < WIPE_SHARE:
            rates = simulation.misfortune.rates
            simulation.misfortune.rates = rates._replace(wipe=max(rates.wipe, WIPES))

    @staticmethod
    def configs(topic: str) -> list[CreatableTopicConfig]:
        """The configuration of a topic."""
        found = {**TIERED, **({BRIEF: BRIEFLY, SQUEEZED: CONFIGS}.get(topic, {}))}
        return [CreatableTopicConfig(name=name, value=value) for name, value in found.items()]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give the nodes the simulated store as long as this lasts."""
        from kpybroker.hosts.remote_log import partition_deletions
        from kpybroker.node.assembly import remote_log

        build, missing_ms = remote_log.build, partition_deletions.MISSING_MS
        write = RemoteLogMetadataTopic.write

        def built(config: Any, _now: Any, _directory: Any) -> SimulatedStorage:
            return SimulatedStorage(self.store, self.simulation.machines[config.node_id - 1].node.scheduler)

        def written(topic: Any, record: Any, done: Any) -> None:
            self.segments.asked(record)
            write(topic, record, done)

        before, Reader.pauses_after = Reader.pauses_after, Reader.pauses_after | {error_codes.KAFKA_STORAGE_ERROR}
        RemoteLogMetadataTopic.write = written  # type: ignore[method-assign]
        remote_log.build = built  # type: ignore[assignment]
        partition_deletions.MISSING_MS = MISSING_MS  # type: ignore[misc]
        try:
            yield
        finally:
            Reader.pauses_after = before
            RemoteLogMetadataTopic.write = write  # type: ignore[method-assign]
            remote_log.build = build
            partition_deletions.MISSING_MS = missing_ms  # type: ignore[misc]

    # The course of it

    def begin(self) -> None:
        """Let people write, read and delete."""
        simulation = self.simulation
        self.store.begin()
        simulation.invariants.reckless.add(ALONE)
        simulation.invariants.alone.add(ALONE)
        self.segments.alone.add(ALONE)
        for name in ("brief plain", "brief transactional"):
            client = self._client(name)
            producer = Producer(client, Records(self.world), {BRIEF: self.topics[BRIEF]}, simulation.invariants)
            client.run(producer.plainly() if name == "brief plain" else producer.in_transactions())
        squeezer = self._client("squeezer")
        squeezer.run(KeyedProducer(squeezer, Records(self.world), {SQUEEZED: 1}).plainly())
        viewer = self._client("viewer")
        viewer.run(read_views(viewer, self.truth))
        lonely = self._client("lonely")
        lonely.run(self._write_alone(lonely))
        deleter = self._client("deleter")
        deleter.run(self._delete_records(deleter))
        keeper = self._client("keeper of doomed")
        keeper.run(self._come_and_go(keeper))
        for number in range(READERS):
            client = self._client(f"tiered reader {number}")
            client.run(self._read(client))

    def play(self) -> None:
        """Let the store fail, and single nodes, while all else is well, so that much is copied."""
        rng, simulation = self.world.stream("deaths among stores"), self.simulation
        simulation.network.conditions = Conditions(latency_ms=5.0, jitter_ms=5.0)  # so that little is said in much time
        for _ in range(MISHAPS):
            self.world.run(rng.random() * MOST_ALIVE_MS)
            machine = rng.choice(simulation.machines)
            if rng.random() < WIPE_SHARE and simulation.misfortune.may_wipe(machine):
                machine.kill()
                machine.wipe()
            elif simulation.misfortune.is_fragile or not machine.is_up:
                continue
            elif rng.random() < PAUSE_SHARE and machine.loop is not None:
                self.world.tell(f"{machine} stands still")
                machine.loop.pause(PAUSE_MS)
            else:
                machine.kill()
        simulation.within(REST_MS, lambda: all(each.is_up for each in simulation.machines), "all nodes are up")
        simulation.network.conditions = Conditions()
        self._heal()

    def _heal(self) -> None:
        """The store fails no more."""
        self.is_healing = True
        self.store.heal()

    def _client(self, name: str) -> Client:
        return self.simulation.client_with(name, TIMEOUT_MS)

    async def _create(self, client: Client, topic: str, configs: dict[str, str], replicas: int) -> bool:
        small = {"internal.segment.bytes": str(self.simulation.kind.segment_bytes)}
        wanted = {**TIERED, **small, **configs}
        made = CreatableTopic(
            name=topic,
            num_partitions=1,
            replication_factor=replicas,
            assignments=[],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in wanted.items()],
        )
        try:
            answer = await client.ask(client.any_node(), CreateTopicsRequest(topics=[made]))
        except NoAnswer:
            return False
        return answer.topics[0].error_code in (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS)

    async def _write_alone(self, client: Client) -> None:
        while not client.is_over and not await self._create(client, ALONE, ALONE_CONFIGS, 1):
            await client.pause(100)
        self._places.append((ALONE, 0))
        await Producer(client, Records(self.world), {ALONE: 1}).plainly()

    async def _delete_records(self, client: Client) -> None:
        """Delete the oldest records of a topic, now and then."""
        while not client.is_over:
            await client.pause(1_500)
            place = BRIEF, client.rng.randrange(self.topics[BRIEF])
            offset = client.rng.choice((-1, client.rng.randint(0, 200)))
            wanted = DeleteRecordsPartition(partition_index=place[1], offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=BRIEF, partitions=[wanted])], timeout_ms=int(TIMEOUT_MS)
            )
            try:
                await client.ask(await client.leader(*place), request)
            except (NoAnswer, Refused):
                client.forget()

    async def _come_and_go(self, client: Client) -> None:
        """Make a topic, write to it, and delete it, again and again."""
        producer = Producer(client, Records(self.world), {DOOMED: 1})
        replicas = min(REPLICAS, len(self.simulation.kind.brokers))
        number = 0
        while not self.is_healing:
            await self._create(client, DOOMED, {}, replicas)
            for _ in range(client.rng.randint(5, 40)):
                number += 1
                try:
                    await producer._produce((DOOMED, 0), [f"doomed {number} {'x' * 60}"], -1, None, None)
                except (NoAnswer, Refused):
                    client.forget()
                await client.pause(20)
            await self._delete(client)
        while not await self._delete(client):
            await client.pause(100)

    async def _delete(self, client: Client) -> bool:
        client.forget()
        state = DeleteTopicState(name=DOOMED, topic_id=bytes(16))
        try:
            answer = await client.ask(client.any_node(), DeleteTopicsRequest(topics=[state], timeout_ms=1_000))
        except NoAnswer:
            return False
        return answer.responses[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION

    async def _read(self, client: Client) -> None:
        """Read from the beginning, again and again."""
        while not client.is_over:
            reader = TieredReader(client, list(self._places), self.segments, client.rng.choice((0, READ_COMMITTED)))
            for _ in range(client.rng.randint(10, 80)):
                if client.is_over:
                    return
                await reader.poll()
                await reader.go_on()
                await client.pause(20)

    # The end of it

    def verdict(self) -> str:
        """The fault once nobody writes any more; nothing if all is well."""
        until_ms = self.world.now_ms + REST_MS
        while unsettled := self._unsettled():
            if self.world.now_ms >= until_ms:
                return f"after {REST_MS / 1000:.0f} s {unsettled}"
            self.world.run(LOOK_MS)
        client, is_read = self._client("last tiered reader"), list[bool]()
        places = [each for each in self._places if not self._has_lost_its_leader(each)]

        async def read() -> None:
            reader = TieredReader(client, places, self.segments, 0)
            while any(reader.positions[each] < reader.ends.get(each, 1 << 62) for each in places):
                await reader.poll()
                await reader.go_on()
            await read_last_view(client, self.truth)
            is_read.append(True)

        client.run(read())
        self.simulation.within(READ_MS, lambda: bool(is_read), "all tiered topics can be read")
        return ""

    def _has_lost_its_leader(self, place: Place) -> bool:
        """Whether the only replica died uncleanly: only an unclean election would give it a leader (KIP-966)."""
        topic = newest_image(self.simulation.machines).topics.get(place[0])
        known = None if topic is None else topic.partitions.get(place[1])
        return place[0] in self.segments.alone and known is not None and known.leader < 0 and not known.isr

    def _unsettled(self) -> str:
        """The first thing that is not at rest."""
        image = newest_image(self.simulation.machines)
        for (topic_id, partition), deletion in self.segments.deletions.items():
            if topic_id not in image.topics_by_id and deletion.state != 2:
                return f"the deletion of {topic_id.hex()}-{partition} is at {deletion.state.name}"
        for segment in self.segments.segments.values():
            is_gone = segment.id.topic_id not in image.topics_by_id
            if is_gone and (segment.id.topic_id, segment.id.partition) not in self.segments.deletions:
                return f"the deletion of {segment.id.topic} has not begun"
            if segment.state in (STARTED, DELETING) and not is_gone:
                return f"a segment of {segment.id.topic} is in the state {segment.state.name}"
        left = next(self.segments.superfluous(image.topics_by_id), "")
        return f"{left} is left in the store" if left else self._uncopied()

    def _uncopied(self) -> str:
        """The first closed segment that is on a disk alone."""
        for machine in self.simulation.machines:
            broker: Any = machine.node.broker if machine.node is not None else None
            for topic, index in [*self._places, PLACE] if broker is not None else ():
                held = broker.replicas.topics.get(topic)
                replica = held.replicas.get(index) if held is not None else None
                log = replica.leader.log if replica is not None and replica.leader is not None else None
                if log is not None and log.local_log_start_offset < log.base_offsets[-1]:
                    return f"{machine} has {topic}-{index} from {log.local_log_start_offset} on, not only its end"
        return ""


class TieredReader(Reader):
    """Compares each batch with the committed one, and goes on at the log start where that has moved."""

    def __init__(self, client: Client, places: list[Place], segments: StoredSegments, level: int) -> None:
        super().__init__(client, places, in_session=client.rng.random() < 0.5, level=level)
        self._segments = segments
        self._lost: dict[Place, None] = {}

    def _new(self, place: Place, data: bytes, aborted: list[tuple[int, int]]) -> list[Seen]:
        topic = self.client.topics.get(place[0])
        if topic is not None:
            self._compare(place, topic.id, data)
        return super()._new(place, data, aborted)

    def _compare(self, place: Place, topic_id: bytes, data: bytes) -> None:
        committed = self._segments.invariants.committed.get((place[0], topic_id, place[1]))
        offset = self.positions[place]
        for _, header in batch_headers(data):
            if not header.base_offset <= offset < header.next_offset:
                self.client.world.violated(f"{place} has {header.base_offset} where {offset} was asked for")
            found = header.last_offset, header.partition_leader_epoch, header.crc
            known = found if committed is None else committed.batches.get(header.base_offset)
            if place[0] not in self._segments.alone and found != known:
                self.client.world.violated(f"{place} has {found} at {header.base_offset}, and {known} was committed")
            offset = header.next_offset

    def out_of_range(self, node_id: int, place: Place) -> None:
        """It may begin later by now."""
        topic = self.client.topics.get(place[0])
        key = topic.id if topic is not None else b"", place[1]
        start, position = self._segments.starts.get(key, 0), self.positions[place]
        if place[0] not in self._segments.alone and topic is not None and position >= start:
            self.client.world.violated(f"{place} on n{node_id} has nothing at {position}, and begins at {start}")
        self._lost[place] = None

    async def go_on(self) -> None:
        """Find out where the partitions begin that begin later."""
        while self._lost:
            place = self._lost.popitem()[0]
            wanted = ListOffsetsPartition(partition_index=place[1], timestamp=EARLIEST)
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=place[0], partitions=[wanted])]
            )
            try:
                answer: Any = await self.client.ask(await self.client.leader(*place), request)
            except (NoAnswer, Refused):
                return
            (found,) = answer.topics[0].partitions
            if found.error_code == error_codes.NONE:
                self.positions[place] = found.offset
