"""OffsetForLeaderEpoch (23), versions 2-4: the end offset of a leader epoch (KIP-101, KIP-279, KIP-320).

- The current epoch ends at the log's end. An epoch above all known ones is (-1, -1). For an epoch below the first known
  one, the answer is that epoch with the start of the first known one. Otherwise it is the largest known epoch not above
  the requested one, with the start of the next.
"""

from collections.abc import Generator
from functools import partial

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.led_partitions import ask_leader
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import each
from kpywire import error_codes
from kpywire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    broker: Context, request: OffsetForLeaderEpochRequest, _call: Call
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    """Answer each partition from its leader epoch cache."""
    topics = []
    for topic in request.topics:
        answers = yield from each(topic.partitions, partial(_answer, broker, topic.topic))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)


def _answer(broker: Context, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    def look_up(_replica: Replica, leader: PartitionLeader) -> EpochEndOffset:
        leader.check_epoch(wanted.current_leader_epoch)
        epoch, end_offset = leader.log.epochs.end_offset_for(wanted.leader_epoch, leader.log.log_end_offset)
        return EpochEndOffset(
            error_code=error_codes.NONE, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
        )

    def refuse(code: int, _message: str | None) -> EpochEndOffset:
        return EpochEndOffset(error_code=code, partition=wanted.partition, leader_epoch=-1, end_offset=-1)

    return ask_leader(broker, topic, wanted.partition, look_up, refuse)
