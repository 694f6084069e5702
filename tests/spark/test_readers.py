"""The readers of the PySpark data source, asked as Spark asks them, without a JVM."""

import gc
import inspect
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition

from kpybroker.client.client import Client, Spot
from kpybroker.client.offset_requests import delete_records
from kpybroker.machines.scan.errors import BadOption, OffsetsLost, ScanError
from kpybroker.machines.scan.filter_text import parse_filter
from kpybroker.spark import KpybrokerSource, one_line, task
from kpybroker.spark.pushdown import filter_of
from kpybroker.spark.read_limits import default_limit
from kpybroker.spark.reader import PUSHDOWN_WORKER, BatchReader, PushedReader
from kpybroker.spark.schema import TYPES, ddl
from kpybroker.testing import Broker, Record
from oracle import free_port

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_traceback_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(one_line.HIDE, "")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


class Fields:
    """The part of a StructType that the data source uses."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    def fieldNames(self) -> list[str]:  # noqa: N802 - Spark's name
        return list(self._columns)


PLAIN: Any = Fields(tuple(TYPES)[:-1])


MEANT = "; did you mean maxOffsetsPerTrigger?"


def source(broker: Broker, **options: Any) -> KpybrokerSource:
    reported = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.default.api.timeout.ms": "3000"}
    return KpybrokerSource(reported | {key: str(value) for key, value in options.items() if value is not None})


def batch(broker: Broker, **options: Any) -> BatchReader:
    reader: BatchReader = source(broker, **{"subscribe": "t"} | options).reader(PLAIN)
    return reader


def stream(broker: Broker, **options: Any) -> Any:
    defaults = {"subscribe": "t", "startingOffsets": "earliest"}
    if options.keys() & {"startingTimestamp", "startingOffsetsFromCheckpoint"}:
        del defaults["startingOffsets"]
    return source(broker, **defaults | options).streamReader(PLAIN)


def values(reader: Any, tasks: Any) -> list[str]:
    """The rows of the tasks of a plan, after both were pickled as on their way to executors."""
    there = cloudpickle.loads(cloudpickle.dumps(reader))
    found = [
        row for task in pickle.loads(pickle.dumps(list(tasks))) for rows in there.read(task) for row in rows.to_pylist()
    ]
    return [f"{row['topic']}-{row['partition']}:{row['value'].decode()}" for row in found]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def named(first: int, last: int, spot: str = "t-0") -> list[str]:
    return [f"{spot}:{number}" for number in range(first, last)]


def test_the_schema_is_that_of_sparks_source() -> None:
    reported = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    plain = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
    assert KpybrokerSource(reported).schema() == plain
    headers = KpybrokerSource(reported | {"includeHeaders": "true"}).schema()
    assert headers == plain + ", headers array<struct<key: string, value: binary>>"
    assert KpybrokerSource(reported | {"columns": "offset,value"}).schema() == ddl(["offset", "value"])


def test_the_spark_source_is_found_by_its_name() -> None:
    from pyspark_kpybroker import DefaultSource

    assert DefaultSource is KpybrokerSource
    assert DefaultSource.name() == "kpybroker"


def test_processes_of_spark_load_only_what_every_task_needs() -> None:
    """Spark starts several for a query, and each loads its modules."""
    heavy = "{'kpystorage.log', 'pyarrow.compute', 'urllib.request'}"
    program = f"import sys; import kpybroker.spark.reader; print(sorted({heavy} & set(sys.modules)))"
    before = "import sys; import pyspark.sql.datasource, pyarrow; print('urllib.request' in sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", each], capture_output=True, text=True) for each in (program, before)]
    assert [run.stdout.strip() for run in runs] in (["[]", "False"], ["['urllib.request']", "True"]), runs


def test_reading_does_not_load_pandas(broker: Broker) -> None:
    broker.create_topic("t")
    broker.produce("t", b"a", b"b")
    program = f"""
import sys
from kpybroker.spark import KpybrokerSource
from kpybroker.machines.scan.options import for_batch, read_options
from kpybroker.spark.reader import BatchReader
said = {{"kafka.bootstrap.servers": {broker.bootstrap_servers!r}, "subscribe": "t", "includeHeaders": "true"}}
reader = BatchReader(for_batch(read_options(said), said))
print(sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task)), "pandas" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.split() == ["2", "False"], run.stderr


def test_modules_are_left_out_of_the_search_for_garbage_once_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    task.keep_modules.cache_clear()
    for loaded in (10, 10, 20, 20):
        task.keep_modules(loaded)
    assert frozen == [True, True]


def test_a_schema_of_the_users_own_is_refused(broker: Broker) -> None:
    with pytest.raises(BadOption, match="Kafka source has a fixed schema"):
        source(broker, subscribe="t").reader(Fields(("value",)))


def test_an_error_for_people_ends_the_process_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(one_line.HIDE)
    with pytest.raises(BadOption):
        KpybrokerSource({}).schema()
    import os

    assert os.environ[one_line.HIDE] == "1"


def test_options_without_effect_are_logged_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    source(broker, subscribe="t", maxOffsetPerTrigger="5").schema()
    assert [record.getMessage() for record in caplog.records] == [
        f"kpybroker data source: the option maxoffsetpertrigger is not known and has no effect{MEANT}"
    ]


def test_a_batch_reads_what_is_there_when_it_is_planned(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 20))
    reader = batch(broker)
    tasks = reader.partitions()
    broker.produce("t", *numbers(20, 30))
    assert values(reader, tasks) == named(0, 20)
    assert values(batch(broker), batch(broker).partitions()) == named(0, 30)
    assert [list(reader.read(nothing)) for nothing in (None, InputPartition(None))] == [[], []]  # type: ignore[arg-type]


def test_a_batch_has_bounds_tasks_and_filters(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 20))
    bounded = batch(broker, startingOffsets='{"t":{"0":3}}', endingOffsets='{"t":{"0":9}}', minPartitions=3)
    assert len(bounded.partitions()) == 3
    assert values(bounded, bounded.partitions()) == named(3, 9)
    filtered = batch(broker, filter="offset > 16 and topic = 't' and key is null")
    assert [str(part) for task in filtered.partitions() for part in task.value] == ["t-0 [17, 20)"]
    assert values(filtered, filtered.partitions()) == named(17, 20)
    assert batch(broker, filter="partition = 1").partitions() == []
    assert batch(broker, filter="timestamp > '2999-01-01'").partitions() == []


def test_offsets_outside_of_the_log_are_data_loss_for_a_batch(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 20))
    with Client(broker.bootstrap_servers) as client:
        delete_records(client, {Spot("t", 0): 8})
    asked = {"startingOffsets": '{"t":{"0":3}}'}
    with pytest.raises(OffsetsLost, match="t-0: offset 3 is gone, the log begins at 8"):
        batch(broker, **asked).partitions()
    lenient = batch(broker, **asked, failOnDataLoss="false")
    assert values(lenient, lenient.partitions()) == named(8, 20)
    with pytest.raises(OffsetsLost, match="t-0: offset 29 is not there, the log ends at 20"):
        batch(broker, endingOffsets='{"t":{"0":30}}').partitions()


@pytest.mark.parametrize("fails_on_data_loss", ["true", "false"])
@pytest.mark.parametrize(
    "bounds",
    [
        {"startingOffsets": '{"t":{"0":25}}'},
        {"startingOffsets": '{"t":{"0":25}}', "endingOffsets": '{"t":{"0":-1}}'},
        {"startingOffsets": '{"t":{"0":7}}', "endingOffsets": '{"t":{"0":3}}'},
        {"startingTimestamp": "9", "endingTimestamp": "3"},
    ],
)
def test_a_batch_that_begins_behind_its_end_is_refused(
    broker: Broker, bounds: dict[str, str], fails_on_data_loss: str
) -> None:
    now_ms = time.time_ns() // 1_000_000
    broker.produce("t", *(Record(b"x", timestamp_ms=now_ms + at) for at in range(20)))
    times = {name: str(now_ms + int(given)) for name, given in bounds.items() if name.endswith("Timestamp")}
    with pytest.raises(BadOption, match=r"Beginning offset \d+ is after the ending offset \d+ for topic t partition 0"):
        batch(broker, failOnDataLoss=fails_on_data_loss, **bounds | times).partitions()
    there = batch(broker, startingOffsets='{"t":{"0":20}}', failOnDataLoss=fails_on_data_loss)
    assert there.partitions() == []


@pytest.mark.parametrize("cut", [{"minPartitions": 2}, {"maxRecordsPerPartition": 100}])
def test_a_batch_that_is_cut_leaves_out_what_begins_behind_its_end(broker: Broker, cut: dict[str, int]) -> None:
    broker.produce("t", *numbers(0, 20))
    assert batch(broker, startingOffsets='{"t":{"0":25}}', failOnDataLoss="false", **cut).partitions() == []


def test_a_stream_that_begins_behind_the_end_is_data_loss(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 20))
    begin = {"startingOffsets": '{"t":{"0":25}}'}
    with pytest.raises(OffsetsLost, match="Partition t-0 offset was changed from 25 to 20"):
        stream(broker, **begin).initialOffset()
    assert stream(broker, failOnDataLoss="false", **begin).initialOffset()["t"] == {"0": 25}


def test_a_broker_that_is_away_is_one_line(broker: Broker) -> None:
    broker.stop()
    with pytest.raises(ScanError, match="no broker answers at") as raised:
        batch(broker).partitions()
    assert "\n" not in str(raised.value)


def test_a_stream_and_its_tasks_wait_for_a_broker_that_is_away(tmp_path: Path) -> None:
    """Neither has reached it before: a query that goes on from a checkpoint, and a task on another executor."""
    broker = Broker(port=free_port(), directory=tmp_path).start()
    broker.produce("t", *numbers(0, 3))
    planned, fresh, reading = (stream(broker, **{"kafka.default.api.timeout.ms": 60_000}) for _ in range(3))
    end = planned.latestOffset()
    tasks = planned.partitions(planned.initialOffset(), end)
    planned.stop()
    broker.stop()
    with ThreadPoolExecutor() as threads:
        later = threads.submit(fresh.latestOffset)
        rows = threads.submit(values, reading, tasks)
        time.sleep(0.5)
        assert not later.done()
        assert not rows.done()
        broker.start()
        assert later.result()["t"] == end["t"]
        assert rows.result() == named(0, 3)
    broker.stop()


def test_a_stream_before_spark_4_2_knows_where_it_is(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 10))
    reader = stream(broker, maxOffsetsPerTrigger=4)
    ends = [reader.latestOffset() for _ in range(4)]
    assert [end["t"]["0"] for end in ends] == [4, 8, 10, 10]
    start = reader.initialOffset()
    assert start["t"] == {"0": 0}
    assert values(reader, reader.partitions(start, ends[0])) == named(0, 4)
    again = stream(broker, maxOffsetsPerTrigger=4)
    assert again.partitions(ends[0], ends[0]) == []
    assert again.latestOffset()["t"] == {"0": 8}
    reader.stop()


def test_a_stream_since_spark_4_2_is_given_its_start_and_limit(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 10))
    reader = stream(broker, maxOffsetsPerTrigger=4)
    assert len(inspect.signature(reader.latestOffset).parameters) == 2
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(3))["t"] == {"0": 3}
    assert reader.latestOffset(start, ReadAllAvailable())["t"] == {"0": 10}
    assert reader.latestOffset(start, SimpleNamespace())["t"] == {"0": 4}
    broker.produce("t", *numbers(10, 12))
    assert reader.latestOffset(start, ReadAllAvailable())["t"] == {"0": 12}
    assert reader.reportLatestOffset()["t"] == {"0": 12}


class ReadMaxRows:
    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows


class ReadAllAvailable:
    pass


def test_a_stream_that_reads_what_is_available_now_ends_there(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 10))
    reader = stream(broker, maxOffsetsPerTrigger=4, minOffsetsPerTrigger=3)
    reader.prepareForTriggerAvailableNow()
    broker.produce("t", *numbers(10, 20))
    at, ends = reader.initialOffset(), []
    while (end := reader.latestOffset(at, SimpleNamespace())) != at:
        ends.append(end["t"]["0"])
        at = end
    assert ends == [4, 8, 10]


def test_limits_are_named_in_sparks_words(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ReadMaxRows", "ReadMaxBytes", "ReadMinRows", "ReadAllAvailable")
    limits = SimpleNamespace(**{name: lambda *count, name=name: (name, *count) for name in names})
    monkeypatch.setattr("kpybroker.spark.read_limits._limits", limits)
    for reported, expected in (
        ({"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 2}, ("ReadMaxRows", 5)),
        ({"maxBytesPerTrigger": 7}, ("ReadMaxBytes", 7)),
        ({"minOffsetsPerTrigger": 2}, ("ReadMinRows", 2)),
        ({}, ("ReadAllAvailable",)),
    ):
        reader = stream(broker, **reported)
        assert reader.getDefaultReadLimit() == expected == default_limit(reader._options)


def test_a_stream_takes_about_as_many_bytes_as_it_may(broker: Broker) -> None:
    broker.produce("t", *("v" * 1000 for _ in range(50)))
    reader = stream(broker, maxBytesPerTrigger=10_500)
    ends = [reader.latestOffset()["t"]["0"] for _ in range(3)]
    assert ends[1] - ends[0] == ends[0]
    assert 8 <= ends[0] <= 10


def test_a_stream_that_begins_at_the_end_loses_nothing_when_its_first_batch_is_repeated(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 10))
    reader = stream(broker, startingOffsets="latest")
    broker.produce("t", *numbers(10, 12))
    first = reader.latestOffset()
    broker.produce("t", *numbers(12, 15))
    again = stream(broker, startingOffsets="latest")
    assert again.partitions(again.initialOffset(), first) == []
    later = again.latestOffset()
    assert values(again, again.partitions(first, later)) == named(12, 15)


def test_a_stream_that_begins_at_the_end_reads_all_that_comes_after_the_first_look(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 10))
    reader = stream(broker, startingOffsets="latest")
    first = reader.latestOffset()
    broker.produce("t", *numbers(10, 12))
    assert reader.initialOffset() == first
    assert values(reader, reader.partitions(first, reader.latestOffset())) == named(10, 12)


def test_a_batch_waits_for_enough_records(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 3))
    reader = stream(broker, minOffsetsPerTrigger=5, maxTriggerDelay="1h")
    assert reader.latestOffset()["t"] == {"0": 3}
    broker.produce("t", *numbers(3, 7))
    assert reader.latestOffset()["t"] == {"0": 3}
    broker.produce("t", *numbers(7, 8))
    assert reader.latestOffset()["t"] == {"0": 8}


def test_new_topics_are_read_from_their_beginning_and_deleted_ones_are_data_loss(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 3))
    reader = stream(broker, subscribe=None, subscribePattern="t|u", startingOffsets="latest")
    first = reader.latestOffset()
    broker.produce("u", *numbers(0, 2))
    second = reader.latestOffset()
    assert values(reader, reader.partitions(first, second)) == named(0, 2, "u-0")
    broker.delete_topic("u")
    with pytest.raises(OffsetsLost, match="Partitions u-0 have been deleted"):
        reader.latestOffset()
    lenient = stream(broker, subscribe=None, subscribePattern="t|u", failOnDataLoss="false")
    lenient.partitions(second, second)
    assert lenient.latestOffset()["t"] == {"0": 3}
    assert "u" not in lenient.latestOffset()


def test_a_topic_made_again_is_data_loss_or_read_from_its_start(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 3))
    reader = stream(broker)
    first = reader.latestOffset()
    broker.delete_topic("t")
    broker.produce("t", *numbers(100, 110))
    with pytest.raises(
        OffsetsLost, match="Topic t was deleted and created again: partition t-0 offset was changed from 3"
    ):
        reader.latestOffset()
    lenient = stream(broker, failOnDataLoss="false")
    lenient.partitions(first, first)
    second = lenient.latestOffset()
    assert values(lenient, lenient.partitions(first, second)) == named(100, 110)
    with pytest.raises(OffsetsLost):
        stream(broker).partitions(first, second)


def test_records_deleted_before_they_were_read_are_left_out_where_that_is_allowed(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 20))
    reader = stream(broker, failOnDataLoss="false")
    start, end = reader.initialOffset(), reader.latestOffset()
    with Client(broker.bootstrap_servers) as client:
        delete_records(client, {Spot("t", 0): 8})
    assert values(reader, reader.partitions(start, end)) == named(8, 20)
    strict = stream(broker)
    with pytest.raises(OffsetsLost, match="offset 0 is gone"):
        values(strict, strict.partitions(start, end))


def test_a_stream_filters_too(broker: Broker) -> None:
    broker.produce("t", *numbers(0, 20))
    reader = stream(broker, filter="value = '7' or offset = 11")
    assert values(reader, reader.partitions(reader.initialOffset(), reader.latestOffset())) == ["t-0:7", "t-0:11"]


def test_a_new_query_goes_on_from_the_checkpoint_of_another_source(broker: Broker, tmp_path: Any) -> None:
    broker.produce("t", *numbers(0, 20))
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "4").write_text("v1\n{}\n" + json.dumps({"t": {"0": 15}}))
    reader = stream(broker, startingOffsetsFromCheckpoint=tmp_path)
    assert reader.initialOffset()["t"] == {"0": 15}


def pushed(kind: str, **fields: Any) -> Any:
    return type(kind, (), fields)()


def test_pushed_filters_narrow_the_plan_and_are_handed_back(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("t", *numbers(0, 20))
    assert not isinstance(batch(broker, pushFilters="true"), PushedReader)
    monkeypatch.setitem(sys.modules, PUSHDOWN_WORKER, SimpleNamespace())
    assert not isinstance(batch(broker), PushedReader)
    reader = batch(broker, pushFilters="true", filter="offset < 15")
    assert isinstance(reader, PushedReader)
    filters = [
        pushed("GreaterThan", attribute=("offset",), value=12),
        pushed("StringContains", attribute=("value",), value="x"),
        pushed("Not", child=pushed("EqualTo", attribute=("value",), value=bytearray(b"13"))),
    ]
    for _ in range(2):
        assert reader.pushFilters(filters) == filters
        assert values(reader, reader.partitions()) == ["t-0:14"]
    reader.pushFilters([])
    assert values(reader, reader.partitions()) == named(0, 15)


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("EqualTo", {"attribute": ("topic",), "value": "t"}, parse_filter("topic = 't'")),
        ("In", {"attribute": ("partition",), "value": (1, 2)}, parse_filter("partition in (1, 2)")),
        ("In", {"attribute": ("partition",), "value": (1, None)}, None),
        ("StringStartsWith", {"attribute": ("topic",), "value": "a_%"}, parse_filter(r"topic like 'a\_\%%'")),
        ("IsNotNull", {"attribute": ("key",)}, parse_filter("key is not null")),
        ("GreaterThan", {"attribute": ("timestamp",), "value": NOON}, parse_filter("timestamp > '2026-01-31T12:00'")),
        ("GreaterThan", {"attribute": ("timestamp",), "value": NOON.replace(tzinfo=None)}, None),
        ("EqualNullSafe", {"attribute": ("key",), "value": b"k"}, None),
        ("EqualTo", {"attribute": ("headers", "key"), "value": "k"}, None),
        ("EqualTo", {"attribute": ("headers",), "value": "k"}, None),
        ("LessThan", {"attribute": ("offset",), "value": 1.5}, None),
        ("Unheard", {"attribute": ("offset",), "value": 1}, None),
    ],
)
def test_a_filter_that_cannot_be_judged_here_is_left_to_spark(name: str, fields: dict[str, Any], expected: Any) -> None:
    assert filter_of(pushed(name, **fields)) == expected
