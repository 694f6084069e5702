"""Spark reads and writes Kafka topics through PySpark: ``format("kpybroker")``, without Maven.

It needs the extra ``spark``. `KpybrokerSource` is found by its name through the module ``pyspark_kpybroker``, or
registered with ``spark.dataSource.register``. `by_partition` prepares large frames for the exactly-once sink; it is
loaded when it is used.
"""

from typing import TYPE_CHECKING, Any

from kpybroker.spark.source import KpybrokerSource

if TYPE_CHECKING:
    from kpybroker.spark.places import by_partition

__all__ = ["KpybrokerSource", "by_partition"]


def __getattr__(name: str) -> Any:
    if name != "by_partition":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kpybroker.spark.places import by_partition

    return by_partition
