"""Hostile records of every format in both kinds of tables: each is a row or a dead letter, and DuckDB reads them."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from memory_topic import FORMATS, ID, MemoryTopic, target_in, writer_of, written

import hostile
from kpybroker.pipeline.lake.checking import TableCheck
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import SchemaFile, values_of
from kpybroker.pipeline.lake.generations import WriteMode, opened
from kpybroker.pipeline.lake.tables import EPOCH, HEADERS
from kpybroker.pipeline.lake.target import Target
from kpybroker.pipeline.lake.values import sources

EXAMPLES = 3
LONG_EXAMPLES = 150
KINDS = ("bytes", "json", "json-schema", "avro", "protobuf")


@st.composite
def topics(draw: st.DrawFn, kind: str) -> tuple[MemoryTopic, SchemaFile | None]:
    """A topic of hostile records, and the schema of their values."""
    file = None
    contents: Any = hostile.documents if kind != "bytes" else st.binary(max_size=40)
    if kind == "avro":
        file, contents = SchemaFile(json.dumps(draw(hostile.avro_schemas())).encode()), hostile.contents
    elif kind == "protobuf":
        file, contents = SchemaFile(hostile.protobuf_files(), "h.Outer"), hostile.messages()
    elif kind == "json-schema":
        file = SchemaFile(json.dumps(hostile.JSON_SCHEMA).encode())
    topic = MemoryTopic()
    for offset in range(draw(st.integers(1, 8))):
        topic.put(0, (draw(st.sampled_from(hostile.KEYS)), draw(st.none() | contents)))
        topic.times_us[offset] = draw(st.sampled_from(hostile.TIMES_US))
        topic.headers[offset] = draw(st.lists(st.sampled_from(hostile.HEADERS), max_size=2))
    return topic, file


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("values", KINDS)
def test_no_record_stops_a_topic(request: pytest.FixtureRequest, kind: str, values: str) -> None:
    is_long = request.config.getoption("--lake-kills") >= 20

    @settings(
        max_examples=LONG_EXAMPLES if is_long else EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink a failure takes minutes
    )
    @given(topics(values), st.sampled_from(["append", "upsert"]), st.integers(1, 8), st.booleans())
    def play(found: tuple[MemoryTopic, SchemaFile | None], mode: str, first: int, has_headers: bool) -> None:
        write_mode = WriteMode(mode, values, extra=(HEADERS, EPOCH) * has_headers)
        with TemporaryDirectory() as directory:
            _play(target_in(Path(directory), kind), *found, write_mode, first)

    play()


def _play(target: Target, topic: MemoryTopic, file: SchemaFile | None, write_mode: WriteMode, first: int) -> None:
    """Write a topic in two parts, by two processes, and read the table."""
    end = topic.last[0]
    assert write_mode.values is not None
    try:
        values = values_of(write_mode.values, None, file, target.rule)
    except LakeError:
        assert write_mode.values == "avro"  # a schema that is refused at once
        return
    for topic.last[0] in (min(first, end), end):
        topic.extra = sources(write_mode.extra)
        table = opened(target, topic, ID, write_mode, lambda *_: values)
        writer = writer_of(target, topic, table, values=values)
        writer.take_over(target.dead_letters().open())
        writer.begin(backfill=False)
        written(writer, topic)
    table_now = target.open()
    assert table_now is not None
    check = TableCheck(topic, ID, table_now, target.dead_letters().open(), write_mode.mode or "append", values)
    (count,) = check.counts()
    assert count.holds, (count, check.findings)
    if write_mode.mode == "append":
        assert count.rows + count.dead == end
    assert rows_by_others(target) == count.rows
    assert sum(batch.num_rows for batch in table_now.rows(ID)) == count.rows


def files_of(target: Target) -> Iterator[str]:
    """The Parquet files of a table."""
    if target.format == "delta":
        yield from DeltaTable(target.name).file_uris()
        return
    table: Any = target.open()
    for task in table._table.scan().plan_files():
        yield task.file.file_path.removeprefix("file://")


def rows_by_others(target: Target) -> int:
    """The number of rows that DuckDB reads, every column of each."""
    files = list(files_of(target))
    return len(duckdb.read_parquet(files, union_by_name=True).fetchall()) if files else 0
