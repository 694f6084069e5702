"""Topics with tiered storage: their configs, how it is turned off, their deletion, and the records about all this."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kpywire import error_codes
from kpywire.remote_log_record import TOPIC as METADATA_TOPIC
from kpywire.remote_log_record import partition_of
from support.raw_client import RawClient
from support.raw_requests import (
    DELETE,
    SET,
    TOPIC,
    configs_set,
    creation,
    deletion,
    incremental_alteration,
    metadata_of,
    topic_named,
)
from support.special_timestamps import EARLIEST, EARLIEST_LOCAL, LATEST_TIERED
from support.waiting import becomes, eventually
from tiered.filling import TIERED, alter, create_tiered, fill, time_of
from tiered.nodes import METADATA_PARTITIONS
from tiered.reading import batches, metadata_records, offset
from tiered.store import segments, start_offsets

STARTED, FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)
ENABLED = {"remote.storage.enable": "true"}
ONLY_DELETED = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
)
KEEPS_DATA = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
    "turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
    "remote storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)


def differs(suffix: str) -> str:
    return (
        f"When `remote.log.copy.disable` is set to true, the `local.retention.{suffix}` and `retention.{suffix}` must "
        "be set to the identical value because there will be no more logs copied to the remote storage."
    )


def too_much(key: str, value: str, most: str, bound: str) -> str:
    return invalid(key, value, f"Value must not be more than {most} property value: {bound}")


def invalid(key: str, value: str, why: str) -> str:
    return f"Invalid value {value} for configuration {key}: {why}"


REFUSED_CONFIGS: list[tuple[dict[str, str], str]] = [
    ({"cleanup.policy": "compact"}, ONLY_DELETED),
    ({"cleanup.policy": "compact,delete"}, ONLY_DELETED),
    ({"local.retention.ms": "100", "retention.ms": "50"}, too_much("local.retention.ms", "100", "retention.ms", "50")),
    (
        {"local.retention.bytes": "100", "retention.bytes": "50"},
        too_much("local.retention.bytes", "100", "retention.bytes", "50"),
    ),
    (
        {"local.retention.ms": "-1", "retention.ms": "50"},
        invalid("local.retention.ms", "-1", "Value must not be -1 as retention.ms value is set as 50."),
    ),
    (
        {"local.retention.ms": "-3"},
        invalid("local.retention.ms", "-3", "Value must be at least -2"),
    ),
    ({"remote.log.copy.disable": "true", "local.retention.ms": "100"}, differs("ms")),
    (
        {"remote.copy.lag.ms": "1000", "local.retention.ms": "100"},
        invalid("remote.copy.lag.ms", "1000", "Value must not exceed local.retention.ms (effective value: 100)"),
    ),
    (
        {"remote.copy.lag.ms": "-2"},
        invalid("remote.copy.lag.ms", "-2", "Value must be at least -1"),
    ),
    (
        {"remote.copy.lag.bytes": "-2"},
        invalid("remote.copy.lag.bytes", "-2", "Value must be at least -1"),
    ),
]
ACCEPTED_CONFIGS: list[dict[str, str]] = [
    {"local.retention.ms": "100", "retention.ms": "50"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.delete.on.disable": "true"},
    {"remote.copy.lag.ms": "1000"},
    {**ENABLED, "remote.log.copy.disable": "true"},
]


def created(client: RawClient, name: str, configs: dict[str, str]) -> tuple[int, str | None]:
    (answer,) = client.call(creation(topic_named(name, configs=dict(configs))), 7).topics
    return answer.error_code, answer.error_message


def altered(client: RawClient, name: str, *operations: tuple[str, int, str | None]) -> tuple[int, str | None]:
    (answer,) = client.call(incremental_alteration((TOPIC, name, operations)), 1).responses
    return answer.error_code, answer.error_message


def records_of(client: RawClient, topic_id: bytes) -> list[Any]:
    """The records about a topic's partitions, in their order."""
    return [each for each in metadata_records(client, range(METADATA_PARTITIONS)) if id_in(each) == topic_id]


def id_in(record: Any) -> bytes:
    segment = getattr(record, "remote_log_segment_id", None)
    partition = record.topic_id_partition if segment is None else segment.topic_id_partition
    found: bytes = partition.id
    return found


@pytest.mark.parametrize(("configs", "message"), REFUSED_CONFIGS, ids=lambda each: str(each)[:60])
def test_configs_that_contradict_one_another_are_refused(
    client: RawClient, name: str, configs: dict[str, str], message: str
) -> None:
    assert created(client, name, {**ENABLED, **configs}) == (error_codes.INVALID_CONFIG, message)
    assert created(client, name, ENABLED)[0] == error_codes.NONE
    operations = [(key, SET, value) for key, value in configs.items()]
    assert altered(client, name, *operations) == (error_codes.INVALID_CONFIG, message)


@pytest.mark.parametrize("configs", ACCEPTED_CONFIGS, ids=str)
def test_configs_of_a_topic_that_is_not_tiered_contradict_nothing(
    client: RawClient, name: str, configs: dict[str, str]
) -> None:
    assert created(client, name, configs) == (error_codes.NONE, None)


@pytest.mark.parametrize(
    "operation", [("remote.storage.enable", SET, "false"), ("remote.storage.enable", DELETE, None)]
)
def test_tiered_storage_is_not_turned_off_while_its_data_would_stay(
    client: RawClient, name: str, operation: tuple[str, int, str | None]
) -> None:
    create_tiered(client, name)
    assert altered(client, name, operation) == (error_codes.INVALID_CONFIG, KEEPS_DATA)


def test_a_topic_without_copies_is_read_only_in_the_store(client: RawClient, name: str, store: Path) -> None:
    """KIP-950. New segments stay on the disk as long as retention says."""
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(4))
    becomes(lambda: offset(client, name, EARLIEST_LOCAL), 6)
    alter(client, name, remote_log_copy_disable="true", local_retention_bytes="-2")
    fill(client, name, range(4, 8))
    before = start_offsets(store, name)
    create_tiered(client, f"{name}-2")
    fill(client, f"{name}-2", range(8))
    becomes(lambda: offset(client, f"{name}-2", LATEST_TIERED), 13)
    assert start_offsets(store, name) == before
    assert offset(client, name, LATEST_TIERED) == before[-1] + 1
    assert [each.base_offset for each in batches(client, name)] == list(range(0, 16, 2))


def test_disabling_remote_storage_deletes_the_segments_in_the_store(client: RawClient, name: str, store: Path) -> None:
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(4))
    becomes(lambda: offset(client, name, EARLIEST_LOCAL), 6)
    off = [("remote.storage.enable", SET, "false"), ("remote.log.delete.on.disable", SET, "true")]
    assert altered(client, name, *off) == (error_codes.NONE, None)
    eventually(lambda: not segments(store, name), "an empty store")
    becomes(lambda: offset(client, name, EARLIEST), 6)
    assert offset(client, name, LATEST_TIERED) == -1
    assert [each.base_offset for each in batches(client, name)] == [6]


def test_the_metadata_are_an_ordinary_topic_that_the_broker_creates(client: RawClient, name: str) -> None:
    create_tiered(client, name)
    fill(client, name, range(2))
    becomes(lambda: offset(client, name, LATEST_TIERED), 1)
    found = metadata_of(client, METADATA_TOPIC)
    assert (found.error_code, found.is_internal, len(found.partitions)) == (0, False, METADATA_PARTITIONS)
    assert configs_set(client, TOPIC, METADATA_TOPIC) == {
        "cleanup.policy": "delete",
        "min.insync.replicas": "1",
        "remote.storage.enable": "false",
        "retention.ms": "-1",
    }
    exists = (error_codes.TOPIC_ALREADY_EXISTS, f"Topic '{METADATA_TOPIC}' already exists.")
    assert created(client, METADATA_TOPIC, {}) == exists


def test_a_copy_is_two_records(client: RawClient, name: str, store: Path) -> None:
    topic_id = create_tiered(client, name)
    fill(client, name, range(3))
    becomes(lambda: offset(client, name, LATEST_TIERED), 3)
    records = records_of(client, topic_id)
    assert [each.remote_log_segment_state for each in records] == [STARTED, FINISHED, STARTED, FINISHED]
    begun = records[::2]
    assert [(each.start_offset, each.end_offset) for each in begun] == [(0, 1), (2, 3)]
    assert [each.max_timestamp_ms for each in begun] == [time_of(0), time_of(1)]
    assert [[(part.leader_epoch, part.offset) for part in each.segment_leader_epochs] for each in begun] == [
        [(0, 0)],
        [(0, 2)],
    ]
    ids = {segment.start_offset: segment.segment_id for segment in segments(store, name)}
    assert {each.start_offset: each.remote_log_segment_id.id for each in begun} == ids
    for each in records:
        assert (each.broker_id, each.custom_metadata) == (1, None)
        assert each.remote_log_segment_id.topic_id_partition.name == name
    assert [each.txn_index_empty for each in begun] == [True, True]
    assert [each.segment_size_in_bytes for each in begun] == [
        file.stat().st_size for file in sorted(store.rglob(f"{name}-0-*/*.log"))
    ]


def test_the_records_of_a_partition_are_where_its_id_says(client: RawClient, name: str) -> None:
    topic_id = create_tiered(client, name, 3)
    for partition in range(3):
        fill(client, name, range(2), partition)
        becomes(partial(offset, client, name, LATEST_TIERED, partition), 1)
    for partition in range(3):
        place = partition_of(topic_id, partition, METADATA_PARTITIONS)
        there = [each for each in metadata_records(client, [place]) if id_in(each) == topic_id]
        assert partition in {each.remote_log_segment_id.topic_id_partition.partition for each in there}


def test_a_deleted_topic_leaves_nothing_in_the_store(client: RawClient, name: str, store: Path) -> None:
    """Apache Kafka writes records about its segments alone, kpybroker also about its partitions."""
    topic_id = create_tiered(client, name, 2, only_remote=True)
    for partition in range(2):
        fill(client, name, range(4), partition)
        becomes(partial(offset, client, name, EARLIEST_LOCAL, partition), 6)
    assert client.call(deletion(name), 6).responses[0].error_code == error_codes.NONE
    eventually(lambda: not segments(store, name), "an empty store")

    def states() -> Counter[int]:
        of_segments = (each for each in records_of(client, topic_id) if hasattr(each, "remote_log_segment_state"))
        return Counter(each.remote_log_segment_state for each in of_segments)

    becomes(states, Counter(dict.fromkeys(range(4), 6)))


def test_a_topic_of_the_same_name_begins_anew(client: RawClient, name: str, store: Path) -> None:
    create_tiered(client, name, only_remote=True)
    fill(client, name, range(4))
    becomes(lambda: offset(client, name, EARLIEST_LOCAL), 6)
    assert client.call(deletion(name), 6).responses[0].error_code == error_codes.NONE
    create_tiered(client, name)
    assert batches(client, name) == []
    assert offset(client, name, LATEST_TIERED) == -1
    fill(client, name, range(2))
    becomes(lambda: start_offsets(store, name), [0])
    assert TIERED.items() <= configs_set(client, TOPIC, name).items()
