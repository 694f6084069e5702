"""The contents of rows compared with their records: timestamp, key, headers, epoch, and values where they can be read.

The records are sorted again as a writer sorts them, and each column is compared. Not compared are values of records
that would be dead letters today, and timestamps that are null today: earlier versions may have written something.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kpybroker.machines.lake.coverage import Lane, LaneStep
from kpybroker.pipeline.lake.tables import FACTS, OFFSET, REASON, TIMESTAMP, VALUE, LakeTable, extra_of
from kpybroker.pipeline.lake.values import Values, raw_of, sort, sources

MOST_ROWS: Final = 100_000
MOST_BYTES: Final = 64 * 1024 * 1024
"""The records that are in memory at once."""
COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")

Offsets = NDArray[np.int64]


class ComparedTopic(Protocol):
    """The topic, as far as it is read here."""

    def batches(self, step: LaneStep, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]: ...


class Comparison:
    """Compares the rows of a table with the records of their topic."""

    def __init__(self, log: ComparedTopic, topic_id: str, table: LakeTable, values: Values | None) -> None:
        """``values`` is the format of values; None to compare all other columns."""
        self._log = log
        self._topic_id = topic_id
        self._table = table
        self._values = values
        self._schema = table.schema()

    def different(self, partition: int, lanes: list[Lane], offsets: Offsets) -> Iterator[tuple[int, list[str]]]:
        """The offsets among these whose rows differ from their records, and in which columns."""
        for lane in lanes:
            for raw in self._records(partition, lane):
                wanted = raw.filter(pa.array(np.isin(_offsets(raw), offsets)))
                if wanted.num_rows:
                    yield from sorted(self._of(partition, wanted).items())

    def _records(self, partition: int, lane: Lane) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        count = size = 0
        for batch in self._log.batches(LaneStep(partition, 0, *lane), COLUMNS + sources(self._schema.names)):
            held.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
            if count >= MOST_ROWS or size >= MOST_BYTES:
                yield raw_of(pa.Table.from_batches(held), self._topic_id)
                held, count, size = [], 0, 0
        if held:
            yield raw_of(pa.Table.from_batches(held), self._topic_id)

    def _of(self, partition: int, raw: pa.Table) -> dict[int, list[str]]:
        offsets = _offsets(raw)
        found = self._table.rows_between(self._topic_id, partition, int(offsets[0]), int(offsets[-1]) + 1)
        differing: dict[int, list[str]] = {}
        places = (*FACTS.names, *extra_of(self._schema.names).names)
        _compare(raw.drop_columns([VALUE]), found, places, differing)
        if self._values is not None:
            rows = sort(self._values, raw, self._schema).rows.sort_by(OFFSET)
            names = dict.fromkeys((*self._schema.names, *rows.column_names))
            _compare(rows, found, [name for name in names if name not in (*places, REASON)], differing)
        return differing


def _compare(expected: pa.Table, found: pa.Table, names: Any, differing: dict[int, list[str]]) -> None:
    """Add the offsets of rows that are in both tables and differ, with the columns in which they do."""
    offsets, row_of = np.unique(_offsets(found), return_index=True)
    is_there = np.isin(_offsets(expected), offsets)
    expected = expected.filter(pa.array(is_there))
    wanted = _offsets(expected)
    found = found.take(pa.array(row_of[np.searchsorted(offsets, wanted)], pa.int64()))
    for name in names:
        one = expected[name] if name in expected.column_names else pa.nulls(len(wanted))
        two = found[name] if name in found.column_names else pa.nulls(len(wanted))
        for offset in wanted[_differ(name, one, two)]:
            differing.setdefault(int(offset), []).append(name)


def _differ(name: str, expected: pa.ChunkedArray, found: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether the cells of a column differ. A column that one of the two does not have is of type null."""
    if pa.types.is_null(expected.type) or pa.types.is_null(found.type):
        given = found if pa.types.is_null(expected.type) else expected
        return _mask(_is_given(given))
    if pa.types.is_nested(expected.type):
        pairs = zip(expected.to_pylist(), found.to_pylist(), strict=True)
        return np.array([_plain(one) != _plain(two) for one, two in pairs], bool)
    try:
        found = found.cast(expected.type)
    except pa.ArrowException:  # others have changed the type
        return np.ones(len(expected), bool)
    are_equal = pc.equal(expected, found).fill_null(fill_value=False)
    if pa.types.is_floating(expected.type):
        are_equal = pc.or_(are_equal, pc.and_(pc.is_nan(expected), pc.is_nan(found)).fill_null(fill_value=False))
    are_null = expected.is_null() if name == TIMESTAMP else pc.and_(expected.is_null(), found.is_null())
    return _mask(pc.invert(pc.or_(are_equal, are_null)))


def _plain(value: Any) -> Any:
    """A nested value in which NaN equals itself. Lists and structs of nothing are null: PyIceberg mixes them up."""
    if isinstance(value, list):
        return [_plain(each) for each in value] or None
    if isinstance(value, dict):
        found = {name: _plain(each) for name, each in value.items()}
        return found if any(each is not None for each in found.values()) else None
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _is_given(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pc.greater(pc.list_value_length(column), 0).fill_null(fill_value=False)
    return column.is_valid()


def _mask(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(column, bool)


def _offsets(rows: pa.Table) -> Offsets:
    return np.asarray(rows[OFFSET], np.int64)
