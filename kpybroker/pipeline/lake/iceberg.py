"""Iceberg tables, by PyIceberg.

The covered offsets are in the summary of the commit's snapshot, and in a property of the table that is set in the same
commit: expired snapshots take their summaries along. The topic behind the table is in another property.

A commit is never repeated by the library, which would put rows that were read for one state behind another one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Not,
    Or,
)
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import Transaction

from kpybroker.machines.lake.coverage import Covered, of_json, ranges, to_json
from kpybroker.pipeline.lake.errors import LakeError, NotCommitted, errors_as
from kpybroker.pipeline.lake.iceberg_files import IcebergFiles, refusal
from kpybroker.pipeline.lake.tables import KEY, OFFSET, PARTITION, TOPIC_ID, Origin, origin_of, origin_text

ORIGIN: Final = "kpybroker.origin"
OFFSETS: Final = "kpybroker.offsets"
RETRIES: Final = "commit.retry.num-retries"


def catalog_of(name: str, options: Mapping[str, str]) -> Catalog:
    """A catalog by the name in PyIceberg's own configuration, or by options. LakeError."""
    with errors_as(LakeError, f"catalog {name} cannot be used"):
        return load_catalog(name, **options)


class Iceberg:
    """An Iceberg table of a catalog."""

    def __init__(self, catalog: Catalog, name: str) -> None:
        """Open a table. LakeError if there is none."""
        self.name = name
        self._catalog = catalog
        self._table: IcebergTable
        self.refresh()

    @staticmethod
    def is_there(catalog: Catalog, name: str) -> bool:
        with errors_as(LakeError, f"table {name} cannot be read"):
            return bool(catalog.table_exists(name))

    @staticmethod
    def create(catalog: Catalog, name: str, schema: pa.Schema, origin: Origin, partition_by: list[str]) -> None:
        with errors_as(LakeError, f"table {name} cannot be created"):
            namespace = name.rpartition(".")[0]
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(namespace)
            properties = {ORIGIN: origin_text(origin), "write.metadata.delete-after-commit.enabled": "true"}
            with (
                catalog.create_table_transaction(name, schema=schema, properties=properties) as transaction,
                transaction.update_spec() as spec,
            ):
                for column in partition_by:
                    spec.add_identity(column)

    def refresh(self) -> None:
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            try:
                self._table = self._catalog.load_table(self.name)
            except NoSuchTableError:
                raise LakeError(f"there is no table {self.name}") from None

    def origin(self) -> Origin | None:
        return origin_of(self._table.properties.get(ORIGIN))

    def is_described(self) -> bool:
        return self.origin() is not None

    def set_origin(self, origin: Origin) -> None:
        with self._committing() as transaction:
            transaction.set_properties({ORIGIN: origin_text(origin)})

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, _small(field.type)) for field in self._table.schema().as_arrow()])

    def covered(self, topic_id: str) -> Covered:
        nothing = Covered(topic_id, {})
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            text = None if snapshot.summary is None else snapshot.summary.additional_properties.get(OFFSETS)
            if text is not None and (found := _offsets(text)).topic_id == topic_id:
                return found
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
            if parent is not None and snapshot is None:
                text = self._table.properties.get(f"{OFFSETS}.{topic_id}")
                return nothing if text is None else _offsets(text)
        return nothing

    def append(self, rows: pa.Table, covered: Covered) -> None:
        with self._committing() as transaction:
            self._append(transaction, rows, covered)

    def _append(self, transaction: Transaction, rows: pa.Table, covered: Covered) -> None:
        text = to_json(covered)
        transaction.set_properties({f"{OFFSETS}.{covered.topic_id}": text})
        names = set(self.schema().names)
        if any(name not in names for name in rows.column_names):
            with transaction.update_schema() as update:
                update.union_by_name(rows.schema)
        transaction.append(rows, snapshot_properties={OFFSETS: text})

    def add_columns(self, columns: pa.Schema) -> None:
        with self._committing() as transaction, transaction.update_schema() as update:
            update.union_by_name(columns)

    def files(self) -> IcebergFiles:
        return IcebergFiles(self._table.metadata.model_dump_json(), self._table.io.properties, self._table.location())

    def refusal(self, rows: pa.Table) -> str | None:
        return refusal(rows)

    def append_files(self, files: Sequence[DataFile], covered: Covered) -> None:
        text = to_json(covered)
        with self._committing() as transaction:
            transaction.set_properties({f"{OFFSETS}.{covered.topic_id}": text})
            with transaction.update_snapshot(snapshot_properties={OFFSETS: text}).fast_append() as update:
                for file in files:
                    update.append_data_file(file)

    def upsert(self, rows: pa.Table, gone: pa.Table, covered: Covered) -> None:
        keys: dict[int, list[bytes]] = {}
        for table in (rows, gone):
            for partition, key in zip(table[PARTITION].to_pylist(), table[KEY].to_pylist(), strict=True):
                keys.setdefault(partition, []).append(key)
        chosen = _any(And(EqualTo(PARTITION, partition), In(KEY, found)) for partition, found in keys.items())
        with self._committing() as transaction:
            if self._table.current_snapshot() is not None and keys:
                transaction.delete(
                    And(EqualTo(TOPIC_ID, covered.topic_id), chosen), snapshot_properties={OFFSETS: to_json(covered)}
                )
            self._append(transaction, rows, covered)

    def delete(self, places: Mapping[int, list[int]], topic_id: str, covered: Covered) -> None:
        chosen = _any(And(EqualTo(PARTITION, partition), In(OFFSET, found)) for partition, found in places.items())
        self._delete(And(EqualTo(TOPIC_ID, topic_id), chosen), covered)

    def delete_uncovered(self, covered: Covered) -> None:
        kept = _any(
            And(
                EqualTo(PARTITION, partition),
                And(GreaterThanOrEqual(OFFSET, lane.start), LessThan(OFFSET, lane.end)),
            )
            for partition, lanes in covered.coverage.items()
            for lane in ranges(lanes)
        )
        self._delete(And(EqualTo(TOPIC_ID, covered.topic_id), Not(kept)), covered)

    def _delete(self, chosen: BooleanExpression, covered: Covered) -> None:
        text = to_json(covered)
        with self._committing() as transaction:
            if self._table.current_snapshot() is not None:
                transaction.delete(chosen, snapshot_properties={OFFSETS: text})
            self._append(transaction, self.schema().empty_table(), covered)

    @contextmanager
    def _committing(self) -> Iterator[Transaction]:
        self._table.metadata.properties[RETRIES] = "0"
        with errors_as(NotCommitted, f"table {self.name}"), self._table.transaction() as transaction:
            yield transaction

    def places(self, topic_id: str, partition: int, start: int, end: int) -> pa.Array:
        return self._between(topic_id, partition, start, end, (OFFSET,))[OFFSET].combine_chunks()

    def rows_between(self, topic_id: str, partition: int, start: int, end: int) -> pa.Table:
        return self._between(topic_id, partition, start, end, ("*",))

    def _between(self, topic_id: str, partition: int, start: int, end: int, columns: tuple[str, ...]) -> pa.Table:
        chosen = And(
            And(EqualTo(TOPIC_ID, topic_id), EqualTo(PARTITION, partition)),
            And(GreaterThanOrEqual(OFFSET, start), LessThan(OFFSET, end)),
        )
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            return self._table.scan(row_filter=chosen, selected_fields=columns).to_arrow()

    def rows(self, topic_id: str) -> Iterator[pa.RecordBatch]:
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            yield from self._table.scan(row_filter=EqualTo(TOPIC_ID, topic_id)).to_arrow_batch_reader()

    def count(self) -> int:
        with errors_as(LakeError, f"table {self.name} cannot be read"):
            return int(self._table.scan().count())

    def compact(self, target_bytes: int) -> str:
        """Files smaller than half of the target are read, and written as few, in one commit."""
        if self._table.spec() != UNPARTITIONED_PARTITION_SPEC and self._table.spec().fields:
            raise LakeError(f"table {self.name} has partitions; only tables without are compacted here")
        scan = self._table.scan()
        small = [task for task in scan.plan_files() if task.file.file_size_in_bytes < target_bytes // 2]
        if len(small) < 2:
            return "no small files"
        snapshot = self._table.current_snapshot()
        summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
        kept = {OFFSETS: summary[OFFSETS]} if OFFSETS in summary else {}
        with self._committing() as transaction:
            read = ArrowScan(transaction.table_metadata, self._table.io, self._table.schema(), scan.row_filter)
            rows = read.to_table(small)
            files = list(_dataframe_to_data_files(transaction.table_metadata, rows, self._table.io))
            with transaction.update_snapshot(snapshot_properties=kept).overwrite() as update:
                for task in small:
                    update.delete_data_file(task.file)
                for file in files:
                    update.append_data_file(file)
        return f"{len(small)} files were put together into {len(files)}"

    def clean(self, retention_hours: float) -> str:
        before = len(self._table.snapshots())
        with errors_as(LakeError, f"table {self.name} was not cleaned"):
            until = datetime.now() - timedelta(hours=retention_hours)
            self._table.maintenance.expire_snapshots().older_than(until).commit()
        self.refresh()
        return f"{before - len(self._table.snapshots())} snapshots older than {retention_hours:g} h were expired"


def _small(kind: pa.DataType) -> pa.DataType:
    """A type without the large variants that PyIceberg chooses."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small(field.type)) for field in kind])
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _offsets(text: str) -> Covered:
    try:
        return of_json(text)
    except ValueError as error:
        raise LakeError(str(error)) from None


def _any(conditions: Iterable[BooleanExpression]) -> BooleanExpression:
    found: Any = reduce(Or, conditions, AlwaysFalse())
    return found
