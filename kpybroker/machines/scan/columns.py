"""The names of the columns of records, for plans: the same as `kpywire.columns.schema`, which needs pyarrow."""

from typing import Final

HEADERS: Final = "headers"
PLAIN: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
ALL: Final = (*PLAIN, HEADERS)
