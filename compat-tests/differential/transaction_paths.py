"""Paths of the APIs of transactions: see `error_paths`. Also what only several of them together tell."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from differential.group_paths import join as joined
from differential.group_paths import stable as stable_group
from differential.record_paths import THREE, reading, writing
from differential.steps import Batch, Pause, Step, learned
from differential.world import call
from kpywire import api
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.fetch import FetchPartition
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_transactions import ListTransactionsRequest
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kpywire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from support.group_requests import fetching
from support.raw_requests import UNKNOWN_ID, list_offsets

MINUTE_MS = 60_000
FIRST_BY_BROKERS = 4
BY_MEMBERS = 3
BY_ID = 6
"""The first version of TxnOffsetCommit that names topics by id (KIP-1319)."""
"""From this version of TxnOffsetCommit on it says which member of the group asks."""
ACTOR = "t"
PRODUCER = learned("producer_id", ACTOR)
EPOCH = learned("producer_epoch", ACTOR)
MINE = {"producer_id": PRODUCER, "producer_epoch": EPOCH}
OTHERS: tuple[dict[str, Any], ...] = (
    {"producer_id": 1 << 40, "producer_epoch": EPOCH},
    {"producer_id": PRODUCER, "producer_epoch": 99},
    {"producer_id": PRODUCER, "producer_epoch": -1},
    {"producer_id": -1, "producer_epoch": -1},
)
"""Producers that are not the transaction's."""


def begun(transactional_id: str) -> Step:
    """Its producer id and epoch are those of `ACTOR` from here on."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=MINUTE_MS)
    return call(ACTOR, 5, request)


def adding(of: str, version: int, *topics: tuple[str, list[int]], verify_only: bool = False, **identity: Any) -> Any:
    wanted = [AddPartitionsToTxnTopic(name=name, partitions=partitions) for name, partitions in topics]
    identity = {**MINE, **identity}
    if version < FIRST_BY_BROKERS:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=of,
            v3_and_below_producer_id=identity["producer_id"],
            v3_and_below_producer_epoch=identity["producer_epoch"],
            v3_and_below_topics=wanted,
        )
    one = AddPartitionsToTxnTransaction(transactional_id=of, verify_only=verify_only, topics=wanted, **identity)
    return AddPartitionsToTxnRequest(transactions=[one])


def ending(of: str, committed: bool = True, **identity: Any) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=of, committed=committed, **{**MINE, **identity})


def _add_partitions(version: int) -> Iterator[Any]:
    of = f"~adds{version}"
    yield adding(of, version, ("~t0", [0]), producer_id=5, producer_epoch=0)
    yield adding("", version, ("~t0", [0]), producer_id=5, producer_epoch=0)
    yield begun(of)
    for identity in OTHERS:
        yield adding(of, version, ("~t0", [0]), **identity)
    yield adding(of, version, ("~nowhere", [0]), ("~t0", [0]))
    yield adding(of, version, ("~t0", [0, 7]))
    yield adding(of, version, ("~t0", []), ("~nowhere", []))
    yield adding(of, version, ("~t0", []), ("~nowhere", [0, 0]))
    yield adding("~none", version, ("~t0", []), ("~compacted", [0, 0]))
    yield adding(of, version)
    if version >= FIRST_BY_BROKERS:
        yield adding(of, version, ("~t0", [0]), verify_only=True)
    yield adding(of, version, ("~t0", [0]))
    yield adding(of, version, ("~t0", [0]), ("~compacted", [0]))
    yield adding(of, version, ("~t0", [0, 0]), ("~compacted", []), ("~t0", [0]))
    if version >= FIRST_BY_BROKERS:
        yield adding(of, version, ("~t0", [0]), ("~small", [0]), verify_only=True)
        both = adding(of, version, ("~t0", [0]))
        both.transactions += adding("~none", version, ("~t0", [0])).transactions
        yield both
    yield call(ACTOR, 4, ending(of, committed=False))


def _add_offsets(version: int) -> Iterator[Any]:
    of = f"~offsets{version}"

    def asking(transactional_id: str = of, group: str = "~g", **identity: Any) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(transactional_id=transactional_id, group_id=group, **{**MINE, **identity})

    yield asking(producer_id=5, producer_epoch=0)
    yield asking("", producer_id=5, producer_epoch=0)
    yield begun(of)
    for identity in OTHERS:
        yield asking(**identity)
    yield asking(group="")
    yield asking()
    yield asking()
    yield call(ACTOR, 4, ending(of))


def _end(version: int) -> Iterator[Any]:
    for committed in (True, False):
        of = f"~ends{version}{committed}"
        yield call(ACTOR, version, ending(of, committed, producer_id=5, producer_epoch=0))
        yield call(ACTOR, version, ending("", committed, producer_id=5, producer_epoch=0))
        yield begun(of)
        for identity in OTHERS:
            yield call(ACTOR, version, ending(of, committed, **identity))
        yield call(ACTOR, version, ending(of, committed))
        yield begun(of)
        yield call(ACTOR, 3, adding(of, 3, ("~t0", [0])))
        yield call(ACTOR, version, ending(of, committed))
        if version < 5:
            yield call(ACTOR, version, ending(of, committed))
            yield call(ACTOR, version, ending(of, not committed))
        yield begun(of)
        yield call(ACTOR, 3, adding(of, 3, ("~t0", [0])))
        yield begun(of)
        yield begun(of)
        yield call(ACTOR, version, ending(of, committed))


def _commit_offsets(version: int) -> Iterator[Any]:
    of = f"~moves{version}"

    def asking(topic: str = "~t0", partition: int = 0, metadata: str | None = "m", **fields: Any) -> Any:
        wanted = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=3, committed_metadata=metadata
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[wanted])]
        if version >= BY_ID:
            topics[0].topic_id = UNKNOWN_ID if topic == "~nowhere" else learned("topic_id", topic)
        whole = {"transactional_id": of, "group_id": f"~g{version}", "topics": topics, **MINE, **fields}
        return TxnOffsetCommitRequest(**whole)

    yield asking(producer_id=5, producer_epoch=0)
    yield begun(of)
    yield asking(group_id="")
    for identity in OTHERS:
        yield asking(**identity)
    yield call(ACTOR, 3, AddOffsetsToTxnRequest(transactional_id=of, group_id=f"~g{version}", **MINE))
    yield asking()
    yield asking("~nowhere")
    yield asking(partition=7)
    yield asking(metadata="x" * 4097)
    yield asking(topics=[])
    if version >= 3:
        yield asking(generation_id_or_member_epoch=3, member_id="nobody")
        yield asking(generation_id_or_member_epoch=3)
        yield asking(group_instance_id="~unknown")
    for stable in (False, True):
        yield call("c", 8, fetching((f"~g{version}", {"~t0": [0]}), require_stable=stable))
    yield call(ACTOR, 4, ending(of))
    yield call("c", 8, fetching((f"~g{version}", {"~t0": [0]}), require_stable=True))
    if version >= BY_MEMBERS:
        yield from _commit_as_a_member(version, asking)


def _commit_as_a_member(version: int, asking: Callable[..., Any]) -> Iterator[Any]:
    """Members of a group, and what is none of theirs any more (KIP-447)."""
    members, static = f"~members{version}", f"~static{version}"
    yield begun(f"~moves{version}")
    yield from stable_group(members)
    yield from stable_group(static, "s", instance_id="~one")
    for group in (members, static):
        added = AddOffsetsToTxnRequest(transactional_id=f"~moves{version}", group_id=group, **MINE)
        yield call(ACTOR, 3, added)
    mine = {"group_id": members, "member_id": learned("member_id", "m")}
    now = learned("generation", "m")
    yield asking(group_id=members)
    for generation in (now, 9, 0, -1):
        yield asking(**mine, generation_id_or_member_epoch=generation)
    yield asking(group_id=members, generation_id_or_member_epoch=now)
    yield asking(group_id=members, member_id="nobody", generation_id_or_member_epoch=now)
    yield asking(**mine, generation_id_or_member_epoch=now, group_instance_id="~unknown")
    for member, instance in (
        ("nobody", "~one"),
        (learned("member_id", "s"), "~one"),
        (learned("member_id", "s"), None),
    ):
        yield asking(group_id=static, member_id=member, generation_id_or_member_epoch=now, group_instance_id=instance)
    yield joined(members, "n", member="")
    yield joined(members, "n")
    yield asking(**mine, generation_id_or_member_epoch=now)
    yield call(ACTOR, 4, ending(f"~moves{version}"))
    for group in (members, static):
        yield call("c", 8, fetching((group, {"~t0": [0]}), require_stable=True))


def _write_markers(version: int) -> Iterator[Any]:
    yield begun(f"~marks{version}")

    def asking(
        *topics: tuple[str, list[int]], epoch: Any = EPOCH, coordinator: int = 0, commit: bool = True, level: int = 0
    ) -> Any:
        marker = WritableTxnMarker(
            producer_id=PRODUCER,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=list(indexes)) for name, indexes in topics],
            coordinator_epoch=coordinator,
            transaction_version=level,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    yield asking(("~nowhere", [0]))
    yield asking(("~t0", [0]))
    yield asking(("~t0", [0, 5]), ("~compacted", [0]), commit=False)
    yield asking(("~t0", [0]), epoch=9, coordinator=3)
    yield asking(("~t0", [0]), epoch=2, coordinator=3)
    yield asking(("~t0", [0]), epoch=9, coordinator=1)
    yield asking(("~small", [0]), epoch=3, coordinator=3, level=-1)
    for level, epoch in product((0, 1, 2, 3, -1, -2), (9, 10, 8, 32767)):
        yield asking(("~compacted", [0]), epoch=epoch, coordinator=3, level=level)
    yield asking(("~compacted", [0]), epoch=32767, coordinator=1, level=-1)
    yield asking()
    twice = asking(("~t0", [0]), ("~nowhere", [0, 0]))
    twice.markers += asking(("~nowhere", [1]), ("~compacted", [0])).markers
    yield twice
    yield WriteTxnMarkersRequest(markers=[])
    for topic in ("~t0", "~compacted"):
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        yield call("f", 12, reading(topic, 12, wanted, session_id=0, session_epoch=-1))


def _describe(version: int) -> Iterator[Any]:  # noqa: ARG001
    of = "~shown"
    yield DescribeTransactionsRequest(transactional_ids=["~none", ""])
    yield begun(of)
    yield DescribeTransactionsRequest(transactional_ids=[of])
    yield call(ACTOR, 3, adding(of, 3, ("~t0", [0]), ("~compacted", [0])))
    yield DescribeTransactionsRequest(transactional_ids=[of, "~none"])
    yield call(ACTOR, 4, ending(of))
    yield DescribeTransactionsRequest(transactional_ids=[of, of])
    yield DescribeTransactionsRequest(transactional_ids=[])


def _list(version: int) -> Iterator[Any]:
    for name, committed in (("~done", True), ("~given-up", False), ("~open", None)):
        yield begun(f"{name}{version}")
        yield call(ACTOR, 3, adding(f"{name}{version}", 3, ("~t0", [0])))
        if committed is not None:
            yield call(ACTOR, 4, ending(f"{name}{version}", committed))

    def asking(states: list[str], producers: list[Any], duration: int = -1, pattern: str | None = None) -> Any:
        request = ListTransactionsRequest(state_filters=states, producer_id_filters=producers)
        if version >= 1:
            request.duration_filter = duration
        if version >= 2:
            request.transactional_id_pattern = pattern
        return request

    for states in ([], ["Ongoing"], ["CompleteCommit", "CompleteAbort"], ["ongoing"], ["nonsense"], [""], ["Dead"]):
        yield asking(states, [])
    yield asking([], [PRODUCER])
    yield asking([], [-1, 5])
    yield Pause(20)
    for duration in (3_600_000, 0, 10, -2, 2**63 - 1):
        yield asking([], [], duration=duration)
        yield asking(["Ongoing"], [PRODUCER], duration=duration)
    for pattern in (
        ".*open.*", "[", "", "none", "open", "(?i).*OPEN.*", r".*\d", r".*-open[0-2]|x", "^.*open.*$", "(?=open)",
        r"(.)\1",
    ):  # fmt: skip
        yield asking([], [], pattern=pattern)
    yield call(ACTOR, 4, ending(f"~open{version}"))


def whole_transactions() -> list[Step]:
    """Transactions that are committed, aborted or fenced, and what readers see before, in and after each."""
    steps: list[Step] = []
    for version, end_version in ((9, 4), (11, 4), (12, 5), (13, 5)):
        of = f"~whole{version}"
        steps.append(begun(of))
        sequence = 0
        for committed in (True, False, None):
            if version < 12:
                steps.append(call(ACTOR, 3, adding(of, 3, ("~t0", [0]))))
            for _ in range(2):
                batch = Batch(THREE, producer=ACTOR, epoch=EPOCH, sequence=sequence, transactional=True)
                steps.append(call(ACTOR, version, writing("~t0", version, batch, transactional_id=of)))
                sequence += len(THREE)
            steps.append(call("p", 9, writing("~t0", 9, Batch(THREE))))
            steps += _looks(of)
            if committed is None:
                steps += [begun(of), call(ACTOR, version, writing("~t0", version, batch, transactional_id=of))]
            else:
                steps.append(call(ACTOR, end_version, ending(of, committed)))
            sequence = 0 if end_version >= 5 else sequence
            steps += _looks(of)
    alone = Batch(THREE, producer=ACTOR, epoch=EPOCH, sequence=0, transactional=True)
    steps += [begun("~alone"), call(ACTOR, 11, writing("~t0", 11, alone, transactional_id="~alone"))]
    steps += [call(ACTOR, 11, writing("~t0", 11, Batch(THREE), transactional_id="~alone"))]
    steps += [call(ACTOR, 12, writing("~t0", 12, alone, transactional_id="~other"))]
    return [*steps, *_looks("~alone")]


def _looks(of: str) -> list[Step]:
    looked: list[Step] = []
    for isolation in (0, 1):
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = reading("~t0", 12, wanted, session_id=0, session_epoch=-1, isolation_level=isolation)
        looked += [call("f", 12, request), call("f", 8, list_offsets("~t0", -1, isolation=isolation))]
    producers = DescribeProducersRequest(topics=[TopicRequest(name="~t0", partition_indexes=[0])])
    return [*looked, call("f", 0, producers), call("f", 0, DescribeTransactionsRequest(transactional_ids=[of]))]


PATHS: Mapping[int, Any] = {
    api.ADD_PARTITIONS_TO_TXN: _add_partitions,
    api.ADD_OFFSETS_TO_TXN: _add_offsets,
    api.END_TXN: _end,
    api.TXN_OFFSET_COMMIT: _commit_offsets,
    api.WRITE_TXN_MARKERS: _write_markers,
    api.DESCRIBE_TRANSACTIONS: _describe,
    api.LIST_TRANSACTIONS: _list,
}
"""By api key; see `error_paths.Paths`."""
