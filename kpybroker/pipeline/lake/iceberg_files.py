"""Parquet files for an Iceberg table, written by other processes than the one that commits them."""

import tempfile
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadataUtil

from kpybroker.pipeline.lake.errors import LakeError, errors_as


class IcebergFiles(NamedTuple):
    """Writes files at the location of a table; see `kpybroker.pipeline.lake.tables.Files`."""

    metadata: str
    """The table's metadata as JSON: columns and their ids, partitions, properties."""
    properties: Mapping[str, str]
    """The settings of the storage, which may hold secrets."""
    location: str

    def __repr__(self) -> str:
        return f"IcebergFiles({self.location!r})"

    def write(self, rows: pa.Table) -> list[DataFile]:
        """A file for each partition of the table that the rows belong to, or several large ones."""
        with errors_as(LakeError, f"table {self.location}: a file cannot be written"):
            metadata = TableMetadataUtil.parse_raw(self.metadata)
            storage = load_file_io(dict(self.properties), self.location)
            return list(_dataframe_to_data_files(metadata, rows, storage))

    def refusal(self, rows: pa.Table) -> str | None:
        return refusal(rows)


def refusal(rows: pa.Table) -> str | None:
    """Why a new Iceberg table does not take rows, or does not give them back; None if it does."""
    with tempfile.TemporaryDirectory(prefix="kpybroker-lake-") as directory:
        catalog = SqlCatalog("trial", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}")
        try:
            with errors_as(LakeError, "Iceberg"):
                catalog.create_namespace("trial")
                catalog.create_table("trial.rows", rows.schema).append(rows)
                catalog.load_table("trial.rows").scan().to_arrow()
        except LakeError as error:
            return str(error)
        finally:
            catalog.engine.dispose()
    return None
