"""Upserts whose columns change: the table stays known, and no row has cells of an older record."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from memory_topic import FORMATS, ID, MemoryTopic, target_in, writer_of, written

from kpybroker.pipeline.lake.checking import TableCheck
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.generations import WriteMode, opened
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.tables import Origin
from kpybroker.pipeline.lake.target import Target
from kpybroker.pipeline.lake.values import Values

UPSERT = WriteMode(mode="upsert", values="json")


def run(target: Target, topic: MemoryTopic, write_mode: WriteMode, values: Values | None = None) -> int:
    """Write up to the end, as a process does; return the number of commits."""
    formats = values or JsonValues(rule=target.rule)
    table = opened(target, topic, ID, write_mode, lambda *_: formats)
    writer = writer_of(target, topic, table, values=formats)
    writer.take_over(target.dead_letters().open())
    writer.begin(backfill=False)
    return written(writer, topic)


def rows_of(target: Target) -> list[dict[str, Any]]:
    table = target.open()
    assert table is not None
    return sorted((row for batch in table.rows(ID) for row in batch.to_pylist()), key=lambda row: row["_offset"])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_new_column_leaves_the_table_known_to_its_program(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic(compacted=True)
    ids = set()
    for key, value in ((b"a", b'{"x": 1}'), (b"b", b'{"x": 2}'), (b"c", b'{"x": 3, "y": 4}'), (b"d", b'{"x": 5}')):
        topic.put(0, (key, value))
        assert run(target, topic, UPSERT if not ids else WriteMode()) == 1
        if kind == "delta":
            ids.add(DeltaTable(target.name).metadata().id)
    assert [(row["x"], row["y"]) for row in rows_of(target)] == [(1, None), (2, None), (3, 4), (5, None)]
    assert len(ids) == (kind == "delta")


def broken(target: Target) -> None:
    """Add a column as earlier versions did: the merge of the library writes new metadata without the description."""
    table = DeltaTable(target.name)
    rows = table.to_pyarrow_table().slice(0, 1).append_column("y", pa.array([7]))
    (
        table.merge(
            rows,
            "t._key = s._key",
            source_alias="s",
            target_alias="t",
            merge_schema=True,
            commit_properties=CommitProperties(custom_metadata={"kpybroker.offsets": "{}"}),
        )
        .when_matched_update({"y": "s.y"})
        .execute()
    )
    assert DeltaTable(target.name).metadata().description is None


@pytest.mark.parametrize("commits", [0, 1, 6])
def test_a_table_that_lost_its_description_so_is_known_again(tmp_path: Path, commits: int) -> None:
    target, topic = target_in(tmp_path, "delta"), MemoryTopic(compacted=True)
    for number in range(5):
        topic.put(0, (b"a", b'{"x": %d}' % number))
        run(target, topic, UPSERT)
    broken(target)
    for number in range(commits):  # as a process goes on that began before
        topic.put(0, (b"b", b'{"x": %d}' % number))
        table = target.open()
        assert table is not None
        writer = writer_of(target, topic, table, values=JsonValues())
        writer.take_over(None)
        written(writer, topic)
    table = target.open()
    assert table is not None
    origin = table.origin()
    assert origin == Origin(topic.name, (ID,), "upsert", "json")
    assert not table.is_described()
    topic.put(0, (b"c", b'{"x": 3}'))
    assert run(target, topic, WriteMode()) == 1
    again = target.open()
    assert again is not None
    assert again.is_described()
    assert again.origin() == origin


def test_a_table_whose_log_no_longer_has_its_description_asks_how_it_was_made(tmp_path: Path) -> None:
    target, topic = target_in(tmp_path, "delta"), MemoryTopic(compacted=True)
    topic.put(0, (b"a", b'{"x": 1}'))
    run(target, topic, UPSERT)
    broken(target)
    table = DeltaTable(target.name)
    table.create_checkpoint()
    for log in (tmp_path / "table" / "_delta_log").glob("*.json"):
        if int(log.stem) < table.version():
            log.unlink()
    with pytest.raises(LakeError, match="has lost how it was made; --mode and --values"):
        run(target, topic, WriteMode())
    topic.put(0, (b"a", b'{"x": 2}'))
    assert run(target, topic, UPSERT) == 1
    assert run(target, topic, WriteMode()) == 0


def test_tables_of_others_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    target, topic = target_in(tmp_path, "delta"), MemoryTopic()
    for number in range(3):
        write_deltalake(target.name, pa.table({"x": [number]}), mode="append")
    with pytest.raises(LakeError, match="not made by kpybroker lake"):
        run(target, topic, UPSERT)


def avro(fields: dict[str, Any]) -> Values:
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = {"type": "record", "name": "R", "fields": columns}
    return values_of("avro", None, SchemaFile(json.dumps(schema).encode()))


def encoded(fields: dict[str, Any], record: Any) -> bytes:
    out = io.BytesIO()
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    fastavro.schemaless_writer(out, fastavro.parse_schema({"type": "record", "name": "R", "fields": columns}), record)
    return out.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_row_has_no_cells_of_the_older_record(tmp_path: Path, kind: str) -> None:
    first, second = {"a": "long", "b": ["null", "string"]}, {"a": "long", "c": ["null", "string"]}
    target, topic = target_in(tmp_path, kind), MemoryTopic(compacted=True)
    write_mode = WriteMode(mode="upsert", values="avro")
    topic.put(0, (b"k", encoded(first, {"a": 0, "b": "old"})))
    run(target, topic, write_mode, avro(first))
    topic.put(0, (b"k", encoded(second, {"a": 100, "c": "new"})))
    run(target, topic, write_mode, avro(second))
    (row,) = rows_of(target)
    assert (row["a"], row["b"], row["c"]) == (100, None, "new")
    table = target.open()
    assert table is not None
    (count,) = TableCheck(topic, ID, table, None, "upsert", avro(second)).counts()
    assert count.holds


@pytest.mark.parametrize("kind", FORMATS)
def test_a_commit_of_deletions_alone_moves_the_offsets(tmp_path: Path, kind: str) -> None:
    target, topic = target_in(tmp_path, kind), MemoryTopic(compacted=True)
    topic.put(0, (b"a", b'{"x": 1}'), (b"b", b'{"x": 1}'))
    run(target, topic, UPSERT)
    topic.put(0, (b"never there", None))
    assert run(target, topic, UPSERT) == 1
    assert run(target, topic, UPSERT) == 0
