"""All that clients can see of the data of a cluster of one node, to be compared before and after a move.

Requests are of versions that Apache Kafka 3.9 and 4.3 both answer.
"""

from typing import Any, NamedTuple

from kpywire import error_codes
from kpywire.messages.describe_producers import DescribeProducersRequest
from kpywire.messages.describe_producers import TopicRequest as ProducersOf
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest
from kpywire.record import read_records
from support.group_requests import coordinator_ready, describe, listed, offsets
from support.raw_client import RawClient
from support.raw_requests import BROKER, TOPIC, configs_set, offset_at
from support.waiting import eventually

EARLIEST, LATEST = -2, -1
COMPACTED = "compacted"
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
DESCRIBE_GROUPS, LIST_OFFSETS, METADATA = 5, 7, 12
MOST_BYTES = 8 << 20
Place = tuple[str, int]


class Contents(NamedTuple):
    """By topic, partition or group."""

    topic_ids: dict[str, bytes]
    bounds: dict[Place, tuple[int, int, int]]
    """Log start, last stable offset and log end."""
    batches: dict[Place, bytes]
    """The bytes of all batches, markers too: with offsets, epochs, timestamps, producers, codecs."""
    latest: dict[bytes | None, tuple[int, int, bytes | None]]
    """The newest records of the compacted topic: (offset, timestamp, value) by key."""
    aborted: dict[Place, list[tuple[int, int]]]
    producers: dict[Place, list[tuple[int, ...]]]
    configs: dict[tuple[int, str], dict[str, str | None]]
    groups: dict[str, Any]


def look(port: int) -> Contents:
    """Everything in the cluster. AssertionError where anything is answered with an error."""
    with RawClient(port) as raw:
        answer = raw.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), METADATA)
        topics = {topic.name: topic for topic in answer.topics if topic.name not in INTERNAL}
        places = [(name, each.partition_index) for name, topic in sorted(topics.items()) for each in topic.partitions]
        wait_for_leaders(raw, *places)
        bounds = {place: _bounds(raw, place) for place in places}
        lasting = [place for place in places if place[0] != COMPACTED]
        configs = {(TOPIC, name): configs_set(raw, TOPIC, name) for name in topics}
        return Contents(
            {name: topic.topic_id for name, topic in topics.items()},
            bounds,
            {place: _read(raw, place, bounds[place]) for place in lasting},
            _latest(_read(raw, (COMPACTED, 0), bounds[COMPACTED, 0])),
            {place: _aborted(raw, place, bounds[place][0]) for place in lasting},
            {place: _producers(raw, place) for place in lasting},
            configs | {(BROKER, name): configs_set(raw, BROKER, name) for name in ("", "1")},
            _groups(raw),
        )


def differences(before: Contents, after: Contents) -> list[str]:
    """The differences from before, each a line."""
    lines = []
    for kind, was, now in zip(Contents._fields, before, after, strict=True):
        lines += [
            f"{kind} of {key}: {was.get(key)!r:.300} became {now.get(key)!r:.300}"
            for key in {**was, **now}
            if was.get(key) != now.get(key)
        ]
    return lines


def wait_for_leaders(raw: RawClient, *places: Place) -> None:
    def all_answer() -> bool:
        return all(
            offset_at(raw, topic, LATEST, LIST_OFFSETS, partition=index)[0] == error_codes.NONE
            for topic, index in places
        )

    eventually(all_answer, "a leader of every partition")


def _bounds(raw: RawClient, place: Place) -> tuple[int, int, int]:
    topic, index = place
    start = offset_at(raw, topic, EARLIEST, LIST_OFFSETS, partition=index)[2]
    stable = offset_at(raw, topic, LATEST, LIST_OFFSETS, partition=index, isolation=1)[2]
    return start, stable, offset_at(raw, topic, LATEST, LIST_OFFSETS, partition=index)[2]


def _read(raw: RawClient, place: Place, bounds: tuple[int, int, int]) -> bytes:
    data, offset = b"", bounds[0]
    while offset < bounds[2]:
        part = fetch(raw, place, offset, isolation_level=0).records or b""
        following = max((record.offset + 1 for record in read_records(part)), default=offset)
        if following == offset:
            break  # what is left was compacted
        data += part
        offset = following
    return data


def fetch(raw: RawClient, place: Place, offset: int, isolation_level: int) -> Any:
    """The answer of one partition."""
    wanted = FetchPartition(partition=place[1], fetch_offset=offset, partition_max_bytes=MOST_BYTES)
    topics = [FetchTopic(topic=place[0], partitions=[wanted])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation_level, topics=topics)
    answer = raw.call(request, METADATA).responses[0].partitions[0]
    assert answer.error_code == error_codes.NONE, (place, answer.error_code)
    return answer


def _latest(data: bytes) -> dict[bytes | None, tuple[int, int, bytes | None]]:
    return {record.key: (record.offset, record.timestamp, record.value) for record in read_records(data)}


def _aborted(raw: RawClient, place: Place, start: int) -> list[tuple[int, int]]:
    found = fetch(raw, place, start, isolation_level=1).aborted_transactions
    return sorted((each.producer_id, each.first_offset) for each in found or ())


def _producers(raw: RawClient, place: Place) -> list[tuple[int, ...]]:
    asked = [ProducersOf(name=place[0], partition_indexes=[place[1]])]
    (answer,) = raw.call(DescribeProducersRequest(topics=asked), 0).topics[0].partitions
    assert answer.error_code == error_codes.NONE
    return sorted(
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp, each.current_txn_start_offset)
        for each in answer.active_producers
    )


def _groups(raw: RawClient) -> dict[str, Any]:
    coordinator_ready(raw)
    found = {}
    for each in listed(raw, types=["classic"]):
        described = describe(raw, each.group_id, DESCRIBE_GROUPS)
        state = described.group_state, described.protocol_type, described.protocol_data
        committed = offsets(raw, each.group_id)
        if committed or any(state[1:]):  # Kafka 3.9 forgets a group of which it knows nothing more when it restarts
            found[each.group_id] = (*state, committed)
    return found
