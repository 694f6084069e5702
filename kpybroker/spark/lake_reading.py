"""The task of a Spark job for a lake table: a range of offsets read and sorted on an executor, its rows in a file."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kpybroker.client.connection import Unreachable
from kpybroker.client.schemas.registry import Registry
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lake.naming import NamingRule
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.options import ScanOptions
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.machines.schemas.errors import SchemaError
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.formats import values_of
from kpybroker.pipeline.lake.refusing import without_refused
from kpybroker.pipeline.lake.tables import FACTS, UPSERT, Files, Origin
from kpybroker.pipeline.lake.topic import COLUMNS
from kpybroker.pipeline.lake.values import Values, raw_of, sources
from kpybroker.pipeline.lake.writing import latest, size_of, sorted_for
from kpybroker.pipeline.scan.connecting import transport_of
from kpybroker.pipeline.scan.reading import rows as rows_of
from kpybroker.pipeline.scan.ways import ScanWays
from kpybroker.spark.zip_directories import keep_zip_directories
from kpywire import error_codes
from kpywire.columns.schema import schema_of

MOST_BYTES: Final = 128 * 1024 * 1024
"""The most bytes of a task, and one batch more."""


class SortedRecords(NamedTuple):
    """The records of a range, sorted."""

    part: OffsetRange
    schema: pa.Schema
    """The columns that its rows have."""
    end: int
    """The offset up to which the range was read."""
    dead: pa.Table
    rows: int
    bytes: int
    files: list[Any]
    """The files that were written; none if there are columns that the table lacks."""
    latest: tuple[pa.Table, pa.Table] | None = None
    """For an upsert: the last row of each key, and the places of keys to delete."""


class RangeFailed(NamedTuple):
    """A range that could not be read, and why in one line."""

    text: str
    may_pass: bool
    """Whether it may be a matter of time, as with a cluster that is away."""


class LakeReadSettings(NamedTuple):
    """The settings of all tasks. It can be pickled."""

    options: ScanOptions
    origin: Origin
    topic_id: str
    registry_url: str | None
    rule: NamingRule

    def __repr__(self) -> str:
        return f"Reading({self.options!r}, {self.origin!r})"

    def values(self) -> Values:
        """The format of values. LakeError."""
        return values_of(
            self.origin.values, None if self.registry_url is None else Registry(self.registry_url), rule=self.rule
        )

    def task(
        self, schema: pa.Schema, files: Files | None, ways: ScanWays, most_bytes: float
    ) -> Callable[[OffsetRange], SortedRecords | RangeFailed]:
        """A function for executors. ``schema`` is the table's; ``files`` writes rows that are appended; for an
        upsert, it finds out which rows are refused, or is None. A range is read up to
        ``most_bytes`` for each of its offsets."""

        def run(part: OffsetRange) -> SortedRecords | RangeFailed:
            keep_zip_directories()
            try:
                columns = COLUMNS + sources(schema.names)
                mine = ways.only([part])
                records, end = self._records(part, columns, mine, int(min(part.offsets * most_bytes, MOST_BYTES)))
                return self._outcome(part, end, raw_of(records, self.topic_id), schema, files)
            except (Unreachable, KafkaError) as error:
                return RangeFailed(str(error), isinstance(error, Unreachable) or error_codes.retriable(error.code))
            except (LakeError, SchemaError, ScanError) as error:
                return RangeFailed(str(error), may_pass=False)

        return run

    def _outcome(
        self, part: OffsetRange, end: int, raw: pa.Table, schema: pa.Schema, files: Files | None
    ) -> SortedRecords:
        found = sorted_for(self.origin.mode, self.values(), raw, schema)
        if self.origin.mode == UPSERT and files is not None:
            found = without_refused(found, raw, files) or found
        outcome = SortedRecords(part, found.rows.schema, end, found.dead, found.rows.num_rows, size_of(raw), [])
        if further(outcome.schema, schema):
            return outcome
        if self.origin.mode == UPSERT:
            return outcome._replace(latest=latest(found, raw))
        assert files is not None
        if not found.rows.num_rows:
            return outcome
        try:
            return outcome._replace(files=files.write(found.rows))
        except LakeError:
            left = without_refused(found, raw, files)
            if left is None:
                raise
            written = files.write(left.rows) if left.rows.num_rows else []
            return outcome._replace(files=written, dead=left.dead, rows=left.rows.num_rows)

    def _records(
        self, part: OffsetRange, columns: tuple[str, ...], ways: ScanWays, most_bytes: int
    ) -> tuple[pa.Table, int]:
        """The records of a range, and the offset up to which it was read: its end, or where enough bytes were."""
        wanted = Projection(columns, self.options.wanted.committed_only, self.options.wanted.fails_on_data_loss)
        transport = transport_of(self.options, ways)
        found: list[pa.RecordBatch] = []
        end, size = part.end_offset, 0
        try:
            for batch in rows_of(transport, part, wanted):
                found.append(batch)
                size += batch.nbytes
                if size >= most_bytes:
                    end = batch["offset"][-1].as_py() + 1
                    break
        finally:
            transport.close()
        return pa.Table.from_batches(found, schema_of(columns)), end


def further(found: pa.Schema, table: pa.Schema) -> list[pa.Field]:
    """The columns of rows that the table lacks."""
    known = set(table.names) | set(FACTS.names)
    return [field for field in found if field.name not in known]
