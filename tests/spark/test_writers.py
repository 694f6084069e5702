"""The writers of the PySpark data source, asked as Spark asks them, without a JVM."""

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kpybroker.client.partitioning import partition_of
from kpybroker.machines.scan.errors import BadOption, ScanError
from kpybroker.spark import KpybrokerSource, one_line, sink_ways
from kpybroker.spark.sink_columns import BY_PARTITION
from kpybroker.testing import Broker

HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
PLAIN = StructType().add("key", StringType()).add("value", BinaryType())
LONG_PARTITION = StructType([*PLAIN.fields, StructField("partition", LongType())])
PLACED = StructType([*PLAIN.fields, StructField("partition", IntegerType(), True, {BY_PARTITION: True})])
QUERY = "5f0c"
CHECKPOINT = "/checkpoints/q"


@pytest.fixture(autouse=True)
def _no_traceback_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(one_line.HIDE, "")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": 3}) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_task() -> Iterator[None]:
    yield
    TaskContext._setTaskContext(None)


def source(broker: Broker, **options: Any) -> KpybrokerSource:
    reported = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "checkpointLocation": CHECKPOINT}
    reported["kafka.delivery.timeout.ms"] = "3000"
    renamed = {key.replace("_", "."): str(value) for key, value in options.items() if value is not None}
    return KpybrokerSource(
        {key: value for key, value in (reported | renamed).items() if options.get(key, value) is not None}
    )


def in_task(number: int, batch: int | None, *, attempt: int = 0, stage_attempts: str | None = "1") -> None:
    """Make this process a task of a micro-batch."""
    context = TaskContext()
    context._partitionId, context._attemptNumber = number, attempt
    context._localProperties = {"spark.stage.maxConsecutiveAttempts": stage_attempts}
    if batch is not None:
        context._localProperties |= {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch)}
    TaskContext._setTaskContext(context)


def frames(*rows: tuple[Any, ...], schema: StructType) -> Iterator[Any]:
    """The rows as Spark sends them to this kind of writer."""
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return iter([pa.RecordBatch.from_arrays(columns, names=schema.fieldNames())] if columns else [])


def micro_batch(
    broker: Broker, batch: int, *tasks: list[tuple[Any, ...]], schema: StructType = PLAIN, **options: Any
) -> None:
    """Do as Spark does for a micro-batch: writers are pickled for tasks, and another one commits."""
    there = cloudpickle.dumps(source(broker, **options).streamWriter(schema, False))
    messages = []
    for number, rows in enumerate(tasks):
        in_task(number, batch)
        written = pickle.loads(there).write(Row(*row) for row in rows)
        messages.append(pickle.loads(pickle.dumps(written)))
    TaskContext._setTaskContext(None)
    source(broker, **options).streamWriter(schema, False).commit(messages, batch)


def visible(broker: Broker, topic: str = "t") -> list[bytes]:
    return sorted(record.value for record in broker.records(topic, isolation="read_committed"))


def keyed(*numbers: int) -> list[tuple[Any, ...]]:
    return [(str(number), b"%d" % number) for number in numbers]


def placed(partition: int, *numbers: int) -> list[tuple[Any, ...]]:
    return [(str(number), b"%d" % number, partition) for number in numbers]


def test_a_micro_batch_that_is_tried_again_is_there_once(broker: Broker) -> None:
    for batch in (0, 0, 1, 1, 0):
        micro_batch(broker, batch, keyed(2 * batch), keyed(2 * batch + 1))
    assert visible(broker) == [b"0", b"1", b"2", b"3"]


def test_tasks_that_have_a_partition_each_write_their_rows_themselves(broker: Broker) -> None:
    for batch in (0, 0, 1):
        micro_batch(broker, batch, placed(0, 3 * batch), placed(2, 3 * batch + 1, 3 * batch + 2), schema=PLACED)
    assert visible(broker) == [b"%d" % number for number in range(6)]
    assert {record.partition for record in broker.records("t", isolation="read_committed")} == {0, 2}


def test_another_query_at_the_same_checkpoint_is_not_taken_for_the_first(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    micro_batch(broker, 0, keyed(0))
    monkeypatch.setitem(globals(), "QUERY", "77aa")
    micro_batch(broker, 0, keyed(1))
    assert visible(broker) == [b"0", b"1"]


def test_rows_are_visible_after_the_commit_only(broker: Broker) -> None:
    writer = source(broker).streamWriter(PLACED, False)
    there = cloudpickle.dumps(writer)
    in_task(0, 0)
    pickle.loads(there).write(Row(*row) for row in placed(0, 1, 2))
    assert (visible(broker), len(broker.records("t"))) == ([], 2)
    source(broker).streamWriter(PLACED, False).abort([None], 0)
    with pytest.raises(ScanError, match="another producer has taken it over"):
        pickle.loads(there).write(Row(*row) for row in placed(1, 3))
    micro_batch(broker, 0, placed(0, 1, 2), schema=PLACED)
    assert visible(broker) == [b"1", b"2"]


def test_a_frame_is_visible_as_a_whole_or_not_at_all(broker: Broker) -> None:
    writer = source(broker, checkpointLocation=None).writer(PLAIN, False)
    there = cloudpickle.loads(cloudpickle.dumps(writer))
    in_task(0, None)
    first = there.write(frames(*keyed(0, 1), schema=PLAIN))
    second = there.write(frames(*keyed(2), schema=PLAIN))
    assert visible(broker) == []
    there.commit([first, second])
    assert visible(broker) == [b"0", b"1", b"2"]


def test_a_frame_with_a_version_is_written_once(broker: Broker) -> None:
    for version in (1, 1, 2, 1):
        writer = source(broker, checkpointLocation=None, txnAppId="job", txnVersion=version).writer(PLAIN, False)
        there = cloudpickle.loads(cloudpickle.dumps(writer))
        there.commit([there.write(frames(*keyed(version), schema=PLAIN))])
    assert visible(broker) == [b"1", b"2"]


def test_without_exactly_once_rows_are_visible_at_once(broker: Broker) -> None:
    writer = source(broker, exactlyOnce="false", kafka_compression_type="zstd").writer(PLAIN, False)
    writer.write(frames(*keyed(0, 1), schema=PLAIN))
    assert visible(broker) == [b"0", b"1"]


def test_rows_have_the_partitions_of_their_keys_their_headers_and_their_topics(broker: Broker) -> None:
    schema = StructType().add("topic", StringType()).add("value", StringType()).add("KEY", BinaryType())
    schema = schema.add("headers", HEADERS).add("partition", IntegerType())
    headers = [{"key": "a", "value": b"1"}, {"key": "none", "value": None}]
    rows = [("a", "0", b"k", headers, None), ("b", "1", None, None, 2), ("a", None, b"k", [], None)]
    writer = source(broker, topic=None).writer(schema, False)
    writer.commit([writer.write(frames(*rows, schema=schema))])
    first, second = broker.records("a", isolation="read_committed")
    assert (first.key, first.value, first.headers) == (b"k", b"0", (("a", b"1"), ("none", None)))
    assert (second.value, second.headers) == (None, ())
    assert first.partition == second.partition == partition_of(b"k", 3)
    (third,) = broker.records("b", isolation="read_committed")
    assert (third.key, third.value, third.partition) == (None, b"1", 2)


def test_a_header_without_a_key_is_refused(broker: Broker) -> None:
    schema = StructType().add("value", StringType()).add("headers", HEADERS)
    rows = frames(("0", [{"key": None, "value": b"1"}]), schema=schema)
    with pytest.raises(ScanError, match="Null header keys are not permitted"):
        source(broker).writer(schema, False).write(rows)


def test_the_topic_of_the_option_wins_over_the_column(broker: Broker) -> None:
    schema = StructType().add("topic", StringType()).add("value", StringType())
    writer = source(broker).writer(schema, False)
    writer.commit([writer.write(frames(("other", "0"), schema=schema))])
    assert (visible(broker), "other" in broker.topics()) == ([b"0"], False)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (("0", None, 0), "null topic present in the data. Use the topic option for setting a default topic."),
        (("0", "t", 7), "Partition 7 of topic t is not present in metadata: it has 3 partitions"),
        (("0", "a b", 0), "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_a_row_without_a_place_fails_the_job_in_one_line(broker: Broker, row: tuple[Any, ...], error: str) -> None:
    schema = StructType().add("value", StringType()).add("topic", StringType()).add("partition", IntegerType())
    with pytest.raises(ScanError, match=error) as raised:
        source(broker, topic=None).writer(schema, False).write(iter([Row(*row)]))
    assert "\n" not in str(raised.value)


def test_a_topic_that_the_broker_does_not_create_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_ways, "CREATION_PATIENCE_S", 0.2)
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        writer = source(broker).writer(PLAIN, False)
        with pytest.raises(ScanError, match="Topic t not present in metadata"):
            writer.write(iter([Row("k", b"v")]))


@pytest.mark.parametrize(
    ("attempt", "stage_attempts", "error"),
    [(1, "1", "a task was tried again"), (0, None, "set spark.stage.maxConsecutiveAttempts=1"), (0, "4", "=1 for")],
)
def test_a_task_that_could_write_behind_another_attempt_writes_nothing(
    broker: Broker, attempt: int, stage_attempts: str | None, error: str
) -> None:
    there = cloudpickle.loads(cloudpickle.dumps(source(broker).streamWriter(PLACED, False)))
    in_task(0, 0, attempt=attempt, stage_attempts=stage_attempts)
    with pytest.raises(ScanError, match=error):
        there.write(Row(*row) for row in placed(0, 1))
    assert "t" not in broker.topics()


def test_a_query_without_its_id_writes_nothing(broker: Broker) -> None:
    writer = source(broker).streamWriter(PLAIN, False)
    message = writer.write(Row(*row) for row in keyed(1))
    with pytest.raises(ScanError, match=r"has not told the tasks the property sql.streaming.queryId"):
        writer.commit([message], 0)
    assert visible(broker) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"kafka_acks": "1"}, "exactlyOnce needs kafka.acks=all"),
        ({"kafka_enable_idempotence": "false"}, "exactlyOnce needs kafka.enable.idempotence=true"),
        ({"exactlyOnce": "perhaps"}, "exactlyOnce is true or false, not 'perhaps'"),
        ({"checkpointLocation": None}, "set the option checkpointLocation on the query"),
        ({"txnAppId": "a"}, "txnAppId and txnVersion belong together"),
        ({"txnAppId": "a", "txnVersion": "1"}, "txnAppId and txnVersion are for batch writes"),
        ({"kafka_transaction_timeout_ms": "soon"}, "kafka.transaction.timeout.ms is a whole number"),
        ({"kafka_transactional_id": "x"}, "Instead set the sink option 'transactionalId'"),
        ({"kafka_key_serializer": "x"}, "Kafka option 'key.serializer' is not supported"),
        ({"kafka_compression_type": "rar"}, "kafka.compression.type is none, gzip"),
        ({"kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({"kafka_bootstrap_servers": "a:b:c"}, "kafka.bootstrap.servers: not an address"),
    ],
)
def test_a_wrong_option_is_one_clear_line(broker: Broker, options: dict[str, Any], error: str) -> None:
    with pytest.raises(BadOption, match=error):
        source(broker, **options).streamWriter(PLAIN, False)


@pytest.mark.parametrize(
    ("schema", "topic", "error"),
    [
        (StructType([StructField("key", StringType())]), "t", "Required attribute 'value' not found"),
        (PLAIN, None, "topic option required when no 'topic' attribute is present"),
        (StructType().add("value", LongType()), "t", "value attribute unsupported type bigint. value must be a string"),
        (
            StructType([*PLAIN.fields, StructField("partition", LongType())]),
            "t",
            "partition attribute unsupported type bigint",
        ),
        (StructType().add("value", StringType()).add("headers", StringType()), "t", "headers must be a array<struct"),
    ],
)
def test_a_wrong_column_is_one_clear_line(broker: Broker, schema: StructType, topic: str | None, error: str) -> None:
    with pytest.raises(BadOption, match=error):
        source(broker, topic=topic).writer(schema, False)


def test_a_frame_cannot_overwrite_a_topic(broker: Broker) -> None:
    with pytest.raises(BadOption, match="Save mode overwrite not allowed for Kafka"):
        source(broker).writer(PLAIN, True)


def test_a_transaction_longer_than_the_broker_allows_is_one_clear_line(broker: Broker) -> None:
    writer = source(broker, kafka_transaction_timeout_ms="900001").writer(PLAIN, False)
    with pytest.raises(ScanError, match=r"900001 ms is more than the broker's transaction.max.timeout.ms"):
        writer.commit([writer.write(iter([Row("k", b"v")]))])
