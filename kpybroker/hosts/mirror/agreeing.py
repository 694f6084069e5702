"""The questions by which a mirror and a source without topic ids agree: where an epoch ends there, and single batches.

The answers are judged in `kpybroker.machines.mirror.agreement`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.mirror.divergence import EpochEnd
from kpybroker.machines.mirror.feeding import FedPartition
from kpybroker.machines.replica_fetcher import Following, Key
from kpywire.batch import LENGTH_END, parse_header
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kpywire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

CONSUMER: Final = -1
EARLIEST: Final = -2
AT_ONCE: Final = 100
"""The partitions of one request for batches."""
MOST_BYTES: Final = 16 << 20


class ComparedPartition(NamedTuple):
    """A partition whose last common batch is compared with the source's."""

    following: Following
    fed: FedPartition
    asked_epoch: int
    there: EpochEnd
    cut: int
    """The offset up to which both logs agree by their epochs."""
    mine: bytes
    """The batch before that offset, as it is here; empty if there is none."""


def epochs_request(asked: Iterable[tuple[Following, int]]) -> OffsetForLeaderEpochRequest:
    """The question where epochs end at the source, in the epochs of its leaders."""
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for following, epoch in asked:
        part = OffsetForLeaderPartition(
            partition=following.replica.index, current_leader_epoch=following.follower.epoch, leader_epoch=epoch
        )
        topics.setdefault(following.replica.topic.name, []).append(part)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=parts) for name, parts in topics.items()],
    )


def epoch_answers(response: Any) -> Mapping[tuple[str, int], EpochEndOffset]:
    """The answers by topic and partition."""
    return {(topic.topic, each.partition): each for topic in response.topics for each in topic.partitions}


def batch_before(fed: FedPartition, cut: int) -> bytes:
    """The batch here that has the offset before ``cut``; empty if none has. DiskFailure."""
    found = fed.log
    piece = found.read(cut - 1, 1, found.end, min_one_batch=True)
    data = b"" if piece is None else bytes(piece.read())
    if not data:
        return data
    header = parse_header(data)
    return data[: header.batch_length + LENGTH_END] if header.base_offset < cut else b""


def batches_request(asked: Sequence[ComparedPartition]) -> FetchRequest:
    """The question for one batch of each partition, outside of the session."""
    topics: dict[bytes, list[FetchPartition]] = {}
    for each in asked:
        topic_id, index = each.following.key
        part = FetchPartition(
            partition=index,
            current_leader_epoch=each.fed.epoch,
            fetch_offset=each.cut - 1,
            partition_max_bytes=len(each.mine),
        )
        topics.setdefault(topic_id, []).append(part)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=MOST_BYTES,
        topics=[FetchTopic(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()],
    )


def batch_answers(response: Any) -> Mapping[Key, PartitionData]:
    """The answers by the ids of topics here."""
    return {(topic.topic_id, each.partition_index): each for topic in response.responses for each in topic.partitions}


def starts_request(asked: Iterable[ComparedPartition]) -> ListOffsetsRequest:
    """The question where logs begin at the source."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for each in asked:
        part = ListOffsetsPartition(
            partition_index=each.following.replica.index, current_leader_epoch=each.fed.epoch, timestamp=EARLIEST
        )
        topics.setdefault(each.following.replica.topic.name, []).append(part)
    return ListOffsetsRequest(
        replica_id=CONSUMER, topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()]
    )


def start_answers(response: Any) -> Mapping[tuple[str, int], ListOffsetsPartitionResponse]:
    """The answers by topic and partition."""
    return {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}
