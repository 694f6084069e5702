"""Dead letters tried again: those that fit now become rows, and leave the table of dead letters.

Rows are committed first. A replay that was interrupted behind that has left dead letters that are rows already: the
next one deletes them before it begins.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kpybroker.machines.lake.coverage import Covered, ranges
from kpybroker.pipeline.lake.checking import NO_END, CheckedTopic, Offsets, last_of_keys
from kpybroker.pipeline.lake.errors import NotCommitted
from kpybroker.pipeline.lake.refusing import without_refused
from kpybroker.pipeline.lake.tables import BYTES, FACTS, KEY, OFFSET, PARTITION, UPSERT, LakeTable, extra_of
from kpybroker.pipeline.lake.values import Values, sort

PLACES_IN_ONE_COMMIT = 5_000


class Replayed(NamedTuple):
    """The outcome of a replay."""

    rows: int
    superseded: int
    """Dead letters whose key has a later record, for upsert."""
    already: int
    """Dead letters that an interrupted replay had made rows."""
    left: int


def replay(
    table: LakeTable, dead_letters: LakeTable, topic_id: str, values: Values, mode: str, log: CheckedTopic
) -> Replayed:
    """Try all dead letters of a topic again. LakeError; NotCommitted if it is to be repeated."""
    covered = table.covered(topic_id)
    schema = pa.schema([*BYTES, *extra_of(dead_letters.schema().names)])
    dead = pa.Table.from_batches(
        (rows.select(schema.names).cast(schema) for rows in dead_letters.rows(topic_id)), schema
    )
    is_row = _are_rows(table, topic_id, dead)
    already = dead.filter(is_row)
    dead = dead.filter(pc.invert(is_row))
    superseded = dead.slice(0, 0)
    keyless = dead.slice(0, 0)
    if mode == UPSERT:
        keyless, dead = dead.filter(pc.is_null(dead[KEY])), dead.filter(pc.is_valid(dead[KEY]))
        is_last = _are_last(log, covered, dead)
        superseded, dead = dead.filter(pc.invert(is_last)), dead.filter(is_last)
    found = sort(values, dead, table.schema())
    try:
        _commit(table, found.rows, mode, covered)
    except NotCommitted:
        left_over = without_refused(found, dead, table)
        if left_over is None:
            raise
        found = left_over
        _commit(table, found.rows, mode, covered)
    dead_covered = dead_letters.covered(topic_id)
    for rows in (already, superseded, found.rows):
        for first in range(0, rows.num_rows, PLACES_IN_ONE_COMMIT):
            dead_letters.delete(_places(rows.slice(first, PLACES_IN_ONE_COMMIT)), topic_id, dead_covered)
    left = found.dead.num_rows + keyless.num_rows
    return Replayed(found.rows.num_rows, superseded.num_rows, already.num_rows, left)


def _commit(table: LakeTable, rows: pa.Table, mode: str, covered: Covered) -> None:
    if not rows.num_rows:
        return
    if mode == UPSERT:
        table.upsert(rows, rows.slice(0, 0).select(FACTS.names), covered)
    else:
        table.append(rows, covered)


def _places(rows: pa.Table) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for partition, offset in zip(rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True):
        found.setdefault(partition, []).append(offset)
    return found


def _are_rows(table: LakeTable, topic_id: str, dead: pa.Table) -> pa.Array:
    """Whether each dead letter is a row."""
    return _in_partitions(dead, lambda partition: np.asarray(table.places(topic_id, partition, 0, NO_END)))


def _are_last(log: CheckedTopic, covered: Covered, dead: pa.Table) -> pa.Array:
    """Whether each dead letter is the last covered record of its key."""
    starts = log.starts()

    def last(partition: int) -> Offsets:
        start = starts.get(partition, 0)
        lanes = [lane._replace(start=max(lane.start, start)) for lane in ranges(covered.coverage.get(partition, ()))]
        return last_of_keys(log, partition, [lane for lane in lanes if lane.end > lane.start])

    return _in_partitions(dead, last)


def _in_partitions(dead: pa.Table, offsets_of: Callable[[int], Offsets]) -> pa.Array:
    partitions, offsets = np.asarray(dead[PARTITION], np.int64), np.asarray(dead[OFFSET], np.int64)
    found = np.zeros(len(offsets), bool)
    for partition in np.unique(partitions):
        here = partitions == partition
        found[here] = np.isin(offsets[here], offsets_of(int(partition)))
    return pa.array(found)
