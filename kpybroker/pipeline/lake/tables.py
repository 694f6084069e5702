"""The seam between the lake and its table formats, and the columns that every table has."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from kpybroker.machines.lake.coverage import Covered

TOPIC_ID: Final = "_topic_id"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
KEY: Final = "_key"
VALUE: Final = "value"
REASON: Final = "_reason"

FACTS: Final = pa.schema(
    [
        (TOPIC_ID, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        (TIMESTAMP, pa.timestamp("us", "UTC")),
        (KEY, pa.binary()),
    ]
)
"""The columns of every row: where it was in the topic, and its key."""
HEADERS: Final = "_headers"
EPOCH: Final = "_epoch"
EXTRA: Final = pa.schema(
    [
        (HEADERS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        (EPOCH, pa.int32()),
    ]
)
"""The columns that a table has if it was made so: the headers of a record, and the epoch of the leader that appended
it."""
BYTES: Final = FACTS.append(pa.field(VALUE, pa.binary()))
DEAD_LETTERS: Final = BYTES.append(pa.field(REASON, pa.string()))

APPEND: Final = "append"
UPSERT: Final = "upsert"

ATTEMPTS: Final = 5
"""How often a refused commit is tried again, after the table was read."""


class Origin(NamedTuple):
    """The topic behind a table and the manner of writing it, kept in the table itself."""

    topic: str
    topic_ids: tuple[str, ...]
    """The ids of the topic, oldest first: a topic that was deleted and created again has another one."""
    mode: str = APPEND
    values: str = "bytes"


class Files(Protocol):
    """Writes files for a table in another process. It can be pickled, and so can what it returns."""

    def write(self, rows: pa.Table) -> list[Any]:
        """Write files that are no part of the table yet; `LakeTable.append_files` takes what is returned. LakeError."""

    def refusal(self, rows: pa.Table) -> str | None:
        """See `LakeTable.refusal`."""


class LakeTable(Protocol):
    """A table of one format. Errors of commits are NotCommitted, others LakeError; both have one line.

    A table is read again with `refresh`; a commit is refused if another writer has moved the offsets since.
    """

    name: str

    def refresh(self) -> None:
        """Read the newest state of the table."""

    def origin(self) -> Origin | None:
        """The topic behind the table; None for a table that kpybroker did not make."""

    def is_described(self) -> bool:
        """Whether the newest state of the table has its origin, too, and not an older one alone."""

    def set_origin(self, origin: Origin) -> None:
        """Write another origin, as for a topic that was created again."""

    def schema(self) -> pa.Schema:
        """The columns."""

    def covered(self, topic_id: str) -> Covered:
        """The covered offsets of a topic id."""

    def append(self, rows: pa.Table, covered: Covered) -> None:
        """Commit rows and the offsets that are covered with them. Columns that the table lacks are added."""

    def add_columns(self, columns: pa.Schema) -> None:
        """Commit further columns, without rows."""

    def files(self) -> Files:
        """A writer of files with the present columns."""

    def refusal(self, rows: pa.Table) -> str | None:
        """Why a new table of this format does not take these rows; None if it does."""

    def append_files(self, files: Sequence[Any], covered: Covered) -> None:
        """Commit files that `files` wrote, and the offsets that are covered with them."""

    def upsert(self, rows: pa.Table, gone: pa.Table, covered: Covered) -> None:
        """Commit rows that replace those of their partition and key; ``gone`` has the places and keys to delete."""

    def delete(self, places: Mapping[int, list[int]], topic_id: str, covered: Covered) -> None:
        """Delete the rows at these offsets of partitions."""

    def delete_uncovered(self, covered: Covered) -> None:
        """Delete the rows of a topic id that are not covered."""

    def places(self, topic_id: str, partition: int, start: int, end: int) -> pa.Array:
        """The offsets of the rows of a partition in ``start .. end``, in any order."""

    def rows_between(self, topic_id: str, partition: int, start: int, end: int) -> pa.Table:
        """The rows of a partition in ``start .. end``, in any order."""

    def rows(self, topic_id: str) -> Iterator[pa.RecordBatch]:
        """All rows of a topic id."""

    def count(self) -> int:
        """The number of rows."""

    def compact(self, target_bytes: int) -> str:
        """Put small files together; return one line."""

    def clean(self, retention_hours: float) -> str:
        """Delete what only versions older than this need; return one line."""


def origin_text(origin: Origin) -> str:
    """An origin as JSON."""
    return json.dumps({"kpybroker": origin._asdict()}, separators=(",", ":"))


def origin_of(text: str | None) -> Origin | None:
    """The inverse of `origin_text`; None for another text."""
    try:
        found = json.loads(text or "")["kpybroker"]
        return Origin(found["topic"], tuple(found["topic_ids"]), found["mode"], found["values"])
    except (KeyError, TypeError, ValueError):
        return None


def extra_of(names: Iterable[str]) -> pa.Schema:
    """The columns of `EXTRA` among these."""
    found = set(names)
    return pa.schema([field for field in EXTRA if field.name in found])


def facts_of(rows: pa.Table) -> pa.Table:
    """The columns that do not come from values."""
    return rows.select([*FACTS.names, *extra_of(rows.column_names).names])


def with_reasons(rows: pa.Table, reasons: pa.Array) -> pa.Table:
    """Dead letters: raw rows and why each does not fit."""
    return rows.append_column(DEAD_LETTERS.field(REASON), reasons)
