"""Records that leave a topic, and times that are refused: retention is changed while the topic is in use."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from conftest import NewTopic, StartBroker
from kpywire import error_codes
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.produce import PartitionProduceResponse
from kpywire.record import Record as Written
from kpywire.record import build_batch
from produce.test_protocol_produce import now_ms, produce
from support.clients import Confluent, Record
from support.raw_client import RawClient, connect
from support.topics import create_topic
from support.waiting import becomes, eventually

MIB = 1 << 20
HALF = b"." * (6 * MIB // 10)
"""A record of which a segment of the smallest size holds one."""
SMALL_SEGMENTS = {"segment.bytes": str(MIB), "file.delete.delay.ms": "100"}
LONG_AGO_MS = 1_600_000_000_000
PATIENCE_S = 30.0


SET, DELETE = 0, 1
TOPIC, BROKER = 2, 4
EVERY_BROKER = ""


def configure(bootstrap_servers: str, kind: int, name: str, **values: str | None) -> None:
    """Set configs, ``_`` for ``.`` in their names; None removes them."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    with connect(bootstrap_servers) as raw:
        (answer,) = raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    assert answer.error_code == error_codes.NONE, answer.error_message


def delete_records(admin: AdminClient, topic: str, offset: int) -> int:
    """The low watermark that is answered."""
    (answer,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    low_watermark: int = answer.result(PATIENCE_S).low_watermark
    return low_watermark


def test_segments_go_by_size_by_time_and_by_their_policy_as_it_is_set_now(start_broker: StartBroker) -> None:
    broker = start_broker(
        log_retention_check_interval_ms="100",
        log_initial_task_delay_ms="100",
        log_cleaner_backoff_ms="100",
        log_retention_ms="-1",
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def set_topic(topic: str, **values: str | None) -> None:
        configure(broker.bootstrap_servers, TOPIC, topic, **values)

    client = Confluent(broker.bootstrap_servers)
    policies = {
        "sized": "delete",
        "timed": "delete",
        "inherited": "delete",
        "both": "compact,delete",
        "kept": "compact",
    }
    for topic, policy in policies.items():
        inherits = topic == "inherited"
        create_topic(admin, topic, configs={**SMALL_SEGMENTS, "cleanup.policy": policy, "max.message.bytes": str(MIB)})
        if inherits:
            set_topic(topic, retention_ms=None)
        client.produce(topic, [Record(HALF, key=b"%d" % n, timestamp_ms=LONG_AGO_MS + n) for n in range(5)])

    def begins(topic: str) -> int:
        return client.beginning_offsets(topic)[0]

    time.sleep(0.5)
    assert {topic: begins(topic) for topic in policies} == dict.fromkeys(policies, 0)

    set_topic("sized", retention_bytes=str(2 * MIB))
    becomes(lambda: begins("sized"), 1, PATIENCE_S)  # what is left is not below the limit
    set_topic("timed", retention_ms="1000")
    becomes(lambda: begins("timed"), 5, PATIENCE_S)  # the active segment goes too
    set_topic("both", retention_ms="1000")
    set_topic("kept", retention_ms="1000")
    becomes(lambda: begins("both"), 5, PATIENCE_S)
    configure(broker.bootstrap_servers, BROKER, EVERY_BROKER, log_retention_ms="1000")
    becomes(lambda: begins("inherited"), 5, PATIENCE_S)
    assert begins("kept") == 0
    assert [stored.offset for stored in client.read("sized", {0: 1})] == [1, 2, 3, 4]

    with pytest.raises(KafkaException) as refusal:
        delete_records(admin, "kept", 1)
    assert refusal.value.args[0].code() == KafkaError.POLICY_VIOLATION
    assert delete_records(admin, "sized", 3) == 3
    set_topic("timed", retention_ms="86400000")
    assert client.produce("timed", [Record(b"young")])[0].offset == 5
    expected = {"sized": 3, "timed": 5, "inherited": 5, "both": 5, "kept": 0}
    broker.restart()

    def answers() -> bool:
        with suppress(KafkaException):  # it has not heard of its partitions yet
            return all(begins(topic) >= 0 for topic in policies)
        return False

    eventually(answers, "the broker to answer again")
    assert {topic: begins(topic) for topic in policies} == expected
    assert [stored.value for stored in client.read("timed", {0: 5})] == [b"young"]


def test_the_type_of_timestamps_changes_with_the_next_batch(
    bootstrap_servers: str, new_topic: NewTopic, set_topic: Callable[..., None]
) -> None:
    client, topic = Confluent(bootstrap_servers), new_topic()
    client.produce(topic, [Record(b"by the client", timestamp_ms=LONG_AGO_MS)])
    set_topic(topic, message_timestamp_type="LogAppendTime")

    def latest_type() -> int:
        client.produce(topic, [Record(b"by the broker", timestamp_ms=LONG_AGO_MS)])
        return client.read(topic)[-1].timestamp_type

    becomes(latest_type, 1)
    set_topic(topic, message_timestamp_type="CreateTime")
    becomes(latest_type, 0)
    stored = client.read(topic)
    assert (stored[0].timestamp_type, stored[0].timestamp_ms) == (0, LONG_AGO_MS)
    for each in stored:
        assert (each.timestamp_ms == LONG_AGO_MS) == (each.timestamp_type == 0)


@pytest.fixture
def set_topic(bootstrap_servers: str) -> Callable[..., None]:
    return partial(configure, bootstrap_servers, TOPIC)


@pytest.fixture
def refused(raw: RawClient) -> Callable[[str, int], PartitionProduceResponse]:
    def send(topic: str, timestamp: int) -> PartitionProduceResponse:
        return produce(raw, topic, build_batch([Written(timestamp=timestamp, value=b"v")]), version=12)

    return send


def test_times_out_of_bounds_are_refused_as_the_bounds_are_now(
    new_topic: NewTopic, set_topic: Callable[..., None], refused: Callable[[str, int], PartitionProduceResponse]
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="10000")
    assert refused(topic, LONG_AGO_MS).error_code == error_codes.NONE  # the broker's clock overrides it
    set_topic(topic, message_timestamp_type="CreateTime")
    becomes(lambda: refused(topic, LONG_AGO_MS).error_code, error_codes.INVALID_TIMESTAMP)
    answer = refused(topic, LONG_AGO_MS)
    assert answer.base_offset == -1
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    (record,) = answer.record_errors
    assert record.batch_index == 0
    text = record.batch_index_error_message or ""
    assert text.startswith(
        f"Timestamp {LONG_AGO_MS} of message with offset 0 is out of range. The timestamp should be "
    )
    assert refused(topic, now_ms()).error_code == error_codes.NONE
    set_topic(topic, message_timestamp_before_max_ms=None, message_timestamp_after_max_ms="5000")
    becomes(lambda: refused(topic, LONG_AGO_MS).error_code, error_codes.NONE)
    assert refused(topic, now_ms() + 60_000).error_code == error_codes.INVALID_TIMESTAMP
    set_topic(topic, message_timestamp_after_max_ms="3600000")
    becomes(lambda: refused(topic, now_ms() + 60_000).error_code, error_codes.NONE)
