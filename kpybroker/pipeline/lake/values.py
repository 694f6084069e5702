"""Values to columns: bytes as they are, JSON, and what a schema registry describes.

Invariant: each record is a row or a dead letter, and never both. Which of the two depends on the record, the schemas
and the columns of the table alone.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kpybroker.machines.schemas.errors import SchemaError, one_line
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.tables import BYTES, EPOCH, EXTRA, HEADERS, VALUE, extra_of, facts_of, with_reasons

SOURCES: Final = {HEADERS: "headers", EPOCH: "leaderEpoch"}
"""The column of a scan behind each of `EXTRA`."""


FIRST_TIME: Final = pa.scalar(datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"))
LAST_TIME: Final = pa.scalar(datetime.max.replace(tzinfo=UTC), pa.timestamp("us", "UTC"))
"""The times that every engine and language has."""


class Sorted(NamedTuple):
    """Records, sorted into rows and dead letters."""

    rows: pa.Table
    dead: pa.Table


class Values(Protocol):
    """A format of values."""

    def columns(self, raw: pa.Table, table: pa.Schema) -> Sorted:
        """Sort the records of `raw_of`, none of which has a null value; ``table`` is the table's schema."""

    def first_schema(self, sample: pa.Table) -> pa.Schema:
        """The columns of a table that is to be made, from a sample of records."""


def raw_of(records: pa.Table, topic_id: str) -> pa.Table:
    """Records of a scan with the names and columns of `BYTES`, and those of `EXTRA` that the scan has."""
    raw = pa.table(
        [
            pa.repeat(pa.scalar(topic_id), records.num_rows),
            records["partition"],
            records["offset"],
            times_of(records["timestamp"]),
            records["key"],
            records["value"],
        ],
        schema=BYTES,
    )
    for field in EXTRA:
        if SOURCES[field.name] in records.column_names:
            raw = raw.append_column(field, records[SOURCES[field.name]])
    return raw


def times_of(timestamps: pa.ChunkedArray) -> pa.ChunkedArray:
    """The timestamps of records, null for those outside of the years 1 to 9999: producers may give any number."""
    are_within = pc.and_(pc.greater_equal(timestamps, FIRST_TIME), pc.less_equal(timestamps, LAST_TIME))
    return timestamps if pc.all(are_within).as_py() is not False else pc.if_else(are_within, timestamps, None)


def sources(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of a scan behind the columns of `EXTRA` among these."""
    return tuple(SOURCES[name] for name in extra_of(names).names)


class Bytes:
    """Values as they are."""

    def columns(self, raw: pa.Table, table: pa.Schema) -> Sorted:  # noqa: ARG002
        return Sorted(raw, none_of(raw))

    def first_schema(self, sample: pa.Table) -> pa.Schema:
        return pa.schema([*BYTES, *extra_of(sample.column_names)])


def sort(values: Values, raw: pa.Table, table: pa.Schema) -> Sorted:
    """Sort records; one without a value is a row of its facts alone."""
    if isinstance(values, Bytes) or not raw[VALUE].null_count:
        return _columns(values, raw, table)
    is_null = pc.is_null(raw[VALUE])
    found = _columns(values, raw.filter(pc.invert(is_null)), table)
    tombstones = facts_of(raw.filter(is_null))
    return Sorted(pa.concat_tables([found.rows, tombstones], promote_options="default"), found.dead)


def _columns(values: Values, raw: pa.Table, table: pa.Schema) -> Sorted:
    """Sort records; one over which a library fails in a way that its format does not expect is a dead letter."""
    try:
        return values.columns(raw, table)
    except (LakeError, SchemaError, MemoryError):
        raise
    except Exception as error:
        if raw.num_rows == 1:
            reason = pa.array([f"cannot be read: {one_line(error)}"])
            return Sorted(facts_of(raw.slice(0, 0)), with_reasons(raw, reason))
    half = raw.num_rows // 2
    first = _columns(values, raw.slice(0, half), table)
    known = set(table.names)
    further = [field for field in first.rows.schema if field.name not in known]
    second = _columns(values, raw.slice(half), pa.schema([*table, *further]))
    rows = pa.concat_tables([first.rows, second.rows], promote_options="default")
    return Sorted(rows, pa.concat_tables([first.dead, second.dead]))


def none_of(raw: pa.Table) -> pa.Table:
    """No dead letters, without the buffers of these records: an empty slice takes them along to other processes."""
    return with_reasons(raw.schema.empty_table(), pa.array([], pa.string()))


def assembled(raw: pa.Table, reasons: list[str | None], columns: Callable[[list[int]], pa.Table]) -> Sorted:
    """Rows from the records without a reason, with ``columns`` of their positions; the others are dead letters."""
    bad = [number for number, reason in enumerate(reasons) if reason is not None]
    good = [number for number, reason in enumerate(reasons) if reason is None] if bad else list(range(len(reasons)))
    facts = facts_of(raw.take(pa.array(good, pa.int64())) if bad else raw)
    for name, column in zip(*_pairs(columns(good)), strict=True):
        facts = facts.append_column(name, column)
    dead = raw.take(pa.array(bad, pa.int64()))
    return Sorted(facts, with_reasons(dead, pa.array([reasons[number] for number in bad], pa.string())))


def _pairs(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return table.column_names, table.columns
