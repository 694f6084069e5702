"""Generated options of format("kpybroker") beside Spark's own source: both give the same rows, or both refuse."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from kpybroker.machines.scan.columns import ALL
from kpybroker.spark import KpybrokerSource, one_line
from kpybroker.testing import Broker
from support import spark_versions
from support.spark_formats import KAFKA, KPYBROKER
from support.spark_option_sets import BATCH, OptionSet, option_sets
from support.spark_option_topics import fill

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]

PATIENT: Final = {
    "kafka.default.api.timeout.ms": "5000",
    "kafka.request.timeout.ms": "4000",
    "kafkaConsumer.pollTimeoutMs": "3000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
}
THROUGH_SPARK: Final = 16
"""The number of sets of which Spark reads a batch and a stream in both formats; for the others the source is asked as
Spark asks it."""
Answer = tuple[list[str], list[tuple[Any, ...]]] | None
"""The columns and the rows; None for a query that is refused."""


class Fields:
    """The part of a StructType that the source uses."""

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns

    def fieldNames(self) -> list[str]:  # noqa: N802 - Spark's name
        return self._columns


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        fill(broker)
        yield broker.bootstrap_servers


def answer(read: Callable[[], tuple[list[str], list[dict[str, Any]]]]) -> tuple[Answer, str]:
    """The answer to a query, and why it is refused."""
    try:
        columns, rows = read()
    except Exception as error:
        return None, str(error)[:1000]
    return (columns, sorted((tuple(map(plain, row.values())) for row in rows), key=repr)), ""


def plain(value: Any) -> Any:
    """A value in a form that can be compared: sources give bytes, times and headers as several types."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [tuple(map(plain, each.values() if isinstance(each, dict) else each)) for each in value]
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


numbers = count()


def through_spark(spark: SparkSession, form: str, chosen: OptionSet) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and rows that Spark reads."""
    if chosen.kind == BATCH:
        frame = spark.read.format(form).options(**chosen.options).load()
        return frame.columns, [row.asDict() for row in frame.collect()]
    frame = spark.readStream.format(form).options(**chosen.options).load()
    name = f"rows_{next(numbers)}"
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60), "the stream does not end"
        return frame.columns, [row.asDict() for row in spark.table(name).collect()]
    finally:
        query.stop()


def directly(chosen: OptionSet) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and rows that the source gives when it is asked as Spark asks."""
    source = KpybrokerSource(chosen.options)
    columns = [column for column in ALL if f"{column} " in source.schema()]
    fields: Any = Fields(columns)
    if chosen.kind == BATCH:
        reader = source.reader(fields)
        return columns, rows_of(reader, reader.partitions())
    reader = source.streamReader(fields)
    rows: list[dict[str, Any]] = []
    try:
        start = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        while (end := reader.latestOffset(start)) != start:
            rows += rows_of(reader, reader.partitions(start, end))
            start = end
    finally:
        reader.stop()
    return columns, rows


def rows_of(reader: Any, tasks: Any) -> list[dict[str, Any]]:
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def difference(spark: SparkSession, servers: str, number: int, chosen: OptionSet) -> str | None:
    """How the two sources differ; None if they do not."""
    given = {"kafka.bootstrap.servers": servers, **PATIENT}
    reported = {name.lower() for name in chosen.options}
    given = {name: value for name, value in given.items() if name.lower() not in reported}
    whole = chosen._replace(options={**given, **chosen.options})
    theirs, why_theirs = answer(lambda: through_spark(spark, KAFKA, whole))
    if number % THROUGH_SPARK in (0, 3) and "maxoffsetspertrigger" not in reported:
        ours, why_ours = answer(lambda: through_spark(spark, KPYBROKER, whole))
    else:
        ours, why_ours = answer(lambda: directly(whole))
    if theirs == ours or (ours is None and is_late(theirs, why_ours)):
        return None
    answers = f"  kafka: {shown(theirs, why_theirs)}\n  kpybroker: {shown(ours, why_ours)}"
    return f"{number}: {chosen.kind} {chosen.options}\n{answers}"


def is_late(theirs: Answer, why_ours: str) -> bool:
    """Whether a property of the client is wrong, which Spark's own source notices where a task reads something."""
    return theirs is not None and not theirs[1] and ("kafka." in why_ours or "kafkaConsumer." in why_ours)


def shown(found: Answer, why: str) -> str:
    return f"refuses: {why}" if found is None else f"{len(found[1])} rows: {str(found)[:300]}"


def test_generated_options_give_the_rows_of_sparks_own_source_or_are_refused_by_both(
    spark: SparkSession, servers: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not spark_versions.connector(spark.version):
        pytest.skip(f"Spark {spark.version} has no Kafka connector to compare with")
    monkeypatch.setenv(one_line.HIDE, "")
    chosen = option_sets(pytestconfig.getoption("--seed"), pytestconfig.getoption("--option-sets"))
    found = [difference(spark, servers, number, each) for number, each in enumerate(chosen)]
    differences = [each for each in found if each is not None]
    assert not differences, "\n".join(differences)
