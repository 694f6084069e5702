"""Delta tables, by delta-rs.

The end of each lane is an application transaction of the commit that moves it (``SetTransaction``): the table keeps the
newest of each, whatever becomes of old commits, and refuses a second writer that read older ones. The topic behind the
table is in its description.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction

from kpybroker.machines.lake.coverage import Coverage, Covered, Lane, ranges, to_json
from kpybroker.pipeline.lake.delta_files import DeltaFiles, refusal
from kpybroker.pipeline.lake.errors import LakeError, NotCommitted, errors_as
from kpybroker.pipeline.lake.tables import KEY, OFFSET, PARTITION, TOPIC_ID, Origin, origin_of, origin_text

GONE: Final = "_gone"
SAME_ROW: Final = f"t.{TOPIC_ID} = s.{TOPIC_ID} AND t.{PARTITION} = s.{PARTITION} AND t.{KEY} = s.{KEY}"
IS_LATER: Final = f"s.{OFFSET} > t.{OFFSET}"


class Delta:
    """A Delta table at a path or URL."""

    def __init__(self, uri: str, options: Mapping[str, str], target_bytes: int) -> None:
        """Open a table. LakeError if there is none."""
        self.name = uri
        self._options = dict(options)
        self._target_bytes = target_bytes
        self._known: dict[str, int] = {}
        with errors_as(LakeError, f"table {uri} cannot be read"):
            self._table = DeltaTable(uri, storage_options=self._options)

    @staticmethod
    def is_there(uri: str, options: Mapping[str, str]) -> bool:
        with errors_as(LakeError, f"table {uri} cannot be read"):
            return bool(DeltaTable.is_deltatable(uri, dict(options)))

    @staticmethod
    def create(
        uri: str, options: Mapping[str, str], schema: pa.Schema, origin: Origin, partition_by: list[str]
    ) -> None:
        with errors_as(LakeError, f"table {uri} cannot be created"):
            DeltaTable.create(
                uri,
                schema,
                mode="error",
                description=origin_text(origin),
                partition_by=partition_by or None,
                storage_options=dict(options),
            )

    def refresh(self) -> None:
        self._known.clear()
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            self._table = DeltaTable(self.name, storage_options=self._options)

    def origin(self) -> Origin | None:
        return origin_of(self._table.metadata().description) or self._lost_origin()

    def is_described(self) -> bool:
        return origin_of(self._table.metadata().description) is not None

    def _lost_origin(self) -> Origin | None:
        """The origin that the table had before a merge with new columns took its description away, as kpybroker's own
        merges did once."""
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            commits = {each["version"]: each for each in self._table.history()}
        low, high = min(commits, default=0), max(commits, default=0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._origin_at(middle) else (low, middle)
        commit = commits.get(high, {})
        is_ours = commit.get("operation") == "MERGE" and "kpybroker.offsets" in commit
        return self._origin_at(low) if is_ours else None

    def _origin_at(self, version: int) -> Origin | None:
        try:
            table = DeltaTable(self.name, version=version, storage_options=self._options)
        except Exception:  # its log is deleted, or something else that the library does not read
            return None
        return origin_of(table.metadata().description)

    def set_origin(self, origin: Origin) -> None:
        with errors_as(NotCommitted, f"table {self.name}"):
            self._table.alter.set_table_description(origin_text(origin))
        self.refresh()

    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def covered(self, topic_id: str) -> Covered:
        found: Coverage = {}
        for partition in range(self._version(f"kpybroker/{topic_id}/partitions") or 0):
            lanes: list[Lane] = []
            while (start := self._version(_name(topic_id, partition, len(lanes), "start"))) is not None:
                end = self._version(_name(topic_id, partition, len(lanes), "end"))
                lanes.append(Lane(start, start if end is None else end))
            if lanes:
                found[partition] = tuple(lanes)
        return Covered(topic_id, found, self._version(_writer(topic_id)) or 0)

    def _version(self, name: str) -> int | None:
        if name not in self._known:
            version = self._table.transaction_version(name)
            if version is None:
                return None
            self._known[name] = version
        return self._known[name]

    def _properties(self, covered: Covered) -> CommitProperties:
        topic_id, coverage, writer = covered
        versions = {f"kpybroker/{topic_id}/partitions": max(coverage, default=-1) + 1}
        for partition, lanes in coverage.items():
            for number, lane in enumerate(lanes):
                versions[_name(topic_id, partition, number, "start")] = lane.start
                versions[_name(topic_id, partition, number, "end")] = lane.end
        # One that is always there: two writers that read the same state exclude each other by it.
        transactions = [Transaction(_writer(topic_id), writer)]
        transactions += [
            Transaction(name, version) for name, version in versions.items() if self._version(name) != version
        ]
        return CommitProperties(custom_metadata={"kpybroker.offsets": to_json(covered)}, app_transactions=transactions)

    def append(self, rows: pa.Table, covered: Covered) -> None:
        with self._committing():
            write_deltalake(
                self._table,
                rows,
                mode="append",
                schema_mode="merge",
                target_file_size=self._target_bytes,
                commit_properties=self._properties(covered),
            )

    def add_columns(self, columns: pa.Schema) -> None:
        with self._committing():
            self._table.alter.add_columns(list(DeltaSchema.from_arrow(columns).fields))

    def files(self) -> DeltaFiles:
        if self._table.metadata().partition_columns:
            raise LakeError(f"table {self.name} has partitions, and files for it cannot be written apart")
        return DeltaFiles(self.name, self._options)

    def refusal(self, rows: pa.Table) -> str | None:
        return refusal(rows)

    def append_files(self, files: Sequence[AddAction], covered: Covered) -> None:
        with self._committing():
            self._table.create_write_transaction(
                list(files), "append", self._table.schema(), commit_properties=self._properties(covered)
            )

    def upsert(self, rows: pa.Table, gone: pa.Table, covered: Covered) -> None:
        if not rows.num_rows and not gone.num_rows:
            self.append(rows, covered)
            return
        # A merge that adds columns would take the table's description away.
        known = set(self.schema().names)
        if further := [field for field in rows.schema if field.name not in known]:
            self.add_columns(pa.schema(further))
        for field in self.schema():
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        flagged = pa.concat_tables(
            [
                rows.append_column(GONE, pa.repeat(pa.scalar(value=False), rows.num_rows)),
                gone.append_column(GONE, pa.repeat(pa.scalar(value=True), gone.num_rows)),
            ],
            promote_options="default",
        )
        columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.column_names}
        before = self._table.version()
        with self._committing():
            (
                self._table.merge(
                    flagged,
                    SAME_ROW,
                    source_alias="s",
                    target_alias="t",
                    commit_properties=self._properties(covered),
                )
                .when_matched_delete(f"s.{GONE} AND {IS_LATER}")
                .when_matched_update(columns, f"NOT s.{GONE} AND {IS_LATER}")
                .when_not_matched_insert(columns, f"NOT s.{GONE}")
                .execute()
            )
            self._commit_nothing(before, covered)

    def delete(self, places: Mapping[int, list[int]], topic_id: str, covered: Covered) -> None:
        self._delete(
            [
                f"({PARTITION} = {partition} AND {OFFSET} IN ({', '.join(map(str, offsets))}))"
                for partition, offsets in places.items()
                if offsets
            ],
            topic_id,
            covered,
        )

    def delete_uncovered(self, covered: Covered) -> None:
        kept = [
            f"({PARTITION} = {partition} AND {OFFSET} >= {lane.start} AND {OFFSET} < {lane.end})"
            for partition, lanes in covered.coverage.items()
            for lane in ranges(lanes)
        ]
        self._delete([f"NOT ({' OR '.join(kept)})" if kept else "TRUE"], covered.topic_id, covered)

    def _delete(self, conditions: list[str], topic_id: str, covered: Covered) -> None:
        if conditions:
            before = self._table.version()
            with self._committing():
                condition = f"{TOPIC_ID} = '{topic_id}' AND ({' OR '.join(conditions)})"
                self._table.delete(condition, commit_properties=self._properties(covered))
                self._commit_nothing(before, covered)

    def _commit_nothing(self, before: int, covered: Covered) -> None:
        """Commit offsets alone where the library has made no commit, since no row changed."""
        if self._table.version() == before:
            self.append(self.schema().empty_table(), covered)

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """A commit, after which the newest state is known if it succeeded."""
        with errors_as(NotCommitted, f"table {self.name}"):
            yield
            self._known.clear()

    def places(self, topic_id: str, partition: int, start: int, end: int) -> pa.Array:
        return self._between(topic_id, partition, start, end, [OFFSET])[OFFSET].combine_chunks()

    def rows_between(self, topic_id: str, partition: int, start: int, end: int) -> pa.Table:
        return self._between(topic_id, partition, start, end, None)

    def _between(self, topic_id: str, partition: int, start: int, end: int, columns: list[str] | None) -> pa.Table:
        field = ds.field
        chosen = (
            (field(TOPIC_ID) == topic_id)
            & (field(PARTITION) == partition)
            & (field(OFFSET) >= start)
            & (field(OFFSET) < end)
        )
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            return self._table.to_pyarrow_dataset().to_table(columns=columns, filter=chosen)

    def rows(self, topic_id: str) -> Iterator[pa.RecordBatch]:
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            dataset = self._table.to_pyarrow_dataset()
            yield from dataset.to_batches(filter=ds.field(TOPIC_ID) == topic_id)

    def count(self) -> int:
        return int(self._table.count())

    def compact(self, target_bytes: int) -> str:
        with errors_as(NotCommitted, f"table {self.name} was not compacted"):
            done = self._table.optimize.compact(target_size=target_bytes)
        return f"{done['numFilesRemoved']} files were put together into {done['numFilesAdded']}"

    def clean(self, retention_hours: float) -> str:
        with errors_as(LakeError, f"table {self.name} was not cleaned"):
            gone: list[Any] = self._table.vacuum(
                retention_hours=int(retention_hours), dry_run=False, enforce_retention_duration=False
            )
            self._table.cleanup_metadata()
        return f"{len(gone)} files that no version of the last {retention_hours:g} h needs were deleted"


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _writer(topic_id: str) -> str:
    return f"kpybroker/{topic_id}/writer"


def _name(topic_id: str, partition: int, lane: int, bound: str) -> str:
    return f"kpybroker/{topic_id}/{partition}/{lane}/{bound}"
