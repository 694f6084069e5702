"""The name by which PySpark finds the data source ``kpybroker`` without registration: it looks for modules called
``pyspark_*`` that have a ``DefaultSource``."""

from kpybroker.spark.source import KpybrokerSource as DefaultSource

__all__ = ["DefaultSource"]
