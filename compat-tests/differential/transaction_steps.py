"""Steps of transactional producers: transactions begun, written, committed, aborted, left open, fenced by others."""

from collections.abc import Callable, Mapping
from typing import Any

from differential.group_steps import group
from differential.record_steps import records_of
from differential.steps import Batch, Step, learned
from differential.transaction_paths import adding, ending
from differential.world import World, call
from kpywire import api
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_transactions import ListTransactionsRequest
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ACTORS = ("x1", "x2")
MINUTE_MS = 60_000


def _id_of(actor: str) -> str:
    """Two producers, one of which may pretend to be the other."""
    return f"~transaction-{actor}"


def _identity(world: World, actor: str) -> dict[str, Any]:
    if world.chance(0.05):
        return {"producer_id": world.pick(learned("producer_id", "x1"), -1, 5), "producer_epoch": world.pick(0, 1, -1)}
    return {"producer_id": learned("producer_id", actor), "producer_epoch": learned("producer_epoch", actor)}


def begin(world: World) -> list[Step]:
    actor = world.rng.choice(ACTORS)
    timeout_ms = world.pick(0, -1, 2**31 - 1) if world.chance(0.04) else MINUTE_MS
    request = InitProducerIdRequest(transactional_id=_id_of(actor), transaction_timeout_ms=timeout_ms)
    if world.chance(0.2):
        for name, value in _identity(world, actor).items():
            setattr(request, name, value)
    return [call(actor, world.version(api.INIT_PRODUCER_ID), request)]


def add(world: World) -> list[Step]:
    actor, topic = world.rng.choice(ACTORS), world.topic()
    version = world.version(api.ADD_PARTITIONS_TO_TXN)
    verify_only = version >= 4 and world.chance(0.2)
    wanted = (topic, [world.partition(topic)])
    request = adding(_id_of(actor), version, wanted, verify_only=verify_only, **_identity(world, actor))
    return [call(actor, version, request)]


def write(world: World) -> list[Step]:
    """Batches in one transaction: into partitions that were added, or not, and by a version that adds them itself."""
    actor, topic = world.rng.choice(ACTORS), world.topic()
    partition, version = world.partition(topic), max(3, world.version(api.PRODUCE))
    steps: list[Step] = []
    if world.chance(0.6):
        steps.append(call(actor, 3, adding(_id_of(actor), 3, (topic, [partition]), **_identity(world, actor))))
    sequence = world.pick(0, 0, 0, 3)
    for _ in range(world.rng.choice([1, 1, 2])):
        identity = _identity(world, actor)
        batch = Batch(
            records_of(world),
            producer=actor,
            epoch=identity["producer_epoch"],
            sequence=sequence,
            transactional=world.chance(0.95),
        )
        sequence += len(batch.records)
        data = PartitionProduceData(index=partition, records=batch)
        sent = TopicProduceData(name=topic, topic_id=world.topic_id(topic), partition_data=[data])
        request = ProduceRequest(
            transactional_id=_id_of(actor if world.chance(0.97) else "nobody"),
            acks=-1,
            timeout_ms=10_000,
            topic_data=[sent],
        )
        steps.append(call(actor, version, request))
    return steps


def add_offsets(world: World) -> list[Step]:
    actor = world.rng.choice(ACTORS)
    request = AddOffsetsToTxnRequest(transactional_id=_id_of(actor), group_id=group(world), **_identity(world, actor))
    return [call(actor, world.version(api.ADD_OFFSETS_TO_TXN), request)]


def commit_offsets(world: World) -> list[Step]:
    actor, topic = world.rng.choice(ACTORS), world.topic()
    version, of = world.version(api.TXN_OFFSET_COMMIT), group(world)
    offset = TxnOffsetCommitRequestPartition(
        partition_index=world.partition(topic), committed_offset=world.rng.choice([0, 1, 5]), committed_metadata="m"
    )
    request = TxnOffsetCommitRequest(
        transactional_id=_id_of(actor),
        group_id=of,
        topics=[TxnOffsetCommitRequestTopic(name=topic, topic_id=world.topic_id(topic), partitions=[offset])],
        **_identity(world, actor),
    )
    if world.chance(0.3):
        request.member_id, request.generation_id_or_member_epoch = (
            learned("member_id", "m1"),
            learned("generation", "m1"),
        )
    steps: list[Step] = []
    if world.chance(0.6):
        added = AddOffsetsToTxnRequest(transactional_id=_id_of(actor), group_id=of, **_identity(world, actor))
        steps.append(call(actor, world.version(api.ADD_OFFSETS_TO_TXN), added))
    return [*steps, call(actor, version, request)]


def end(world: World) -> list[Step]:
    actor = world.rng.choice(ACTORS)
    request = ending(_id_of(actor), world.flag(0.6), **_identity(world, actor))
    steps: list[Step] = [call(actor, world.version(api.END_TXN), request)]
    return steps * 2 if world.chance(0.1) else steps


def look(world: World) -> list[Step]:
    names = [_id_of(actor) for actor in ACTORS] + (["~none", ""] if world.chance(0.1) else [])
    return [call("l", 0, DescribeTransactionsRequest(transactional_ids=names))]


def list_them(world: World) -> list[Step]:
    version = world.version(api.LIST_TRANSACTIONS)
    request = ListTransactionsRequest(
        state_filters=list(world.pick([], ["Ongoing"], ["CompleteCommit", "Empty"], ["nonsense"])),
        producer_id_filters=list(world.pick([], [learned("producer_id", "x1")])),
    )
    request.duration_filter = world.pick(-1, 3_600_000)
    return [call("l", version, request)]


MAKERS: Mapping[Callable[[World], list[Step]], float] = {
    begin: 2,
    add: 1.5,
    write: 4,
    add_offsets: 0.5,
    commit_offsets: 1.5,
    end: 3,
    look: 1,
    list_them: 0.5,
}
"""And how often each is taken, against the others."""
