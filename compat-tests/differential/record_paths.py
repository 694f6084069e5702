"""Paths of the APIs that write and read records, and look up offsets: see `error_paths`."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from differential.steps import DAMAGES, DAY_MS, Batch, Call, learned
from differential.world import call
from kpywire import api
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.raw_requests import UNKNOWN_ID, creation, deletion, topic_named

Records = tuple[tuple[int, bytes | None, bytes | None], ...]
THREE: Records = ((0, b"k", b"v"), (1, b"k", b"v"), (2, b"k", b"v"))
KEYLESS: Records = ((0, b"k", b"v"), (1, None, b"v"), (2, b"k", b"v"))
AHEAD: Records = ((0, b"k", b"v"), (2 * DAY_MS, b"k", b"v"), (2, b"k", b"v"))
LARGE: Records = ((0, b"k", bytes(400)),)
LONGER_THAN_A_SEGMENT: Records = ((0, b"k", bytes(1_100_000)),)
ZSTD = 4
LATEST = 13
BEFORE_ANY = -2
"""A leader epoch that every partition has left behind: -1 stands for none in particular."""
BY_ID = 13


def _named(topic: str, version: int) -> dict[str, Any]:
    """The name or the id of a topic in a request, as the version has it; ``~nowhere`` is not there."""
    if version < BY_ID:
        return {"name": topic}
    return {"topic_id": UNKNOWN_ID if topic == "~nowhere" else learned("topic_id", topic)}


def writing(
    topic: str, version: int, *batches: Any, partition: int = 0, acks: int = -1, **fields: Any
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=batch) for batch in batches]
    sent = TopicProduceData(**_named(topic, version), partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[sent], **fields)


def _produce(version: int) -> Iterator[Any]:
    three = Batch(THREE)
    for topic in ("~t0", "~compacted", "~small", "~clock", "~packed", "~alone", "~nowhere"):
        yield writing(topic, version, three)
    yield writing("~compacted", version, Batch(KEYLESS))
    yield writing("~small", version, Batch(LARGE))
    yield writing("~t0", version, Batch(AHEAD))
    yield writing("~clock", version, Batch(AHEAD))
    for damage in DAMAGES:
        yield writing("~t0", version, three._replace(damage=damage))
    for codec in (1, 2, 3, ZSTD):
        yield writing("~t0", version, three._replace(codec=codec))
    yield writing("~t0", version, Batch(THREE, ZSTD), three)
    yield writing("~t0", version, three, Batch(THREE, ZSTD))
    for damage in ("twice", "empty", "wrong crc", "magic 1", "header only"):
        yield writing("~t0", version, three, three._replace(damage=damage))
        yield writing("~t0", version, three._replace(damage=damage), three)
        yield writing("~t0", version, three._replace(damage=damage), three, three._replace(damage="twice"), three)
    for acks in (2, -2):
        yield writing("~t0", version, three, acks=acks)
    for partition in (1, -1):
        yield writing("~t0", version, three, partition=partition)
    if version < BY_ID:
        yield writing("__consumer_offsets", version, three)
        yield writing("", version, three)
        yield writing("a/b", version, three)
    yield writing("~t0", version, three._replace(transactional=True))
    yield ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[])
    yield from _sequences(version)
    if version in (3, LATEST):
        yield writing("~segments", version, Batch(LONGER_THAN_A_SEGMENT))
    if version == LATEST:
        yield from _validation(version)


def _sequences(version: int) -> Iterator[Any]:
    """The mistakes of a producer with an id, in its order."""
    yield call("e", 4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
    first = Batch(THREE, producer="e", epoch=0, sequence=0)
    steps = [(0, 0), (0, 0), (0, 3), (0, 9), (0, 0), (0, 1), (1, 5), (1, 0), (0, 6), (1, 3), (-1, 0), (1, -1), (9, 0)]
    steps += [(8, 3), (9, 3), (9, 2**31 - 1), (9, 6)]
    for epoch, sequence in steps:
        yield writing("~t0", version, first._replace(epoch=epoch, sequence=sequence))
    yield writing("~t0", version, first._replace(producer="nobody", sequence=4))
    yield writing("~t0", version, first._replace(producer="nobody", sequence=4), acks=1)


def _validation(version: int) -> Iterator[Any]:
    """Everything that can be wrong with a batch, for each kind of topic and of records, compressed or not."""
    cases = [*product(("~compacted", "~clock", "~packed", "~small"), (THREE,), (0,))]
    cases += [*product(("~t0", "~compacted"), (KEYLESS, AHEAD), (3,)), ("~clock", AHEAD, 0), ("~packed", KEYLESS, 3)]
    for (topic, records, codec), damage in product(cases, ("", *DAMAGES)):
        yield writing(topic, version, Batch(records, codec, damage=damage))
    for topic in ("~t0", "~compacted", "~clock", "~packed", "~small"):
        yield call("f", 12, reading(topic, 12, _from(0), session_id=0, session_epoch=-1))


# Reading


def reading(topic: str, version: int, *partitions: FetchPartition, **fields: Any) -> FetchRequest:
    named = _named(topic, version)
    if "name" in named:
        named = {"topic": topic}
    wanted = [FetchTopic(**named, partitions=list(partitions))] if partitions else []
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": wanted, **fields})


def _from(offset: int, partition: int = 0, **fields: Any) -> FetchPartition:
    return FetchPartition(**{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields})


def _fetch(version: int) -> Iterator[Any]:
    yield call("p", 9, writing("~t0", 9, Batch(THREE)))
    yield call("p", 9, writing("~packed", 9, Batch(THREE, ZSTD)))
    whole: dict[str, Any] = {"session_id": 0, "session_epoch": -1}
    for topic in ("~t0", "~packed", "~nowhere"):
        yield reading(topic, version, _from(0), **whole)
    for asked in (
        _from(1 << 40), _from(-1), _from(-2), _from(0, 5), _from(0, -1), _from(0, current_leader_epoch=0),
        _from(0, current_leader_epoch=7), _from(1 << 40, current_leader_epoch=7), _from(0, last_fetched_epoch=0),
        _from(0, current_leader_epoch=BEFORE_ANY), _from(1 << 40, current_leader_epoch=BEFORE_ANY),
        _from(0, last_fetched_epoch=5), _from(0, last_fetched_epoch=-2), _from(0, partition_max_bytes=0),
        _from(0, partition_max_bytes=-5), _from(0, log_start_offset=99),
    ):  # fmt: skip
        yield reading("~t0", version, asked, **whole)
    yield reading("~t0", version, _from(0), isolation_level=1, **whole)
    yield reading("~t0", version, _from(0), isolation_level=9, **whole)
    yield reading("~t0", version, _from(0), _from(1), _from(0, 1), **whole)
    for replica in (1, 2, -2, -3):
        yield reading("~t0", version, _from(0), replica_id=replica, **whole)
    if version >= 15:
        yield reading("~t0", version, _from(0), replica_state=ReplicaState(replica_id=1, replica_epoch=99), **whole)
        yield reading("~t0", version, _from(0), replica_state=ReplicaState(replica_id=7, replica_epoch=0), **whole)
    if version >= BY_ID:
        wanted = [FetchTopic(topic_id=bytes(16), partitions=[_from(0)])]
        yield FetchRequest(max_wait_ms=0, min_bytes=0, topics=wanted, **whole)
        yield FetchRequest(max_wait_ms=0, min_bytes=0, topics=wanted, session_id=0, session_epoch=0)
        yield FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[], session_id=learned("session_id", "e"), session_epoch=1
        )
    if version >= 7:
        yield from _sessions(version)


def _sessions(version: int) -> Iterator[Any]:
    """A session from its beginning to its end, and what may go wrong with it."""
    session = learned("session_id", "e")
    yield reading("~t0", version, _from(0), session_id=0, session_epoch=0)
    yield reading("~t0", version, session_id=session, session_epoch=1)
    yield reading("~nowhere", version, _from(0), session_id=session, session_epoch=2)
    yield reading("~t0", version, session_id=session, session_epoch=9)
    yield reading("~t0", version, session_id=session, session_epoch=3)
    yield reading("~t0", version, session_id=12345, session_epoch=1)
    yield reading("~t0", version, session_id=12345, session_epoch=0)
    yield reading("~t0", version, session_id=12345, session_epoch=-1)
    name = "~again"
    yield call("admin", 7, creation(topic_named(name)))
    yield reading(name, version, _from(0), session_id=0, session_epoch=0)
    yield call("admin", 5, deletion(name, version=5))
    yield reading(name, version, session_id=session, session_epoch=1)
    yield call("admin", 7, creation(topic_named(name)))
    yield reading(name, version, session_id=session, session_epoch=2)
    yield reading(name, version, _from(0), session_id=session, session_epoch=3)
    if version < BY_ID:
        forgotten = ForgottenTopic(topic=name, partitions=[0, 3])
    else:
        forgotten = ForgottenTopic(topic_id=learned("topic_id", name), partitions=[0, 3])
    yield reading("~t0", version, session_id=session, session_epoch=4, forgotten_topics_data=[forgotten])
    other = BY_ID if version < BY_ID else BY_ID - 1
    yield call("e", other, reading("~t0", other, _from(0), session_id=session, session_epoch=5))
    yield reading("~t0", version, session_id=session, session_epoch=-1)
    yield call("admin", 5, deletion(name, version=5))


def _list_offsets(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield call("p", 9, writing("~t0", 9, Batch(THREE)))

    def asking(topic: str, *partitions: ListOffsetsPartition, **fields: Any) -> ListOffsetsRequest:
        wanted = [ListOffsetsTopic(name=topic, partitions=list(partitions))]
        return ListOffsetsRequest(**{"replica_id": -1, "topics": wanted, "timeout_ms": 1000, **fields})

    def at(timestamp: int, partition: int = 0, epoch: int = -1) -> ListOffsetsPartition:
        return ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)

    for timestamp in (-1, -2, -3, -4, -5, -6, -7, -8, 0, 1, 1 << 50, -(2**63)):
        yield asking("~t0", at(timestamp))
        yield asking("~clock", at(timestamp), isolation_level=1)
    for partition in (1, -1):
        yield asking("~t0", at(-1, partition))
    yield asking("~nowhere", at(-1))
    yield asking("", at(-1))
    yield asking("~t0", at(-1, epoch=0), at(-1, 4))
    for epoch in (6, BEFORE_ANY):
        yield asking("~t0", at(-1, epoch=epoch))
    yield asking("~t0", at(5, epoch=6))
    yield asking("~t0", at(-1), at(-2))
    yield asking("~t0", at(-1), isolation_level=7)
    yield asking("~t0", at(-1), at(-2), isolation_level=7)
    for replica in (1, 2, -2, -3):
        yield asking("~t0", at(-1), replica_id=replica)


def _delete_records(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield call("p", 9, writing("~t0", 9, Batch(THREE)))
    yield call("p", 9, writing("~compacted", 9, Batch(THREE)))
    asked = [("~t0", 0, 1), ("~t0", 0, 0), ("~t0", 0, 99), ("~t0", 0, -1), ("~t0", 0, -2), ("~t0", 3, 0)]
    asked += [("~t0", -1, 0), ("~nowhere", 0, 0), ("~compacted", 0, 1), ("__consumer_offsets", 0, 0), ("", 0, 0)]
    for topic, partition, offset in asked:
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        yield DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000)
    yield DeleteRecordsRequest(topics=[], timeout_ms=10_000)


def _offset_for_leader_epoch(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield call("p", 9, writing("~t0", 9, Batch(THREE)))
    for topic, partition, current, epoch in (
        ("~t0", 0, -1, 0), ("~t0", 0, 0, 0), ("~t0", 0, 5, 0), ("~t0", 0, 0, 5), ("~t0", 0, 0, -1), ("~t0", 0, -1, -2),
        ("~t0", 0, BEFORE_ANY, 0), ("~t0", 0, BEFORE_ANY, 5),
        ("~t0", 4, -1, 0), ("~t0", -1, -1, 0), ("~nowhere", 0, -1, 0), ("~compacted", 0, -1, 0), ("", 0, -1, 0),
    ):  # fmt: skip
        for replica in (-2, -1, 1):
            asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
            topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
            yield OffsetForLeaderEpochRequest(replica_id=replica, topics=topics)


def _describe_producers(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield from (each if isinstance(each, Call) else call("e", 9, each) for each in _sequences(9))
    for topic, partitions in (
        ("~t0", [0]), ("~t0", [0, 1, -1]), ("~t0", []), ("~nowhere", [0]), ("", [0]), ("a/b", [0]), ("~compacted", [0]),
    ):  # fmt: skip
        yield DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=partitions)])
    yield DescribeProducersRequest(topics=[])


def _init_producer_id(version: int) -> Iterator[Any]:
    for timeout_ms in (1000, 0, -1, 2**31 - 1):
        yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms)
    yield InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    of = f"~made{version}"
    for timeout_ms in (0, -1, 2**31 - 1, 60_000, 60_000, 1000):
        yield InitProducerIdRequest(transactional_id=of, transaction_timeout_ms=timeout_ms)
    if version >= 3:
        for producer, epoch in ((learned("producer_id", "e"), 0), (5, 0), (5, -1), (-1, 0), (-2, -1), (5, 32767)):
            yield InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=1000, producer_id=producer, producer_epoch=epoch
            )
            yield InitProducerIdRequest(
                transactional_id=of, transaction_timeout_ms=1000, producer_id=producer, producer_epoch=epoch
            )


PATHS: Mapping[int, Any] = {
    api.PRODUCE: _produce,
    api.FETCH: _fetch,
    api.LIST_OFFSETS: _list_offsets,
    api.DELETE_RECORDS: _delete_records,
    api.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    api.DESCRIBE_PRODUCERS: _describe_producers,
    api.INIT_PRODUCER_ID: _init_producer_id,
}
"""By api key; see `error_paths.Paths`."""
