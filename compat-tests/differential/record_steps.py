"""Steps of producers and consumers: batches good and bad, sequences and epochs, fetch sessions, offsets by time."""

from collections.abc import Callable, Mapping
from typing import Any

from differential import topic_steps
from differential.steps import DAMAGES, DAY_MS, Batch, Step, learned
from differential.world import World, call
from kpywire import api
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LAST_SEQUENCE = 2**31 - 1
OFFSETS = (0, 0, 0, 1, 2, 3, 5, 8, 20, -1, 1 << 40)


class Producer:
    """The state that an idempotent producer keeps for itself, as the author believes it."""

    def __init__(self) -> None:
        self.epoch = 0
        self.next_sequence: dict[tuple[str, int], int] = {}
        self.sent: dict[tuple[str, int], list[Batch]] = {}


def records_of(world: World) -> tuple[tuple[int, bytes | None, bytes | None], ...]:
    records = []
    for _ in range(world.rng.choice([1, 1, 2, 3, 5])):
        after = world.rng.choice([0, 0, 1, -1000, -5, -DAY_MS, 50])
        if world.chance(0.03):
            after = world.rng.choice([2 * DAY_MS, -30 * DAY_MS])
        key = None if world.chance(0.08) else world.rng.choice([b"k", b"key", b""])
        value = world.rng.choice([b"v", b"", None, bytes(40), b"v" * 200])
        records.append((after, key, value))
    return tuple(records)


def _codec(world: World) -> int:
    return world.rng.choice([0, 0, 0, 1, 2, 3, 4])


def produced(world: World, topic: str, partition: int, batches: list[Batch | bytes | None]) -> Step:
    """A request with a batch for each mention of the partition."""
    version = world.version(api.PRODUCE)
    data = [PartitionProduceData(index=partition, records=batch) for batch in batches]
    sent = TopicProduceData(name=topic, topic_id=world.topic_id(topic), partition_data=data)
    acks = world.rng.choice([-1, -1, 1, 1, 0] if world.chance(0.9) else [2, -2])
    request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[sent])
    if version < 3:
        version = 3
    if world.chance(0.02):
        request.transactional_id = "~transaction"
    return call(world.pick("p1", "p2"), version, request)


def produce(world: World) -> list[Step]:
    topic = world.topic()
    batch = Batch(records_of(world), _codec(world))
    batches: list[Batch | bytes | None] = [batch]
    if world.chance(0.05):
        batches.append(Batch(records_of(world)))
    return [produced(world, topic, world.partition(topic), batches)]


def produce_badly(world: World) -> list[Step]:
    topic, damage = world.topic(), world.rng.choice(sorted(DAMAGES))
    batch = Batch(records_of(world), _codec(world), damage=damage, transactional=world.chance(0.05))
    return [produced(world, topic, world.partition(topic), [batch])]


def init_producer(world: World) -> list[Step]:
    actor = world.pick("p1", "p2", "p3")
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=world.rng.choice([1000, 60_000]))
    if world.chance(0.2):
        request.producer_id = world.pick(learned("producer_id", actor), 5)
        request.producer_epoch = world.rng.choice([0, 1, -1, 32767])
    if world.chance(0.03):
        request.transactional_id = ""
    return [call(actor, world.version(api.INIT_PRODUCER_ID), request)]


def idempotent_run(world: World) -> list[Step]:
    """A producer that writes on, and does what it should not now and then."""
    actor, topic = world.pick("p1", "p2", "p3"), world.topic()
    partition = world.partition(topic)
    producer = Producer()
    steps: list[Step] = []
    if world.chance(0.9):
        steps += [call(actor, 4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))]
    at = world.rng.choice([0, 0, 0, 0, LAST_SEQUENCE, LAST_SEQUENCE - 1, 5])
    for _ in range(world.rng.randint(2, 9)):
        batch = Batch(records_of(world), _codec(world), producer=actor, epoch=producer.epoch, sequence=at)
        sent = producer.sent.setdefault((topic, partition), [])
        match world.rng.choice(["on"] * 6 + ["gap", "again", "old epoch", "new epoch", "part", "twice", "no sequence"]):
            case "on" | "twice":
                sent.append(batch)
                at = _after(at, batch)
            case "gap":
                batch = batch._replace(sequence=_after(at, batch))
            case "again" if sent:
                batch = world.rng.choice(sent[-7:])
            case "part" if sent:
                batch = batch._replace(sequence=sent[-1].sequence)
            case "old epoch":
                batch = batch._replace(epoch=producer.epoch - 1)
            case "new epoch":
                producer.epoch += 1
                at = 0 if world.chance(0.8) else at
                batch = batch._replace(epoch=producer.epoch, sequence=at)
                at = _after(at, batch)
            case "no sequence":
                batch = batch._replace(sequence=-1)
            case _:
                pass
        steps.append(produced(world, topic, partition, [batch]))
    return steps


def _after(sequence: int, batch: Batch) -> int:
    return sequence + len(batch.records) & LAST_SEQUENCE


# Reading


def _wanted(world: World, topic: str, partitions: list[int]) -> FetchTopic:
    asked = [
        FetchPartition(
            partition=partition,
            fetch_offset=world.rng.choice(OFFSETS),
            partition_max_bytes=world.rng.choice([1 << 20, 1 << 20, 1 << 20, 100, 1, 0, -1]),
            current_leader_epoch=world.rng.choice([-1, -1, -1, 0, 0, 5]),
            last_fetched_epoch=world.rng.choice([-1, -1, -1, 0, 3]),
        )
        for partition in partitions
    ]
    return FetchTopic(topic=topic, topic_id=world.topic_id(topic), partitions=asked)


def _fetch(world: World, topics: list[FetchTopic], **fields: Any) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=world.rng.choice([0, 1]),
        max_bytes=world.rng.choice([0x7FFF_FFFF, 0x7FFF_FFFF, 1 << 20, 100, 0]),
        isolation_level=world.rng.choice([0, 1]),
        topics=topics,
        **fields,
    )


def fetch(world: World) -> list[Step]:
    topics = [_some_partitions(world, world.topic()) for _ in range(world.rng.choice([1, 1, 2]))]
    request = _fetch(world, topics, session_id=0, session_epoch=-1)
    return [call(world.pick("f1", "f2"), world.version(api.FETCH), request)]


def _some_partitions(world: World, topic: str) -> FetchTopic:
    count = world.rng.choice([1, 1, 2])
    return _wanted(world, topic, list(dict.fromkeys(world.partition(topic) for _ in range(count))))


def fetch_session(world: World) -> list[Step]:
    """A session that begins, goes on, changes, errs and ends, with writes and deletions between."""
    actor, version = world.pick("f1", "f2"), max(7, world.version(api.FETCH))
    steps: list[Step] = []
    epoch: int = 0
    session: Any = 0
    for _ in range(world.rng.randint(3, 8)):
        topic = world.topic()
        topics = [_some_partitions(world, topic)] if epoch == 0 or world.chance(0.4) else []
        forgotten = []
        if epoch > 0 and world.chance(0.25):
            partitions = [world.partition(topic)]
            forgotten = [ForgottenTopic(topic=topic, topic_id=world.topic_id(topic), partitions=partitions)]
        asked = epoch
        if world.chance(0.08):
            asked = world.rng.choice([-1, epoch + 3, 0, -2, LAST_SEQUENCE])
        request = _fetch(world, topics, session_id=session, session_epoch=asked)
        request.forgotten_topics_data = forgotten
        steps.append(call(actor, version, request))
        session, epoch = learned("session_id", actor), epoch + 1
        if asked < 0:
            session, epoch = 0, 0
        if world.chance(0.5):
            between = world.pick(produce, produce, idempotent_run, topic_steps.recreate, topic_steps.add_partitions)
            steps += between(world)
    return steps


def fetch_that_waits(world: World) -> list[Step]:
    """A reader at the end of a partition, and what may answer it."""
    topic = world.topic()
    partition = FetchPartition(partition=0, fetch_offset=world.rng.choice([0, 1, 3]), partition_max_bytes=1 << 20)
    wanted = FetchTopic(topic=topic, topic_id=learned("topic_id", topic), partitions=[partition])
    request = FetchRequest(
        max_wait_ms=30_000, min_bytes=world.rng.choice([1, 500]), max_bytes=1 << 20, topics=[wanted], session_epoch=-1
    )
    waiting: Step = call(world.pick("w1", "w2"), world.version(api.FETCH), request)
    return [waiting, *world.pick(produce, produce, topic_steps.recreate, topic_steps.delete, delete_records)(world)]


def list_offsets(world: World) -> list[Step]:
    topic = world.topic()
    asked = [
        ListOffsetsPartition(
            partition_index=world.partition(topic),
            current_leader_epoch=world.rng.choice([-1, -1, 0, 4]),
            timestamp=world.rng.choice([-1, -1, -2, -2, -3, -4, -5, -6, -7, 0, 1, 1 << 50]),
        )
        for _ in range(world.rng.choice([1, 1, 2]))
    ]
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=world.rng.choice([0, 0, 1]),
        topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        timeout_ms=1000,
    )
    return [call("f1", world.version(api.LIST_OFFSETS), request)]


def delete_records(world: World) -> list[Step]:
    topic = world.topic()
    asked = DeleteRecordsPartition(
        partition_index=world.partition(topic), offset=world.rng.choice([0, 1, 1, 2, 3, -1, -2, 99])
    )
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=10_000)
    return [call("admin", world.version(api.DELETE_RECORDS), request)]


def offset_for_epoch(world: World) -> list[Step]:
    topic = world.topic()
    asked = OffsetForLeaderPartition(
        partition=world.partition(topic),
        current_leader_epoch=world.rng.choice([-1, 0, 2]),
        leader_epoch=world.rng.choice([0, 0, 1, -1, 1 << 30]),
    )
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    request.replica_id = world.rng.choice([-1, -2, -2])
    return [call("f1", world.version(api.OFFSET_FOR_LEADER_EPOCH), request)]


def describe_producers(world: World) -> list[Step]:
    topic = world.topic()
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[world.partition(topic)])])
    return [call("admin", 0, request)]


MAKERS: Mapping[Callable[[World], list[Step]], float] = {
    produce: 4,
    produce_badly: 3,
    init_producer: 0.7,
    idempotent_run: 1.5,
    fetch: 3,
    fetch_session: 1.2,
    fetch_that_waits: 0.7,
    list_offsets: 2.5,
    delete_records: 1,
    offset_for_epoch: 0.7,
    describe_producers: 1,
}
"""And how often each is taken, against the others."""
