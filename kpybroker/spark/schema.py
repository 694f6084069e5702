"""The schema of the data source, in Spark's words: the columns of Spark's Kafka source."""

from collections.abc import Sequence
from typing import Final

TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}


def ddl(columns: Sequence[str]) -> str:
    """The schema of these columns."""
    return ", ".join(f"{name} {TYPES[name]}" for name in columns)
