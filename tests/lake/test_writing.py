"""Writers of both formats: rows are there once, whatever fails, and the check finds what is not."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from memory_topic import FORMATS, ID, Content, MemoryTopic, made, started, target_in, writer_of, written

from kpybroker.machines.lake.coverage import Covered
from kpybroker.pipeline.lake.checking import TableCheck, as_text
from kpybroker.pipeline.lake.errors import LakeError, NotCommitted, TableChanged
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.generations import WriteMode, opened, origin_for
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.replaying import replay
from kpybroker.pipeline.lake.tables import EPOCH, FACTS, HEADERS, OFFSET, LakeTable, Origin
from kpybroker.pipeline.lake.target import Target, target_of

pytestmark = pytest.mark.parametrize("kind", FORMATS)


def record(key: str, number: Any) -> Content:
    return key.encode(), json.dumps({"n": number}).encode()


def checked(target: Target, topic: MemoryTopic, mode: str = "append", *, has_schema: bool = False) -> TableCheck:
    table = target.open()
    assert table is not None
    return TableCheck(topic, ID, table, target.dead_letters().open(), mode, None if has_schema else JsonValues())


def assert_equal(target: Target, topic: MemoryTopic, mode: str = "append", *, has_schema: bool = False) -> None:
    check = checked(target, topic, mode, has_schema=has_schema)
    counts = list(check.counts())
    assert all(count.holds for count in counts), (counts, check.findings)


def rows_of(target: Target) -> list[dict[str, Any]]:
    table = target.open()
    assert table is not None
    found = [row for batch in table.rows(ID) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["_partition"], row["_offset"]))


def test_rows_dead_letters_and_gaps_add_up_to_the_offsets(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic(2)
    topic.put(0, record("a", 1), None, (b"b", b"junk"), (b"c", None), record("d", "word"))
    topic.put(1, None, record("e", 2))
    assert written(started(target, topic, rows=3), topic) > 1
    counts = list(checked(target, topic).counts())
    assert [as_text("append", count) for count in counts] == [
        "partition 0 [0, 5): 5 offsets - 1 gaps = 3 rows + 1 dead letters",
        "partition 1 [0, 2): 2 offsets - 1 gaps = 1 rows + 0 dead letters",
    ]
    assert [(row["_offset"], row["n"], row["n__str"]) for row in rows_of(target)] == [
        (0, 1, None),
        (3, None, None),
        (4, None, "word"),
        (1, 2, None),
    ]
    again = started(target, topic)
    assert written(again, topic) == 0
    topic.put(0, record("f", 9))
    assert written(again, topic) == 1
    assert_equal(target, topic)


def test_upsert_keeps_the_last_record_of_each_key_and_tombstones_delete(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic(1, compacted=True)
    topic.put(0, record("a", 1), record("b", 1), record("a", 2), (None, b"{}"), record("c", 1))
    writer = started(target, topic, "upsert")
    written(writer, topic)
    topic.put(0, (b"b", None), record("d", 4), record("c", 2), (b"d", b"junk"), record("e", 5), (b"e", None))
    for key in ("a", "x"):
        topic.put(0, record(key, 7))
    written(writer, topic)
    assert [(row["_key"], row["n"]) for row in rows_of(target)] == [(b"c", 2), (b"a", 7), (b"x", 7)]
    assert_equal(target, topic, "upsert")
    with pytest.raises(LakeError, match="backfill"):
        writer.begin(backfill=True)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_commit_whose_answer_was_lost_is_not_repeated(tmp_path: Path, kind: str, mode: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, record("a", 1), (b"b", b"junk"), record("c", 3))
    writer = started(target, topic, mode)
    table: Any = writer._table
    failures = []
    for name in ("append", "upsert"):
        change = getattr(table, name)

        def losing(*arguments: Any, change: Any = change) -> None:
            change(*arguments)
            failures.append(1)
            raise NotCommitted("the answer was lost")

        setattr(table, name, losing)
    assert written(writer, topic) == 1
    assert failures
    assert len(rows_of(target)) == 2
    assert_equal(target, topic, mode)


def test_a_commit_that_was_refused_is_tried_again(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, record("a", 1))
    writer = started(target, topic)
    table: Any = writer._table
    append, refusals = table.append, [1, 2]

    def refusing(*arguments: Any) -> None:
        if refusals:
            raise NotCommitted(f"refused {refusals.pop()}")
        append(*arguments)

    table.append = refusing
    assert written(writer, topic) == 1
    assert_equal(target, topic)


def test_dead_letters_of_a_commit_that_did_not_follow_are_taken_back(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, (b"a", b"junk"))
    written(started(target, topic), topic)
    topic.put(0, (b"b", b"more junk"), record("c", 1))
    writer = started(target, topic)
    table: Any = writer._table

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    table.append = dying
    with pytest.raises(KeyboardInterrupt):
        writer.write(topic.ends())
    assert sum(batch.num_rows for batch in target.dead_letters().open().rows(ID)) == 2  # type: ignore[union-attr]
    assert_equal(target, topic)
    after = writer_of(target, topic, made(target, topic), number=2)
    assert after.take_over(target.dead_letters().open()) == 1
    assert written(after, topic) == 1
    assert_equal(target, topic)


def test_a_second_writer_ends_the_first(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, record("a", 1), (b"b", b"junk"))
    first = started(target, topic, number=1)
    second = started(target, topic, number=2)
    with pytest.raises(TableChanged, match="another writer has taken over"):
        first.write(topic.ends())
    assert written(second, topic) == 1
    topic.put(0, (b"c", b"junk"))
    assert written(started(target, topic, number=3), topic) == 1
    with pytest.raises(TableChanged):
        second.write(topic.ends())
    assert_equal(target, topic)


def test_maintenance_does_not_stop_a_writer(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    writer = started(target, topic)
    for number in range(4):
        topic.put(0, record(f"k{number}", number), (b"x", b"junk"))
        writer.write(topic.ends())
    other = target.open()
    assert other is not None
    assert " files were put together into 1" in other.compact(1 << 27)
    other.clean(0)
    topic.put(0, record("last", 1))
    assert written(writer, topic) == 1
    written(started(target, topic), topic)
    assert_equal(target, topic)


def test_a_row_too_many_or_too_few_is_found_and_named(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, *[record("a", number) for number in range(20)])
    written(started(target, topic), topic)
    table = target.open()
    assert table is not None
    covered = table.covered(ID)
    table.delete({0: [7]}, ID, covered)
    table.refresh()
    row = pa.Table.from_batches(table.rows(ID)).slice(0, 1)
    here = row.column_names.index(OFFSET)
    for offset in (3, 40):
        wrong = row.set_column(here, FACTS.field(OFFSET), pa.array([offset], pa.int64()))
        table.append(wrong, covered)
        table.refresh()
    check = checked(target, topic)
    (count,) = check.counts()
    assert as_text("append", count) == (
        "partition 0 [0, 20): 20 offsets - 0 gaps != 21 rows + 0 dead letters: "
        "1 missing, 1 too many, 1 there more than once"
    )
    assert [(finding.offset, finding.what.split(",")[0][:12]) for finding in check.findings] == [
        (7, "is in the to"),
        (3, "is there mor"),
        (40, "is a row"),
    ]


def test_records_that_the_topic_has_lost_since_are_counted_apart(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic(compacted=True)
    topic.put(0, *[record("a", number) for number in range(5)])
    written(started(target, topic), topic)
    topic.first[0] = 2
    del topic.logs[0][3]
    (count,) = checked(target, topic).counts()
    assert (count.holds, count.gone, count.compacted, count.rows) == (True, 2, 1, 3)


def fitting(target: Target, topic: MemoryTopic, offset: int, value: bytes) -> None:
    """Pretend that a value was wrong in the table's format alone: replace the raw bytes of a dead letter."""
    dead = target.dead_letters().open()
    assert dead is not None
    table = pa.Table.from_batches(dead.rows(ID))
    place = table[OFFSET].to_pylist().index(offset)
    row = table.slice(place, 1)
    where = row.column_names.index("value")
    dead.delete({0: [offset]}, ID, dead.covered(ID))
    dead.refresh()
    dead.append(row.set_column(where, "value", pa.array([value])), dead.covered(ID))
    topic.logs[0][offset] = (topic.logs[0][offset][0], value)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_replay_makes_rows_of_dead_letters_that_fit_once(tmp_path: Path, kind: str, mode: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, record("a", 1), (b"b", b"junk"), (b"c", b"junk"), (b"d", b"junk"), record("d", 2))
    written(started(target, topic, mode), topic)
    fitting(target, topic, 1, b'{"n": 11}')
    fitting(target, topic, 3, b'{"n": 13}')
    table, dead = target.open(), target.dead_letters().open()
    assert table is not None
    assert dead is not None
    done = replay(table, dead, ID, JsonValues(), mode, topic)
    assert (done.rows, done.superseded, done.left) == ((2, 0, 1) if mode == "append" else (1, 1, 1))
    assert_equal(target, topic, mode)


def test_a_replay_that_died_halfway_is_finished_by_the_next(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, (b"b", b"junk"))
    written(started(target, topic), topic)
    fitting(target, topic, 0, b'{"n": 11}')
    table, dead = target.open(), target.dead_letters().open()
    assert table is not None
    assert dead is not None
    delete: Any = dead.delete

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    dead.delete = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        replay(table, dead, ID, JsonValues(), "append", topic)
    dead.delete = delete  # type: ignore[method-assign]
    table.refresh()
    done = replay(table, dead, ID, JsonValues(), "append", topic)
    assert (done.rows, done.already, done.left) == (0, 1, 0)
    assert_equal(target, topic)


def test_a_backfill_and_the_tail_meet(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, *[record("a", number) for number in range(30)])
    writer = writer_of(target, topic, made(target, topic), rows=8)
    writer.take_over(None)
    writer.begin(backfill=True)
    topic.put(0, *[record("b", number) for number in range(10)])
    first = writer.write(topic.ends())
    assert first is not None
    assert {step.lane for step in first.steps} == {0, 1}
    assert_equal(target, topic)
    written(started(target, topic, rows=8), topic)
    assert [row["_offset"] for row in rows_of(target)] == list(range(40))
    assert_equal(target, topic)


def test_headers_and_epochs_are_columns_of_rows_and_of_dead_letters_that_are_replayed(
    tmp_path: Path, kind: str
) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.extra = ("headers", "leaderEpoch")
    topic.put(0, record("a", 1), (b"b", b"junk"), (b"c", None), (b"d", b"junk"))
    table = opened(target, topic, ID, WriteMode(values="json", extra=(HEADERS, EPOCH)), lambda *_: JsonValues())
    for _ in range(2):
        writer = writer_of(target, topic, table)
        writer.take_over(target.dead_letters().open())
        writer.begin(backfill=False)
        assert written(writer, topic) == 1
        topic.put(0, record("e", 5), (b"f", b"junk"))
        table = opened(target, topic, ID, WriteMode(), lambda *_: JsonValues())
    topic.last[0] -= 2
    fitting(target, topic, 3, b'{"n": 13}')
    dead = target.dead_letters().open()
    assert dead is not None
    assert replay(table, dead, ID, JsonValues(), "append", topic).rows == 1
    # PyIceberg writes an empty list where there is none.
    seen = [(row["_offset"], row["_epoch"], row["_headers"] or None) for row in rows_of(target)]
    here = {3: [{"key": "at", "value": b"3"}]}
    assert seen == [(offset, offset // 2, here.get(offset)) for offset in (0, 2, 3, 4)]
    assert_equal(target, topic)


def test_a_table_without_headers_stays_without(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    made(target, topic)
    with pytest.raises(LakeError, match="made without column _headers"):
        opened(target, topic, ID, WriteMode(extra=(HEADERS,)), lambda *_: JsonValues())


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_nested_columns_keep_their_types_from_commit_to_commit(tmp_path: Path, kind: str, mode: str) -> None:
    """Lists, structs, decimals and times of Avro, which has the same columns as Protobuf."""
    inner = {"type": "record", "name": "In", "fields": [{"name": "name", "type": "string"}]}
    longs = ["null", {"type": "array", "items": "long"}]
    fields: list[tuple[str, Any]] = [
        ("names", {"type": "array", "items": "string"}),
        ("within", {"type": "array", "items": inner}),
        ("raw", "bytes"),
        ("shares", ["null", {"type": "array", "items": "double"}]),
        ("none", longs),
        ("inside", {"type": "record", "name": "Deep", "fields": [{"name": "no", "type": longs}]}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ]
    schema = {"type": "record", "name": "Out", "fields": [{"name": name, "type": each} for name, each in fields]}
    values = values_of("avro", None, SchemaFile(json.dumps(schema).encode()))
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    out = io.BytesIO()
    document = {"names": ["a"], "within": [{"name": "b"}], "raw": b"c", "price": Decimal(4), "at": 5}
    document |= {"shares": [0.5, float("nan")], "none": None, "inside": {"no": None}}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), document)
    for number in range(3):
        topic.put(0, (b"%d" % (number % 2), out.getvalue()))
        table = opened(target, topic, ID, WriteMode(mode=mode, values="avro"), lambda *_: values)
        writer = writer_of(target, topic, table, values=values)
        writer.take_over(target.dead_letters().open())
        writer.begin(backfill=False)
        done = writer.write(topic.ends())
        assert done is not None
        assert (done.rows, done.dead) == (1, 0)
    assert {row["within"][0]["name"] for row in rows_of(target)} == {"b"}
    assert_equal(target, topic, mode, has_schema=True)
    again = target.open()
    assert again is not None
    (count,) = TableCheck(topic, ID, again, None, mode, values).counts()
    assert count.holds, count


def test_a_table_of_others_or_of_another_topic_is_refused(tmp_path: Path, kind: str) -> None:  # noqa: ARG001
    origin = Origin("flights", ("old",), "append", "json")
    with pytest.raises(TableChanged, match="not made by kpybroker"):
        origin_for(None, WriteMode(), "flights", "old", "t")
    with pytest.raises(LakeError, match="has topic flights"):
        origin_for(origin, WriteMode(), "orders", "old", "t")
    with pytest.raises(LakeError, match="--mode append"):
        origin_for(origin, WriteMode(mode="upsert"), "flights", "old", "t")
    with pytest.raises(LakeError, match="--new-generation"):
        origin_for(origin, WriteMode(), "flights", "new", "t")
    after = origin_for(origin, WriteMode(new_generation=True), "flights", "new", "t")
    assert after.topic_ids == ("old", "new")
    with pytest.raises(TableChanged, match="newer generation"):
        origin_for(after, WriteMode(), "flights", "old", "t")


def test_a_text_that_names_no_table_says_how_to_write_one(kind: str) -> None:
    for text in ("flights", "parquet:x", f"{kind}:", "iceberg:flights", "iceberg:.flights"):
        with pytest.raises(ValueError, match=r"delta:PATH|namespace"):
            target_of(text, {})


def test_offsets_are_of_their_generation_alone(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic()
    topic.put(0, record("a", 1))
    writer = started(target, topic)
    written(writer, topic)
    table: LakeTable | None = target.open()
    assert table is not None
    assert table.covered("B" * 22) == Covered("B" * 22, {})
    assert table.covered(ID).coverage == writer.coverage
