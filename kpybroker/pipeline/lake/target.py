"""The place of a table, as users name it: ``delta:PATH`` or ``iceberg:NAMESPACE.TABLE``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.lake import naming
from kpybroker.pipeline.lake.errors import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

    from kpybroker.pipeline.lake.tables import LakeTable, Origin

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
DEAD_LETTERS: Final = "_dlq"
FILE_BYTES: Final = 128 * 1024 * 1024


class Target(NamedTuple):
    """A table that may exist or not. ``options`` are those of the storage, or of the catalog."""

    format: str
    name: str
    options: Mapping[str, str]
    catalog: str = "default"
    file_bytes: int = FILE_BYTES

    def __repr__(self) -> str:
        return f"{self.format}:{self.name}"

    @property
    def rule(self) -> naming.NamingRule:
        """The names that its columns may have."""
        return naming.DELTA if self.format == DELTA else naming.ICEBERG

    def dead_letters(self) -> "Target":
        """The table of its dead letters."""
        return self._replace(name=self.name + DEAD_LETTERS)

    def open(self) -> "LakeTable | None":
        """The table; None if there is none. LakeError."""
        if self.format == DELTA:
            from kpybroker.pipeline.lake.delta import Delta

            return Delta(self.name, self.options, self.file_bytes) if Delta.is_there(self.name, self.options) else None
        from kpybroker.pipeline.lake.iceberg import Iceberg, catalog_of

        catalog = catalog_of(self.catalog, self.options)
        return Iceberg(catalog, self.name) if Iceberg.is_there(catalog, self.name) else None

    def create(self, schema: "pa.Schema", origin: "Origin", partition_by: tuple[str, ...] = ()) -> "LakeTable":
        """Make the table. LakeError."""
        if unknown := [column for column in partition_by if column not in schema.names]:
            raise LakeError(
                f"--partition-by {unknown[0]}: the table has no such column, only {', '.join(schema.names)}"
            )
        if self.format == DELTA:
            from kpybroker.pipeline.lake.delta import Delta

            Delta.create(self.name, self.options, schema, origin, list(partition_by))
            return Delta(self.name, self.options, self.file_bytes)
        from kpybroker.pipeline.lake.iceberg import Iceberg, catalog_of

        catalog = catalog_of(self.catalog, self.options)
        Iceberg.create(catalog, self.name, schema, origin, list(partition_by))
        return Iceberg(catalog, self.name)


def target_of(text: str, options: Mapping[str, str], catalog: str = "default", file_bytes: int = FILE_BYTES) -> Target:
    """The target of a text. ValueError."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in (DELTA, ICEBERG) or not name:
        raise ValueError(f"{text!r} is not a table; write delta:PATH or iceberg:NAMESPACE.TABLE")
    if kind == ICEBERG and ("." not in name or not all(name.split("."))):
        raise ValueError(f"{text!r}: an Iceberg table has a namespace, as in iceberg:flights.departures")
    return Target(kind, name.rstrip("/") if kind == DELTA else name, options, catalog, file_bytes)
