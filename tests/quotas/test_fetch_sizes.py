"""The size that a Fetch is charged for: the same as by Kafka's quotas, to the byte, in every version."""

import random
from pathlib import Path

import pytest

import oracle
from kpybroker.requests.serving.reading.answer import charged_bytes
from kpywire.codec import encode
from kpywire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kpywire.uuid import ZERO_UUID

VERSIONS = range(4, 19)
SESSIONS_FROM = 7
HINTS_FROM = 16
TOPIC_IDS_FROM = 13
FLEXIBLE_FROM = 12
ROUNDS = 8


def partition(rng: random.Random, index: int, version: int) -> PartitionData:
    """An answer for one partition, with everything that changes its size."""
    answer = PartitionData(
        partition_index=index,
        error_code=rng.choice((0, 3)),
        high_watermark=rng.getrandbits(40),
        aborted_transactions=rng.choice((None, [], [AbortedTransaction(producer_id=1, first_offset=2)] * 130)),
        records=rng.randbytes(rng.choice((0, 1, 126, 127, 128, 20_000 if index else 16_383))),
    )
    if version >= FLEXIBLE_FROM:
        if rng.random() < 0.5:
            answer.current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=7)
        if rng.random() < 0.5:
            answer.diverging_epoch = EpochEndOffset(epoch=3, end_offset=44)
    return answer


def topics(rng: random.Random, version: int) -> list[FetchableTopicResponse]:
    found = []
    for number in range(rng.choice((0, 1, 2, 130))):
        partitions = [partition(rng, index, version) for index in range(rng.choice((1, 2)))]
        if version >= TOPIC_IDS_FROM:
            topic_id = ZERO_UUID[:-2] + (number + 1).to_bytes(2, "big")
            found.append(FetchableTopicResponse(topic_id=topic_id, partitions=partitions))
        else:
            name = f"t{number}" + "x" * rng.randrange(200)
            found.append(FetchableTopicResponse(topic=name, partitions=partitions))
    return found


@pytest.mark.java
def test_a_response_is_charged_as_by_apache_kafka() -> None:
    rng, ours, lines = random.Random(5), [], []
    for version in VERSIONS:
        for _ in range(ROUNDS):
            notified = topics(rng, version)
            session_id = 9 if version >= SESSIONS_FROM else 0
            response = FetchResponse(throttle_time_ms=5, error_code=0, session_id=session_id, responses=notified)
            if version >= HINTS_FROM:  # the hints at leaders are sent, but not charged
                response.node_endpoints = [NodeEndpoint(node_id=1, host="h", port=1)]
            ours.append(charged_bytes(notified, version))
            lines.append(f"{version} {encode(response, version).hex()}\n")
    classes = oracle.compile_java(Path(__file__).with_name("FetchSizes.java"))
    finished = oracle.java(
        "org.apache.kafka.common.requests.FetchSizes", classes=[classes], stdin="".join(lines), heap="256m"
    )
    assert finished.returncode == 0, finished.stderr
    assert [int(line) for line in finished.stdout.split()] == ours
