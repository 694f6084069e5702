"""Rows that a table format refuses, although they have the types of its columns: they become dead letters.

A library may fail over one value or one name among millions. A commit that fails is played again with fewer rows in a
table of its own, in a temporary directory: what fails there, too, is not a matter of the storage.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from kpybroker.pipeline.lake.tables import FACTS, OFFSET, PARTITION, with_reasons
from kpybroker.pipeline.lake.values import Sorted

MOST_TRIALS: Final = 400
"""The most attempts to find out which rows are refused; then all rows that are left are."""


class Refusing(Protocol):
    """A table, or a writer of its files."""

    def refusal(self, rows: pa.Table) -> str | None:
        """Why a new table of this format does not take these rows; None if it does."""


def without_refused(found: Sorted, raw: pa.Table, table: Refusing) -> Sorted | None:
    """The rows that the table takes, and the others behind the dead letters; None if it takes all."""
    refused: dict[int, str] = {}
    for start, count, reason in _refused(found.rows, table.refusal):
        refused.update(dict.fromkeys(range(start, start + count), reason))
    if not refused:
        return None
    spots = list(zip(found.rows[PARTITION].to_pylist(), found.rows[OFFSET].to_pylist(), strict=True))
    reasons = {spots[number]: reason for number, reason in refused.items()}
    of_raw = list(zip(raw[PARTITION].to_pylist(), raw[OFFSET].to_pylist(), strict=True))
    dead = raw.filter(pa.array([spot in reasons for spot in of_raw], pa.bool_()))
    texts = [reasons[spot] for spot in of_raw if spot in reasons]
    is_left = np.ones(found.rows.num_rows, bool)
    is_left[list(refused)] = False
    rows = without_empty(found.rows.filter(pa.array(is_left)))
    return Sorted(rows, pa.concat_tables([found.dead, with_reasons(dead, pa.array(texts, pa.string()))]))


def without_empty(rows: pa.Table) -> pa.Table:
    """Rows without the columns in which all are null: one of them may be a name that is refused."""
    kept = [name for name in rows.column_names if name in FACTS.names or rows[name].null_count < rows.num_rows]
    return rows.select(kept)


def _refused(rows: pa.Table, refusal: Callable[[pa.Table], str | None]) -> Iterator[tuple[int, int, str]]:
    """The ranges of rows that are refused, and why, by halves."""
    waiting, trials = [(0, rows.num_rows)], 0
    while waiting:
        start, count = waiting.pop()
        trials += 1
        reason = refusal(without_empty(rows.slice(start, count))) if count else None
        if reason is None:
            continue
        if count == 1 or trials >= MOST_TRIALS:
            yield start, count, f"the table refuses it: {reason}"
        else:
            waiting += [(start + count // 2, count - count // 2), (start, count // 2)]
