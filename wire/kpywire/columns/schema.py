"""The columns of records: names, order and types are those of Spark's Kafka source, and one more."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

KEY: Final = "key"
VALUE: Final = "value"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_TYPE: Final = "timestampType"
HEADERS: Final = "headers"
LEADER_EPOCH: Final = "leaderEpoch"
"""The epoch of the leader that appended the batch. Spark's source does not have it."""

HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
TYPES: Final[dict[str, pa.DataType]] = {
    KEY: pa.binary(),
    VALUE: pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_TYPE: pa.int32(),
    HEADERS: pa.list_(HEADER),
    LEADER_EPOCH: pa.int32(),
}
"""The type of each column. A record without headers has null for them, as in Spark's source."""
PLAIN: Final = tuple(name for name in TYPES if name not in (HEADERS, LEADER_EPOCH))
"""The columns that Spark's source always has."""


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema of these columns. KeyError for an unknown one."""
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])
