"""The findings of an audit as an Arrow table, for notebooks and lakes; pyarrow is loaded only here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kpybroker.machines.audit.findings import AuditFinding

if TYPE_CHECKING:
    import pyarrow as pa


def schema() -> "pa.Schema":
    """The columns: those of `AuditFinding`. Numbers are null where there is none."""
    import pyarrow as pa

    numbers = {"partition": pa.int32(), "byte": pa.int64(), "offset": pa.int64()}
    return pa.schema([(name, numbers.get(name, pa.string())) for name in AuditFinding._fields])


def table(findings: Sequence[AuditFinding]) -> "pa.Table":
    """The findings as a table. ImportError without pyarrow."""
    import pyarrow as pa

    columns = schema()
    rows = [{name: None if value == -1 else value for name, value in each._asdict().items()} for each in findings]
    return pa.Table.from_pylist(rows, schema=columns)


def write(findings: Sequence[AuditFinding], path: str) -> None:
    """Write the findings as an Arrow IPC file, or as Parquet where the name ends so. ImportError, OSError."""
    found = table(findings)
    if path.endswith(".parquet"):
        import pyarrow.parquet as pq

        pq.write_table(found, path)
        return
    import pyarrow as pa

    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
        writer.write_table(found)
