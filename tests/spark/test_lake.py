"""Lake tables written by Spark: jobs run without a JVM here, and what executors get and return is pickled."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark import cloudpickle

from kpybroker.client.client import Client, Spot
from kpybroker.client.offset_requests import delete_records
from kpybroker.machines.lake.naming import with_digits
from kpybroker.machines.lake.planning import CommitLimits
from kpybroker.pipeline.lake.errors import LakeError, NotCommitted
from kpybroker.pipeline.lake.generations import WriteMode
from kpybroker.pipeline.lake.tables import EPOCH, HEADERS
from kpybroker.pipeline.lake.target import Target, target_of
from kpybroker.spark import lake_writer
from kpybroker.spark.lake import Lake
from kpybroker.testing import Broker

FORMATS = pytest.mark.parametrize("kind", ["delta", "iceberg"])


class Job:
    """An RDD of parts: each call is pickled as for an executor, and so is its answer."""

    def __init__(self, parts: list[Any], failing: list[int]) -> None:
        self._parts, self._failing = parts, failing
        self.answer_bytes: list[int] = []

    def map(self, call: Callable[[Any], Any]) -> "Job":
        self._pickled = cloudpickle.dumps(call)
        return self

    def collect(self) -> list[Any]:
        run = cloudpickle.loads(self._pickled)
        answers = [cloudpickle.dumps(run(part)) for part in self._parts]
        self.answer_bytes += map(len, answers)
        found = [cloudpickle.loads(answer) for answer in answers]
        if self._failing and self._failing.pop():
            raise RuntimeError("an executor is gone")
        return found


class Spark:
    """The part of a session that is used."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.failing: list[int] = []
        self.jobs: list[int] = []
        self.last: Job | None = None
        self.sparkContext = self

    def parallelize(self, parts: list[Any], count: int) -> Job:
        self.jobs.append(count)
        self.last = Job(parts, self.failing)
        return self.last


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_writer, "LEAST_OFFSETS", 2)


def target_in(directory: Path, kind: str) -> Target:
    if kind == "delta":
        return target_of(f"delta:{directory}/table", {})
    options = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse"}
    return target_of("iceberg:lake.table", options)


def produce(broker: Broker, topic: str, *records: tuple[str | None, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for key, value in records:
        content = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        producer.send(topic, content, None if key is None else key.encode(), partition=0).get(10)
    producer.close()


def lake_of(broker: Broker, topic: str, target: Target, spark: Spark, write_mode: WriteMode | None = None) -> Lake:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    session: Any = spark
    return Lake(session, options, topic, target, write_mode or WriteMode(values="json"), CommitLimits(rows=1_000))


def rows_in(target: Target) -> list[dict[str, Any]]:
    table = target.open()
    assert table is not None
    origin = table.origin()
    assert origin is not None
    return sorted((row for batch in table.rows(origin.topic_ids[-1]) for row in batch.to_pylist()), key=_offset)


def _offset(row: dict[str, Any]) -> int:
    return int(row["_offset"])


@FORMATS
def test_rows_of_all_tasks_are_one_commit_and_dead_letters_are_apart(broker: Broker, tmp_path: Path, kind: str) -> None:
    topic, target, spark = f"plain-{kind}", target_in(tmp_path, kind), Spark()
    produce(broker, topic, *((str(n), {"n": n}) for n in range(5)), ("x", b"junk"), ("y", None))
    (committed,) = lake_of(broker, topic, target, spark).once()
    assert (committed.rows, committed.dead, spark.jobs) == (6, 1, [2])
    assert [row["n"] for row in rows_in(target)] == [0, 1, 2, 3, 4, None]
    holds, lines = lake_of(broker, topic, target, spark).check()
    assert (holds, lines) == (True, ["partition 0 [0, 7): 7 offsets - 0 gaps = 6 rows + 1 dead letters"])
    assert list(lake_of(broker, topic, target, spark).once()) == []


@FORMATS
def test_tasks_that_find_new_columns_agree_on_their_types_before_any_row_is_written(
    broker: Broker, tmp_path: Path, kind: str
) -> None:
    topic, target, spark = f"widened-{kind}", target_in(tmp_path, kind), Spark()
    produce(broker, topic, ("a", {"n": 0}))
    list(lake_of(broker, topic, target, spark).once())
    produce(broker, topic, ("b", {"x": 1}), ("c", {"n": 1}), ("d", {"x": "word"}), ("e", {"n": 2, "x": True}))
    list(lake_of(broker, topic, target, spark).once())
    found = [(row["n"], row["x"], row["x__str"]) for row in rows_in(target)]
    assert found == [(0, None, None), (None, 1, None), (1, None, None), (None, None, "word"), (2, None, "true")]
    assert spark.jobs == [1, 2, 2, 1]
    assert lake_of(broker, topic, target, spark).check()[0]


@pytest.mark.parametrize("values", ["bytes", "json"])
def test_records_that_are_appended_do_not_pass_the_driver(broker: Broker, tmp_path: Path, values: str) -> None:
    topic, target, spark = f"apart-{values}", target_in(tmp_path, "delta"), Spark()
    produce(broker, topic, *(("x", {"n": number, "text": "x" * 1_000}) for number in range(200)))
    (committed,) = lake_of(broker, topic, target, spark, WriteMode(values=values)).once()
    assert committed.rows == 200
    assert spark.last is not None
    assert max(spark.last.answer_bytes) < 20_000


@FORMATS
def test_an_upsert_keeps_the_last_record_of_each_key_over_all_tasks(broker: Broker, tmp_path: Path, kind: str) -> None:
    topic, target, spark = f"upsert-{kind}", target_in(tmp_path, kind), Spark()
    write_mode = WriteMode(mode="upsert", values="json")
    produce(broker, topic, ("a", {"n": 1}), ("b", {"n": 1}), ("a", {"n": 2}), ("c", {"n": 3}), ("b", None), (None, {}))
    (committed,) = lake_of(broker, topic, target, spark, write_mode).once()
    assert [(row["_key"], row["n"]) for row in rows_in(target)] == [(b"a", 2), (b"c", 3)]
    assert committed.dead == 1
    produce(broker, topic, ("c", None), ("a", {"n": 4}), ("b", {"n": 5}), ("a", {"n": 6}))
    list(lake_of(broker, topic, target, spark, write_mode).once())
    assert [(row["_key"], row["n"]) for row in rows_in(target)] == [(b"b", 5), (b"a", 6)]
    assert lake_of(broker, topic, target, spark).check()[0]


@FORMATS
def test_files_of_a_job_that_failed_and_a_lost_answer_leave_each_record_once(
    broker: Broker, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, target, spark = f"failing-{kind}", target_in(tmp_path, kind), Spark()
    produce(broker, topic, *((str(n), {"n": n}) for n in range(6)))
    spark.failing = [1]
    with pytest.raises(LakeError, match=r"^the job of Spark failed: an executor is gone$"):
        list(lake_of(broker, topic, target, spark).once())
    assert rows_in(target) == []
    table = target.open()
    assert table is not None
    committing = type(table).append_files

    def lost(self: Any, files: Any, covered: Any) -> None:
        committing(self, files, covered)
        raise NotCommitted("the answer was lost")

    monkeypatch.setattr(type(table), "append_files", lost)
    list(lake_of(broker, topic, target, spark).once())
    assert [row["n"] for row in rows_in(target)] == list(range(6))
    assert lake_of(broker, topic, target, spark).check()[0]


@FORMATS
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_headers_and_epochs_are_columns_as_in_the_tables_of_one_process(
    broker: Broker, tmp_path: Path, kind: str, mode: str
) -> None:
    topic, target, spark = f"headers-{kind}-{mode}", target_in(tmp_path, kind), Spark()
    write_mode = WriteMode(mode=mode, values="json", extra=(HEADERS, EPOCH))
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(2):
        producer.send(topic, b'{"n": %d}' % number, b"k", [("at", b"%d" % number)], 0).get(10)
        list(lake_of(broker, topic, target, spark, write_mode if not number else WriteMode()).once())
    producer.close()
    found = [(row["n"], row["_headers"], row["_epoch"]) for row in rows_in(target)]
    of_both = [(number, [{"key": "at", "value": b"%d" % number}], 0) for number in range(2)]
    assert found == (of_both if mode == "append" else of_both[1:])
    assert lake_of(broker, topic, target, spark).check()[0]


@FORMATS
def test_tasks_whose_fields_differ_in_case_alone_agree_on_two_columns(
    broker: Broker, tmp_path: Path, kind: str
) -> None:
    topic, target, spark = f"case-{kind}", target_in(tmp_path, kind), Spark()
    produce(broker, topic, ("a", {"n": 0}))
    list(lake_of(broker, topic, target, spark).once())
    produce(broker, topic, ("b", {"x": 1}), ("c", {"n": 1}), ("d", {"X": 2}), ("e", {"n": 2, "_OFFSET": 3}))
    list(lake_of(broker, topic, target, spark).once())
    found = [(row["x"], row[with_digits("X")], row[with_digits("_OFFSET")]) for row in rows_in(target)]
    assert found == [(None, None, None), (1, None, None), (None, None, None), (None, 2, None), (None, None, 3)]
    assert lake_of(broker, topic, target, spark).check()[0]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_task_reads_a_bounded_number_of_bytes_and_later_commits_have_the_rest(
    broker: Broker, tmp_path: Path, mode: str
) -> None:
    topic, target, spark = f"large-{mode}", target_in(tmp_path, "delta"), Spark()
    produce(broker, topic, *((str(n), b"x" * 300_000) for n in range(30)))
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    session: Any = spark
    lake = Lake(session, options, topic, target, WriteMode(mode=mode), CommitLimits(bytes=1_000_000))
    commits = list(lake.once())
    assert len(commits) > 1
    assert max(commit.bytes for commit in commits) <= 7_000_000
    assert len(rows_in(target)) == 30
    assert lake.check()[0]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_row_over_which_the_library_of_a_table_fails_is_a_dead_letter(
    broker: Broker, tmp_path: Path, mode: str
) -> None:
    topic, target, spark = f"refused-{mode}", target_in(tmp_path, "iceberg"), Spark()
    bad = json.dumps({"s": "x" * 15 + "\ud7ff" + "y"}).encode()
    produce(broker, topic, ("a", {"s": "a"}), ("b", b"junk"), ("c", bad), ("d", {"s": "d"}), ("e", b"junk"))
    (committed,) = lake_of(broker, topic, target, spark, WriteMode(mode=mode, values="json")).once()
    assert (committed.rows, committed.dead) == (2, 3)
    assert [row["s"] for row in rows_in(target)] == ["a", "d"]
    assert lake_of(broker, topic, target, spark).check()[0]


def test_a_table_of_another_maker_or_none_is_named(broker: Broker, tmp_path: Path) -> None:
    produce(broker, "named", ("a", {"n": 1}))
    with pytest.raises(LakeError, match="no table that kpybroker lake made"):
        lake_of(broker, "named", target_in(tmp_path, "delta"), Spark()).check()
    with pytest.raises(ValueError, match="is not a table"):
        lake_of(broker, "named", "parquet:/x", Spark())  # type: ignore[arg-type]
    target = target_in(tmp_path, "delta")
    write_mode = WriteMode(values="json", partition_by=("n",))
    with pytest.raises(LakeError, match="has partitions, and files for it cannot be written apart"):
        list(lake_of(broker, "named", target, Spark(), write_mode).once())


def test_records_that_retention_took_end_the_job_with_one_line(broker: Broker, tmp_path: Path) -> None:
    target, spark = target_in(tmp_path, "delta"), Spark()
    produce(broker, "lost", *((str(n), {"n": n}) for n in range(4)))
    lake = lake_of(broker, "lost", target, spark)
    list(lake.once())
    produce(broker, "lost", ("x", {"n": 4}), ("y", {"n": 5}))
    with Client(broker.bootstrap_servers, 10) as client:
        delete_records(client, {Spot("lost", 0): 5})
    with pytest.raises(
        LakeError, match=r"START_OFFSET_RESET.* lost-0 \[4, 6\): offset 4 is gone, the log begins at 5\."
    ):
        list(lake.once())
    assert [row["n"] for row in rows_in(target)] == [0, 1, 2, 3]
    going_on = {"kafka.bootstrap.servers": broker.bootstrap_servers, "failOnDataLoss": "false"}
    session: Any = spark
    list(Lake(session, going_on, "lost", target).once())
    assert [row["n"] for row in rows_in(target)] == [0, 1, 2, 3, 5]
