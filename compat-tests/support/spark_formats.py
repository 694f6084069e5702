"""The data source that Spark's suite reads with: Spark's own, or kpybroker's (``--spark-format kpybroker``).

Both have the same options and rows, so the tests are the same. What only one of them has is skipped with the reason.
"""

from typing import Any, Final

import pytest

KAFKA: Final = "kafka"
KPYBROKER: Final = "kpybroker"
FORMATS: Final = (KAFKA, KPYBROKER)

chosen = KAFKA
"""The name of the data source to read with."""


def is_ours() -> bool:
    """Whether the suite reads with kpybroker's data source."""
    return chosen == KPYBROKER


def only_sparks(what: str) -> None:
    """Skip a test of something that only Spark's own source has."""
    if is_ours():
        pytest.skip(f"only Spark's own source has {what}")


def one_batch_a_run(spark: Any) -> bool:
    """Whether ``availableNow`` is one micro-batch: sources in Python can have several since Spark 4.2."""
    return is_ours() and version(spark) < (4, 2)


def version(spark: Any) -> tuple[int, ...]:
    return tuple(map(int, spark.version.split(".")[:2]))
