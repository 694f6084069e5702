"""``kpybroker audit`` as a PySpark job: each piece of work is a task, and the driver joins what they found.

Executors read the same directories (a shared volume) or ask the brokers, so they need the package and one of the two.
Nothing is shuffled; a task returns the facts of its stretch, which are small.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kpybroker.machines.audit.running import AuditScope, Result
from kpybroker.machines.audit.running import audit as run_audit
from kpybroker.machines.audit.sources import AuditSource
from kpybroker.machines.audit.work import Mapped, R, Reached, T
from kpybroker.pipeline.audit.equality import Equality, prove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "level string, claim string, topic string, partition int, replica string, path string, byte bigint, "
    "offset bigint, text string"
)


def audit(spark: "SparkSession", source: AuditSource, wanted: AuditScope | None = None) -> Result:
    """Audit a source with the executors of a Spark cluster. Raises OSError, KafkaError, Unreachable."""
    return run_audit(source, wanted or AuditScope(), in_spark(spark), _ignored, _ignored)


def prove_mirror(
    spark: "SparkSession", mirror: AuditSource, source: AuditSource, topics: Sequence[str] = ()
) -> Equality:
    """Prove with the executors of a Spark cluster that every batch of a mirror equals that of its source. Raises as
    `audit`."""
    return prove(mirror, source, topics, in_spark(spark), _ignored, _ignored)


def in_spark(spark: "SparkSession") -> Mapped:
    """The map step as a Spark job: a task for each piece of work."""

    def run(call: Callable[[T], R], work: Sequence[T], reached: Reached) -> Iterator[R]:
        if work:
            yield from spark.sparkContext.parallelize(work, len(work)).map(call).collect()
        reached(sum(each.size_bytes for each in work))

    return run


def findings(spark: "SparkSession", result: Result | Equality) -> "DataFrame":
    """The findings as a DataFrame. Numbers are null where there is none."""
    rows = [tuple(None if value == -1 else value for value in finding) for finding in result.findings]
    return spark.createDataFrame(rows, SCHEMA)


def _ignored(_size_bytes: int) -> None:
    """Spark shows its own progress."""
