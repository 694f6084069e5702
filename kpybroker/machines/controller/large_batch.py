"""The records of a long decision: a single record for the journal, encoded and made into units beforehand.

Invariant: applying it, in whatever steps, gives the same state as a replay of its records.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final

from kpybroker.machines.metadata.image_records import record_version
from kpybroker.machines.metadata.units import STEP_RECORDS, Unit, units_of
from kpywire.metadata_records import encode_record
from kpywire.record import encode_record as batched_record

LARGE_RECORDS: Final = 100
"""Fewer records than this are written and applied at once."""


class LargeBatch:
    """One object in place of many records: in `Effects`, behind the append, and in the queue of what waits to be
    committed."""

    __slots__ = ("records", "section", "units")

    def __init__(self, section: bytes, records: int, units: list[Unit]) -> None:
        """``section`` is the section of the batch in the log, with this number of records."""
        self.section = section
        self.records = records
        self.units = units


def large_batch(records: Sequence[Any], level: int) -> Generator[None, None, LargeBatch]:
    """Make the batch of these records at a level of ``metadata.version``. Yields now and then."""
    parts: list[bytes] = []
    for delta, record in enumerate(records):
        value = encode_record(record, record_version(record, level))
        parts.append(batched_record(delta, 0, None, value))
        if delta % STEP_RECORDS == STEP_RECORDS - 1:
            yield
    section = b"".join(parts)
    yield
    return LargeBatch(section, len(records), (yield from units_of(records)))
