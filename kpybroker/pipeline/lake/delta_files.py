"""Parquet files for a Delta table, written by other processes than the one that commits them."""

import json
import tempfile
import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from kpybroker.pipeline.lake.errors import LakeError, errors_as
from kpybroker.pipeline.lake.tables import OFFSET, PARTITION, TOPIC_ID


class DeltaFiles(NamedTuple):
    """Writes files below the place of a table; see `kpybroker.pipeline.lake.tables.Files`."""

    uri: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"DeltaFiles({self.uri!r})"

    def write(self, rows: pa.Table) -> list[AddAction]:
        """One file. A file that is never committed is deleted when the table is cleaned."""
        name = f"part-{uuid.uuid4()}.zstd.parquet"
        with errors_as(LakeError, f"table {self.uri}: a file cannot be written"):
            place = pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))
            with place.open_output_stream(name) as output:
                pq.write_table(rows, output, compression="zstd")
            size = place.get_file_info(name).size
        return [AddAction(name, size, {}, int(time.time() * 1000), data_change=True, stats=_stats(rows))]

    def refusal(self, rows: pa.Table) -> str | None:
        return refusal(rows)


def refusal(rows: pa.Table) -> str | None:
    """Why a new Delta table does not take rows, or does not give them back; None if it does."""
    with tempfile.TemporaryDirectory(prefix="kpybroker-lake-") as directory:
        try:
            with errors_as(LakeError, "Delta"):
                write_deltalake(directory, rows)
                DeltaTable(directory).to_pyarrow_table()
        except LakeError as error:
            return str(error)
    return None


def _stats(rows: pa.Table) -> str:
    """The number of rows, and the bounds of the columns by which rows are found."""
    bounds = {name: pc.min_max(rows[name]).as_py() for name in (TOPIC_ID, PARTITION, OFFSET)}
    return json.dumps(
        {
            "numRecords": rows.num_rows,
            "minValues": {name: found["min"] for name, found in bounds.items()},
            "maxValues": {name: found["max"] for name, found in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
        }
    )
